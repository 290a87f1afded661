package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	dto "github.com/prometheus/client_model/go"
)

var (
	askedMetric = regexp.MustCompile(`\b(?:airlock|go|process)_[a-z_]+`)
	askedLabel  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"`)
	askedBy     = regexp.MustCompile(`(?:by|on) \(([^)]*)\)`)
)

// queries are those of a dashboard, by panel.
func queries(t *testing.T, path string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all[p.Title] = append(all[p.Title], target.Expr)
		}
	}
	return all
}

// checkDashboard holds the queries' names and labels against scrapes. That
// each brings series is for make grafana-check to say, with Prometheus' own
// engine.
func checkDashboard(t *testing.T, scraped map[string]*dto.MetricFamily) {
	t.Helper()
	all := queries(t, "../../dev/grafana/airlock.json")
	if len(all) < 20 {
		t.Errorf("got %d panels with queries, want the dashboard's", len(all))
	}
	for title, exprs := range all {
		for _, expr := range exprs {
			labels, metrics := []string{"instance", "job", "le"}, askedMetric.FindAllString(expr, -1)
			for _, name := range metrics {
				f := scraped[name]
				if base := strings.TrimSuffix(name, "_bucket"); f == nil {
					f = scraped[base]
				}
				if f == nil {
					t.Errorf("%s: %s asks for %s, which nothing has", title, expr, name)
					continue
				}
				for _, l := range f.GetMetric()[0].GetLabel() {
					labels = append(labels, l.GetName())
				}
			}
			for _, label := range labelsOf(expr) {
				if !slices.Contains(labels, label) {
					t.Errorf("%s: %s asks for label %s, which %v lack", title, expr, label, metrics)
				}
			}
			if len(metrics) == 0 {
				t.Errorf("%s: %s asks for no metric of ours", title, expr)
			}
		}
	}
}

func labelsOf(expr string) (labels []string) {
	for _, match := range askedLabel.FindAllStringSubmatch(expr, -1) {
		labels = append(labels, match[1])
	}
	for _, match := range askedBy.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(match[1], ",") {
			labels = append(labels, strings.TrimSpace(label))
		}
	}
	return labels
}

// together is what a server has scraped of both.
func together(a, b map[string]*dto.MetricFamily) map[string]*dto.MetricFamily {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
