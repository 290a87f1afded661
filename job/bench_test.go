package job_test

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"airlock/job"
)

// These are what the control plane does to each job, several times.
func BenchmarkJob(b *testing.B) {
	j := &job.Job{Code: "print(1)", Labels: map[string]string{"suite": "smoke"}, Tools: []job.Grant{{Namespace: "math", Name: "add"}}}
	if err := j.Prepare(time.Now()); err != nil {
		b.Fatal(err)
	}
	spec, err := j.Encode()
	if err != nil {
		b.Fatal(err)
	}
	measure(b, map[string]func() error{
		"decode":  func() error { _, err := job.Decode(spec); return err },
		"check":   func() error { return job.CheckJSON(spec) },
		"prepare": func() error { k := *j; return k.Prepare(time.Now()) },
		"lane":    func() error { _ = j.Requires.Lane(); return nil },
		"encode":  func() error { _, err := j.Encode(); return err },
		"digest":  func() error { _, err := j.ContentDigest(); return err },
	})
}

// BenchmarkResult is what is stored and announced of each job, and read by its
// submitter.
func BenchmarkResult(b *testing.B) {
	r := &job.Result{
		Job: job.NewID(), Tenant: "default", Batch: "b", Status: job.StatusOK, Value: jsontext.Value(`{"sum":42}`), Stdout: job.Bytes("1\n"), StdoutBytes: 2,
		Usage: job.Usage{Wall: job.Duration(time.Millisecond), PeakMemory: 4 * job.MiB}, Attempt: 1, Worker: "w", Backend: "forkserver",
		Isolation: job.Isolated{Level: job.IsolationStrong, Limits: map[job.LimitName]string{job.LimitCPU: "cgroup v2 cpu", job.LimitMemory: "cgroup v2 memory"}},
		Finished:  time.Now(),
	}
	doc, err := json.Marshal(r)
	if err != nil {
		b.Fatal(err)
	}
	measure(b, map[string]func() error{
		"encode": func() error { _, err := json.Marshal(r, json.Deterministic(true)); return err },
		"decode": func() error { var got job.Result; return job.DecodeStrict(doc, &got) },
	})
}

func measure(b *testing.B, all map[string]func() error) {
	for name, do := range all {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
