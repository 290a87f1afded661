package seccomp_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"airlock/backends/internal/seccomp"
)

// kernelNumbers are the calls' numbers that golang.org/x/sys generates from the
// kernel's headers, by lower-case name.
func kernelNumbers(t *testing.T, arch string) map[string]int {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Skipf("no sources of golang.org/x/sys, by go list: %v", err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "unix", "zsysnum_linux_"+arch+".go"))
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]int{}
	for _, found := range regexp.MustCompile(`\tSYS_(\w+)\s+= (\d+)`).FindAllStringSubmatch(string(source), -1) {
		if numbers[strings.ToLower(found[1])], err = strconv.Atoi(found[2]); err != nil {
			t.Fatal(err)
		}
	}
	return numbers
}

// TestNumbers compares each number in the table with the kernel's, since most
// machines only ever run the filter of one architecture.
func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, arch := range seccomp.Archs() {
		kernel := kernelNumbers(t, arch)
		if len(kernel) < 300 {
			t.Fatalf("%s: got %d calls of the kernel, want all", arch, len(kernel))
		}
		for number, name := range seccomp.Names(arch) {
			if want, ok := kernel[name]; !ok || want != number {
				t.Errorf("%s: got %d for %s, want %d", arch, number, name, want)
			}
		}
		named := map[string]bool{}
		for _, name := range seccomp.Names(arch) {
			named[name] = true
		}
		for _, other := range seccomp.Archs() {
			for _, name := range seccomp.Names(other) {
				if number, ok := kernel[name]; ok && !named[name] {
					t.Errorf("%s: got no %s, which %s has and is %d", arch, name, other, number)
				}
			}
		}
	}
}
