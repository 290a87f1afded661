package docker_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"airlock/backends"
	"airlock/backends/backendtest"
	"airlock/backends/docker"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/rs/zerolog"
)

// shares is what an engine without userns-remap gives no guest of its own. No
// user of it can be had by the guest, which is not root in it and gains nothing.
var shares = map[string]string{"user": "the engine does not remap users"}

// coarse is what an engine makes of our filter: 20.10 knows no default error
// number, libseccomp no rule for all but some values of an argument, and what
// is newer than libseccomp is ENOSYS whatever the filter says of it.
const coarse = "the engine's filters refuse some calls by another error number"

func TestConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Harness{
		Name: docker.Name, Shares: shares, Coarse: coarse, Holds: held(t),
		New: func(t testing.TB) backends.Backend {
			return docker.New(docker.Config{Log: zerolog.New(zerolog.NewTestWriter(t))})
		},
	})
}

// TestVariantConformance tells the same stories of guests that other runtimes
// start, where the engine has them and they can run a guest.
func TestVariantConformance(t *testing.T) {
	for _, runtime := range docker.Variants() {
		t.Run(runtime, func(t *testing.T) {
			backendtest.Run(t, backendtest.Harness{
				Name: docker.Name + "+" + runtime, Shares: shares, Coarse: coarse, Holds: held(t),
				New: func(t testing.TB) backends.Backend {
					return docker.New(docker.Config{Log: zerolog.New(zerolog.NewTestWriter(t)), Runtime: runtime})
				},
			})
		})
	}
}

// TestParkedConformance tells the same stories of guests that were started
// before their jobs came.
func TestParkedConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Harness{
		Name: docker.Name, Shares: shares, Coarse: coarse, Unrecorded: true,
		New: func(t testing.TB) backends.Backend {
			log := zerolog.New(zerolog.NewTestWriter(t))
			return backends.Parked(docker.New(docker.Config{Log: log}), backends.ParkedConfig{Size: 2, Log: log})
		},
		Except: map[string]string{
			"nothing stays: descriptors, goroutines, children, mounts, files": "the guests that are parked next are there",
		},
	})
}

// held lists the containers of this process.
func held(t *testing.T) func() []string {
	// No connection may stay that the suite would count.
	api, err := client.NewClientWithOpts(
		client.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: client.CheckRedirect}),
		client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { api.Close() })
	ours := fmt.Sprintf("-%d-", os.Getpid())
	return func() []string {
		all, err := api.ContainerList(t.Context(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", "airlock.owner"))})
		if err != nil {
			return []string{err.Error()}
		}
		found := []string{}
		for _, c := range all {
			if strings.Contains(c.Labels["airlock.owner"], ours) {
				found = append(found, c.ID)
			}
		}
		return found
	}
}
