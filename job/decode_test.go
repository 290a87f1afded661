package job_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"airlock/job"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", job.MaxDepth+1) + strings.Repeat("]", job.MaxDepth+1)
	million := strings.Repeat("[", 1_000_000)
	for _, tt := range []struct {
		name, doc, field, reason string
	}{
		{"nothing", ``, "", "ends too early"},
		{"blanks", " \n", "", "ends too early"},
		{"half a document", `{"code": "1"`, "", "ends too early"},
		{"half a string", `{"code": "1`, "code", "ends too early"},
		{"two documents", `{"code": "1"} {"code": "2"}`, "", "more than one JSON document"},
		{"text behind it", `{"code": "1"}x`, "", "more than one JSON document"},
		{"a NUL behind it", "{\"code\": \"1\"}\x00", "", "more than one JSON document"},
		{"a NUL between tokens", "{\x00\"code\": \"1\"}", "", "not JSON"},
		{"a raw NUL in a string", "{\"code\": \"a\x00b\"}", "code", "not JSON"},
		{"a raw line feed in a string", "{\"code\": \"a\nb\"}", "code", "not JSON"},
		{"not an object", `[]`, "", "is an array, want an object with id, "},
		{"a string", `"code"`, "", "is a string, want an object with id, "},
		{"single quotes", `{'code': '1'}`, "", "not JSON"},
		{"trailing comma", `{"code": "1",}`, "", "not JSON"},
		{"a comment", `{"code": "1" /* no */}`, "", "not JSON"},
		{"byte order mark", "\ufeff{\"code\": \"1\"}", "", "not JSON"},
		{"duplicate key", `{"code": "1", "code": "2"}`, "code", "duplicate key"},
		{"duplicate key below", `{"code": "1", "labels": {"a": "1", "a": "2"}}`, "labels.a", "duplicate key"},
		{"duplicate key in vars", `{"code": "1", "vars": {"x": {"y": 1, "y": 2}}}`, "vars.x.y", "duplicate key"},
		{"duplicate key by escape", `{"code": "1", "c\u006fde": "2"}`, "code", "duplicate key"},
		{"NaN", `{"code": "1", "vars": {"x": NaN}}`, "vars.x", "not JSON"},
		{"Infinity", `{"code": "1", "vars": {"x": -Infinity}}`, "vars.x", "not JSON"},
		{"leading zero", `{"code": "1", "vars": {"x": 007}}`, "vars", "not JSON"},
		{"lone high surrogate", `{"code": "\ud800"}`, "code", "not JSON"},
		{"lone low surrogate", `{"code": "1", "vars": {"x": "\udc00a"}}`, "vars.x", "not JSON"},
		{"surrogates in the wrong order", `{"code": "\udf78\ud83c"}`, "code", "not JSON"},
		{"surrogate as raw bytes", "{\"code\": \"\xed\xa0\x80\"}", "", "invalid UTF-8 at byte 10"},
		{"invalid UTF-8", "{\"code\": \"\xff\"}", "", "invalid UTF-8 at byte 10"},
		{"overlong UTF-8", "{\"code\": \"\xc0\x80\"}", "", "invalid UTF-8 at byte 10"},
		{"truncated UTF-8 at the end", "{\"code\": \"1\"}\xe2\x98", "", "invalid UTF-8 at byte 13"},
		{"too deep", `{"code": "1", "vars": {"x": ` + deep + `}}`, "vars.x" + strings.Repeat("[0]", job.MaxDepth-2), "nested deeper than 64"},
		{"a million deep", million, "0" + strings.Repeat("[0]", job.MaxDepth-1), "nested deeper than 64"},
		{"exponent too large", `{"code": "1", "vars": {"x": 1e401}}`, "vars.x", "exponent beyond 400"},
		{"exponent that explodes", `{"code": "1", "vars": {"x": [1, 1e131071]}}`, "vars.x[1]", "exponent beyond 400"},
		{"negative exponent", `{"code": "1", "vars": {"x": 1E-0999}}`, "vars.x", "exponent beyond 400"},
		{"number too long", `{"code": "1", "vars": {"x": ` + strings.Repeat("9", 4401) + `}}`, "vars.x", "number of 4401 characters"},
		{"unknown field", `{"code": "1", "colour": 1}`, "colour", "unknown field"},
		{"case differs", `{"Code": "1"}`, "Code", "unknown field"},
		{"unknown limit", `{"code": "1", "limits": {"wal": 1}}`, "limits.wal", "unknown field"},
		{"unknown field of a file", `{"code": "1", "files": [{"path": "a"}, {"path": "b"}, {"path": "c", "mode": 1}]}`, "files[2].mode", "unknown field"},
		{"control characters in an unknown field", `{"a\u001b[31m": 1}`, `a\x1b[31m`, "unknown field"},
		{"wrong type", `{"code": 1}`, "code", "is a number, want a string"},
		{"wrong type of a path", `{"code": "1", "files": [{"path": "a"}, {"path": "b"}, {"path": 7}]}`, "files[2].path", "is a number, want a string"},
		{"wrong type of a label", `{"code": "1", "labels": {"a": 1}}`, "labels.a", "is a number, want a string"},
		{"a number for an object of many fields", `7`, "", " and more"},
		{"a tool by its name", `{"code": "1", "tools": ["math.add"]}`, "tools[0]", "is a string, want an object with namespace, name"},
		{"an object for an array", `{"code": "1", "tools": {}}`, "tools", "is an object, want an array"},
		{"an array for a map", `{"code": "1", "labels": []}`, "labels", "is an array, want an object"},
		{"a text for a switch", `{"code": "1", "network": "yes"}`, "network", "is a string, want true or false"},
		{"a text for a count", `{"code": "1", "limits": {"processes": "2"}}`, "limits.processes", "is a string, want an integer"},
		{"fractional count", `{"code": "1", "limits": {"processes": 1.5}}`, "limits.processes", ""},
		{"wall as text", `{"code": "1", "limits": {"wall": "soon"}}`, "limits.wall", "is not a duration"},
		{"wall as an object", `{"code": "1", "limits": {"wall": {}}}`, "limits.wall", "not a number of seconds"},
		{"memory as text", `{"code": "1", "limits": {"memory": "much"}}`, "limits.memory", "is not a size"},
		{"bad id", `{"code": "1", "id": "42"}`, "id", "not a UUID of 36 characters"},
		{"id of another version", `{"code": "1", "id": "6ba7b810-9dad-41d1-80b4-00c04fd430c8"}`, "id", "is a UUIDv4, want a UUIDv7"},
		{"bad time", `{"code": "1", "deadline": "tomorrow"}`, "deadline", ""},
		{"bad status", `{"code": "1", "retry_on": ["ok", "meh"]}`, "retry_on[1]", `unknown status "meh"`},
		{"stdin neither text nor base64", `{"code": "1", "stdin": {"hex": "00"}}`, "stdin", "want a string or"},
		{"stdin of bad base64", `{"code": "1", "stdin": {"base64": "a"}}`, "stdin", "base64"},
		{"too long", `{"code": "` + strings.Repeat("x", int(job.MaxSpec)) + `"}`, "", "the maximum is 4MiB"},
		{"10 MB of blanks", strings.Repeat(" ", 10_000_000), "", "the maximum is 4MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := job.Decode([]byte(tt.doc))
			var field *job.FieldError
			if !errors.As(err, &field) {
				t.Fatalf("got job %+v and error %v, want a FieldError", got, err)
			}
			if field.Field != tt.field || !strings.Contains(field.Reason, tt.reason) {
				t.Errorf("got field %q, reason %q; want field %q, reason with %q", field.Field, field.Reason, tt.field, tt.reason)
			}
			if len(field.Error()) > 1000 {
				t.Errorf("the message is %d bytes long", len(field.Error()))
			}
		})
	}
}

func TestDecodeAccepts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, doc string
		want      job.Job
	}{
		{"the least", `{"code": "1"}`, job.Job{Code: "1"}},
		{"blanks around it", " \r\n\t{\"code\": \"1\"}\n ", job.Job{Code: "1"}},
		{"an escaped NUL", `{"code": "a\u0000b"}`, job.Job{Code: "a\x00b"}},
		{"a surrogate pair", `{"code": "\ud83c\udf78"}`, job.Job{Code: "🍸"}},
		{"U+FFFD itself", `{"code": "�"}`, job.Job{Code: "�"}},
		{"bytes as text and as base64", `{"code": "1", "stdin": {"base64": "/w=="}, "files": [{"path": "a", "content": "hi"}]}`,
			job.Job{Code: "1", Stdin: job.Bytes{0xff}, Files: []job.File{{Path: "a", Content: job.Bytes("hi")}}}},
		{"large integers as they stand", `{"code": "1", "vars": {"x": 1152921504606846977}}`,
			job.Job{Code: "1", Vars: []byte(`{"x": 1152921504606846977}`)}},
		{"the longest number", `{"code": "1", "vars": {"x": 1e400}}`, job.Job{Code: "1", Vars: []byte(`{"x": 1e400}`)}},
		{"units", `{"code": "1", "limits": {"wall": "1.5s", "cpu": 0.25, "memory": "64MiB", "disk": 65536}}`,
			job.Job{Code: "1", Limits: job.Limits{Wall: 1.5e9, CPU: 25e7, Memory: 64 * job.MiB, Disk: 64 * job.KiB}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := job.Decode([]byte(tt.doc))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Errorf("job (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckJSONDepth(t *testing.T) {
	t.Parallel()
	nested := func(n int) []byte { return []byte(strings.Repeat(`{"a":`, n-1) + "[]" + strings.Repeat("}", n-1)) }
	if err := job.CheckJSON(nested(job.MaxDepth)); err != nil {
		t.Errorf("depth %d: got %v, want it accepted", job.MaxDepth, err)
	}
	if err := job.CheckJSON(nested(job.MaxDepth + 1)); err == nil {
		t.Errorf("depth %d: got it accepted, want it refused", job.MaxDepth+1)
	}
}

func TestFieldErrorText(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"limits.wall: is below": &job.FieldError{Field: "limits.wall", Reason: "is below"},
		"not JSON":              &job.FieldError{Reason: "not JSON"},
	} {
		if got := fmt.Sprint(err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
