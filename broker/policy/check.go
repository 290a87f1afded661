package policy

import (
	"fmt"
	"strings"
	"time"

	"airlock/job"
)

// The largest values that a rule may have.
const (
	MaxTimeout       = 15 * time.Minute
	MaxPerSecond     = 1e6
	MaxBurst         = 1_000_000
	MaxConcurrency   = 100_000
	MaxCalls         = 1_000_000
	MaxBytes         = job.Size(64 << 30)
	MaxRetries       = 10
	MaxFailures      = 10_000
	MaxPause         = time.Hour
	MaxCache         = 24 * time.Hour
	MaxApproveWithin = 7 * 24 * time.Hour
	// MaxRedact is how many fields a rule redacts, MaxField how long a
	// field's name is.
	MaxRedact = 64
	MaxField  = 128
)

// check looks at each field; the error begins with its name.
func (r *Rule) check() error {
	for _, check := range []func() error{r.checkNames, r.checkRanges, r.checkNested, r.checkRedact, r.checkEffect} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rule) checkNames() error {
	for _, name := range []struct {
		field, value string
		valid        func(string) bool
	}{{"tenant", r.Tenant, job.ValidName}, {"namespace", r.Namespace, job.ValidToolName}, {"name", r.Name, job.ValidToolName}} {
		if name.value != Any && !name.valid(name.value) {
			return fmt.Errorf("%s: %q is neither a name nor %q; patterns are not matched", name.field, job.Printable(name.value, 80), Any)
		}
	}
	return nil
}

func (r *Rule) checkRanges() error {
	for _, d := range []struct {
		field string
		value job.Duration
		max   time.Duration
	}{
		{"timeout", r.Timeout, MaxTimeout}, {"cache", r.Cache, MaxCache},
		{"approve_within", r.ApproveWithin, MaxApproveWithin}, {"breaker.pause", r.Breaker.Pause, MaxPause},
	} {
		if d.value < 0 || d.value.Std() > d.max {
			return fmt.Errorf("%s: %s is not in 0s to %s", d.field, d.value, d.max)
		}
	}
	for _, n := range []struct {
		field      string
		value, max int64
	}{
		{"concurrency", int64(r.Concurrency), MaxConcurrency}, {"calls", int64(r.Calls), MaxCalls},
		{"bytes", int64(r.Bytes), int64(MaxBytes)}, {"retries", int64(r.Retries), MaxRetries},
		{"rate.burst", int64(r.Rate.Burst), MaxBurst}, {"breaker.failures", int64(r.Breaker.Failures), MaxFailures},
	} {
		if n.value < 0 || n.value > n.max {
			return fmt.Errorf("%s: %d is not in 0 to %d", n.field, n.value, n.max)
		}
	}
	if r.Rate.PerSecond < 0 || r.Rate.PerSecond > MaxPerSecond {
		return fmt.Errorf("rate.per_second: %g is not in 0 to %g", r.Rate.PerSecond, float64(MaxPerSecond))
	}
	return nil
}

// checkNested looks at what is there in part.
func (r *Rule) checkNested() error {
	switch {
	case r.Rate.Burst > 0 && r.Rate.PerSecond == 0:
		return fmt.Errorf("rate.per_second: is missing or 0; to refuse all calls, write \"deny\": true")
	case r.Breaker.Pause > 0 && r.Breaker.Failures == 0:
		return fmt.Errorf("breaker.failures: is missing or 0")
	case r.ApproveWithin > 0 && !r.Approve:
		return fmt.Errorf("approve_within: has no effect without \"approve\": true")
	}
	return nil
}

func (r *Rule) checkRedact() error {
	if len(r.Redact) > MaxRedact {
		return fmt.Errorf("redact: names %d fields, the maximum is %d", len(r.Redact), MaxRedact)
	}
	for i, field := range r.Redact {
		if field == "" || len(field) > MaxField {
			return fmt.Errorf("redact[%d]: is %d bytes, want 1 to %d", i, len(field), MaxField)
		}
		for _, other := range r.Redact[:i] {
			if strings.EqualFold(field, other) {
				return fmt.Errorf("redact[%d]: %q is there already; case does not count", i, job.Printable(field, 80))
			}
		}
	}
	return nil
}

// checkEffect refuses a rule that denies and says how: one of the two was not
// meant. Redaction stays, for what is refused is recorded too.
func (r *Rule) checkEffect() error {
	if !r.Deny {
		return nil
	}
	for field, set := range map[string]bool{
		"arguments": len(r.Arguments) > 0, "timeout": r.Timeout != 0, "rate": r.Rate != Rate{}, "concurrency": r.Concurrency != 0,
		"calls": r.Calls != 0, "bytes": r.Bytes != 0, "retries": r.Retries != 0, "breaker": r.Breaker != Breaker{},
		"cache": r.Cache != 0, "approve": r.Approve,
	} {
		if set {
			return fmt.Errorf("%s: has no effect in a rule that denies", field)
		}
	}
	return nil
}
