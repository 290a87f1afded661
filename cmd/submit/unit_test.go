package main

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"airlock/job"
	"airlock/queue"
)

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

func TestWorkersShowTheirPolicy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		digest, problem, want string
	}{
		"none":           {"", "", ""},
		"one":            {"0123456789abcdef", "", "0123456789ab"},
		"a bad new file": {"0123456789abcdef", "rules[0].calls", "0123456789ab, not its file: rules[0].calls"},
	} {
		w := queue.Presence{ID: "w1", Policy: tc.digest, PolicyProblem: tc.problem}
		if got := policyOf(w); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
		g := newGrid("worker")
		addWorker(g, w)
		if got := g.Render(); !strings.Contains(got, tc.want) || strings.Contains(got, "abcdef") {
			t.Errorf("%s: got %s, want %q in it and no long digest", name, got, tc.want)
		}
	}
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
