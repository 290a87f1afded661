package forkserver_test

import (
	"testing"

	"airlock/backends/forkserver"

	"go.uber.org/goleak"
)

// launcher lets this test's own program be started again.
var launcher forkserver.Launcher

func TestMain(m *testing.M) {
	launcher = forkserver.Main()
	actAsWorker()
	goleak.VerifyTestMain(m)
}
