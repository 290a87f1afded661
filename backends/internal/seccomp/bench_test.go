package seccomp_test

import (
	"testing"

	"airlock/backends/internal/seccomp"
)

// BenchmarkProgram is the assembly of a filter, once for each worker or slot.
func BenchmarkProgram(b *testing.B) {
	for _, arch := range seccomp.Archs() {
		b.Run(arch, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := seccomp.Program(arch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
