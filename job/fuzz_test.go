package job_test

import (
	"errors"
	"testing"
	"time"

	"airlock/job"

	"github.com/google/go-cmp/cmp"
)

// FuzzDecode wants the decoder of jobs never to panic, to refuse with a
// FieldError only, and to give for what it accepts a job that survives being
// prepared, encoded and decoded again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"code": "1"}`,
		`{"code": "print(1)", "stdin": {"base64": "/w=="}, "limits": {"wall": "1s", "memory": "64MiB"}}`,
		`{"code": "1", "vars": {"x": [1e400, -0, 1152921504606846977, "\ud83c\udf78"]}}`,
		`{"code": "1", "files": [{"path": "a/b", "content": "x"}], "tools": [{"namespace": "math", "name": "*"}]}`,
		`{"code": "1", "requires": {"backends": ["docker", "bubblewrap"], "labels": {"gpu": "no"}}}`,
		`{"code": "1", "requires": {"fresh": true}}`,
		`{"code": "1", "requires": {"labels": {"template.data": "true"}}}`,
		`{"code": "1", "collect": ["out/**", "[!a-z]*.csv"]}`, `{"code": "1", "collect": ["/etc/*"]}`,
		`{"code": "\ud800"}`, `{"code": "1", "code": "2"}`, `{"a":`, "\xff", `[[[[`, `{"code":"1","limits":{"cpu":1e999}}`,
	} {
		f.Add([]byte(seed))
	}
	now := time.Now()
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := job.Decode(data)
		if err != nil {
			wantFieldError(t, err)
			return
		}
		if err := j.Prepare(now); err != nil {
			wantFieldError(t, err)
			return
		}
		doc, err := j.Encode()
		if err != nil {
			t.Fatalf("a prepared job does not encode: %v", err)
		}
		again, err := job.Decode(doc)
		if err != nil {
			t.Fatalf("what was encoded does not decode: %v\n%s", err, doc)
		}
		if err := again.Prepare(now); err != nil {
			t.Fatalf("what was prepared is refused: %v\n%s", err, doc)
		}
		redone, err := again.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(doc), string(redone)); diff != "" {
			t.Fatalf("the canonical form changes (-first +second):\n%s", diff)
		}
	})
}

func wantFieldError(t *testing.T, err error) {
	t.Helper()
	var field *job.FieldError
	if !errors.As(err, &field) || field.Reason == "" {
		t.Fatalf("got error %v, want a FieldError with a reason", err)
	}
}
