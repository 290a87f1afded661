package trace_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"airlock/job"
	"airlock/worker/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type event struct {
	Phase    string `json:"ph"`
	Name     string `json:"name"`
	Category string `json:"cat"`
	Process  int    `json:"pid"`
	Track    int    `json:"tid"`
	At       int64  `json:"ts"`
	Length   int64  `json:"dur"`
	ID       string `json:"id"`
	Args     struct {
		Name    string `json:"name"`
		Job     string `json:"job"`
		Attempt int    `json:"attempt"`
		Backend string `json:"backend"`
		Status  string `json:"status"`
	} `json:"args"`
}

// read decodes a whole file strictly.
func read(t *testing.T, raw []byte) (events []event) {
	t.Helper()
	if err := json.Unmarshal(raw, &events, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("trace is not what it should be: %v\n%s", err, raw)
	}
	return events
}

func create(t *testing.T, cfg trace.Config) (*trace.File, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.json")
	f, err := trace.Create(path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, path
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestPhasesAreSlicesOfTheirJob(t *testing.T) {
	t.Parallel()
	f, path := create(t, trace.Config{Process: `worker "1"`})
	id, now := job.NewID(), time.Now()
	s := f.Begin(id, now.Add(-time.Second))
	s.Claim(2, "fake")
	for i, p := range []trace.Phase{trace.Ready, trace.Sent, trace.First, trace.Result, trace.Gone, trace.Committed, trace.Announced, trace.Acknowledged} {
		s.MarkAt(p, now.Add(time.Duration(i+1)*time.Millisecond))
	}
	s.MarkAt(trace.First, now.Add(time.Hour)) // the first of two counts
	s.Status("ok")
	s.End()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var names []string
	var whole, last event
	for _, e := range read(t, content(t, path)) {
		names = append(names, e.Phase+" "+e.Name)
		if e.Name == "job" {
			whole, last = e, event{At: e.At}
		}
		if e.Phase != "X" || e.Name == "job" {
			continue
		}
		if e.At != last.At+last.Length || e.Length < 0 || e.Track != whole.Track || e.Process != whole.Process {
			t.Errorf("got %+v after %+v, want it to begin where that ends, on its track", e, last)
		}
		last = e
	}
	want := []string{
		"M process_name", "M thread_name", "b queued", "e queued", "X job", "X claimed", "X guest ready", "X code sent", "X first byte",
		"X result", "X guest gone", "X committed", "X announced", "X acknowledged",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got := whole.Args; got.Job != id.String() || got.Attempt != 2 || got.Backend != "fake" || got.Status != "ok" {
		t.Errorf("got args %+v", got)
	}
}

func TestSlotsHaveTracksThatAreUsedAgain(t *testing.T) {
	t.Parallel()
	f, path := create(t, trace.Config{})
	first, second := f.Begin(job.NewID(), time.Time{}), f.Begin(job.NewID(), time.Time{})
	first.End()
	f.Begin(job.NewID(), time.Time{}).End()
	second.End()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var tracks []int
	names := map[int]string{}
	for _, e := range read(t, content(t, path)) {
		if e.Name == "job" {
			tracks = append(tracks, e.Track)
		} else if e.Name == "thread_name" {
			names[e.Track] = e.Args.Name
		}
	}
	if diff := cmp.Diff([]int{1, 1, 2}, tracks); diff != "" {
		t.Errorf("tracks (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[int]string{1: "slot 1", 2: "slot 2"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestWhatHasLeftItsSlotIsOnAnotherTrack(t *testing.T) {
	t.Parallel()
	f, path := create(t, trace.Config{})
	first := f.Begin(job.NewID(), time.Time{})
	first.Mark(trace.Gone)
	first.Leave()
	first.Leave()
	second := f.Begin(job.NewID(), time.Time{})
	first.Mark(trace.Committed)
	first.End()
	second.End()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	tracks := map[string][]int{}
	for _, e := range read(t, content(t, path)) {
		tracks[e.Name] = append(tracks[e.Name], e.Track)
	}
	delete(tracks, "process_name")
	ending := tracks["end of job"]
	if len(ending) != 1 {
		t.Fatalf("got tracks %v, want one end of a job", tracks)
	}
	want := map[string][]int{"thread_name": {1, ending[0]}, "job": {1, 1}, "guest gone": {1}, "end of job": ending, "committed": ending}
	if diff := cmp.Diff(want, tracks); diff != "" || ending[0] == 1 {
		t.Errorf("tracks (-want +got):\n%s", diff)
	}
}

func TestAKilledWorkersTraceLacksOnlyItsEnd(t *testing.T) {
	t.Parallel()
	f, path := create(t, trace.Config{})
	f.Begin(job.NewID(), time.Now()).End()
	deadline := time.Now().Add(time.Minute)
	for !bytes.Contains(content(t, path), []byte(`"name":"job"`)) {
		if time.Now().After(deadline) {
			t.Fatal("a span that ended does not reach the disk by itself")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if events := read(t, append(content(t, path), ']')); events[len(events)-1].Name != "job" {
		t.Errorf("got %+v, want the job last", events)
	}
}

func TestAFullTraceIsClosedAndSaysSo(t *testing.T) {
	t.Parallel()
	const room = 200 << 10
	var log bytes.Buffer
	f, path := create(t, trace.Config{MaxBytes: room, Log: zerolog.New(&log)})
	for range 1000 {
		s := f.Begin(job.NewID(), time.Now())
		s.Claim(1, "fake")
		s.End()
	}
	raw := content(t, path)
	if len(raw) > room || len(raw) < room-4<<10 {
		t.Errorf("got %d bytes, want just below %d", len(raw), room)
	}
	read(t, raw)
	if strings.Count(log.String(), "trace is full") != 1 {
		t.Errorf("got log %q, want to be told once", log.String())
	}
	if err := f.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func TestEventsOfManyAtOnceAreWhole(t *testing.T) {
	t.Parallel()
	f, path := create(t, trace.Config{})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 100 {
				s := f.Begin(job.NewID(), time.Now())
				all.Go(func() { s.Mark(trace.Announced) })
				s.Mark(trace.Acknowledged)
				s.End()
			}
		})
	}
	all.Wait()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	jobs := 0
	for _, e := range read(t, content(t, path)) {
		if e.Name == "job" {
			jobs++
		}
		if e.Track > 16 {
			t.Fatalf("got track %d, want no more than were busy at once", e.Track)
		}
	}
	if jobs != 1600 {
		t.Errorf("got %d jobs, want 1600", jobs)
	}
}

// TestNoTraceCostsNothing: the calls that a worker makes for each job, without
// a trace.
func TestNoTraceCostsNothing(t *testing.T) {
	if got := testing.AllocsPerRun(1000, untraced); got != 0 {
		t.Errorf("got %v allocations, want none", got)
	}
}

var (
	none   *trace.File
	anyJob = job.NewID()
)

func untraced() {
	s := none.Begin(anyJob, time.Time{})
	s.Claim(1, "fake")
	s.Mark(trace.Gone)
	s.Leave()
	s.MarkAt(trace.Ready, time.Time{})
	s.Status("ok")
	s.End()
}

func BenchmarkUntraced(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		untraced()
	}
}

func BenchmarkTraced(b *testing.B) {
	f, err := trace.Create(filepath.Join(b.TempDir(), "trace.json"), trace.Config{MaxBytes: 1 << 40})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	b.ReportAllocs()
	for b.Loop() {
		s := f.Begin(anyJob, time.Now())
		s.Claim(1, "fake")
		for p := trace.Ready; p <= trace.Announced; p++ {
			s.Mark(p)
		}
		s.Status("ok")
		s.End()
	}
}
