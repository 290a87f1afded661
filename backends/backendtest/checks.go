package backendtest

import (
	"bytes"
	"slices"
	"testing"

	"airlock/backends"

	"github.com/go-json-experiment/json/jsontext"
)

func all(checks ...check) check {
	return func(t *testing.T, g *seen) {
		t.Helper()
		for _, c := range checks {
			c(t, g)
		}
	}
}

// exited wants a guest that ended by itself with this code.
func exited(code int) check {
	return func(t *testing.T, g *seen) {
		t.Helper()
		if g.outcome.Cause != backends.Exited || g.outcome.ExitCode != code || g.outcome.Signal != "" {
			t.Errorf("got %v, code %d, signal %q; want exited with code %d; stderr: %s",
				g.outcome.Cause, g.outcome.ExitCode, g.outcome.Signal, code, excerpt(g.stderr))
		}
	}
}

// signalled wants a guest that a signal of its own doing ended.
func signalled(name string) check {
	return func(t *testing.T, g *seen) {
		t.Helper()
		if g.outcome.Cause != backends.Signalled || g.outcome.Signal != name {
			t.Errorf("got %v, code %d, signal %q; want signalled by %s", g.outcome.Cause, g.outcome.ExitCode, g.outcome.Signal, name)
		}
	}
}

// ended wants one of the causes.
func ended(causes ...backends.Cause) check {
	return func(t *testing.T, g *seen) {
		t.Helper()
		if !slices.Contains(causes, g.outcome.Cause) {
			t.Errorf("got %v (code %d, signal %q), want one of %v; stderr: %s",
				g.outcome.Cause, g.outcome.ExitCode, g.outcome.Signal, causes, excerpt(g.stderr))
		}
	}
}

func stdout(want string) check {
	return func(t *testing.T, g *seen) {
		t.Helper()
		same(t, "stdout", g.stdout, []byte(want))
	}
}

func stderr(want string) check {
	return func(t *testing.T, g *seen) {
		t.Helper()
		same(t, "stderr", g.stderr, []byte(want))
	}
}

func same(t *testing.T, name string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("got %s of %d bytes %q, want %d bytes %q", name, len(got), excerpt(got), len(want), excerpt(want))
	}
}

// value wants the guest to have returned this JSON.
func value(want string) check {
	return func(t *testing.T, g *seen) {
		t.Helper()
		got := returned(t, g)
		w := jsontext.Value(want)
		if err := w.Canonicalize(); err != nil {
			t.Fatal(err)
		}
		if got != nil && !bytes.Equal(got, w) {
			t.Errorf("got value %s, want %s", excerpt(got), w)
		}
	}
}

// raised wants the guest's code to have ended by an exception of this type.
func raised(kind string) check {
	return func(t *testing.T, g *seen) {
		t.Helper()
		if g.host.result == nil || g.host.result.Error == nil || g.host.result.Error.Type != kind {
			t.Errorf("got result %+v, want a %s; stderr: %s", g.host.result, kind, excerpt(g.stderr))
		}
	}
}

// noResult wants a guest that ended without a result frame.
func noResult(t *testing.T, g *seen) {
	t.Helper()
	if g.host.result != nil {
		t.Errorf("got result %+v, want none", *g.host.result)
	}
}

// returned is the value of the guest in canonical form, or nil after an error
// has been reported.
func returned(t *testing.T, g *seen) jsontext.Value {
	t.Helper()
	r := g.host.result
	switch {
	case r == nil:
		t.Errorf("no result arrived; outcome %+v, breach %v, stderr: %s", g.outcome, g.host.breach, excerpt(g.stderr))
		return nil
	case r.Error != nil:
		t.Errorf("the guest raised %s: %s\n%s", r.Error.Type, r.Error.Message, r.Error.Traceback)
		return nil
	}
	got := r.Value.Clone()
	if err := got.Canonicalize(); err != nil {
		t.Errorf("value: %v", err)
	}
	return got
}

func excerpt(b []byte) []byte { return b[:min(len(b), 2000)] }
