package backendtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"airlock/backends"
	"airlock/job"
)

// lives are about a run as a whole, on every system.
func lives() []story {
	return []story{
		{
			name: "a guest is killed when ctx ends", rows: "TO1", hostile: true,
			code:    "import os\nos.write(1, b'start')\nwhile True: pass",
			arrange: cancelAtFirstOutput,
			check:   all(ended(backends.Killed), stdout("start"), noResult),
		},
		{
			name: "a guest that sleeps is killed when ctx ends", rows: "TO1",
			code:    "import os, time\nos.write(1, b'start')\ntime.sleep(1000)",
			arrange: cancelAtFirstOutput,
			check:   all(ended(backends.Killed), stdout("start"), noResult),
		},
		{
			name: "ctx that has ended already starts nothing that stays", stillborn: true,
			code: "print('hello')", arrange: func(s *stage) { s.cancel(errEnough) },
			check: all(ended(backends.Killed), noResult),
		},
		{
			name: "a guest is killed when Serve fails", hostile: true, code: "import time\ntime.sleep(1000)",
			serve: func(s *stage, _ context.Context, channel io.ReadWriteCloser) error {
				return errors.Join(s.host.greet(channel), errEnough)
			},
			check: all(ended(backends.Killed), noResult),
		},
		{
			name: "a guest that goes on after Serve returned is not killed for it",
			code: "import os\nos.write(1, b'on')\nos._exit(5)",
			serve: func(s *stage, ctx context.Context, channel io.ReadWriteCloser) error {
				err := s.host.greet(channel)
				select {
				case <-s.stdout.first:
				case <-ctx.Done():
				}
				return err
			},
			check: all(exited(5), stdout("on")),
		},
		{
			name: "a guest that never reads", rows: "BK32", hostile: true, code: "import os, time\nos.write(1, b'start')\ntime.sleep(1000)",
			arrange: cancelAtFirstOutput, serve: flood,
			check: all(ended(backends.Killed), noResult),
		},
		{
			name: "calls are answered", code: "return [(await double(n=i))['n'] for i in range(20)]",
			arrange: func(s *stage) { s.tools["double"] = double },
			check:   all(exited(0), value("[0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38]")),
		},
		{name: "eight guests at once", act: eightAtOnce},
		{name: "a limit that cannot be held is refused", act: unenforceable},
		{name: "close", act: closes},
	}
}

// cancelAtFirstOutput ends the run as soon as the guest has written.
func cancelAtFirstOutput(s *stage) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-s.stdout.first:
			s.cancel(errEnough)
		case <-s.Context().Done():
		}
	}()
	s.after = append(s.after, func() {
		select {
		case <-s.stdout.first:
			<-done
		default:
			s.Error("the guest never wrote, so it was ended by something else")
		}
	})
}

// flood writes replies that the guest does not take until the channel breaks.
func flood(s *stage, ctx context.Context, channel io.ReadWriteCloser) error {
	defer context.AfterFunc(ctx, func() { _ = channel.Close() })()
	if err := s.host.greet(channel); err != nil {
		return err
	}
	junk := make([]byte, job.MiB)
	for {
		if _, err := channel.Write(junk); err != nil {
			if ctx.Err() == nil {
				return fmt.Errorf("the channel broke before the run was over: %w", err)
			}
			return nil
		}
	}
}

func double(arguments []byte) any {
	var a struct {
		N int `json:"n"`
	}
	if err := job.DecodeStrict(arguments, &a); err != nil {
		return err.Error()
	}
	return map[string]int{"n": 2 * a.N}
}

func eightAtOnce(t *testing.T, s *suite) {
	var all8 sync.WaitGroup
	for i := range 8 {
		all8.Go(func() {
			g := s.run(t, story{
				code:    "print('guest', N)\nreturn (await double(n=N))['n']",
				arrange: func(sg *stage) { sg.vars["N"] = i; sg.tools["double"] = double },
			})
			all(exited(0), stdout(fmt.Sprintf("guest %d\n", i)), value(fmt.Sprint(2*i)))(t, g)
		})
	}
	all8.Wait()
}

func unenforceable(t *testing.T, s *suite) {
	limits := append(job.KernelLimits(), "gravity")
	for _, limit := range limits {
		if offers(s.caps, limit) {
			continue
		}
		sg := newStage(t, s, story{code: "print('ran')"}, func(error) {})
		_, err := s.backend.Run(t.Context(), sg.task(story{enforce: []job.LimitName{limit}}, &stream{}))
		if !errors.Is(err, backends.ErrUnenforceable) {
			t.Errorf("%s: got error %v, want one that wraps ErrUnenforceable", limit, err)
		}
		if sg.host.served.Load() != 0 || len(sg.stdout.bytes()) != 0 {
			t.Errorf("%s: the guest was started all the same", limit)
		}
	}
}

func offers(caps backends.Capabilities, limit job.LimitName) bool {
	for _, l := range caps.Limits {
		if l == limit {
			return true
		}
	}
	return false
}

// closes checks that Close kills who still runs, may be called twice, and that
// nothing runs afterwards.
func closes(t *testing.T, s *suite) {
	ctx, stop := context.WithTimeoutCause(t.Context(), patience, errPatience)
	defer stop()
	b := s.New(t)
	running := make(chan struct{})
	ran := sync.OnceFunc(func() { close(running) })
	closed := make(chan error, 1)
	go func() {
		<-running
		closed <- errors.Join(b.Close(), b.Close())
	}()
	sg := newStage(t, s, story{code: "import time\ntime.sleep(1000)"}, func(error) {})
	task := sg.task(story{serve: func(sg *stage, ctx context.Context, channel io.ReadWriteCloser) error {
		defer ran()
		return sg.host.greet(channel)
	}}, &stream{})
	outcome, err := b.Run(ctx, task)
	ran() // a guest that was never started is served by nobody
	if ctx.Err() != nil {
		t.Errorf("Close did not end the guest within %v", patience)
	}
	if err == nil && outcome.Cause != backends.Killed || err != nil && !errors.Is(err, backends.ErrClosed) {
		t.Errorf("a guest that Close ended: got %v and error %v, want killed or ErrClosed", outcome.Cause, err)
	}
	if err := <-closed; err != nil {
		t.Errorf("close twice: %v", err)
	}
	s.checkLeftovers(t, sg)
	sg = newStage(t, s, story{code: "pass"}, func(error) {})
	if _, err := b.Run(ctx, sg.task(story{}, &stream{})); !errors.Is(err, backends.ErrClosed) {
		t.Errorf("after Close: got error %v, want ErrClosed", err)
	}
}
