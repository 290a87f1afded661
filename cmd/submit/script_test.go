package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"airlock/queue/natstest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"submit": main})
}

// TestScripts runs testdata/*.txtar against one fleet, each script as a tenant
// of its own.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("got scripts %v, %v", scripts, err)
	}
	for i, path := range scripts {
		scripts[i] = "script-" + strings.TrimSuffix(filepath.Base(path), ".txtar")
	}
	server := natstest.Start(t, scripts...)
	newFleet(t, fleetConfig{server: server})
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			tenant := filepath.Base(env.WorkDir)
			env.Setenv("AIRLOCK_NATS", server.URLOf("submitter-"+tenant))
			env.Setenv("AIRLOCK_TENANT", tenant)
			return nil
		},
	})
}
