package integration_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestPythonClient runs the client's own tests against a real Airlock: a
// thousand jobs through map are among them.
func TestPythonClient(t *testing.T) {
	t.Parallel()
	url := standaloneEnv(t)["AIRLOCK_HTTP"]
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "python3", "-W", "error", "-m", "unittest", "-v")
	cmd.Dir = root + "/clients/python"
	cmd.Env = append(os.Environ(), "AIRLOCK_HTTP="+url, "AIRLOCK_TOKEN=", "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "skipped") || !strings.Contains(string(out), "test_a_thousand_jobs") {
		t.Errorf("python3 -m unittest: %v, want all to pass and none to skip\n%s", err, out)
	}
}
