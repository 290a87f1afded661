package backendtest

import (
	"fmt"
	"runtime"
	"testing"

	"airlock/backends/internal/seccomp"

	"github.com/go-json-experiment/json"
)

// lastCall is beyond every system call that there is.
const lastCall = 600

// everyCall compares what each system call gives a guest with what the filter
// says. A call that is allowed may still fail, for its arguments or since the
// kernel lacks it.
func everyCall() story {
	return story{
		name: "every system call is as the filter has it", rows: "KS1", hostile: true, code: program("calls.py"),
		blind: "it would harm the host",
		check: func(t *testing.T, g *seen) {
			t.Helper()
			var got map[string]string
			if err := json.Unmarshal(returned(t, g), &got); err != nil {
				t.Fatal(err)
			}
			named := seccomp.Names(runtime.GOARCH)
			for number := range lastCall + 1 {
				want, became := filtered(t, number), got[fmt.Sprint(number)]
				if unfiltered[number] && became != "kill" {
					continue
				}
				if g.coarse && coarsely(want, became, named[number]) {
					continue
				}
				if want == seccomp.Allow.String() && became != "kill" && became != "" {
					continue
				}
				if became != want {
					t.Errorf("system call %d: got %q, want %q", number, became, want)
				}
			}
		},
	}
}

// coarsely reports whether a call is refused, if not as the filter says: the
// one that made the filter for the kernel did not know the call's name, or
// cannot have a default of its own. See Harness.Coarse.
func coarsely(want, became, name string) bool {
	switch became {
	case "EPERM":
		return want != seccomp.Kill.String() && want != seccomp.Allow.String() && (name == "" || want == "ENOTTY")
	case "ENOSYS":
		return want == seccomp.Kill.String()
	}
	return false
}

// filtered is what the filter does with a call whose arguments are all zero.
func filtered(t *testing.T, number int) string {
	t.Helper()
	action, err := seccomp.Decide(runtime.GOARCH, uint32(number))
	if err != nil {
		t.Fatal(err)
	}
	return action.String()
}

// unfiltered are the calls of x86-64, uretprobe and uprobe, that kernels since
// 6.11 let by every filter. Only the kernel's own trampolines may make them:
// from anywhere else they do nothing, or end the caller.
var unfiltered = map[int]bool{335: runtime.GOARCH == "amd64", 336: runtime.GOARCH == "amd64"}
