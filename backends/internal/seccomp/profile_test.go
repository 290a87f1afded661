package seccomp_test

import (
	"slices"
	"testing"

	"airlock/backends/internal/seccomp"

	"github.com/go-json-experiment/json"
)

type profile struct {
	DefaultAction   string
	DefaultErrnoRet int
	Architectures   []string
	Syscalls        []struct {
		Names    []string
		Action   string
		ErrnoRet int
		Args     []struct {
			Index           int
			Value, ValueTwo uint64
			Op              string
		}
	}
}

// TestProfile holds the JSON against the program for every call of the table
// that depends on no argument, and looks at the conditions of the others.
func TestProfile(t *testing.T) {
	t.Parallel()
	for _, arch := range seccomp.Archs() {
		text, err := seccomp.Profile(arch)
		if err != nil {
			t.Fatal(err)
		}
		var p profile
		if err := json.Unmarshal(text, &p, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		if p.DefaultAction != "SCMP_ACT_ERRNO" || p.DefaultErrnoRet != 38 || len(p.Architectures) != 1 {
			t.Errorf("%s: got default %s %d for %v, want ENOSYS for one", arch, p.DefaultAction, p.DefaultErrnoRet, p.Architectures)
		}
		plain, depends := map[string]string{}, map[string]int{}
		for _, s := range p.Syscalls {
			for _, name := range s.Names {
				if len(s.Args) > 0 {
					depends[name]++
					continue
				}
				if plain[name] != "" {
					t.Errorf("%s: %s is there twice", arch, name)
				}
				plain[name] = s.Action
			}
		}
		for number, name := range seccomp.Names(arch) {
			if (plain[name] == "") == (depends[name] == 0) {
				t.Errorf("%s: %s (%d) is there %q without and %d times with conditions", arch, name, number, plain[name], depends[name])
			}
		}
		for name, want := range map[string]string{
			"read": "SCMP_ACT_ALLOW", "ptrace": "SCMP_ACT_KILL_PROCESS", "setuid": "SCMP_ACT_ERRNO", "clone3": "SCMP_ACT_ERRNO",
		} {
			if plain[name] != want {
				t.Errorf("%s: got %s for %s, want %s", arch, plain[name], name, want)
			}
		}
		checkSockets(t, p)
	}
	if _, err := seccomp.Profile("mips"); err == nil {
		t.Error("got no error for an architecture without a table")
	}
}

// checkSockets: of sockets only those of the guest's own kernel and files.
func checkSockets(t *testing.T, p profile) {
	t.Helper()
	var got []string
	for _, s := range p.Syscalls {
		if !slices.Contains(s.Names, "socket") {
			continue
		}
		for _, a := range s.Args {
			if a.Index != 0 || a.Value != 1 {
				t.Errorf("got a condition on argument %d and value %d, want AF_UNIX", a.Index, a.Value)
			}
			got = append(got, s.Action+" "+a.Op)
		}
	}
	if want := []string{"SCMP_ACT_ALLOW SCMP_CMP_EQ", "SCMP_ACT_ERRNO SCMP_CMP_NE"}; !slices.Equal(got, want) {
		t.Errorf("got rules %v for socket, want %v", got, want)
	}
}
