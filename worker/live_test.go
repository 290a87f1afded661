package worker_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"airlock/backends"
	"airlock/backends/fake"
	"airlock/job"
)

// told collects news.
type told struct {
	mu   sync.Mutex
	news []job.News
}

func (l *told) tell(_ *job.Job, n job.News) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n.Data = bytes.Clone(n.Data)
	l.news = append(l.news, n)
}

// output is what was told of a stream, joined, and the largest piece.
func (l *told) output(t *testing.T, stream string) (all []byte, messages, largest int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.news {
		if n.Kind != job.NewsOutput || n.Stream != stream {
			continue
		}
		if n.Offset != int64(len(all)) {
			t.Errorf("%s: got a piece at %d after %d bytes", stream, n.Offset, len(all))
		}
		all, messages, largest = append(all, n.Data...), messages+1, max(largest, len(n.Data))
	}
	return all, messages, largest
}

func (l *told) kinds() (all []job.NewsKind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.news {
		if n.Kind != job.NewsOutput {
			all = append(all, n.Kind)
		}
	}
	return all
}

// live runs one guest and returns what was told, and its result.
func live(t *testing.T, script fake.Script, edit func(*job.Job)) (*told, *job.Result) {
	t.Helper()
	heard := &told{}
	b := newBench(t, &ledger{}, said{report: &job.Report{Ready: time.Now(), Done: true, Value: []byte("1")}}, script, func(j *job.Job, cfg *workerConfig) {
		cfg.Events = heard.tell
		if edit != nil {
			edit(j)
		}
	})
	b.Handle(t.Context(), b.delivery())
	return heard, b.ledger.last()
}

func TestAnAttemptIsToldWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := []string{"one\n", "zwei ü", "ö\n", "\xff\x00\x1b[2J\n"}
		heard, r := live(t, func(_ context.Context, g *fake.Guest) (backends.Outcome, error) {
			for _, line := range lines {
				for i := range len(line) {
					_, _ = g.Task.Stdout.Write([]byte(line[i : i+1]))
					time.Sleep(30 * time.Millisecond)
				}
			}
			_, _ = g.Task.Stderr.Write([]byte("last words"))
			return backends.Outcome{Cause: backends.Exited}, nil
		}, nil)
		if diff := cmp.Diff([]job.NewsKind{job.NewsClaimed, job.NewsStarted}, heard.kinds()); diff != "" {
			t.Errorf("news (-want +got):\n%s", diff)
		}
		out, messages, _ := heard.output(t, "stdout")
		if !bytes.Equal(out, r.Stdout) || messages < 3 || messages > 10 {
			t.Errorf("got %q in %d messages, want %q in one each 100 ms", out, messages, r.Stdout)
		}
		if errs, _, _ := heard.output(t, "stderr"); string(errs) != "last words" {
			t.Errorf("got %q on stderr, want the last words", errs)
		}
	})
}

func TestACharacterIsNotTorn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := []byte("€😀é")
		heard, r := live(t, func(_ context.Context, g *fake.Guest) (backends.Outcome, error) {
			for i := range text {
				_, _ = g.Task.Stdout.Write(text[i : i+1])
				time.Sleep(150 * time.Millisecond)
			}
			return backends.Outcome{Cause: backends.Exited}, nil
		}, nil)
		if out, _, _ := heard.output(t, "stdout"); !bytes.Equal(out, r.Stdout) {
			t.Errorf("got %q, want %q", out, r.Stdout)
		}
		for _, n := range heard.news {
			if !utf8.Valid(n.Data) {
				t.Errorf("got a piece %q", n.Data)
			}
		}
	})
}

// TestAFloodIsToldAtAPace: what a second holds is bounded, and what is told in
// all by what is kept.
func TestAFloodIsToldAtAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard, r := live(t, func(_ context.Context, g *fake.Guest) (backends.Outcome, error) {
			for range 100 {
				_, _ = g.Task.Stdout.Write(bytes.Repeat([]byte("x"), 20_000))
				time.Sleep(10 * time.Millisecond)
			}
			return backends.Outcome{Cause: backends.Exited}, nil
		}, func(j *job.Job) { j.Limits.Output = 1 * job.MiB })
		out, messages, largest := heard.output(t, "stdout")
		if largest > 32<<10 || messages > 11+8 {
			t.Errorf("got %d messages of up to %d bytes, want at most one of 32 KiB each 100 ms, and 8 at the end", messages, largest)
		}
		if !bytes.HasPrefix(r.Stdout, out) || len(out) < 11*32<<10 {
			t.Errorf("got %d bytes, want the beginning of what is kept", len(out))
		}
	})
}

func TestNothingIsToldOfWhatIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard, r := live(t, func(_ context.Context, g *fake.Guest) (backends.Outcome, error) {
			for range 100 {
				_, _ = g.Task.Stdout.Write(make([]byte, 4000))
				time.Sleep(50 * time.Millisecond)
			}
			return backends.Outcome{Cause: backends.Exited}, nil
		}, nil)
		if out, _, _ := heard.output(t, "stdout"); len(out) != len(r.Stdout) || len(out) != 65536 {
			t.Errorf("got %d bytes told and %d kept, want 65536 of both", len(out), len(r.Stdout))
		}
	})
}

// BenchmarkWrite is what a line that a guest prints costs: 100 bytes of them
// all kept, to nobody and to somebody.
func BenchmarkWrite(b *testing.B) {
	for name, tell := range map[string]func(*job.Job, job.News){"nobody": nil, "told": func(*job.Job, job.News) {}} {
		b.Run(name, func(b *testing.B) {
			line := bytes.Repeat([]byte("x"), 100)
			script := func(_ context.Context, g *fake.Guest) (backends.Outcome, error) {
				for b.Loop() {
					_, _ = g.Task.Stdout.Write(line)
				}
				return backends.Outcome{Cause: backends.Exited}, nil
			}
			w := newBench(b, &ledger{}, said{report: &job.Report{Ready: time.Now(), Done: true, Value: []byte("1")}}, script, func(j *job.Job, cfg *workerConfig) {
				cfg.Events, cfg.Log = tell, zerolog.Nop()
				j.Limits.Output, j.Limits.Wall = 1*job.MiB, job.Duration(time.Minute)
			})
			b.ReportAllocs()
			w.Handle(b.Context(), w.delivery())
		})
	}
}
