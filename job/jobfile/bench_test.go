package jobfile_test

import (
	"strings"
	"testing"

	"airlock/job/jobfile"
)

// BenchmarkParse is what a line costs before it reaches the queue.
func BenchmarkParse(b *testing.B) {
	text := []byte(`{"code": "` + strings.Repeat("x", 300) + `", "limits": {"wall": "5s"}, "tools": [{"namespace": "math", "name": "*"}]}`)
	p := jobfile.Parser{Tenant: "default", Batch: "b"}
	for b.Loop() {
		if _, err := p.Parse(jobfile.Line{Number: 1, Text: text, Size: len(text)}); err != nil {
			b.Fatal(err)
		}
	}
}
