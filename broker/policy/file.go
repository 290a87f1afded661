package policy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Load reads one file.
func Load(path string) (*Policy, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return parse(path, data)
}

func parse(path string, data []byte) (*Policy, error) {
	p, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", path, err)
	}
	return p, nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	return data, nil
}

// File is a policy that follows its file. Its methods may be called from
// several goroutines; Run is called once.
type File struct {
	path string

	mu      sync.RWMutex
	current *Policy // guarded by mu, as all below
	read    []byte  // what current was made of
	problem string
}

// Open reads the file, which must be good.
func Open(path string) (*File, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	p, err := parse(path, data)
	if err != nil {
		return nil, err
	}
	return &File{path: path, current: p, read: data}, nil
}

// Policy is the one in force. Without a file there is none, which is nil.
func (f *File) Policy() *Policy {
	if f == nil {
		return nil
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.current
}

// Problem says why the file as it is now is not the policy in force; empty if
// it is.
func (f *File) Problem() string {
	if f == nil {
		return ""
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.problem
}

// Watch is how a file is followed.
type Watch struct {
	// Every is how often it is read: 10 s if zero. Again asks for it at once.
	Every time.Duration
	Again <-chan os.Signal
	// Adopt is called with each new policy before it is in force; while it
	// fails, the old one stays.
	Adopt func(context.Context, *Policy) error
	// Changed, if set, is called after the policy or the problem changed.
	Changed func()
	Log     zerolog.Logger
}

// every is sooner than a person who has changed a file looks elsewhere.
const every = 10 * time.Second

// Run follows the file until ctx ends. It reads the content, not the time of
// the last change: that has a grain, and survives what replaces a file by
// another.
func (f *File) Run(ctx context.Context, w Watch) {
	if w.Every == 0 {
		w.Every = every
	}
	tick := time.NewTicker(w.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.Again:
		}
		f.again(ctx, w)
	}
}

// again reads the file once, and takes what is new in it.
func (f *File) again(ctx context.Context, w Watch) {
	changed, err := f.take(ctx, w)
	if ctx.Err() != nil {
		return
	}
	problem := ""
	if err != nil {
		problem = shown(err)
	}
	f.mu.Lock()
	news := problem != f.problem
	f.problem = problem
	f.mu.Unlock()
	switch {
	case news && err != nil:
		w.Log.Error().Str("reason", problem).Str("digest", f.Policy().Digest()).Msg("policy not taken: the one before stays in force")
	case changed:
		w.Log.Info().Str("digest", f.Policy().Digest()).Int("rules", len(f.Policy().Rules)).Msg("policy in force")
	case news:
		w.Log.Info().Str("digest", f.Policy().Digest()).Msg("policy file is good again")
	}
	if (news || changed) && w.Changed != nil {
		w.Changed()
	}
}

// take reports whether another policy is in force now.
func (f *File) take(ctx context.Context, w Watch) (changed bool, err error) {
	data, err := read(f.path)
	if err != nil {
		return false, err
	}
	f.mu.RLock()
	same, before := bytes.Equal(data, f.read), f.current
	f.mu.RUnlock()
	if same {
		return false, nil
	}
	p, err := parse(f.path, data)
	if err != nil {
		return false, err
	}
	if changed = p.Digest() != before.Digest(); changed {
		if err := w.Adopt(ctx, p); err != nil {
			return false, fmt.Errorf("record the policy: %w", err)
		}
	}
	f.mu.Lock()
	f.current, f.read = p, data
	f.mu.Unlock()
	return changed, nil
}
