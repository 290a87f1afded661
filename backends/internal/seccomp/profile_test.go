package seccomp_test

import (
	"slices"
	"testing"

	"airlock/backends/internal/seccomp"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

type profile struct {
	DefaultAction   string
	DefaultErrnoRet int
	Architectures   []string
	Syscalls        []syscall
}

type syscall struct {
	Names    []string
	Action   string
	ErrnoRet int
	Args     []struct {
		Index           int
		Value, ValueTwo uint64
		Op              string
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
		checkSockets(t, p, 1)
	}
	if _, err := seccomp.Profile("mips"); err == nil {
		t.Error("got no error for an architecture without a table")
	}
}

// checkSockets: of sockets only those of the guest's own kernel and files, and
// of the internet for a guest that has a network.
func checkSockets(t *testing.T, p profile, families ...uint64) {
	t.Helper()
	var got []uint64
	for _, s := range p.Syscalls {
		if !slices.Contains(s.Names, "socket") {
			continue
		}
		if s.Action != "SCMP_ACT_ALLOW" {
			continue
		}
		if len(s.Args) != 1 || s.Args[0].Index != 0 || s.Args[0].Op != "SCMP_CMP_EQ" {
			t.Errorf("got socket allowed on %v, want one family each", s.Args)
			continue
		}
		got = append(got, s.Args[0].Value)
	}
	if !slices.Equal(got, families) {
		t.Errorf("got sockets of the families %v, want %v", got, families)
	}
}

// TestNetworkProfile: with a network the internet's sockets are there too, and
// nothing else is.
func TestNetworkProfile(t *testing.T) {
	t.Parallel()
	const afUnix, afInet, afInet6 = 1, 2, 10
	for _, arch := range seccomp.Archs() {
		var all [2]profile
		for i, of := range []func(string) ([]byte, error){seccomp.Profile, seccomp.NetworkProfile} {
			text, err := of(arch)
			if err == nil {
				err = json.Unmarshal(text, &all[i], json.MatchCaseInsensitiveNames(true))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		checkSockets(t, all[0], afUnix)
		checkSockets(t, all[1], afUnix, afInet, afInet6)
		for i := range all {
			all[i].Syscalls = slices.DeleteFunc(all[i].Syscalls, func(s syscall) bool { return slices.Contains(s.Names, "socket") })
		}
		if diff := cmp.Diff(all[0], all[1]); diff != "" {
			t.Errorf("%s: what else differs (-without +with a network):\n%s", arch, diff)
		}
	}
}
