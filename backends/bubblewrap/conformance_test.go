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
		Name: bubblewrap.Name,
		New: func(t testing.TB) backends.Backend {
			return bubblewrap.New(bubblewrap.Config{Log: zerolog.New(zerolog.NewTestWriter(t))})
		},
	})
}
