package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"airlock/job"
)

// BenchmarkTableOfTools is the table of 5,000 tools, from the worker's answer
// on.
func BenchmarkTableOfTools(b *testing.B) {
	tools := make([]job.ListedTool, 5000)
	for i := range tools {
		tools[i] = job.ListedTool{
			Namespace: fmt.Sprintf("ns%02d", i/100), Name: fmt.Sprintf("tool_%03d", i%100),
			Description: "Does one thing " + strings.Repeat("and another ", 10), Providers: 1, ReadOnly: true,
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		var out bytes.Buffer
		if err := list(&app{flags: &cli{}, stdout: newOutput(&out)}, tools, "", toolGrid(), addTool); err != nil || out.Len() < 5000*60 {
			b.Fatalf("got %d bytes and error %v, want a table", out.Len(), err)
		}
	}
}
