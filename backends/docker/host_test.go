package docker_test

import (
	"strings"
	"testing"

	"airlock/backends/docker"

	"github.com/docker/docker/client"
)

// TestTheDefaultHost: without DOCKER_HOST the system's own engine is asked.
// Where none runs, the reason is that and not a host name.
func TestTheDefaultHost(t *testing.T) {
	t.Setenv("DOCKER_HOST", "")
	_, err := docker.Images(t.Context(), docker.Config{})
	if err != nil && !strings.Contains(err.Error(), client.DefaultDockerHost) && !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("got error %v, want one that names %s", err, client.DefaultDockerHost)
	}
}
