package broker_test

import (
	"fmt"
	"strings"
	"testing"

	"airlock/broker"
	"airlock/broker/brokertest"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"
)

// announcements are the answers of services of 500 tools each, n in all, with
// descriptions and schemas as tools have them.
func announcements(t testing.TB, n int) [][]byte {
	t.Helper()
	return announcing(t, n, `{"type":"object","properties":{"path":{"type":"string","description":"where it is"},`+
		`"limit":{"type":"integer","minimum":1,"maximum":1000}},"required":["path"],"additionalProperties":false}`)
}

// announcing does so with one schema for all, which takes most of the time.
func announcing(t testing.TB, n int, schema string) [][]byte {
	t.Helper()
	const each = 500
	type endpoint struct {
		Subject  string            `json:"subject"`
		Metadata map[string]string `json:"metadata"`
	}
	var answers [][]byte
	for s := range n / each {
		var endpoints []endpoint
		for i := range each {
			endpoints = append(endpoints, endpoint{fmt.Sprintf("tools.ns%d.tool%d", s, i), map[string]string{
				"description": strings.Repeat("Reads what is there. ", 5), "input_schema": schema, "output_schema": `{"type":"object"}`,
			}})
		}
		answer, err := json.Marshal(map[string]any{"id": fmt.Sprint("i", s), "endpoints": endpoints}, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, answer)
	}
	return answers
}

func newCatalogue() *broker.Catalogue {
	return broker.NewCatalogue(nil, broker.CatalogueConfig{Log: zerolog.Nop(), Refresh: 1 << 40})
}

// BenchmarkCatalogue is what 5,000 tools cost: the first round, each round
// after it, a list for a person, and a list for a guest that may call all.
func BenchmarkCatalogue(b *testing.B) {
	answers := announcements(b, 5000)
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			newCatalogue().Hear(answers)
		}
	})
	known := newCatalogue()
	known.Hear(answers)
	b.Run("refresh", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			known.Hear(answers)
		}
	})
	b.Run("list", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if n := len(known.Offers("")); n != 5000 {
				b.Fatalf("got %d tools", n)
			}
		}
	})
	names := ""
	for i := range 10 {
		names += fmt.Sprintf(" ns%d.*", i)
	}
	j := brokertest.Attempt(b, names).Job
	b.Run("guest", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			body, err := broker.ListTools(b.Context(), j, known)
			if err != nil || len(body) < 1<<20 {
				b.Fatalf("got %d bytes, %v", len(body), err)
			}
			b.ReportMetric(float64(len(body)), "bytes/list")
		}
	})
}
