package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

func taken(id string, times ...time.Duration) *figure {
	f := newFigure(series{id: id, name: "row " + id, target: "soon"})
	for _, took := range times {
		f.add(took, took/10)
	}
	f.done().took = 2 * time.Second
	return f
}

func TestReport(t *testing.T) {
	t.Parallel()
	r := &report{Machine: machine{Cores: 2}}
	r.add([]*figure{taken("docker_bare", 400*time.Millisecond)})
	r.add([]*figure{
		taken("docker_pooled", 300*time.Millisecond, 100*time.Millisecond, 200*time.Millisecond),
		taken("docker_cold", 800*time.Millisecond),
	})
	r.compare()
	text := r.render()
	for _, want := range []string{
		"row docker_pooled │    3 │ 200.00 │ 300.00 │ 20.00     │ 30.00     │ 1.5    │ soon",
		"p50: 0.50 times as long; cold: 2.00 times", "at most about 16 containers/s",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	path := filepath.Join(t.TempDir(), "figures.json")
	if err := r.writeJSON(path); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(raw, &got, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	if len(got.Rows) != 3 || got.Rows[1].P99 != 300 || *got.Rows[1].StartP50 != 20 || len(got.Notes) != 2 {
		t.Errorf("got %+v from %s, want its three rows and two notes", got, raw)
	}
}

func TestNoEngineIsSaid(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "none.sock"))
	b := &bencher{n: func(n int) int { return n }}
	_, err := b.docker(context.Background())
	why, absent := isAbsent(err)
	if !absent || !strings.Contains(why, "dev/dockerd.sh") {
		t.Errorf("got error %v, want one that says what to do for docker", err)
	}
}
