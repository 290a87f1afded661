package job_test

import (
	"testing"
	"time"

	"airlock/job"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

func TestDurationForms(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]time.Duration{
		`1`: time.Second, `1.5`: 1500 * time.Millisecond, `0`: 0, `"5s"`: 5 * time.Second, `"250ms"`: 250 * time.Millisecond,
		`"2m"`: 2 * time.Minute, `"1.5"`: 1500 * time.Millisecond, `-1`: -time.Second, `1e-9`: 1, `1e2`: 100 * time.Second,
	} {
		var got job.Duration
		if err := json.Unmarshal([]byte(doc), &got); err != nil || got.Std() != want {
			t.Errorf("%s: got %v and error %v, want %v", doc, got, err, want)
		}
	}
	for _, doc := range []string{`"soon"`, `""`, `null`, `true`, `[]`, `{}`, `1e18`, `-1e300`, `1e400`, `"NaN"`, `"Inf"`, `"1e300"`, `"1s "`, `"1\u0073"`, `"99999999999h"`} {
		got := job.Duration(7)
		if err := json.Unmarshal([]byte(doc), &got); err == nil {
			t.Errorf("%s: got %v, want it refused", doc, got)
		}
	}
}

func TestSizeForms(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]job.Size{
		`0`: 0, `65536`: 64 * job.KiB, `"64KiB"`: 64 * job.KiB, `"64 KiB"`: 64 * job.KiB, `"1GiB"`: job.GiB, `"1.5MiB"`: 1536 * job.KiB,
		`"10B"`: 10, `"10"`: 10, `"1MB"`: 1_000_000, `"2kB"`: 2000, `"3K"`: 3 * job.KiB, `"4G"`: 4 * job.GiB, `-1`: -1,
	} {
		var got job.Size
		if err := json.Unmarshal([]byte(doc), &got); err != nil || got != want {
			t.Errorf("%s: got %v and error %v, want %v", doc, got, err, want)
		}
	}
	for _, doc := range []string{`"much"`, `""`, `null`, `true`, `[]`, `1.5`, `1e18e`, `1e19`, `"NaN"`, `"InfB"`, `"99999999999GiB"`, `"MiB"`, `"1TiB"`} {
		got := job.Size(7)
		if err := json.Unmarshal([]byte(doc), &got); err == nil {
			t.Errorf("%s: got %v, want it refused", doc, got)
		}
	}
}

func TestUnitsRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// Seconds as a float64 hold a nanosecond up to a month or so.
		d := job.Duration(rapid.Int64Range(0, int64(30*24*time.Hour)).Draw(t, "duration"))
		s := job.Size(rapid.Int64Range(0, 1<<50).Draw(t, "size"))
		type pair struct {
			D job.Duration `json:"d"`
			S job.Size     `json:"s"`
		}
		doc, err := json.Marshal(pair{d, s})
		if err != nil {
			t.Fatal(err)
		}
		var got pair
		if err := json.Unmarshal(doc, &got); err != nil || got != (pair{d, s}) {
			t.Fatalf("%s: got %v and error %v, want %v, %v", doc, got, err, d, s)
		}
		var byText job.Size
		if err := byText.UnmarshalText([]byte(s.String())); err != nil || byText != s {
			t.Fatalf("%s: got %v and error %v, want %v", s, byText, err, s)
		}
		var durationByText job.Duration
		if err := durationByText.UnmarshalText([]byte(d.String())); err != nil || durationByText != d {
			t.Fatalf("%s: got %v and error %v, want %v", d, durationByText, err, d)
		}
	})
}

func TestSizeString(t *testing.T) {
	t.Parallel()
	for size, want := range map[job.Size]string{
		0: "0B", 1: "1B", 1023: "1023B", 1024: "1KiB", 1536: "1536B", 64 * job.MiB: "64MiB", 1536 * job.KiB: "1536KiB", 3 * job.GiB: "3GiB",
	} {
		if got := size.String(); got != want {
			t.Errorf("%d: got %q, want %q", int64(size), got, want)
		}
	}
}
