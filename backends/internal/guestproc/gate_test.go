package guestproc_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"airlock/backends"
	"airlock/backends/internal/guestproc"
)

func TestGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g guestproc.Gate
		ctx, leave, err := g.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		closed := false
		go func() {
			g.Close()
			closed = true
		}()
		synctest.Wait()
		if got := context.Cause(ctx); !errors.Is(got, backends.ErrClosed) {
			t.Errorf("got cause %v inside a gate that closes, want ErrClosed", got)
		}
		if closed {
			t.Error("Close returned before the guest had left")
		}
		leave()
		synctest.Wait()
		if !closed {
			t.Error("Close did not return after the guest had left")
		}
		if _, _, err := g.Enter(t.Context()); !errors.Is(err, backends.ErrClosed) {
			t.Errorf("got error %v at a closed gate, want ErrClosed", err)
		}
		g.Close()
	})
}

func TestPrepared(t *testing.T) {
	t.Parallel()
	var p guestproc.Prepared[int]
	made := 0
	get := func() *int {
		got, err := p.Get(func() (*int, error) {
			made++
			n := made
			return &n, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if _, err := p.Get(func() (*int, error) { return nil, errors.New("no") }); err == nil {
		t.Error("got no error from what could not be made")
	}
	first := get()
	if get() != first {
		t.Error("what is kept was made twice")
	}
	p.Forget(first)
	second := get()
	p.Forget(first) // somebody who found it broken later
	if *second != 2 || get() != second {
		t.Errorf("got %d, want the second one made and kept", *second)
	}
	if got := len(p.Drain()); got != 2 {
		t.Errorf("got %d to clean up, want 2", got)
	}
}
