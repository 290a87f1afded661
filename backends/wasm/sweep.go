package wasm

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"airlock/backends/internal/wasmguest"
)

// fillingTime is much longer than compiling ever takes.
const fillingTime = time.Hour

// sweep removes what workers left that were killed while they compiled, 34 MB
// each. What cannot be removed harms nobody.
func sweep(root string) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && strings.HasPrefix(entry.Name(), wasmguest.Filling) && time.Since(info.ModTime()) > fillingTime {
			_ = os.RemoveAll(filepath.Join(root, entry.Name()))
		}
	}
}
