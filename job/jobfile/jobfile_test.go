package jobfile_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"airlock/job"
	"airlock/job/jobfile"
)

func TestLineReader(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", jobfile.MaxLine+5)
	in := "\xef\xbb\xbfone\r\n\n  \t\ntwo\n" + long + "\nlast"
	lines := jobfile.NewReader(strings.NewReader(in))
	var got []jobfile.Line
	for {
		l, err := lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, l)
	}
	want := []jobfile.Line{
		{Number: 1, Text: []byte("one"), Size: 8}, {Number: 4, Text: []byte("two"), Size: 4},
		{Number: 5, Size: len(long) + 1}, {Number: 6, Text: []byte("last"), Size: 4},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(bytes.Equal)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	broken := jobfile.NewReader(io.MultiReader(strings.NewReader("one\ntw"), brokenReader{}))
	if _, err := broken.Next(); err != nil {
		t.Errorf("got %v for the whole line, want it", err)
	}
	if l, err := broken.Next(); !errors.Is(err, errBroken) {
		t.Errorf("got %q, %v for the line that broke off, want the error", l.Text, err)
	}
}

var errBroken = errors.New("broken")

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }

func TestDerivedKeys(t *testing.T) {
	t.Parallel()
	keys := func(lines ...string) (out []string) {
		p := jobfile.Parser{Tenant: "t", Batch: "b"}
		for i, text := range lines {
			parsed, err := p.Parse(jobfile.Line{Number: i + 1, Text: []byte(text), Size: len(text)})
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, parsed.Job.Key)
		}
		return out
	}
	a := keys(`{"code": "1"}`, `{"code": "2"}`, `{ "limits": {"wall": 30}, "code": "1" }`)
	if !strings.HasSuffix(a[0], "/1") || strings.TrimSuffix(a[2], "/2") != strings.TrimSuffix(a[0], "/1") || a[0] == a[2] || a[0] == a[1] {
		t.Errorf("got keys %q, want the third to be the second of the first's content", a)
	}
	if b := keys(`{"code": "2"}`, `{"code": "1"}`, `{"code": "1"}`); b[0] != a[1] || b[1] != a[0] || b[2] != a[2] {
		t.Errorf("got keys %q in another order, want the same as %q", b, a)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"code": "1"}`), []byte(`{"code": "2", "limits": {"wall": 1}}`))
	f.Add([]byte(`{"code": "1", "id": "01920000-0000-7000-8000-000000000000"}`), []byte(nil))
	f.Add([]byte(`[`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, text, defaults []byte) {
		p := jobfile.Parser{Tenant: "default", Batch: "b"}
		if _, err := job.Decode(defaults); err == nil {
			p.Defaults = defaults
		}
		parsed, err := p.Parse(jobfile.Line{Number: 1, Text: text, Size: len(text)})
		var field *job.FieldError
		if err != nil {
			if !errors.As(err, &field) {
				t.Errorf("got %T %v, want a *job.FieldError", err, err)
			}
			return
		}
		if j := parsed.Job; j.Tenant != "default" || j.Batch != "b" || j.Key == "" || j.ID.IsZero() || len(parsed.Digest) != 64 {
			t.Errorf("got %+v, want a complete job of the batch", parsed)
		}
	})
}
