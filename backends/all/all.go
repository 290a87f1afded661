// Package all lists the backends. It is the one place that knows all of them;
// a new backend is one more line here.
package all

import (
	"airlock/backends"
	"airlock/backends/bubblewrap"
	"airlock/backends/docker"
	"airlock/backends/fake"
	"airlock/backends/forkserver"
	"airlock/backends/local"
	"airlock/backends/wasm"
	"airlock/job"

	"github.com/rs/zerolog"
)

// Config is what the constructors need.
type Config struct {
	// Self is what Main returned in this program's main.
	Self Self
	// Python is the guests' interpreter; each backend finds one if it
	// is "". A container has its image's.
	Python string
	// AllowNoIsolation lets the local backend probe well.
	AllowNoIsolation bool
	// Docker is what an operator says of containers; its Log is ours.
	Docker docker.Config
	// Templates are the modules that forkserver imports ahead, by the
	// template's name; TenantTemplates has it fork no two tenants' guests from
	// one interpreter.
	Templates       map[string][]string
	TenantTemplates bool
	// WasmPython is the directory with Python for WebAssembly; wasm finds one
	// if it is "".
	WasmPython string
	Log        zerolog.Logger
}

// Named is a backend that may or may not work on this host: Probe says.
type Named struct {
	Name    string
	Backend backends.Backend
	// Auto says that a worker offers the backend without being asked for it
	// by name. Those that isolate nothing are never offered so, nor is one
	// that adds no wall to another's.
	Auto bool
}

// All makes every backend, in order of preference. Constructors touch nothing
// of the host. The caller closes each.
func All(cfg Config) []Named {
	cfg.Docker.Log = cfg.Log
	all := []Named{
		{forkserver.Name, forkserver.New(cfg.forkserver()), true},
		{bubblewrap.Name, bubblewrap.New(bubblewrap.Config{Python: cfg.Python, Log: cfg.Log}), true},
		{docker.Name, docker.New(cfg.Docker), true},
	}
	for _, runtime := range docker.Variants() {
		variant := cfg.Docker
		variant.Runtime = runtime
		b := docker.New(variant)
		// Another runtime is worth its guests' memory for another wall only.
		all = append(all, Named{b.Name(), b, b.Level() != job.IsolationStrong})
	}
	return append(all,
		Named{wasm.Name, wasm.New(wasm.Config{Helper: cfg.Self.Helper, Python: cfg.WasmPython, Log: cfg.Log}), true},
		Named{local.Name, local.New(local.Config{Python: cfg.Python, AllowNoIsolation: cfg.AllowNoIsolation, Log: cfg.Log}), false},
		Named{fake.Name, fake.New(fake.Config{}), false},
	)
}

func (c Config) forkserver() forkserver.Config {
	return forkserver.Config{
		Launcher: c.Self.Launcher, Python: c.Python, Templates: c.Templates, TenantTemplates: c.TenantTemplates, Log: c.Log,
	}
}
