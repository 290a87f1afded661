package job_test

import (
	"testing"
	"time"

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
	for name, do := range map[string]func() error{
		"decode":  func() error { _, err := job.Decode(spec); return err },
		"check":   func() error { return job.CheckJSON(spec) },
		"prepare": func() error { k := *j; return k.Prepare(time.Now()) },
		"lane":    func() error { _ = j.Requires.Lane(); return nil },
		"encode":  func() error { _, err := j.Encode(); return err },
		"digest":  func() error { _, err := j.ContentDigest(); return err },
	} {
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
