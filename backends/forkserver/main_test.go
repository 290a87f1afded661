package forkserver_test

import (
	"testing"

	"airlock/backends/forkserver"

	"go.uber.org/goleak"
)

// pythonVariable names the environment variable with the guests' interpreter
// for the conformance suite and the benchmark, so that both can be run with
// another than the host's.
const pythonVariable = "AIRLOCK_TEST_PYTHON"

// launcher lets this test's own program be started again.
var launcher forkserver.Launcher

func TestMain(m *testing.M) {
	launcher = forkserver.Main()
	actAsWorker()
	goleak.VerifyTestMain(m)
}
