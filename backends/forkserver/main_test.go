package forkserver_test

import (
	"os"
	"testing"

	"airlock/backends/forkserver"
)

// launcher lets this test's own program be started again.
var launcher forkserver.Launcher

func TestMain(m *testing.M) {
	launcher = forkserver.Main()
	os.Exit(m.Run())
}
