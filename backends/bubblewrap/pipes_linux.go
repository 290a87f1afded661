package bubblewrap

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"airlock/backends/internal/guestproc"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// bwrap's own descriptors, after the guest's four. It closes each before the
// guest's program starts.
const (
	statusFD = 4 + iota
	argsFD
	filterFD
)

// pipes are the descriptors between us and bwrap.
type pipes struct {
	status           *bufio.Reader
	statusR, statusW *os.File
	argsR, argsW     *os.File
	filterR, filterW *os.File
}

func (p *pipes) open() error {
	var errs [3]error
	p.statusR, p.statusW, errs[0] = os.Pipe()
	p.argsR, p.argsW, errs[1] = os.Pipe()
	p.filterR, p.filterW, errs[2] = os.Pipe()
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("make pipes: %w", err)
	}
	p.status = bufio.NewReader(p.statusR)
	return nil
}

// guest are bwrap's ends in the order of their numbers.
func (p *pipes) guest() []*os.File { return []*os.File{p.statusW, p.argsR, p.filterR} }

func (p *pipes) closeGuest() { closeAll(p.statusW, p.argsR, p.filterR) }

func (p *pipes) close() {
	p.closeGuest()
	closeAll(p.statusR, p.argsW, p.filterW)
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// setupTime bounds each step in which bwrap is waited for.
const setupTime = 10 * time.Second

// firstArgument is one that changes nothing, and is given to bwrap ahead of the
// others: when it is taken, bwrap runs.
const firstArgument = "--unshare-user\x00"

// awake gives bwrap its first argument and waits until it is taken.
func (p *pipes) awake(pid int, limit time.Duration) error {
	bwrap := guestproc.OpenMain(pid)
	defer bwrap.Close()
	if _, err := p.argsW.WriteString(firstArgument); err != nil {
		return fmt.Errorf("wake bwrap: %w", err)
	}
	for deadline := time.Now().Add(limit); ; {
		unread, err := waiting(p.argsW)
		switch {
		case err != nil:
			return fmt.Errorf("wake bwrap: %w", err)
		case unread == 0:
			return nil
		case bwrap != nil && bwrap.Wait(time.Now()):
			return nil // what it died of is told later
		case time.Now().After(deadline):
			return errors.New("bwrap does not take its arguments")
		}
		time.Sleep(awakePause)
	}
}

// awakePause is a fraction of what an exec takes.
const awakePause = 100 * time.Microsecond

// waiting is how many bytes lie in a pipe.
func waiting(pipe *os.File) (n int, err error) {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return 0, err
	}
	var ioctl error
	err = conn.Control(func(fd uintptr) { n, ioctl = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return n, errors.Join(err, ioctl)
}

// send gives bwrap the filter and then its arguments. Both fit into a pipe.
func (p *pipes) send(args, filter []byte) error {
	limit := time.Now().Add(setupTime)
	for _, message := range []struct {
		to   *os.File
		data []byte
	}{{p.filterW, filter}, {p.argsW, args}} {
		_ = message.to.SetWriteDeadline(limit)
		if _, err := message.to.Write(message.data); err != nil {
			return fmt.Errorf("tell bwrap what to do: %w", err)
		}
		if err := message.to.Close(); err != nil {
			return fmt.Errorf("tell bwrap what to do: %w", err)
		}
	}
	return nil
}

// report is what bwrap writes, a line at a time.
type report struct {
	ChildPID int  `json:"child-pid"`
	ExitCode *int `json:"exit-code"`
}

func (p *pipes) read() (report, error) {
	var r report
	_ = p.statusR.SetReadDeadline(time.Now().Add(setupTime))
	line, err := p.status.ReadBytes('\n')
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("read bwrap's report: %w", err)
	}
	return r, nil
}

// firstPID is that of the first process of the pid namespace, which bwrap
// reports once it exists.
func (p *pipes) firstPID() (int, error) {
	r, err := p.read()
	if errors.Is(err, io.EOF) {
		return 0, errors.New("bwrap could not set up the sandbox")
	}
	return r.ChildPID, err
}

// exitCode is what bwrap reports of the guest's program, if it ever started.
// It is called when bwrap has ended.
func (p *pipes) exitCode() (code int, ok bool) {
	for p.status != nil {
		r, err := p.read()
		if err != nil {
			return 0, false
		}
		if r.ExitCode != nil {
			return *r.ExitCode, true
		}
	}
	return 0, false
}
