package wasm_test

import (
	"testing"

	"airlock/backends/wasm"

	"go.uber.org/goleak"
)

// helper lets this test's own program be started again.
var helper wasm.Helper

func TestMain(m *testing.M) {
	helper = wasm.Main()
	actAsWorker()
	goleak.VerifyTestMain(m)
}
