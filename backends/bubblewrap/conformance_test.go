package bubblewrap_test

import (
	"testing"

	"airlock/backends"
	"airlock/backends/backendtest"
	"airlock/backends/bubblewrap"

	"github.com/rs/zerolog"
)

func TestConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Harness{
		Name: bubblewrap.Name, Except: unknowable(t),
		New: func(t testing.TB) backends.Backend {
			return bubblewrap.New(bubblewrap.Config{Log: zerolog.New(zerolog.NewTestWriter(t))})
		},
	})
}

// TestParkedConformance tells the same stories of guests that were started
// before their jobs came.
func TestParkedConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Harness{
		Name: bubblewrap.Name, Unrecorded: true,
		New: func(t testing.TB) backends.Backend {
			log := zerolog.New(zerolog.NewTestWriter(t))
			return backends.Parked(bubblewrap.New(bubblewrap.Config{Log: log}), backends.ParkedConfig{Size: 2, Log: log})
		},
		Except: with(unknowable(t), "nothing stays: descriptors, goroutines, children, mounts, files", "the guests that are parked next are there"),
	})
}

func with(m map[string]string, key, value string) map[string]string {
	m[key] = value
	return m
}
