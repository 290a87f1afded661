package memory_test

import (
	"testing"

	"airlock/backends/memory"
)

func BenchmarkTight(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_ = memory.Tight()
	}
}
