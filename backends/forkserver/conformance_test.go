package forkserver_test

import (
	"os"
	"testing"

	"airlock/backends"
	"airlock/backends/backendtest"
	"airlock/backends/forkserver"

	"github.com/rs/zerolog"
)

func TestConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Harness{
		Name: forkserver.Name, Keeps: 4,
		New: func(t testing.TB) backends.Backend {
			return forkserver.New(forkserver.Config{Launcher: launcher, Python: os.Getenv(pythonVariable), Log: zerolog.New(zerolog.NewTestWriter(t))})
		},
	})
}

// TestParkedConformance tells the same stories of guests that were forked
// before their jobs came.
func TestParkedConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Harness{
		Name: forkserver.Name, Unrecorded: true,
		New: func(t testing.TB) backends.Backend {
			log := zerolog.New(zerolog.NewTestWriter(t))
			b := forkserver.New(forkserver.Config{Launcher: launcher, Python: os.Getenv(pythonVariable), Log: log})
			return backends.Parked(b, backends.ParkedConfig{Size: 2, Log: log})
		},
		Except: map[string]string{"nothing stays: descriptors, goroutines, children, mounts, files": "the guests that are parked next are there"},
	})
}
