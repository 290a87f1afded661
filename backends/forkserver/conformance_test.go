package forkserver_test

import (
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
			return forkserver.New(forkserver.Config{Launcher: launcher, Log: zerolog.New(zerolog.NewTestWriter(t))})
		},
	})
}
