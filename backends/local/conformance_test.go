package local_test

import (
	"testing"

	"airlock/backends"
	"airlock/backends/backendtest"
	"airlock/backends/local"

	"github.com/rs/zerolog"
)

func TestConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Harness{
		Name: local.Name,
		New: func(t testing.TB) backends.Backend {
			return local.New(local.Config{Log: zerolog.New(zerolog.NewTestWriter(t)), AllowNoIsolation: true})
		},
	})
}
