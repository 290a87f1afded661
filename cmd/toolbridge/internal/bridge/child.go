package bridge

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"time"

	"airlock/job"

	"github.com/rs/zerolog"
)

const (
	// grace is how long a server may take to end once its input has ended,
	// and again once it was asked to.
	grace = 2 * time.Second
	// maxTalk bounds one line of what a server says beside the protocol.
	maxTalk = 2 << 10
)

// child is a running server. Whatever it starts belongs to its process group,
// which ends with it.
type child struct {
	cmd    *exec.Cmd
	talk   *talk
	stdin  *os.File
	stdout *os.File
	// exited is closed when the process and its group have ended.
	exited chan struct{}
	err    error // set before exited is closed
}

// startChild starts the command. The caller stops it.
func startChild(command []string, dir string, env []string, log zerolog.Logger) (*child, error) {
	in, stdin, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	stdout, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe: %w", err), in.Close(), stdin.Close())
	}
	c := &child{cmd: exec.Command(command[0], command[1:]...), stdin: stdin, stdout: stdout, exited: make(chan struct{})}
	c.cmd.Dir, c.cmd.Env = dir, env
	c.talk = newTalk(log)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = in, out, c.talk
	// What outlives the process may hold its standard error for ever.
	c.cmd.WaitDelay = time.Second
	own(c.cmd)

	started := make(chan error, 1)
	go c.run(started)
	err = <-started
	in.Close()
	out.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", job.Printable(command[0], 200), err), stdin.Close(), stdout.Close())
	}
	return c, nil
}

// run holds the thread that started the process: on Linux the process is to be
// killed when that one ends.
func (c *child) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.exited)
	defer c.talk.Close()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	c.err = c.cmd.Wait()
	killGroup(c.cmd)
}

// stop ends the server: by the end of its input, then by asking, then by force.
func (c *child) stop() {
	c.stdin.Close()
	for _, more := range []func(*exec.Cmd){askGroup, killGroup} {
		if c.endsWithin(grace) {
			break
		}
		more(c.cmd)
	}
	<-c.exited
	c.stdout.Close()
}

func (c *child) endsWithin(span time.Duration) bool {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-c.exited:
		return true
	case <-timer.C:
		return false
	}
}

// talk is a server's standard error, which goes to the log line by line: for
// everybody until the server has been greeted, and as a matter of debugging
// afterwards, since it may hold what guests sent.
type talk struct {
	*io.PipeWriter
	greeted atomic.Bool
	done    chan struct{}
}

func newTalk(log zerolog.Logger) *talk {
	r, w := io.Pipe()
	t := &talk{PipeWriter: w, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		in := bufio.NewReaderSize(r, maxTalk)
		for rest := false; ; {
			line, more, err := in.ReadLine()
			if err != nil {
				return
			}
			if len(line) > 0 && !rest {
				log.WithLevel(t.level()).Str("said", job.Printable(string(line), maxTalk)).Bool("cut", more).Msg("server says")
			}
			rest = more
		}
	}()
	return t
}

func (t *talk) level() zerolog.Level {
	if t.greeted.Load() {
		return zerolog.DebugLevel
	}
	return zerolog.InfoLevel
}

// Close ends it once all lines are in the log.
func (t *talk) Close() error {
	t.PipeWriter.Close()
	<-t.done
	return nil
}
