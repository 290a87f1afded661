package wasmguest

import (
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"

	"github.com/tetratelabs/wazero"
)

// inModuleCache finds the version in the path of a source file, which has it
// also where paths are trimmed.
var inModuleCache = regexp.MustCompile(`/wazero@(v[^/]+)/`)

// RuntimeVersion is wazero's in this program. A test's program does not know
// what it was built of, but where its sources lay.
func RuntimeVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/tetratelabs/wazero" {
				return m.Version
			}
		}
	}
	file, _ := runtime.FuncForPC(reflect.ValueOf(wazero.NewRuntime).Pointer()).FileLine(0)
	if found := inModuleCache.FindStringSubmatch(file); found != nil {
		return found[1]
	}
	return "unknown"
}
