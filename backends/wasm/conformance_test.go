package wasm_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"airlock/backends"
	"airlock/backends/backendtest"
	"airlock/backends/wasm"

	"github.com/rs/zerolog"
)

// python is where Python is for these tests: AIRLOCK_WASM_PYTHON, or what make
// wasm made.
func python(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("AIRLOCK_WASM_PYTHON")
	if dir == "" {
		dir = filepath.Join("..", "..", "bin", "wasm")
	}
	_, err := os.Stat(filepath.Join(dir, "manifest.json"))
	if required := slices.Contains(strings.Split(os.Getenv("AIRLOCK_REQUIRE"), ","), "wasm"); err != nil && required {
		t.Fatalf("AIRLOCK_REQUIRE names wasm, but: %v", err)
	}
	if err != nil {
		t.Skipf("no Python for WebAssembly, make wasm makes it: %v", err)
	}
	return dir
}

func realBackend(t testing.TB) *wasm.Backend {
	return wasm.New(wasm.Here(wasm.Config{Helper: helper, Python: python(t), Log: zerolog.New(zerolog.NewTestWriter(t))}))
}

// plain is what guests of this backend are unlike others in.
const plain = "memory is what a module may grow to, its files are the host's maps, and WASI as wazero has it knows no ENOSPC"

func TestConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Harness{
		Name: wasm.Name, Except: untold, Lacks: lacking(), Plain: plain,
		New: func(t testing.TB) backends.Backend { return realBackend(t) },
	})
}

// TestParkedConformance tells the same stories of guests that stood ready
// before their jobs came.
func TestParkedConformance(t *testing.T) {
	except := maps.Clone(untold)
	except["nothing stays: descriptors, goroutines, children, mounts, files"] = "the guests that are parked next are there"
	backendtest.Run(t, backendtest.Harness{
		Name: wasm.Name, Except: except, Lacks: lacking(), Plain: plain, Unrecorded: true,
		New: func(t testing.TB) backends.Backend {
			log := zerolog.New(zerolog.NewTestWriter(t))
			return backends.Parked(realBackend(t), backends.ParkedConfig{Size: 2, Log: log})
		},
	})
}
