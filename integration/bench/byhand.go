package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

//go:embed fork.py
var forkScript string

// image is the docker backend's default, python that of the host.
const (
	image  = "airlock-runner"
	python = "/usr/bin/python3"
)

// The code of the jobs by hand. The second does what a guest does for one tool
// call: an event loop, and a message to a peer and back.
const (
	plainCode = "print(1)"
	asyncCode = `import asyncio, json, socket
async def main():
    ours, theirs = socket.socketpair()
    read, write = await asyncio.open_connection(sock=ours)
    read2, write2 = await asyncio.open_connection(sock=theirs)
    write.write(json.dumps({"a": 1, "b": 2}).encode() + b"\n")
    call = json.loads(await read2.readline())
    write2.write(json.dumps({"sum": call["a"] + call["b"]}).encode() + b"\n")
    print(json.loads(await read.readline())["sum"])
asyncio.run(main())`
)

// floor is something that starts a job by hand.
type floor struct {
	id, name string
	count    int
	// there says what is missing for it, by an error that wraps errAbsent.
	there func(context.Context) error
	// take runs so many jobs, one after the other.
	take func(ctx context.Context, count int, f *figure) error
}

// floors measures what jobs take with less around them than Airlock's: one
// after the other, and two at once.
func (b *bencher) floors(ctx context.Context) error {
	for _, f := range b.byHand() {
		for _, inFlight := range []int{1, 2} {
			s := series{id: fmt.Sprintf("%s/%d", f.id, inFlight), name: f.name + ", " + words[inFlight], count: f.count, inFlight: inFlight}
			if !b.wants(s.id) {
				continue
			}
			if why, absent := isAbsent(f.there(ctx)); absent {
				b.report.absent(s.id, why)
				continue
			}
			if err := b.floor(ctx, s, f.take); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	return nil
}

var words = map[int]string{1: "one after the other", 2: "two at once"}

func (b *bencher) floor(ctx context.Context, s series, take func(context.Context, int, *figure) error) error {
	before := machineBusy()
	figure := newFigure(s)
	group, ctx := errgroup.WithContext(ctx)
	for range s.inFlight {
		group.Go(func() error { return take(ctx, s.count/s.inFlight, figure) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if machine := machineBusy() - before; machine > 0 {
		figure.spent = &spent{machine: machine}
	}
	b.report.add(figure.row())
	return nil
}

func (b *bencher) byHand() []floor {
	bare, async := bwrapArgs(plainCode), bwrapArgs(asyncCode)
	return []floor{
		{"floor/fork", "fork of a warm interpreter, no sandbox", b.n(1000), havePython, forked(plainCode)},
		{"floor/fork-asyncio", "fork of a warm interpreter, asyncio, no sandbox", b.n(500), havePython, forked(asyncCode)},
		{"floor/bwrap", "bwrap python3 by hand", b.n(200), haveBwrap, started("bwrap", bare...)},
		{"floor/bwrap-asyncio", "bwrap python3 by hand, asyncio", b.n(100), haveBwrap, started("bwrap", async...)},
		{"floor/docker", "docker run by hand", b.n(30), haveDocker, started("docker", dockerArgs(plainCode)...)},
	}
}

// bwrapArgs start python3 with nothing around it but what everybody does.
func bwrapArgs(code string) []string {
	return []string{
		"--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--clearenv", "--ro-bind", "/usr", "/usr",
		"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--tmpfs", "/tmp", "--chdir", "/tmp",
		"--", python, "-I", "-S", "-B", "-c", code,
	}
}

// dockerArgs start a container with as much around it as the backend's.
func dockerArgs(code string) []string {
	return []string{
		"run", "--rm", "--pull", "never", "--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		"--memory", "256m", "--memory-swap", "256m", "--pids-limit", "64", "--cpus", "1", "--ipc", "none", "--log-driver", "none",
		"--tmpfs", "/tmp", "--tmpfs", "/workspace", "--entrypoint", "/airlock/python", image, "-I", "-S", "-B", "-c", code,
	}
}

func started(command string, args ...string) func(context.Context, int, *figure) error {
	return func(ctx context.Context, count int, f *figure) error {
		for range count {
			began := time.Now()
			cmd := exec.CommandContext(ctx, command, args...)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", command, err, out)
			}
			f.add(time.Since(began), 0, 0)
		}
		return nil
	}
}

// forked has the script do them all, which knows best what each took.
func forked(code string) func(context.Context, int, *figure) error {
	return func(ctx context.Context, count int, f *figure) error {
		cmd := exec.CommandContext(ctx, python, "-I", "-S", "-B", "-c", forkScript, strconv.Itoa(count), code)
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("fork.py: %w", err)
		}
		var at time.Duration
		for line := range strings.Lines(string(out)) {
			took, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
			if err != nil {
				return fmt.Errorf("fork.py: %w", err)
			}
			at += time.Duration(took)
			f.addAt(at, time.Duration(took), processorTime(cmd)/time.Duration(count))
		}
		return nil
	}
}

// processorTime is that of the command and of all it waited for. Of bwrap it
// would say nothing: that leaves without waiting for its guest.
func processorTime(cmd *exec.Cmd) time.Duration {
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// errAbsent is wrapped where this machine lacks what a row measures.
var errAbsent = errors.New("not here")

func isAbsent(err error) (why string, absent bool) {
	if !errors.Is(err, errAbsent) {
		return "", false
	}
	return strings.TrimPrefix(err.Error(), errAbsent.Error()+": "), true
}

func havePython(context.Context) error { return have(python) }

func haveBwrap(context.Context) error { return errors.Join(have("bwrap"), have(python)) }

func have(command string) error {
	if _, err := exec.LookPath(command); err != nil {
		return fmt.Errorf("%w: there is no %s; make setup installs it", errAbsent, command)
	}
	return nil
}

// haveDocker says what is missing for containers.
func haveDocker(ctx context.Context) error {
	if _, err := exec.LookPath("docker"); err != nil {
		return fmt.Errorf("%w: there is no docker command; dev/dockerd.sh start installs it", errAbsent)
	}
	if engineVersion(ctx) == "" {
		return fmt.Errorf("%w: no engine answers; export what dev/dockerd.sh start prints", errAbsent)
	}
	if err := exec.CommandContext(ctx, "docker", "image", "inspect", image).Run(); err != nil {
		return fmt.Errorf("%w: the engine has no image %s; make runner-image makes it", errAbsent, image)
	}
	return nil
}

// engineVersion is "" where no engine answers.
func engineVersion(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", "version", "--format", "{{.Server.Version}}").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
