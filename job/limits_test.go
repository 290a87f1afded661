package job_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"airlock/job"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// limitNames are all that a job can set.
var limitNames = []string{"wall", "cpu", "memory", "output", "processes", "disk", "tool_calls", "tool_time", "result"}

// TestLimitsAreNeverOff: neither zero, nor something next to it, nor nonsense
// may mean "no limit".
func TestLimitsAreNeverOff(t *testing.T) {
	t.Parallel()
	for _, name := range limitNames {
		for _, value := range []string{"0", "-1", "1e-9", "1e-10", "NaN", "1e18", "9007199254740993", "null", `"0.0000000001s"`, `"-5s"`, `"0.0001KiB"`, `"-1MiB"`, `""`, "1e400", `"Infinity"`} {
			t.Run(name+"="+value, func(t *testing.T) {
				t.Parallel()
				j, err := job.Decode(fmt.Appendf(nil, `{"code": "1", "limits": {%q: %s}}`, name, value))
				if err == nil {
					err = j.Prepare(now)
				}
				if value == "0" || value == "null" {
					wantDefaults(t, j, err)
					return
				}
				var field *job.FieldError
				if !errors.As(err, &field) || field.Field != "limits."+name {
					t.Errorf("got error %v and limits %+v, want limits.%s refused", err, j, name)
				}
			})
		}
	}
}

// wantDefaults accepts a refusal too: what may not happen is a job without a
// limit.
func wantDefaults(t *testing.T, j *job.Job, err error) {
	t.Helper()
	var field *job.FieldError
	if errors.As(err, &field) {
		return
	}
	if diff := cmp.Diff(job.DefaultLimits(), j.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

func TestLimitsBounds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ doc, field, reason string }{
		{`{"wall": 0.009}`, "limits.wall", "is 9ms, the minimum is 10ms"},
		{`{"memory": "1MiB"}`, "limits.memory", "is 1MiB, the minimum is 16MiB"},
		{`{"memory": "17GiB"}`, "limits.memory", "is 17GiB, the maximum is 16GiB"},
		{`{"wall": "61m"}`, "limits.wall", "is 1h1m0s, the maximum is 1h0m0s"},
		{`{"processes": 5000}`, "limits.processes", "is 5000, the maximum is 4096"},
		{`{"output": "17MiB"}`, "limits.output", "is 17MiB, the maximum is 16MiB"},
	} {
		j, err := job.Decode([]byte(`{"code": "1", "limits": ` + tt.doc + `}`))
		if err != nil {
			t.Fatal(err)
		}
		var field *job.FieldError
		if err := j.Prepare(now); !errors.As(err, &field) || field.Field != tt.field || field.Reason != tt.reason {
			t.Errorf("%s: got %v, want %s: %s", tt.doc, err, tt.field, tt.reason)
		}
	}
	for _, limits := range []job.Limits{job.MinLimits(), job.MaxLimits(), job.DefaultLimits()} {
		j := job.Job{Code: "1", Limits: limits}
		if err := j.Prepare(now); err != nil {
			t.Errorf("%+v: got %v, want it accepted", limits, err)
		}
	}
}

func TestLimitsAbove(t *testing.T) {
	t.Parallel()
	if got := job.DefaultLimits().Above(job.Limits{}); got != "" {
		t.Errorf("the defaults: got %q, want them below the ceiling", got)
	}
	operator := job.Limits{Memory: 128 * job.MiB}
	if got, want := job.DefaultLimits().Above(operator), "limits.memory is 256MiB, the maximum is 128MiB"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLimitsWithDefaults(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := job.Limits{Memory: job.Size(rapid.Int64Range(0, 1<<40).Draw(t, "memory")), Processes: rapid.IntRange(0, 10).Draw(t, "processes")}
		got := l.WithDefaults()
		if got != got.WithDefaults() {
			t.Fatal("filling twice changes the limits")
		}
		if l.Memory != 0 && got.Memory != l.Memory || got.Memory == 0 || got.Processes == 0 || got.Wall == 0 {
			t.Fatalf("got %+v of %+v", got, l)
		}
	})
}

func TestLimitsNamed(t *testing.T) {
	t.Parallel()
	if got := (job.Limits{}).Named(); got == nil || len(got) != 0 {
		t.Errorf("no limits: got %v, want an empty list that is not nil", got)
	}
	got := job.Limits{Processes: 1, Wall: 1, CPU: 1, Output: 1}.Named()
	if diff := cmp.Diff([]job.LimitName{job.LimitCPU, job.LimitProcesses}, got); diff != "" {
		t.Errorf("named (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(job.KernelLimits(), job.DefaultLimits().Named()); diff != "" {
		t.Errorf("named of all (-want +got):\n%s", diff)
	}
}

func TestEveryLimitIsCovered(t *testing.T) {
	t.Parallel()
	doc := `{"code": "1", "limits": {"` + strings.Join(limitNames, `": 1, "`) + `": 1}}`
	j, err := job.Decode([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	if j.Limits != j.Limits.WithDefaults() {
		t.Errorf("got %+v: limitNames misses a limit", j.Limits)
	}
}
