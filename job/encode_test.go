package job_test

import (
	"testing"

	"airlock/job"
)

func decoded(t *testing.T, doc string) *job.Job {
	t.Helper()
	j, err := job.Decode([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Prepare(now); err != nil {
		t.Fatal(err)
	}
	return j
}

func digest(t *testing.T, doc string) string {
	t.Helper()
	d, err := decoded(t, doc).ContentDigest()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestContentDigest(t *testing.T) {
	t.Parallel()
	base := `{"code": "1", "vars": {"x": 1}, "labels": {"a": "1", "b": "2"}}`
	want := digest(t, base)
	// The digest is stored beside keys for weeks, so that a change of it is
	// a change of what a key means.
	if golden := "3f2f92e8b497a4c932aeafbe48e3a51306099f90551f6fbc2b3785b63a1c47de"; want != golden {
		t.Errorf("got digest %s, want %s", want, golden)
	}
	for name, doc := range map[string]string{
		"another order":            `{"labels": {"b": "2", "a": "1"}, "vars": {"x": 1}, "code": "1"}`,
		"blanks":                   `{ "code":"1","vars":{ "x" : 1 },"labels":{"a":"1","b":"2"}}`,
		"key, tenant and batch":    `{"code": "1", "vars": {"x": 1}, "labels": {"a": "1", "b": "2"}, "key": "k", "tenant": "t", "batch": "b"}`,
		"an id":                    `{"code": "1", "vars": {"x": 1}, "labels": {"a": "1", "b": "2"}, "id": "` + job.NewID().String() + `"}`,
		"defaults written out":     `{"code": "1", "vars": {"x": 1}, "labels": {"a": "1", "b": "2"}, "limits": {"wall": "30s"}, "priority": "normal", "max_attempts": 3}`,
		"empty lists":              `{"code": "1", "vars": {"x": 1}, "labels": {"a": "1", "b": "2"}, "args": [], "env": {}, "files": [], "tools": [], "stdin": "", "requires": {"labels": {}}}`,
		"the requirement's itself": `{"code": "1", "vars": {"x": 1}, "labels": {"a": "1", "b": "2"}, "requires": {"isolation": "strong"}}`,
		"text as base64":           `{"code": "1", "vars": {"x": 1}, "labels": {"a": "1", "b": "2"}, "stdin": {"base64": ""}}`,
	} {
		if got := digest(t, doc); got != want {
			t.Errorf("%s: got %s, want the same as before, %s", name, got, want)
		}
	}
	for name, doc := range map[string]string{
		"code":   `{"code": "2", "vars": {"x": 1}, "labels": {"a": "1", "b": "2"}}`,
		"vars":   `{"code": "1", "vars": {"x": 2}, "labels": {"a": "1", "b": "2"}}`,
		"labels": `{"code": "1", "vars": {"x": 1}, "labels": {"a": "1", "b": "3"}}`,
		"limits": `{"code": "1", "vars": {"x": 1}, "labels": {"a": "1", "b": "2"}, "limits": {"wall": 31}}`,
		"tools":  `{"code": "1", "vars": {"x": 1}, "labels": {"a": "1", "b": "2"}, "tools": [{"namespace": "m", "name": "*"}]}`,
		"stdin":  `{"code": "1", "vars": {"x": 1}, "labels": {"a": "1", "b": "2"}, "stdin": "x"}`,
		"where":  `{"code": "1", "vars": {"x": 1}, "labels": {"a": "1", "b": "2"}, "requires": {"backends": ["docker"]}}`,
	} {
		if got := digest(t, doc); got == want {
			t.Errorf("%s: got the same digest for another content", name)
		}
	}
}

func TestContentDigestLeavesTheJobAlone(t *testing.T) {
	t.Parallel()
	j := decoded(t, `{"code": "1", "key": "k", "batch": "b"}`)
	id := j.ID
	if _, err := j.ContentDigest(); err != nil {
		t.Fatal(err)
	}
	if j.ID != id || j.Key != "k" || j.Batch != "b" || j.Tenant != "default" {
		t.Errorf("got %+v, want its identity untouched", j)
	}
}
