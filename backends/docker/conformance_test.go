package docker_test

import (
	"testing"

	"airlock/backends"
	"airlock/backends/backendtest"
	"airlock/backends/docker"

	"github.com/rs/zerolog"
)

// shares is what an engine without userns-remap gives no guest of its own. No
// user of it can be had by the guest, which is not root in it and gains nothing.
var shares = map[string]string{"user": "the engine does not remap users"}

func TestConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Harness{
		Name: docker.Name, Shares: shares,
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
				Name: docker.Name + "+" + runtime, Shares: shares,
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
		Name: docker.Name, Shares: shares,
		New: func(t testing.TB) backends.Backend {
			log := zerolog.New(zerolog.NewTestWriter(t))
			return backends.Parked(docker.New(docker.Config{Log: log}), backends.ParkedConfig{Size: 2, Log: log})
		},
		Except: map[string]string{
			"nothing stays: descriptors, goroutines, children, mounts, files": "the guests that are parked next are there",
		},
	})
}
