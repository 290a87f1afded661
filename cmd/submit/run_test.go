package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/job"
	"airlock/queue/natstest"
)

func TestRunPrintsWhatTheJobGave(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	for _, tt := range []struct {
		name           string
		code           string
		exit           int
		stdout, stderr string
	}{
		{"output as it is", "print a\nb", codeOK, "a\nb", ""},
		{"bytes as they are", "bytes", codeOK, "\xff\x1b[31mred\u202e\n", ""},
		{"value on its own line", `value {"a": [1, 18446744073709551617]}`, codeOK, `{"a":[1,18446744073709551617]}` + "\n", ""},
		{"no value", "value null", codeOK, "", ""},
		{"harmless value", "value \"\u202e\u2028\u009b\U000e0001é\"", codeOK, `"\u202e\u2028\u009b\udb40\udc01é"` + "\n", ""},
		{"error", "fail", codeFailed, "", "warned\nTraceback (most recent call last):\n  line 3\nValueError: bad\\x1b[2J\nsubmit: job "},
		{"our failure", "infra", codeAirlock, "", "sandbox: the sandbox did not start\nsubmit: job "},
		{"cut", "cut", codeOK, "abc", "submit: stdout was cut: 3 of 200000 bytes were kept\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := f.submit("run", "--code", tt.code).want(t, tt.exit)
			if got.stdout != tt.stdout {
				t.Errorf("got stdout %q, want %q", got.stdout, tt.stdout)
			}
			if !strings.HasPrefix(got.stderr, tt.stderr) || (tt.stderr == "" && got.stderr != "") {
				t.Errorf("got stderr %q, want %q…", got.stderr, tt.stderr)
			}
		})
	}
}

func TestRunJSON(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	got := f.submit("run", "--code", "fail", "--json").want(t, codeFailed)
	all := results(t, got.stdout)
	if len(all) != 1 || all[0].Status != job.StatusGuestError || all[0].Error.Type != "ValueError" || string(all[0].Stderr) != "warned\n" {
		t.Errorf("got %+v, want one guest_error with its stderr", all)
	}
	if got.stderr != "" {
		t.Errorf("got stderr %q, want none beside the document", got.stderr)
	}
}

func TestRunTakesEveryFlag(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	data := write(t, "data.bin", "\x00\xffdata")
	vars := write(t, "vars.json", `{"x": 18446744073709551617}`)
	script := write(t, "script.py", "\xef\xbb\xbfecho")
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	got := f.submitIn(context.Background(), nil, "to stdin", "run", script, "--tools", "math.add,text.*", "--vars", "@"+vars, "--stdin", "-",
		"--env", "A=x;y=z,w", "--env", "B=", "--file", data, "--file", data+"=dir/other", "--label", "team=red", "--wall", "5s", "--cpu", "2",
		"--memory", "64MiB", "--output", "1KiB", "--processes", "3", "--disk", "1MiB", "--tool-calls", "4", "--tool-time", "6s",
		"--result", "2KiB", "--backend", "docker,bubblewrap", "--isolation", "strong", "--os", "linux", "--arch", "amd64", "--fresh",
		"--priority", "high", "--key", "k", "--batch", "b", "--not-before", "2020-01-02T03:04:05Z", "--deadline", later.Format(time.RFC3339),
		"--max-attempts", "5", "--namespace", "math", "--park", "--quiet", "--", "-x", "--", "y").want(t, codeOK)
	j, err := job.Decode([]byte(got.stdout))
	if err != nil {
		t.Fatal(err)
	}
	want := &job.Job{
		ID: j.ID, Key: "k", Tenant: "default", Batch: "b", Labels: map[string]string{"team": "red"}, Code: "echo",
		Vars: []byte(`{"x":18446744073709551617}`), Stdin: job.Bytes("to stdin"), Args: []string{"-x", "--", "y"},
		Env:       map[string]string{"A": "x;y=z,w", "B": ""},
		Files:     []job.File{{Path: "data.bin", Content: job.Bytes("\x00\xffdata")}, {Path: "dir/other", Content: job.Bytes("\x00\xffdata")}},
		Tools:     []job.Grant{{Namespace: "math", Name: "add"}, {Namespace: "text", Name: "*"}},
		Namespace: "math",
		Limits: job.Limits{Wall: job.Duration(5 * time.Second), CPU: job.Duration(2 * time.Second), Memory: 64 * job.MiB, Output: job.KiB,
			Processes: 3, Disk: job.MiB, ToolCalls: 4, ToolTime: job.Duration(6 * time.Second), Result: 2 * job.KiB},
		Requires: job.Requirement{Backends: []string{"bubblewrap", "docker"}, Isolation: "strong", OS: "linux", Arch: "amd64",
			Fresh: true, Limits: job.KernelLimits()},
		Priority: job.PriorityHigh, NotBefore: time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC), Deadline: later, MaxAttempts: 5,
	}
	if diff := cmp.Diff(want, j); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
}

func TestRunRefusesBadUsage(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{workers: -1})
	large := write(t, "large", strings.Repeat("x", 1<<20+1))
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no code", []string{"run"}, "give a file"},
		{"two codes", []string{"run", "x.py", "--code", "1"}, "not both"},
		{"no such file", []string{"run", "no-such.py"}, "read the code: open no-such.py"},
		{"too much code", []string{"run", large}, "larger than the maximum of 1MiB"},
		{"code that is no text", []string{"run", write(t, "a.py", "\xff\xfe")}, "invalid UTF-8"},
		{"stdin twice", []string{"run", "-", "--stdin", "-"}, "both"},
		{"bad vars", []string{"run", "--code", "1", "--vars", `{"a":1,"a":2}`}, "duplicate key"},
		{"vars that are no object", []string{"run", "--code", "1", "--vars", `[1]`}, "vars: want an object"},
		{"NaN", []string{"run", "--code", "1", "--vars", `{"a":NaN}`}, "--vars"},
		{"bad tool", []string{"run", "--code", "1", "--tools", "add"}, `"add" is not NAMESPACE.NAME`},
		{"dotted tool", []string{"run", "--code", "1", "--tools", "a.b.c"}, "tools[0].name"},
		{"bad wall", []string{"run", "--code", "1", "--wall", "soon"}, "--wall"},
		{"tiny wall", []string{"run", "--code", "1", "--wall", "1ms"}, "limits.wall: "},
		{"bad memory", []string{"run", "--code", "1", "--memory", "lots"}, "--memory"},
		{"negative", []string{"run", "--code", "1", "--processes=-1"}, "limits.processes"},
		{"bad priority", []string{"run", "--code", "1", "--priority", "urgent"}, "priority: want one of"},
		{"bad env", []string{"run", "--code", "1", "--env", "A"}, `--env: "A" is not NAME=VALUE`},
		{"env twice", []string{"run", "--code", "1", "--env", "A=1", "--env", "A=2"}, "A is given twice"},
		{"reserved env", []string{"run", "--code", "1", "--env", "LD_PRELOAD=x"}, "is reserved"},
		{"file outside", []string{"run", "--code", "1", "--file", large + "=../x"}, "files[0].path"},
		{"bad deadline", []string{"run", "--code", "1", "--deadline", "soon"}, "neither a time"},
		{"bad tenant", []string{"run", "--code", "1", "--tenant", "a.b"}, "tenant: want"},
		{"bad tenant elsewhere", []string{"workers", "--tenant", "a.b"}, "--tenant: want"},
		{"unknown flag", []string{"run", "--cod", "1"}, "unknown flag --cod"},
		{"unknown command", []string{"runn"}, "unexpected argument runn"},
		{"bad id", []string{"status", "42"}, "job id"},
		{"bad status", []string{"history", "--status", "great"}, "unknown status"},
		{"bad since", []string{"history", "--since", "yesterday"}, "neither a time"},
		{"bad limit", []string{"dead", "--limit", "5000"}, "--limit"},
		{"bad target", []string{"cancel", "a.b"}, "neither a job's id"},
		{"bad batch", []string{"wait", "a.b"}, "no batch's name"},
		{"bad timeout", []string{"workers", "--timeout", "0"}, "--timeout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.submit(tt.args...).want(t, codeUsage).wantIn(t, "stderr", tt.want)
		})
	}
}

func TestRunUnplaceable(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	got := f.submit("run", "--code", "value 1", "--os", "plan9").want(t, codeUnplaceable)
	got.wantIn(t, "stderr", "host-a/bubblewrap: os is linux, want plan9").wantIn(t, "stderr", "--park")
	none := newFleet(t, fleetConfig{workers: -1})
	none.submit("run", "--code", "value 1").want(t, codeUnplaceable).wantIn(t, "stderr", "no worker is there")
	parked := none.submit("run", "--code", "value 1", "--park", "--no-wait").want(t, codeOK)
	if _, err := job.ParseID(strings.TrimSpace(parked.stdout)); err != nil {
		t.Errorf("got %q, want the job's id: %v", parked.stdout, err)
	}
}

func TestRunKeys(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	first := f.submit("run", "--json", "--code", "value 1", "--key", "k").want(t, codeOK)
	second := f.submit("run", "--json", "--code", "value 1", "--key", "k").want(t, codeOK)
	if first.stdout != second.stdout {
		t.Errorf("got another result for the same key (-first +second):\n%s", cmp.Diff(first.stdout, second.stdout))
	}
	f.submit("run", "--code", "value 2", "--key", "k").want(t, codeUsage).wantIn(t, "stderr", `key "k" belongs to job`)
	if jobs, again := f.ran(); jobs != 1 || again != 0 {
		t.Errorf("got %d jobs run, %d of them again, want 1 and 0", jobs, again)
	}
	// The announcement is gone, so that only a worker knows the result.
	silent := newFleet(t, fleetConfig{silent: true})
	silent.submit("run", "--no-wait", "--code", "value 1", "--key", "k").want(t, codeOK)
	eventually(t, "the job's end", func() bool {
		silent.mu.Lock()
		defer silent.mu.Unlock()
		return len(silent.results) == 1
	})
	silent.submit("run", "--code", "value 1", "--key", "k").want(t, codeOK).wantIn(t, "stdout", "1\n")
}

func TestRunSameKeyAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	const n = 8
	done := make(chan ended, n)
	for range n {
		go func() { done <- f.submit("run", "--json", "--code", "value 1", "--key", "k") }()
	}
	ids := map[job.ID]bool{}
	for range n {
		ids[results(t, (<-done).want(t, codeOK).stdout)[0].Job] = true
	}
	if jobs, again := f.ran(); len(ids) != 1 || jobs != 1 || again != 0 {
		t.Errorf("got %d ids, %d jobs run, %d of them again, want 1, 1 and 0", len(ids), jobs, again)
	}
}

func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	ctx, interrupt := context.WithCancel(context.Background())
	done := make(chan ended)
	go func() { done <- f.submitIn(ctx, nil, "", "run", "--code", "hang") }()
	eventually(t, "the job's start", func() bool { jobs, _ := f.ran(); return jobs == 1 })
	interrupt()
	got := (<-done).want(t, codeInterrupted).wantIn(t, "stderr", "interrupted")
	// A worker may have begun before submit heard that the queue took the job.
	// It is cancelled all the same, but there is no waiting for its end.
	if strings.Contains(got.stderr, "cancelling job") {
		got.wantIn(t, "stderr", "ended as cancelled")
	}
	eventually(t, "the job's end as cancelled", func() bool { return f.allEndedAs(job.StatusCancelled) })
}

// TestRunInterruptedBeforeItsReceipt: nobody knows whether the queue has the
// job, and it is cancelled all the same, also if a worker takes it later.
func TestRunInterruptedBeforeItsReceipt(t *testing.T) {
	t.Parallel()
	for range 12 {
		f := newFleet(t, fleetConfig{})
		ctx, interrupt := context.WithCancel(context.Background())
		done := make(chan ended)
		go func() { done <- f.submitIn(ctx, nil, "", "run", "--code", "hang") }()
		// The lane is made known just before the job is published.
		eventually(t, "the job's lane", func() bool { lanes, err := f.q.Lanes(context.Background()); return err == nil && len(lanes) > 0 })
		interrupt()
		got := (<-done).want(t, codeInterrupted)
		if strings.Contains(got.stderr, "cancelling job") {
			continue // the receipt was there, which TestRunInterrupted is about
		}
		eventually(t, "no job that runs", func() bool {
			stock, err := f.q.Stock(context.Background())
			return err == nil && len(stock) == 0
		})
		if !f.allEndedAs(job.StatusCancelled) {
			t.Error("a job went on that was interrupted before its receipt")
		}
	}
}

func TestRunInterruptedLeavesOthersJobs(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	id := strings.TrimSpace(f.submit("run", "--code", "hang", "--key", "k", "--no-wait").want(t, codeOK).stdout)
	ctx, interrupt := context.WithCancel(context.Background())
	done, talk := make(chan int), &safeBuffer{}
	go func() {
		args := []string{"run", "--code", "hang", "--key", "k"}
		done <- run(ctx, args, []string{"AIRLOCK_NATS=" + f.url}, strings.NewReader(""), &safeBuffer{}, talk)
	}()
	eventually(t, "the wait", func() bool {
		jobs, _ := f.ran()
		return jobs == 1 && strings.Contains(talk.String(), "waiting for its result")
	})
	interrupt()
	if code := <-done; code != codeInterrupted || !strings.Contains(talk.String(), "goes on") {
		t.Errorf("got exit code %d, want %d\n%s", code, codeInterrupted, talk.String())
	}
	records := documents[job.Record](t, f.submit("status", id, "--json").want(t, codeOK).stdout)
	if records[0].State != job.StateRunning {
		t.Errorf("got state %s, want the first job untouched", records[0].State)
	}
}

func TestRunInterruptedWhileItWaitsForRoom(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{quota: 1})
	f.submit("run", "--code", "hang", "--no-wait").want(t, codeOK)
	ctx, interrupt := context.WithCancel(context.Background())
	done, talk := make(chan int), &safeBuffer{}
	go func() {
		args := []string{"run", "--code", "value 1"}
		done <- run(ctx, args, []string{"AIRLOCK_NATS=" + f.url}, strings.NewReader(""), &safeBuffer{}, talk)
	}()
	eventually(t, "the wait", func() bool { return strings.Contains(talk.String(), "over quota: tenant default has") })
	interrupt()
	if code := <-done; code != codeInterrupted {
		t.Errorf("got exit code %d, want %d\n%s", code, codeInterrupted, talk.String())
	}
}

func TestRunWithoutNATS(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "nats://user:hunter2@" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, url: url}
	for _, args := range [][]string{{"run", "--code", "1"}, {"workers"}, {"batch", jobsFile(t, 1)}, {"status", job.NewID().String()}} {
		got := f.submit(append(args, "--timeout", "300ms")...).want(t, codeAirlock)
		got.wantIn(t, "stderr", "not reachable, trying again").wantIn(t, "stderr", "unreachable").wantIn(t, "stderr", "worker --standalone")
		if strings.Contains(got.stderr, "hunter2") {
			t.Errorf("got the password on stderr:\n%s", got.stderr)
		}
	}
	ctx, interrupt := context.WithCancel(context.Background())
	interrupt()
	f.submitIn(ctx, nil, "", "workers").want(t, codeInterrupted)
}

func TestRunWithoutQueue(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	f := &fleet{t: t, url: server.URLOf("submitter-default")}
	f.submit("workers", "--timeout", "500ms").want(t, codeAirlock).wantIn(t, "stderr", "start a worker")
	// A worker that starts meanwhile is waited for.
	done := make(chan ended)
	go func() { done <- f.submit("workers", "--timeout", "2m") }()
	newFleet(t, fleetConfig{server: server})
	(<-done).want(t, codeOK)
}

func TestRunOutlivesTheServer(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	f := newFleet(t, fleetConfig{server: server, ackWait: 2 * time.Second})
	f.close()
	done := make(chan ended)
	go func() { done <- f.submit("run", "--code", "value 5") }()
	eventually(t, "the job's start", func() bool { jobs, _ := f.ran(); return jobs == 1 })
	server.Restart()
	f.open()
	if got := (<-done).want(t, codeOK); got.stdout != "5\n" {
		t.Errorf("got %q, want the value", got.stdout)
	}
}

func TestInterruptibleReader(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// The read that is left behind ends with the pipe.
	defer w.Close()
	ctx, interrupt := context.WithCancel(context.Background())
	done := make(chan ended)
	go func() {
		var out, talk safeBuffer
		code := run(ctx, []string{"run", "-"}, nil, r, &out, &talk)
		done <- ended{code, out.String(), talk.String()}
	}()
	interrupt()
	if got := <-done; got.code == codeOK {
		t.Errorf("got exit code %d, want an end with an error", got.code)
	}
}

func TestSubmitOutputError(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	closed, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"run", "--code", "print x"}, {"batch", jobsFile(t, 100)}, {"workers", "--json"}} {
		var stderr safeBuffer
		code := run(context.Background(), args, []string{"AIRLOCK_NATS=" + f.url}, strings.NewReader(""), closed, &stderr)
		ended{code, "", stderr.String()}.want(t, codeAirlock).wantIn(t, "stderr", "write")
	}
}
