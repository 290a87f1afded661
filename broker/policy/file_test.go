package policy_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"airlock/broker/policy"

	"github.com/rs/zerolog"
)

// followed is a file that is followed.
type followed struct {
	t     *testing.T
	path  string
	file  *policy.File
	again chan os.Signal

	mu      sync.Mutex
	adopted []string // guarded by mu
	refuse  error    // guarded by mu
}

func follow(t *testing.T, every time.Duration, text string) *followed {
	t.Helper()
	f := &followed{t: t, path: filepath.Join(t.TempDir(), "policy.json"), again: make(chan os.Signal, 1)}
	f.write(text)
	var err error
	if f.file, err = policy.Open(f.path); err != nil {
		t.Fatalf("open: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.file.Run(ctx, policy.Watch{Every: every, Again: f.again, Adopt: f.adopt, Log: zerolog.Nop()})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return f
}

func (f *followed) adopt(_ context.Context, p *policy.Policy) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse == nil {
		f.adopted = append(f.adopted, p.Digest())
	}
	return f.refuse
}

func (f *followed) setRefuse(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = err
}

// write replaces the file as careful editors do.
func (f *followed) write(text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path+".new", []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(f.path+".new", f.path); err != nil {
		f.t.Fatal(err)
	}
}

func (f *followed) until(what string, met func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); !met(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("%s does not come; policy %+v, problem %q", what, f.file.Policy().Rules, f.file.Problem())
		}
	}
}

func (f *followed) calls() int { return f.file.Policy().For("a", "b", "c").Calls }

func TestAFileIsFollowed(t *testing.T) {
	t.Parallel()
	f := follow(t, 5*time.Millisecond, rule(`, "calls": 1`))
	before := f.file.Policy()
	f.write(rule(`, "calls": 2`))
	f.until("the second policy", func() bool { return f.calls() == 2 })
	if before.For("a", "b", "c").Calls != 1 {
		t.Error("a policy changed that somebody holds")
	}

	f.write(rule(`, "calls": -3`))
	f.until("the problem", func() bool { return strings.Contains(f.file.Problem(), "rules[0].calls") })
	if f.calls() != 2 {
		t.Errorf("got %d calls, want those of the last good file", f.calls())
	}
	if err := os.Remove(f.path); err != nil {
		t.Fatal(err)
	}
	f.until("the other problem", func() bool { return strings.Contains(f.file.Problem(), "policy.json") && f.calls() == 2 })
	f.write(rule(`, "calls": 4`))
	f.until("the end of the problem", func() bool { return f.calls() == 4 && f.file.Problem() == "" })
}

func TestAPolicyIsInForceOnceItIsAdopted(t *testing.T) {
	t.Parallel()
	f := follow(t, 5*time.Millisecond, rule(`, "calls": 1`))
	f.setRefuse(errors.New("the database is away"))
	f.write(rule(`, "calls": 2`))
	f.until("the problem", func() bool { return strings.Contains(f.file.Problem(), "the database is away") })
	if f.calls() != 1 {
		t.Errorf("got %d calls, want those of the policy before", f.calls())
	}
	f.setRefuse(nil)
	f.until("the second policy", func() bool { return f.calls() == 2 && f.file.Problem() == "" })
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.adopted) != 1 || f.adopted[0] != f.file.Policy().Digest() {
		t.Errorf("adopted %v, want %s once", f.adopted, f.file.Policy().Digest())
	}
}

func TestASignalHasTheFileReadAtOnce(t *testing.T) {
	t.Parallel()
	f := follow(t, time.Hour, rule(`, "calls": 1`))
	f.write(rule(`, "calls": 2`))
	f.again <- syscall.SIGINT // any: which ones come is the caller's choice
	f.until("the second policy", func() bool { return f.calls() == 2 })
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "policy.json")
	if _, err := policy.Open(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: got %v, want %v", err, os.ErrNotExist)
	}
	if err := os.WriteFile(path, []byte(`{"rules": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := policy.Open(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "rules") {
		t.Errorf("a bad file: got %v, want its path and the field", err)
	}
}
