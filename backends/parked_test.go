package backends_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"airlock/backends"
	"airlock/backends/fake"
	"airlock/job"
)

// counted is a fake whose guests are counted as they are born, and which
// serve their conversation as the script says.
func counted(born *atomic.Int32, script fake.Script) *fake.Backend {
	return fake.New(fake.Config{
		Isolation: job.IsolationStrong, Limits: job.KernelLimits(),
		Script: func(ctx context.Context, g *fake.Guest) (backends.Outcome, error) {
			born.Add(1)
			return script(ctx, g)
		},
	})
}

// task is one of the default limits whose conversation reads all the guest
// says.
func task(out *bytes.Buffer) backends.Task {
	return backends.Task{
		Limits: job.DefaultLimits(), Enforce: job.KernelLimits(), Stdout: out, Stderr: io.Discard,
		Serve: func(_ context.Context, ch io.ReadWriteCloser) error {
			if hello := make([]byte, 5); readFull(ch, hello) != "hello" {
				return fmt.Errorf("the guest said %q", hello)
			}
			_, _ = ch.Write([]byte("go"))
			_, _ = io.Copy(io.Discard, ch)
			return nil
		},
	}
}

// obeys prints once it is told to go.
func obeys(_ context.Context, g *fake.Guest) (backends.Outcome, error) {
	_, _ = g.Write([]byte("hello"))
	if _, err := g.Read(make([]byte, 2)); err != nil {
		return backends.Outcome{}, nil
	}
	_, _ = g.Task.Stdout.Write([]byte("hi"))
	return backends.Outcome{ExitCode: 3}, nil
}

func TestParkedGuestsServeOneJobEach(t *testing.T) {
	defer goleak.VerifyNone(t)
	var born atomic.Int32
	b := backends.Parked(counted(&born, obeys), backends.ParkedConfig{Size: 2})
	if _, err := b.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two parked guests", func() bool { return born.Load() == 2 })
	for i := range 5 {
		var out bytes.Buffer
		got, err := b.Run(t.Context(), task(&out))
		if err != nil || got.ExitCode != 3 || out.String() != "hi" {
			t.Errorf("run %d: got %+v, %v, output %q; want exit code 3 and hi", i, got, err, out.String())
		}
	}
	eventually(t, "two parked guests beside the five used ones", func() bool { return born.Load() == 7 })
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, err := b.Run(t.Context(), task(&bytes.Buffer{})); !errors.Is(err, backends.ErrClosed) {
		t.Errorf("after Close: got %v, want %v", err, backends.ErrClosed)
	}
}

func TestJobsThatFitNoParkedGuest(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*backends.Task){
		"other memory":   func(t *backends.Task) { t.Limits.Memory = 64 * job.MiB },
		"other cpu":      func(t *backends.Task) { t.Limits.CPU = job.Duration(time.Second) },
		"other disk":     func(t *backends.Task) { t.Limits.Disk = job.MiB },
		"fewer children": func(t *backends.Task) { t.Limits.Processes = 1 },
		"standard input": func(t *backends.Task) { t.Stdin = []byte("x") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ran := make(chan backends.Task, 8)
			inner := fake.New(fake.Config{
				Isolation: job.IsolationStrong, Limits: job.KernelLimits(),
				Script: func(ctx context.Context, g *fake.Guest) (backends.Outcome, error) {
					o, err := obeys(ctx, g)
					if ctx.Err() == nil {
						ran <- g.Task
					}
					return o, err
				},
			})
			b := backends.Parked(inner, backends.ParkedConfig{Size: 1})
			defer b.Close()
			if _, err := b.Probe(t.Context()); err != nil {
				t.Fatal(err)
			}
			one := task(&bytes.Buffer{})
			edit(&one)
			if _, err := b.Run(t.Context(), one); err != nil {
				t.Fatal(err)
			}
			if got := <-ran; got.Limits != one.Limits || !bytes.Equal(got.Stdin, one.Stdin) {
				t.Errorf("the guest that ran had %+v and standard input %q, want %+v and %q", got.Limits, got.Stdin, one.Limits, one.Stdin)
			}
		})
	}
}

func TestAParkedGuestThatDiedIsReplaced(t *testing.T) {
	t.Parallel()
	var born atomic.Int32
	var noted flag
	b := backends.Parked(counted(&born, func(ctx context.Context, g *fake.Guest) (backends.Outcome, error) {
		if born.Load() == 1 {
			return backends.Outcome{}, errors.New("no such luck")
		}
		return obeys(ctx, g)
	}), backends.ParkedConfig{Size: 1, Log: zerolog.New(&noted)})
	defer b.Close()
	if _, err := b.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a warning about the dead guest", noted.Load)
	if got, err := b.Run(t.Context(), task(&bytes.Buffer{})); err != nil || got.ExitCode != 3 {
		t.Errorf("got %+v, %v; want exit code 3", got, err)
	}
}

func TestTheCallersEndIsTheParkedGuestsEnd(t *testing.T) {
	t.Parallel()
	var born atomic.Int32
	b := backends.Parked(counted(&born, func(ctx context.Context, _ *fake.Guest) (backends.Outcome, error) {
		<-ctx.Done()
		return backends.Outcome{}, nil
	}), backends.ParkedConfig{Size: 1})
	defer b.Close()
	if _, err := b.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	one := task(&bytes.Buffer{})
	one.Serve = func(ctx context.Context, _ io.ReadWriteCloser) error {
		cancel(job.ErrTimeout)
		<-ctx.Done()
		if got := context.Cause(ctx); !errors.Is(got, job.ErrTimeout) {
			t.Errorf("the conversation's cause: got %v, want %v", got, job.ErrTimeout)
		}
		return nil
	}
	if got, err := b.Run(ctx, one); err != nil || got.Cause != backends.Killed {
		t.Errorf("got %+v, %v; want killed", got, err)
	}
}

func readFull(r io.Reader, b []byte) string {
	n, _ := io.ReadFull(r, b)
	return string(b[:n])
}

// flag is raised by the first line that is logged.
type flag struct{ atomic.Bool }

func (f *flag) Write(b []byte) (int, error) { f.Store(true); return len(b), nil }

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}
