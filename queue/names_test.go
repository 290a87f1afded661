package queue

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"airlock/job"
)

func TestParsePlace(t *testing.T) {
	t.Parallel()
	good := place{lane: "bubblewrap+docker", priority: job.PriorityLow, tenant: "a_B-1"}
	if got, err := parsePlace(good.subject(), prefixJobs); err != nil || got != good {
		t.Errorf("got %+v, %v; want %+v", got, err, good)
	}
	for _, subject := range []string{
		"", "jobs", "jobs.any.high", "jobs.any.high.a.b", "bell.any.high.a", "jobs.*.high.a", "jobs.any.>.a",
		"jobs.any.urgent.a", "jobs.any.high.*", "jobs.any.high.", "jobs.Any.high.a", "jobs.any.high.a b",
		"jobs." + strings.Repeat("a", 65) + ".high.a",
	} {
		if p, err := parsePlace(subject, prefixJobs); err == nil {
			t.Errorf("got %+v for subject %q, want an error", p, subject)
		}
	}
}

func TestCancelKeys(t *testing.T) {
	t.Parallel()
	id := job.NewID()
	for _, target := range []CancelTarget{{Job: id}, {Batch: "b-1"}} {
		key, err := target.key("a")
		if err != nil {
			t.Fatalf("key of %+v: %v", target, err)
		}
		tenant, got, err := parseCancelKey(key)
		if err != nil || tenant != "a" || got != target {
			t.Errorf("got %q, %+v, %v; want a and %+v", tenant, got, err, target)
		}
	}
	for _, key := range []string{"", "a", "a.job", "a.job.x", "a.batch.", "a.lane.b", "*.batch.b", "a.batch.b.c"} {
		if _, _, err := parseCancelKey(key); err == nil {
			t.Errorf("got no error for key %q", key)
		}
	}
}

// FuzzArrival feeds what a foreign client may publish. Whatever is accepted
// must be safe to build subjects from and must read the same again.
func FuzzArrival(f *testing.F) {
	j := job.Job{Code: "1", Tenant: "a", Priority: job.PriorityHigh}
	if err := j.Prepare(time.Now()); err != nil {
		f.Fatal(err)
	}
	body, err := j.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add("jobs.any.high.a", "1", body)
	f.Add("jobs.any.high.a", "", []byte(`{"code":"1"}`))
	f.Add("jobs.any.>.*", "-1", []byte("\x00"))
	token := regexp.MustCompile(`^jobs(\.[A-Za-z0-9_+-]+){3}$`)
	f.Fuzz(func(t *testing.T, subject, generation string, body []byte) {
		if n, err := parseGeneration(generation); err == nil && n < 1 {
			t.Errorf("got generation %d from %q", n, generation)
		}
		p, err := parsePlace(subject, prefixJobs)
		if err != nil {
			return
		}
		if p.subject() != subject || !token.MatchString(subject) {
			t.Errorf("accepted subject %q as %+v", subject, p)
		}
		got, err := decodeJob(body, time.Now(), p)
		if err != nil {
			return
		}
		again, err := got.Encode()
		if err != nil {
			t.Fatalf("encode what was accepted: %v", err)
		}
		if _, err := decodeJob(again, time.Now(), p); err != nil {
			t.Errorf("did not accept its own encoding: %v", err)
		}
	})
}

// FuzzBuckets feeds what a foreign client may put into buckets.
func FuzzBuckets(f *testing.F) {
	f.Add("any", []byte(`{"isolation":"strong","limits":["cpu","disk","memory","processes"]}`))
	f.Add("a.batch.b", []byte(`{"at":"2026-01-02T03:04:05Z"}`))
	f.Add("w1", []byte(`{"id":"w1","max":{"wall":"5s"}}`))
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		if r, err := decodeLane(key, value); err == nil && laneKey(r.Lane()) != key {
			t.Errorf("accepted requirement %+v under %q", r, key)
		}
		if _, err := decodeCancellation(key, value); err == nil {
			if tenant, _, err := parseCancelKey(key); err != nil || !job.ValidName(tenant) {
				t.Errorf("accepted cancellation %q", key)
			}
		}
		if seen, err := (&Queue{}).decodeSighting(key, value); err == nil && seen.ID != key {
			t.Errorf("accepted worker %q under %q", seen.ID, key)
		}
	})
}
