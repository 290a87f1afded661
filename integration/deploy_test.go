package integration_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"airlock/job"
)

// TestUnit: systemd understands the unit, and what it says fits the worker.
func TestUnit(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../dev/systemd/airlock-worker.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := string(raw)
	value := func(key string) string {
		m := regexp.MustCompile(`(?m)^` + key + `=(.*)$`).FindStringSubmatch(unit)
		if m == nil {
			t.Fatalf("the unit does not set %s", key)
		}
		return m[1]
	}
	grace, err := time.ParseDuration(strings.Fields(regexp.MustCompile(`AIRLOCK_DRAIN_GRACE=(\S+)`).FindStringSubmatch(unit)[1])[0])
	if err != nil {
		t.Fatal(err)
	}
	stop, err := time.ParseDuration(value("TimeoutStopSec"))
	if err != nil {
		t.Fatal(err)
	}
	// Last words take 5 s each, for the jobs and for the worker itself.
	if stop < grace+15*time.Second {
		t.Errorf("got TimeoutStopSec %s and a grace of %s, want time for last words between them", stop, grace)
	}
	for _, name := range []string{"cpu", "memory", "pids"} {
		if !slices.Contains(strings.Fields(value("Delegate")), name) {
			t.Errorf("the unit does not delegate %s", name)
		}
	}
	if value("KillMode") != "mixed" || value("NoNewPrivileges") != "yes" || value("CapabilityBoundingSet") != "" {
		t.Error("the unit kills otherwise than it says, or leaves the worker privileges")
	}
	knownTwins(t, "dev/systemd/airlock-worker.service", unit)
	verifyUnit(t, unit)
}

// verifyUnit asks systemd itself, where it is installed.
func verifyUnit(t *testing.T, unit string) {
	t.Helper()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("no systemd-analyze here: only our own rules were checked")
		return
	}
	file := filepath.Join(t.TempDir(), "airlock-worker.service")
	// It looks for the program, which is not installed here.
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(unit, "=/usr/local/bin/worker", "="+binary(t, "worker"))), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// knownTwins: each variable of ours that a text names is a flag's twin.
func knownTwins(t *testing.T, file, text string) {
	t.Helper()
	help := helpOf(t, "worker") + helpOf(t, "submit", "run")
	for _, name := range regexp.MustCompile(`AIRLOCK_[A-Z_]+`).FindAllString(text, -1) {
		if !strings.Contains(help, "$"+name) {
			t.Errorf("%s names %s, which no command knows", file, name)
		}
	}
}

func helpOf(t *testing.T, command string, verb ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binary(t, command), append(verb, "--help")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v --help: %v\n%s", command, verb, err, out)
	}
	return string(out)
}

// TestWorkerPod: the rights that dev/k8s gives a worker's pod are enough for
// bubblewrap, and its seccomp profile is what makes the difference. An engine
// stands in for the kubelet. It has no user namespaces for pods, and mounts the
// control groups writable only from outside.
func TestWorkerPod(t *testing.T) {
	t.Parallel()
	needEngine(t)
	base := imageTool(t, nil, "dev/runner-base.sh")
	dir := t.TempDir()
	static := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/bin/", "airlock/cmd/worker", "airlock/cmd/submit")
	static.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := static.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	name := "airlock-test-pod-" + job.NewID().String()[24:]
	t.Cleanup(func() { removeImage(t, name) })
	imageTool(t, nil, "docker", "build", "-q", "-f", "dev/k8s/Dockerfile", "--build-arg", "BASE_IMAGE="+base, "-t", name, dir)
	limits := func(rights ...string) []string {
		args := []string{"run", "--rm", "--network", "none", "--read-only", "--tmpfs", "/tmp", "--user", "0:0", "--cap-drop", "ALL",
			"--security-opt", "no-new-privileges", "--security-opt", "systempaths=unconfined"}
		for _, c := range []string{"KILL", "SETGID", "SETUID", "SYS_PTRACE"} {
			args = append(args, "--cap-add", c)
		}
		return limitsHeld(t, imageTool(t, nil, "docker", append(append(args, rights...), name, "--list-backends", "--json")...))
	}
	const groups = "/sys/fs/cgroup:/sys/fs/cgroup:rw"
	profile := "seccomp=dev/k8s/seccomp-airlock-worker.json"
	if got, want := limits("--security-opt", profile, "-v", groups), []string{"cpu", "disk", "memory", "processes"}; !slices.Equal(got, want) {
		t.Errorf("got limits %v, want %v", got, want)
	}
	if got, want := limits("--security-opt", profile), []string{"disk"}; !slices.Equal(got, want) {
		t.Errorf("got limits %v without writable control groups, want %v", got, want)
	}
	if got := limits("-v", groups); got != nil {
		t.Errorf("got limits %v with the engine's own seccomp profile, want it to be too narrow", got)
	}
}

// limitsHeld reads the output of --list-backends --json: the limits that
// bubblewrap holds, none if it is not available.
func limitsHeld(t *testing.T, list string) []string {
	t.Helper()
	var all []struct {
		Backend   string   `json:"backend"`
		Available bool     `json:"available"`
		Limits    []string `json:"limits"`
	}
	if err := json.Unmarshal([]byte(list), &all); err != nil {
		t.Fatalf("%v in %s", err, list)
	}
	for _, b := range all {
		if b.Backend == "bubblewrap" && b.Available {
			return b.Limits
		}
	}
	return nil
}
