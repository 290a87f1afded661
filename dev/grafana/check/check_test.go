package check

import (
	"bufio"

	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// scrapes is where worker.prom and gateway.prom are.
const scrapes = "AIRLOCK_SCRAPES"

type dashboard struct {
	Panels []struct {
		Title   string `json:"title"`
		Type    string `json:"type"`
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

// loaded turns a scrape into the series of ten minutes, as a server has them:
// with an instance, and counters that go on counting.
func loaded(t *testing.T, program string) string {
	t.Helper()
	f, err := os.Open(filepath.Join(os.Getenv(scrapes), program+".prom"))
	if err != nil {
		t.Fatalf("%v: run make grafana-check", err)
	}
	defer f.Close()
	var out strings.Builder
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || at < 0 {
			continue
		}
		series, value := line[:at], line[at+1:]
		instance := fmt.Sprintf("instance=%q,job=%q", program+":9090", "airlock")
		if name, labels, ok := strings.Cut(series, "{"); ok {
			series = name + "{" + instance + "," + labels
		} else {
			series += "{" + instance + "}"
		}
		fmt.Fprintf(&out, "  %s %s+%sx40\n", series, value, value)
	}
	if err := lines.Err(); err != nil || out.Len() == 0 {
		t.Fatalf("%s: nothing in it: %v", program, err)
	}
	return out.String()
}

func TestEveryQueryReturnsSeries(t *testing.T) {
	text, err := os.ReadFile("../airlock.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	storage := promqltest.LoadedStorage(t, "load 15s\n"+loaded(t, "worker")+loaded(t, "gateway"))
	defer storage.Close()
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	queries := 0
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries++
			expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "1m")
			q, err := engine.NewInstantQuery(t.Context(), storage, promql.NewPrometheusQueryOpts(false, 0, nil), expr, time.Unix(600, 0))
			if err != nil {
				t.Errorf("%s: %s: %v", p.Title, target.Expr, err)
				continue
			}
			result := q.Exec(t.Context())
			if vector, err := result.Vector(); err != nil || len(vector) == 0 {
				t.Errorf("%s: %s: got %v and error %v, want series", p.Title, target.Expr, vector, err)
			}
			q.Close()
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s: asks nothing", p.Title)
		}
	}
	if queries < 30 {
		t.Errorf("got %d queries, want those of the whole dashboard", queries)
	}
}
