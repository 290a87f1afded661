package wasm

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"

	"airlock/backends/internal/guestproc"
	"airlock/job"
)

// selfTest is Python that computes what a wrong compiler gets wrong, and
// raises an exception if a digest differs: wazero's for arm64 has miscompiled
// divisions and dates of other programs.
//
//go:embed selftest.py
var selfTest string

// probe runs a guest that computes something known.
func (r *ready) probe(ctx context.Context) error {
	return guestproc.ProbeCode(ctx, cmp.Or(r.config.selfTest, selfTest)+r.sameVersion(), r.run)
}

// sameVersion is Python that fails unless it is the version which the manifest
// names: jobs are placed by that.
func (r *ready) sameVersion() string {
	return fmt.Sprintf(`
import platform
if platform.python_version() != %[1]q:
    raise ImportError("%[2]s is Python " + platform.python_version() + ", and %[3]s says " + %[1]q + ": build both again with make wasm")
`, r.python, programFile, manifestFile)
}

// held are the limits that the module's runtime holds by itself.
func held() map[job.LimitName]string {
	return map[job.LimitName]string{
		job.LimitMemory:    "pages of the module's memory",
		job.LimitDisk:      "size of file systems in memory",
		job.LimitProcesses: "a module cannot start any",
	}
}
