package job_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"airlock/job"
)

// sharedGlobs are the examples that the guest's matcher is held against too.
const sharedGlobs = "../broker/testdata/globs.txt"

func TestCollectsAgreesWithTheSharedExamples(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(sharedGlobs)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "# ") {
			continue
		}
		if len(fields) != 3 {
			t.Fatalf("line %q has %d fields, want 3", line, len(fields))
		}
		n++
		want, glob, path := fields[0] == "yes", fields[1], fields[2]
		if got := job.Collects([]string{glob}, path); got != want {
			t.Errorf("%q covers %q: got %v, want %v", glob, path, got, want)
		}
		j := &job.Job{Code: "1", Collect: []string{glob}}
		if err := j.Prepare(time.Now()); err != nil {
			t.Errorf("%q: got %v, want a glob", glob, err)
		}
	}
	if n < 60 {
		t.Errorf("got %d examples, want the file whole", n)
	}
}

// TestCollectsIsQuick: a hostile pair costs no more than its lengths
// multiplied; tried in every combination, these would outlive the test.
func TestCollectsIsQuick(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a/", 250) + "b"
	if job.Collects([]string{strings.Repeat("**/a/", 100) + "c"}, long) {
		t.Error("got a match of a path that ends otherwise")
	}
	if job.Collects([]string{strings.Repeat("*a", 120) + "c"}, strings.Repeat("a", 255)) {
		t.Error("got a match of a part that ends otherwise")
	}
}

func TestPrepareRefusesGlobs(t *testing.T) {
	t.Parallel()
	for glob, reason := range map[string]string{
		"":                              "1 to 512 bytes",
		strings.Repeat("a/", 256) + "b": "1 to 512 bytes",
		strings.Repeat("a", 256):        "longer than 255",
		"/etc/*":                        "relative to /workspace",
		"../*":                          `".."`,
		"a/../b":                        `".."`,
		"./a":                           `"."`,
		"a//b":                          "empty part",
		"a/":                            "empty part",
		"a**":                           "part of its own",
		"**a/b":                         "part of its own",
		"a/***":                         "part of its own",
		`a\*`:                           "backslash",
		"{a,b}":                         "brace",
		"a\nb":                          "printed",
		"a\x00b":                        "printed",
		"\u202egpj.a":                   "printed",
		"\xff":                          "printed",
		"[":                             "a class", "[]": "a class", "[!]": "a class", "[a": "a class", "[a-]": "a class",
		"[-a]": "a class", "[c-a]": "a class", "[[]": "a class", "[]a]": "a class", "a]": "without its [",
		"[a/b]": "a class", "[a--]": "a class", "[a-c-e]": "a class",
	} {
		j := &job.Job{Code: "1", Collect: []string{"*", glob}}
		err := j.Prepare(time.Now())
		var field *job.FieldError
		if !errors.As(err, &field) || field.Field != "collect[1]" || !strings.Contains(field.Reason, reason) {
			t.Errorf("%q: got %v, want collect[1] with %q", glob, err, reason)
		}
	}
	j := &job.Job{Code: "1", Collect: make([]string, job.MaxCollect+1)}
	if err := j.Prepare(time.Now()); err == nil || err.Error() != "collect: more than 64" {
		t.Errorf("got %v for too many globs, want the bound", err)
	}
}

// TestAnEmptyCollectIsNone: both give the same digest, and so the same job
// under a key.
func TestAnEmptyCollectIsNone(t *testing.T) {
	t.Parallel()
	digests := map[string]bool{}
	for _, collect := range [][]string{nil, {}} {
		j := &job.Job{Code: "1", Collect: collect}
		if err := j.Prepare(time.Now()); err != nil {
			t.Fatal(err)
		}
		digest, err := j.ContentDigest()
		if err != nil {
			t.Fatal(err)
		}
		digests[digest] = true
	}
	if len(digests) != 1 {
		t.Errorf("got %d digests, want one", len(digests))
	}
}
