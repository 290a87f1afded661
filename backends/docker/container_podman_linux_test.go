package docker_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"airlock/backends"
	"airlock/backends/docker"

	"github.com/docker/docker/client"
)

// TestPodman: the probe of a podman says that it is not supported and why, and
// podman has no guest's container afterwards.
func TestPodman(t *testing.T) {
	t.Parallel()
	host := os.Getenv("AIRLOCK_TEST_PODMAN_HOST")
	if host == "" {
		host = startPodman(t)
	}
	b := docker.New(docker.Config{Host: host})
	defer b.Close()
	_, err := b.Probe(t.Context())
	if !errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), "podman is not supported") {
		t.Errorf("got error %v, want one that says that podman is not supported", err)
	}
	if left := containers(t, api(t, host)); len(left) != 0 {
		t.Errorf("got containers %v afterwards, want none", left)
	}
}

// startPodman starts one with the runner image, all of it in a directory of
// the test's.
func startPodman(t *testing.T) (host string) {
	t.Helper()
	program, err := exec.LookPath("podman")
	if err != nil || os.Getuid() != 0 {
		// Not lack: docker is what is required.
		t.Skip("there is no podman that could be started, nor does AIRLOCK_TEST_PODMAN_HOST name one")
	}
	open(t, docker.Config{})
	dir := t.TempDir()
	store := []string{"--root", filepath.Join(dir, "data"), "--runroot", filepath.Join(dir, "run"), "--cgroup-manager", "cgroupfs"}
	load := exec.CommandContext(t.Context(), program, append(store, "load", "-i", runnerImage(t))...)
	if said, err := load.CombinedOutput(); err != nil {
		t.Skipf("podman cannot load an image here: %v: %s", err, said)
	}
	host = "unix://" + filepath.Join(dir, "s")
	service := exec.Command(program, append(store, "system", "service", "--time", "0", host)...)
	service.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	dead := spawn(t, service)
	t.Cleanup(func() { quit(service, dead) })
	until(t, "podman answers", func() bool {
		api, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
		if err != nil {
			t.Fatal(err)
		}
		defer api.Close()
		_, err = api.Ping(t.Context())
		return err == nil
	})
	return host
}
