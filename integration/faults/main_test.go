//go:build linux

package faults_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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

const rowsAtOnce = 4

func TestMain(m *testing.M) {
	if path := os.Getenv(natsNodeEnv); path != "" {
		serveNATS(path)
	}
	flag.Parse()
	// Rows mostly wait, however few processors there are.
	if n, err := strconv.Atoi(flag.Lookup("test.parallel").Value.String()); err == nil && n < rowsAtOnce {
		_ = flag.Set("test.parallel", strconv.Itoa(rowsAtOnce)) // it is known, and a number
	}
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

// skewEnv is by how many seconds a skewed worker's wall clock is off.
const skewEnv = "AIRLOCK_FAULTS_SKEW"

// skewedBinary builds a worker whose wall clock is off by what skewEnv says: Go
// asks the kernel without any library that could be put in front, so that the
// skew is compiled in, by an overlay over package time.
func skewedBinary(t testing.TB) string {
	t.Helper()
	workerBinary(t)
	built.skewOnce.Do(func() { built.skewErr = buildSkewed(built.dir) })
	if built.skewErr != nil {
		t.Fatal(built.skewErr)
	}
	return filepath.Join(built.dir, "skewed")
}

const skewedClock = `

var skew = func() int64 {
	text, _ := syscall.Getenv("` + skewEnv + `")
	seconds, _ := atoi(text)
	return int64(seconds)
}()
`

func buildSkewed(dir string) error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("find the standard library: %w", err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src/time/time.go")
	raw, err := os.ReadFile(original)
	if err != nil {
		return err
	}
	text := string(raw) + skewedClock
	for before, after := range map[string]string{
		"sec, nsec, mono := runtimeNow()": "sec, nsec, mono := runtimeNow()\n\tsec += skew",
		"import (\n":                      "import (\n\t\"syscall\"\n",
	} {
		if strings.Count(text, before) != 1 {
			return fmt.Errorf("package time is written in another way than this test knows: it has not one %q", before)
		}
		text = strings.Replace(text, before, after, 1)
	}
	skewed := filepath.Join(dir, "time.go")
	if err := os.WriteFile(skewed, []byte(text), 0o600); err != nil {
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
