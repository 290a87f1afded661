package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/job"
	"airlock/queue/natstest"
)

func TestBatchRunsEveryLine(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	file := write(t, "mix.jsonl", strings.Join([]string{
		`{"code": "value 1"}`, ``, `{"code": "fail"}`, `not json`, `   `, `{"code": "print hi", "limits": {"wall": "5s"}}`,
		`{"code": "value 2", "cod": 1}`, `{"limits": {}}`, `{"code": "value 3", "on_retry": "again"}`, `{"code": "infra"}`,
	}, "\n"))
	out := file + ".out"
	got := f.submit("--json", "batch", file, "-o", out).want(t, codeFailed)
	for _, text := range []string{
		"line 4: not JSON", "line 7: cod: unknown field", "line 8: code: required", "line 9: on_retry: \"again\" is neither replay nor recall",
	} {
		got.wantIn(t, "stderr", text)
	}
	sum := summaryOf(t, got.stdout)
	want := summary{
		Batch: sum.Batch, Lines: 8, Done: 4, Malformed: 4, Seconds: sum.Seconds, Problems: sum.Problems,
		Statuses: map[job.Status]int{job.StatusOK: 2, job.StatusGuestError: 1, job.StatusInfraError: 1},
	}
	if diff := cmp.Diff(want, sum); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	if len(sum.Problems) != 4 || sum.Problems[1].Field != "cod" || sum.Problems[1].Line != 7 {
		t.Errorf("got problems %+v, want four, the second for cod on line 7", sum.Problems)
	}
	status := map[int]job.Status{}
	for _, r := range results(t, read(t, out)) {
		status[r.Line] = r.Status
	}
	wantStatus := map[int]job.Status{1: job.StatusOK, 3: job.StatusGuestError, 6: job.StatusOK, 10: job.StatusInfraError}
	if diff := cmp.Diff(wantStatus, status); diff != "" {
		t.Errorf("statuses by line (-want +got):\n%s", diff)
	}
}

func TestBatchTwiceRunsNothingTwice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		cfg  fleetConfig
	}{
		{"results are replayed", fleetConfig{}},
		{"results are replayed though nobody answers", fleetConfig{muted: true}},
		{"results are asked for", fleetConfig{silent: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, tt.cfg)
			file := write(t, "jobs.jsonl", strings.Repeat(`{"code": "value 7"}`+"\n", 3)+`{"code": "fail"}`+"\n"+`{"code": "value 1", "key": "k"}`+"\n")
			first := f.submit("batch", file, "--quiet").want(t, codeFailed)
			wantLines(t, results(t, first.stdout), 5)
			second := f.submit("batch", file, "--quiet").want(t, codeFailed)
			wantLines(t, results(t, second.stdout), 5)
			ids := map[int]job.ID{}
			for _, r := range results(t, first.stdout) {
				ids[r.Line] = r.Job
			}
			for _, r := range results(t, second.stdout) {
				if ids[r.Line] != r.Job {
					t.Errorf("line %d: got job %s in the second run, want %s", r.Line, r.Job, ids[r.Line])
				}
			}
			if jobs, again := f.ran(); jobs != 5 || again != 0 {
				t.Errorf("got %d jobs run, %d of them again, want 5 and 0", jobs, again)
			}
		})
	}
}

func TestBatchAppendsOnlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	file := jobsFile(t, 20)
	out := file + ".out"
	f.submit("batch", file, "-o", out).want(t, codeOK)
	whole := read(t, out)
	again := f.submit("--json", "batch", file, "-o", out).want(t, codeOK)
	if got := read(t, out); got != whole {
		t.Errorf("got a changed file after a second run:\n%s", cmp.Diff(whole, got))
	}
	if sum := summaryOf(t, again.stdout); sum.Earlier != 20 || sum.Done != 20 {
		t.Errorf("got %d done, %d of them earlier, want 20 and 20", sum.Done, sum.Earlier)
	}
	// A crash left half a line, and another run lost the last five.
	lines := strings.SplitAfter(whole, "\n")
	if err := os.WriteFile(out, []byte(strings.Join(lines[:15], "")+lines[15][:30]), 0o600); err != nil {
		t.Fatal(err)
	}
	f.submit("batch", file, "-o", out).want(t, codeOK)
	wantLines(t, results(t, read(t, out)), 20)
	if jobs, again := f.ran(); jobs != 20 || again != 0 {
		t.Errorf("got %d jobs run, %d of them again, want 20 and 0", jobs, again)
	}
}

func TestBatchGrowsWithItsFile(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	file := write(t, "jobs.jsonl", `{"code": "value 1"}`+"\n"+`{"code": "value 2", "key": "mine"}`+"\n")
	out := file + ".out"
	f.submit("batch", file, "-o", out).want(t, codeOK)
	// The same lines in another place, one more of the first, and a key that
	// now means something else.
	text := `{"code": "value 0"}` + "\n" + `{"code": "value 1"}` + "\n" + `{"code": "value 1"}` + "\n" + `{"code": "value 9", "key": "mine"}` + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := f.submit("--json", "batch", file, "-o", out).want(t, codeFailed)
	got.wantIn(t, "stderr", `line 4: key "mine" belongs to job`)
	sum := summaryOf(t, got.stdout)
	if sum.Done != 3 || sum.Earlier != 1 || sum.Refused != 1 {
		t.Errorf("got %d done, %d earlier, %d refused, want 3, 1 and 1", sum.Done, sum.Earlier, sum.Refused)
	}
	if jobs, _ := f.ran(); jobs != 4 {
		t.Errorf("got %d jobs run, want 4", jobs)
	}
}

func TestBatchOneKeyOnTwoLines(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	file := write(t, "jobs.jsonl", strings.Repeat(`{"code": "value 1", "key": "same"}`+"\n", 3))
	out := file + ".out"
	for range 2 {
		f.submit("batch", file, "-o", out).want(t, codeOK)
		wantLines(t, results(t, read(t, out)), 3)
	}
	if jobs, again := f.ran(); jobs != 1 || again != 0 {
		t.Errorf("got %d jobs run, %d of them again, want 1 and 0", jobs, again)
	}
}

func TestBatchKeyOfAnotherBatch(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	first := f.submit("--json", "run", "--code", "value 1", "--key", "shared").want(t, codeOK)
	file := write(t, "jobs.jsonl", `{"code": "value 1", "key": "shared"}`)
	second := f.submit("batch", file).want(t, codeOK)
	if a, b := results(t, first.stdout)[0], results(t, second.stdout)[0]; a.Job != b.Job {
		t.Errorf("got job %s, want that of the first run, %s", b.Job, a.Job)
	}
	// And while the other batch's job is still running.
	f.close()
	slow := write(t, "slow.jsonl", `{"code": "value 2", "key": "slow"}`)
	f.submit("run", "--code", "value 2", "--key", "slow", "--no-wait").want(t, codeOK)
	done := make(chan ended)
	go func() { done <- f.submit("batch", slow) }()
	eventually(t, "the job's start", func() bool { jobs, _ := f.ran(); return jobs == 2 })
	f.open()
	wantLines(t, results(t, (<-done).want(t, codeOK).stdout), 1)
}

func TestBatchRefusesForeignLines(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	id := job.NewID().String()
	file := write(t, "jobs.jsonl", strings.Join([]string{
		`{"code": "value 1", "tenant": "other"}`, `{"code": "value 1", "batch": "other"}`,
		`{"code": "value 1", "id": "` + id + `"}`, `{"code": "value 2", "id": "` + id + `"}`,
		`{"code": "value 1", "tenant": "default", "batch": "b1"}`,
	}, "\n"))
	got := f.submit("batch", file, "--batch", "b1").want(t, codeFailed)
	for _, text := range []string{
		`line 1: tenant: is "other", but this run is for "default"`, `line 2: batch: is "other"`, `line 4: id: is that of line 3`,
	} {
		got.wantIn(t, "stderr", text)
	}
	if n := len(results(t, got.stdout)); n != 2 {
		t.Errorf("got %d results, want 2", n)
	}
}

func TestBatchDefaults(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	defaults := write(t, "defaults.json", `{"code": "echo", "limits": {"wall": 5, "memory": "64MiB"}, "args": ["a", "b"], "vars": {"x": 1}, "env": {"A": "1"}}`)
	input := `{"limits": {"wall": 7}, "args": ["c"], "env": {"B": "2"}}` + "\n" + `{"labels": {"n": "2"}}` + "\n"
	got := f.submitIn(context.Background(), nil, input, "batch", "-", "--defaults", defaults, "--batch", "d").want(t, codeOK)
	jobs := map[int]*job.Job{}
	for _, r := range results(t, got.stdout) {
		j, err := job.Decode(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		jobs[r.Line] = j
	}
	for line, want := range map[int]*job.Job{
		1: {Args: []string{"c"}, Env: map[string]string{"A": "1", "B": "2"}, Limits: job.Limits{Wall: job.Duration(7 * time.Second)}},
		2: {Args: []string{"a", "b"}, Env: map[string]string{"A": "1"}, Limits: job.Limits{Wall: job.Duration(5 * time.Second)}},
	} {
		j := jobs[line]
		if j.Limits.Wall != want.Limits.Wall || j.Limits.Memory != 64*job.MiB || string(j.Vars) != `{"x":1}` {
			t.Errorf("line %d: got wall %s, memory %s, vars %s", line, j.Limits.Wall, j.Limits.Memory, j.Vars)
		}
		if diff := cmp.Diff(want.Args, j.Args) + cmp.Diff(want.Env, j.Env); diff != "" {
			t.Errorf("line %d (-want +got):\n%s", line, diff)
		}
	}
}

func TestBatchHugeLines(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	largest := `{"code": "value 1", "files": [{"path": "f", "content": "` + strings.Repeat("x", 3<<20) + `"}]}`
	file := write(t, "jobs.jsonl", strings.Join([]string{
		largest, strings.Repeat("y", 9<<20), `{"code": "value 2"}`, strings.Repeat(" ", 5<<20) + `{"code": "value 3"}`,
		`{"code": "print ` + strings.Repeat("z", 900<<10) + `"}`,
	}, "\r\n"))
	got := f.submit("batch", file).want(t, codeFailed)
	got.wantIn(t, "stderr", "line 2: the job is 943718")
	got.wantIn(t, "stderr", "line 4: the job is 524290")
	if len(got.stderr) > 10_000 {
		t.Errorf("got %d bytes on stderr, want no copy of the lines", len(got.stderr))
	}
	if n := len(results(t, got.stdout)); n != 3 {
		t.Errorf("got %d results, want 3", n)
	}
}

func TestBatchUnplaceable(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{max: job.Limits{Wall: job.Duration(time.Minute)}})
	file := write(t, "jobs.jsonl", strings.Join([]string{
		`{"code": "value 1"}`, `{"code": "value 1", "requires": {"os": "plan9"}}`, `{"code": "value 2", "requires": {"os": "plan9"}}`,
		`{"code": "value 3", "limits": {"wall": 600}}`,
	}, "\n"))
	// The last line's lane is fine, so it must not be taken for workers that
	// are away: a lane must not hold up the run for that.
	got := f.submit("--json", "batch", file, "-o", file+".out", "--in-flight", "1").want(t, codeUnplaceable)
	got.wantIn(t, "stderr", "os is linux, want plan9").wantIn(t, "stderr", "line 3: no worker can run this job, as line 2")
	if sum := summaryOf(t, got.stdout); sum.Unplaceable != 3 || sum.Done != 1 {
		t.Errorf("got %d unplaceable, %d done, want 3 and 1", sum.Unplaceable, sum.Done)
	}
}

func TestBatchWaitsForQuota(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{quota: 3})
	f.close()
	done := make(chan ended)
	file := jobsFile(t, 40)
	go func() { done <- f.submit("batch", file) }()
	eventually(t, "the first jobs' start", func() bool { jobs, _ := f.ran(); return jobs == 3 })
	f.open()
	got := (<-done).want(t, codeOK).wantIn(t, "stderr", "over quota: tenant default has")
	wantLines(t, results(t, got.stdout), 40)
}

func TestBatchKeepsToItsWindow(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	f.close()
	done := make(chan ended)
	file := jobsFile(t, 50)
	go func() { done <- f.submit("batch", file, "--in-flight", "7") }()
	eventually(t, "the first jobs' start", func() bool { jobs, _ := f.ran(); return jobs == 7 })
	f.open()
	wantLines(t, results(t, (<-done).want(t, codeOK).stdout), 50)
}

func TestBatchInterruptedThenResumed(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	f.close()
	file := jobsFile(t, 200)
	out := file + ".out"
	ctx, interrupt := context.WithCancel(context.Background())
	done := make(chan ended)
	go func() { done <- f.submitIn(ctx, nil, "", "batch", file, "-o", out, "--in-flight", "50") }()
	eventually(t, "the first jobs' start", func() bool { jobs, _ := f.ran(); return jobs == 50 })
	interrupt()
	(<-done).want(t, codeInterrupted).wantIn(t, "stderr", "the same command resumes")
	f.open()
	f.submit("batch", file, "-o", out).want(t, codeOK)
	wantLines(t, results(t, read(t, out)), 200)
	if jobs, again := f.ran(); jobs != 200 || again != 0 {
		t.Errorf("got %d jobs run, %d of them again, want 200 and 0", jobs, again)
	}
}

func TestBatchOutlivesTheServer(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	f := newFleet(t, fleetConfig{server: server, ackWait: 2 * time.Second})
	file := jobsFile(t, 3000)
	out := file + ".out"
	done := make(chan ended)
	go func() { done <- f.submit("batch", file, "-o", out) }()
	eventually(t, "the first results", func() bool { jobs, _ := f.ran(); return jobs > 500 })
	server.Restart()
	(<-done).want(t, codeOK)
	wantLines(t, results(t, read(t, out)), 3000)
}

func TestBatchOutlivesTheWorkers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	f.close()
	file := jobsFile(t, 30)
	var talk safeBuffer
	done := make(chan int)
	go func() {
		args := []string{"batch", file, "--in-flight", "5"}
		done <- run(context.Background(), args, []string{"AIRLOCK_NATS=" + f.url}, strings.NewReader(""), &safeBuffer{}, &talk)
	}()
	eventually(t, "the first jobs' start", func() bool { jobs, _ := f.ran(); return jobs == 5 })
	f.leave()
	f.open()
	eventually(t, "the wait", func() bool { return strings.Contains(talk.String(), "the workers of lane any have gone") })
	f.back()
	if code := <-done; code != codeOK {
		t.Errorf("got exit code %d, want %d\n%s", code, codeOK, talk.String())
	}
}

func TestBatchRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	file := jobsFile(t, 1)
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"the jobs as results", []string{"batch", file, "-o", file}, "is the file of the jobs"},
		{"another file as results", []string{"batch", file, "-o", write(t, "notes.txt", "hello\n")}, "line 1 is no result of a batch"},
		{"other jobs as results", []string{"batch", file, "-o", jobsFile(t, 2)}, "line 1 is no result of a batch"},
		{"no such jobs", []string{"batch", file + ".no"}, "open the jobs"},
		{"bad name", []string{"batch", file, "--batch", "a.b"}, "--batch: want"},
		{"bad defaults", []string{"batch", file, "--defaults", write(t, "d.json", `{"cod": 1}`)}, "cod: unknown field"},
		{"no window", []string{"batch", file, "--in-flight", "0"}, "--in-flight"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.submit(tt.args...).want(t, codeUsage).wantIn(t, "stderr", tt.want)
		})
	}
	if got := read(t, file); got != `{"code": "value 0"}`+"\n" {
		t.Errorf("got jobs file %q, want it untouched", got)
	}
}

func TestNameOf(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/a/jobs.jsonl":                         "jobs-",
		"/a/My Jobs (1).jsonl":                  "My-Jobs-1-",
		"/a/.jsonl":                             "",
		"/a/日本.jsonl":                           "",
		"/a/" + strings.Repeat("x", 200) + ".j": strings.Repeat("x", 48) + "-",
	} {
		got := nameOf(path)
		if !job.ValidName(got) || !strings.HasPrefix(got, want) || len(got) != len(want)+8 {
			t.Errorf("nameOf(%q): got %q, want %q and eight characters", path, got, want)
		}
	}
	if nameOf("/a/jobs.jsonl") == nameOf("/b/jobs.jsonl") {
		t.Error("got the same name for two files, want two")
	}
}
