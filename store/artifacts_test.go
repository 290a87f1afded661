package store_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"airlock/job"
	"airlock/store"

	"github.com/google/go-cmp/cmp/cmpopts"
)

func kept(path, content string) job.Artifact {
	sum := sha256.Sum256([]byte(content))
	return job.Artifact{Path: path, Size: job.Size(len(content)), SHA256: hex.EncodeToString(sum[:]), Content: []byte(content)}
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	f := open(t)
	j := newJob(t)
	a := f.claim(j, 1, "w")
	r := resultOf(a, job.StatusOK)
	r.Artifacts = []job.Artifact{
		kept("out/z ü", "\x00\xff"), kept("a", ""), {Path: "l", Size: 4, Reason: job.ReasonLink},
		{Path: `x\x1b`, Reason: job.ReasonName}, {Path: `x\x1b`, Reason: job.ReasonName},
	}
	f.finish(a, r)
	f.finish(a, r) // delivered twice
	for path, want := range map[string]string{"out/z ü": "\x00\xff", "a": ""} {
		if got, err := f.Artifact(t.Context(), "acme", j.ID, path); err != nil || string(got) != want {
			t.Errorf("%s: got %q and error %v, want %q", path, got, err, want)
		}
	}
	for _, miss := range []struct{ tenant, path string }{{"acme", "l"}, {"acme", "out"}, {"acme", "\x00\xff"}, {"other", "a"}} {
		_, err := f.Artifact(t.Context(), miss.tenant, j.ID, miss.path)
		wantError(t, miss.path+" of "+miss.tenant, err, store.ErrNotFound)
	}
	rec, err := f.Job(t.Context(), "acme", j.ID)
	if err != nil {
		t.Fatal(err)
	}
	without := cmpopts.IgnoreFields(job.Artifact{}, "Content")
	want(t, "record's list", rec.Artifacts, r.Artifacts, without)
	got, err := f.Result(t.Context(), "acme", j.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "result's list", got.Artifacts, r.Artifacts, without)
	want(t, "partition", value[string](f, `SELECT DISTINCT tableoid::regclass::text FROM artifacts`), "artifacts_"+j.ID.Time().Format("2006_01"))
	want(t, "files for querying", value[int](f, `SELECT count(*) FROM job_artifacts WHERE job = $1 AND sha256 = encode(sha256(content), 'hex')`, [16]byte(j.ID)), 2)
}

// TestArtifactsAreFenced: who lost the job stores no file, also under the name
// of the attempt that holds it.
func TestArtifactsAreFenced(t *testing.T) {
	t.Parallel()
	f := open(t)
	j := newJob(t)
	zombie := f.claim(j, 1, "zombie")
	f.loseLease(j.ID)
	holder := f.claim(j, 1, "holder")
	liar := *holder
	liar.Worker = "liar"
	for _, a := range []*job.Attempt{zombie, &liar} {
		r := resultOf(a, job.StatusOK)
		r.Artifacts = []job.Artifact{kept("a", "forged")}
		wantError(t, a.Worker, f.Finish(t.Context(), a, r, 0), job.ErrFenced)
	}
	r := resultOf(holder, job.StatusOK)
	r.Artifacts = []job.Artifact{kept("a", "true")}
	f.finish(holder, r)
	for _, a := range []*job.Attempt{zombie, &liar} {
		r := resultOf(a, job.StatusOK)
		r.Artifacts = []job.Artifact{kept("b", "forged")}
		wantError(t, a.Worker, f.Finish(t.Context(), a, r, 0), job.ErrFenced)
	}
	if got, err := f.Artifact(t.Context(), "acme", j.ID, "a"); err != nil || string(got) != "true" {
		t.Errorf("got %q and error %v, want the holder's", got, err)
	}
	want(t, "files", value[int](f, `SELECT count(*) FROM artifacts`), 1)
}

// A database that hangs is noticed before leases end, and one that is slow or
// far is given the time that a large result takes.
func TestLargeResultsMayTakeLonger(t *testing.T) {
	t.Parallel()
	r := &job.Result{}
	if got := store.FinishPatience(r); got < 5*time.Second || got >= job.LeaseMargin {
		t.Errorf("got %s for a small result, want less than %s", got, job.LeaseMargin)
	}
	r.Artifacts = []job.Artifact{kept("big", string(make([]byte, job.MaxArtifactBytes)))}
	if got := store.FinishPatience(r); got < 20*time.Second || got >= job.Lease {
		t.Errorf("got %s for %d bytes, want at least 20 s", got, job.MaxArtifactBytes)
	}
}

// TestLargeArtifacts come in one transaction, many at once in several.
func TestLargeArtifacts(t *testing.T) {
	t.Parallel()
	f := open(t)
	j := newJob(t)
	a := f.claim(j, 1, "w")
	r := resultOf(a, job.StatusOK)
	r.Artifacts = []job.Artifact{kept("big", string(make([]byte, job.MaxArtifactBytes)))}
	f.finish(a, r)
	if got, err := f.Artifact(t.Context(), "acme", j.ID, "big"); err != nil || len(got) != int(job.MaxArtifactBytes) {
		t.Errorf("got %d bytes and error %v, want all", len(got), err)
	}
	for _, path := range []string{"../x", "/x", "a/../b", "a//b", "a/", ".", `a\b`, ""} {
		j := newJob(t)
		a := f.claim(j, 1, "w")
		r := resultOf(a, job.StatusOK)
		r.Artifacts = []job.Artifact{kept(path, "x")}
		if err := f.Finish(t.Context(), a, r, 0); err == nil {
			t.Errorf("path %q: got no error, want the table's refusal", path)
		}
	}
}
