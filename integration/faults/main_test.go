//go:build linux

package faults_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

var (
	full = flag.Bool("full", false, "break everything at every step, which takes minutes; else a subset")
	logs = flag.String("logs", "", "a directory for what every worker said")
	seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "what decides at which arrivals and on which jobs faults fall")
)

func TestMain(m *testing.M) {
	if path := os.Getenv(natsNodeEnv); path != "" {
		serveNATS(path)
	}
	flag.Parse()
	code := m.Run()
	os.RemoveAll(built.dir)
	os.Exit(code)
}

// require skips the test, or fails it where AIRLOCK_REQUIRE names the service.
func require(t testing.TB, service, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("AIRLOCK_REQUIRE"), ","), service) {
		t.Fatalf("%s is required, and %s is not on this machine", service, program)
	}
	t.Skipf("no %s on this machine", program)
}

var built struct {
	once, skewOnce sync.Once
	dir            string
	err, skewErr   error
}

// workerBinary builds the worker once.
func workerBinary(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "airlock-faults-"); built.err == nil {
			built.err = build("-o", filepath.Join(built.dir, "worker"), "airlock/cmd/worker")
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "worker")
}

// skewedBinary builds a worker whose wall clock is off: Go asks the kernel
// without any library that could be put in front, so that the skew is compiled
// in, by an overlay over one function of package time.
func skewedBinary(t testing.TB, by time.Duration) string {
	t.Helper()
	workerBinary(t)
	built.skewOnce.Do(func() { built.skewErr = buildSkewed(built.dir, by) })
	if built.skewErr != nil {
		t.Fatal(built.skewErr)
	}
	return filepath.Join(built.dir, "skewed")
}

func buildSkewed(dir string, by time.Duration) error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("find the standard library: %w", err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src/time/time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		return err
	}
	const reading = "sec, nsec, mono := runtimeNow()"
	if strings.Count(string(text), reading) != 1 {
		return fmt.Errorf("package time reads the clock in another way than this test knows; look at func Now")
	}
	skewed := filepath.Join(dir, "time.go")
	off := fmt.Sprintf("%s\n\tsec += %d", reading, int64(by.Seconds()))
	if err := os.WriteFile(skewed, []byte(strings.Replace(string(text), reading, off, 1)), 0o600); err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: skewed}})
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		return err
	}
	return build("-overlay", path, "-o", filepath.Join(dir, "skewed"), "airlock/cmd/worker")
}

func build(args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-buildvcs=false"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// eventually polls with a deadline.
func eventually(patience time.Duration, done func() bool) bool {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !done(); <-tick.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// until fails the test when it does not come.
func until(t testing.TB, patience time.Duration, what string, done func() bool) {
	t.Helper()
	if !eventually(patience, done) {
		t.Fatalf("%s: not within %s", what, patience)
	}
}
