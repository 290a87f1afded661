package store_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"airlock/job"
	"airlock/store"
)

// An analyst finds the policy of an attempt by its digest, whoever took it
// first, and who took which when.
func TestPolicies(t *testing.T) {
	t.Parallel()
	f := open(t)
	text := `{"rules":[{"name":"*","namespace":"*","redact":["\u0000"],"tenant":"*"}]}`
	sum := sha256.Sum256([]byte(text))
	digest := hex.EncodeToString(sum[:])
	at := time.Now().UTC().Truncate(time.Microsecond)
	ctx := t.Context()
	wantError(t, "worker", f.WorkerSeen(ctx, store.WorkerRecord{ID: "w1", Host: "h1", Started: at}), nil)
	for range 2 { // said twice
		wantError(t, "first", f.PolicyTaken(ctx, "w1", at, digest, text), nil)
	}
	wantError(t, "another worker", f.PolicyTaken(ctx, "w2", at.Add(time.Second), digest, text), nil)
	wantError(t, "again", f.PolicyTaken(ctx, "w1", at.Add(time.Minute), digest, text), nil)

	want(t, "policies", value[int](f, `SELECT count(*)::int FROM policies`), 1)
	want(t, "the text", value[string](f, `SELECT policy FROM policies WHERE digest = encode(sha256(convert_to(policy, 'UTF8')), 'hex')`), text)
	want(t, "changes", value[int](f, `SELECT count(*)::int FROM policy_history WHERE digest = $1`, digest), 3)
	want(t, "host", value[string](f, `SELECT host FROM policy_history WHERE worker = 'w1' AND at = $1`, at), "h1")

	a := f.claim(newJob(t), 1, "w1")
	result := resultOf(a, job.StatusOK)
	result.Policy = digest
	f.finish(a, result)
	back, err := f.Result(ctx, "acme", a.Job.ID)
	wantError(t, "result", err, nil)
	want(t, "the result's policy", back.Policy, digest)
	want(t, "the attempt's policy", value[string](f, `
		SELECT p.policy FROM attempts a JOIN policies p ON p.digest = a.facts_json ->> 'policy' WHERE a.job = $1`, [16]byte(a.Job.ID)), text)
}

func TestAPolicyNeedsADigest(t *testing.T) {
	t.Parallel()
	f := open(t)
	if err := f.PolicyTaken(t.Context(), "w", time.Now(), "", "{}"); err == nil {
		t.Error("a policy without a digest is taken")
	}
}
