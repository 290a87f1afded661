package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"airlock/job"
	"airlock/queue"
)

func TestLineReader(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLine+5)
	in := "\xef\xbb\xbfone\r\n\n  \t\ntwo\n" + long + "\nlast"
	lines := newLineReader(strings.NewReader(in))
	var got []line
	for {
		l, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, l)
	}
	want := []line{{1, []byte("one"), 8}, {4, []byte("two"), 4}, {5, nil, len(long) + 1}, {6, []byte("last"), 4}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(line{}), cmp.Comparer(bytes.Equal)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	broken := newLineReader(io.MultiReader(strings.NewReader("one\ntw"), brokenReader{}))
	if _, err := broken.next(); err != nil {
		t.Errorf("got %v for the whole line, want it", err)
	}
	if l, err := broken.next(); !errors.Is(err, errBroken) {
		t.Errorf("got %q, %v for the line that broke off, want the error", l.text, err)
	}
}

var errBroken = errors.New("broken")

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }

func TestEarlyResultsAreBounded(t *testing.T) {
	t.Parallel()
	var early earlyResults
	var last job.ID
	for range 200 {
		last = job.NewID()
		early.put(&job.Result{Job: last, Stdout: make(job.Bytes, 1<<20)})
	}
	if early.bytes > maxEarly || len(early.byID) > 32 {
		t.Errorf("got %d results of %d bytes, want at most %d bytes", len(early.byID), early.bytes, maxEarly)
	}
	if r := early.take(last); r == nil || r.Job != last {
		t.Errorf("got %v for the newest result, want it", r)
	}
	if r := early.take(last); r != nil {
		t.Errorf("got the result again")
	}
	// Results that come and are taken leave nothing behind.
	for range 100_000 {
		id := job.NewID()
		early.put(&job.Result{Job: id})
		early.take(id)
	}
	if len(early.order) > 4096 {
		t.Errorf("got %d remembered ids, want few", len(early.order))
	}
}

func TestDerivedKeys(t *testing.T) {
	t.Parallel()
	keys := func(lines ...string) (out []string) {
		p := parser{tenant: "t", batch: "b"}
		for i, text := range lines {
			j, _, err := p.parse(line{i + 1, []byte(text), len(text)})
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, j.Key)
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
		p := parser{tenant: "default", batch: "b"}
		if _, err := job.Decode(defaults); err == nil {
			p.defaults = defaults
		}
		j, r, err := p.parse(line{1, text, len(text)})
		var field *job.FieldError
		if err != nil {
			if !errors.As(err, &field) {
				t.Errorf("got %T %v, want a *job.FieldError", err, err)
			}
			return
		}
		if j.Tenant != "default" || j.Batch != "b" || j.Key == "" || j.ID.IsZero() || r.key != hash(j.Key) {
			t.Errorf("got %+v with %+v, want a complete job of the batch", j, r)
		}
	})
}

func FuzzEscapeJSON(f *testing.F) {
	f.Add("plain")
	f.Add("\u202e\u0085\u2028\x7f\U000e0001é")
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "?")
		out, err := encodeLine(text)
		if err != nil {
			t.Fatal(err)
		}
		var back string
		if err := json.Unmarshal(out, &back); err != nil || back != text {
			t.Errorf("got %q back as %q (%v), want %q", out, back, err, text)
		}
		plain := strings.TrimSuffix(string(out), "\n")
		if job.Printable(plain, len(plain)+1) != plain {
			t.Errorf("got %q, want nothing that a terminal obeys", out)
		}
	})
}

func TestWorkersShowImagesAndNetwork(t *testing.T) {
	t.Parallel()
	g := newGrid("worker")
	addWorker(g, queue.Presence{
		ID: "w1", Slots: 1,
		Offers: []job.Offer{
			{Backend: "docker", Images: []string{"runner", "sha256:0123456789abcdef0123"}, Network: true},
			{Backend: "bubblewrap"},
		},
		Unavailable: map[string]string{"docker+runsc": "not there"},
	})
	rows := strings.Split(g.Render(), "\n")
	for i, want := range [][]string{{"docker", "runner 0123456789ab", "allowed"}, {"bubblewrap", "none"}, {"docker+runsc", "not there"}} {
		for _, text := range want {
			if row := rows[i+1]; !strings.Contains(row, text) || strings.Contains(row, "abcdef0123") {
				t.Errorf("row %d: got %q, want %q in it and no long ID", i, row, text)
			}
		}
	}
}
