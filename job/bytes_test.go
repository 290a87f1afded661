package job_test

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"airlock/job"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

func TestBytesForms(t *testing.T) {
	t.Parallel()
	for want, data := range map[string][]byte{
		`""`: {}, `"hi"`: []byte("hi"), `"☕\n"`: []byte("☕\n"), `"\u0000"`: {0}, `{"base64":"/w=="}`: {0xff}, `{"base64":"7aCA"}`: []byte("\xed\xa0\x80"),
	} {
		got, err := json.Marshal(job.Bytes(data))
		if err != nil || string(got) != want {
			t.Errorf("%q: got %s and error %v, want %s", data, got, err, want)
		}
	}
	for _, doc := range []string{`1`, `[]`, `{}`, `true`, `{"base64": 1}`, `{"base64": "a"}`, `{"base64": "aGk"}`, `{"base64": "aGk=", "x": 1}`, `{"base64": "aR=="}`, `{"base64": "aG k="}`} {
		got := job.Bytes("before")
		if err := json.Unmarshal([]byte(doc), &got); err == nil {
			t.Errorf("%s: got %q, want it refused", doc, got)
		}
	}
}

func TestBytesRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOf(rapid.Byte()).Draw(t, "data")
		doc, err := json.Marshal(job.Bytes(data))
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(doc) {
			t.Fatalf("got JSON that is not UTF-8: %q", doc)
		}
		var got job.Bytes
		if err := json.Unmarshal(doc, &got); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%s: got %q and error %v, want %q", doc, got, err, data)
		}
	})
}
