package bubblewrap_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"airlock/job"
)

// TestNumpy: a library of compiled code that starts threads and asks the
// kernel for much runs behind the filter.
func TestNumpy(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("/usr/bin/python3", "-c", "import numpy").CombinedOutput(); err != nil {
		if slices.Contains(strings.Split(os.Getenv("AIRLOCK_REQUIRE"), ","), "numpy") {
			t.Fatalf("AIRLOCK_REQUIRE names numpy, but: %v: %s", err, out)
		}
		t.Skip("the system's Python has no numpy: install python3-numpy")
	}
	b, _ := open(t)
	const code = "import numpy as np\na = np.arange(250_000.0).reshape(500, 500)\n" +
		"return [int((a @ a).shape[0]), float(np.linalg.norm(np.eye(3))) < 2, float(np.random.default_rng(1).random()) < 1]"
	if got := ran(t, b, code, job.Limits{}); got.value != "[500,true,true]" {
		t.Errorf("got %s, want [500,true,true]; %+v\n%s\n%s", got.value, got.outcome, got.fault, got.stderr)
	}
}
