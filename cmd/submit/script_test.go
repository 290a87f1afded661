package main

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"submit": main})
}

// TestScripts runs testdata/*.txtar against one fleet, each script as a tenant
// of its own.
func TestScripts(t *testing.T) {
	f := newFleet(t, fleetConfig{})
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			sum := sha256.Sum256([]byte(env.WorkDir))
			env.Setenv("AIRLOCK_NATS", f.url)
			env.Setenv("AIRLOCK_TENANT", hex.EncodeToString(sum[:4]))
			return nil
		},
	})
}
