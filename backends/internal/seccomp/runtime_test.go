package seccomp_test

import (
	"encoding/binary"
	"testing"

	"airlock/backends/internal/seccomp"

	"golang.org/x/net/bpf"
)

// runtimeMachine runs the filter of a module's process as the kernel would.
func runtimeMachine(t *testing.T, arch string) machine {
	t.Helper()
	program, err := seccomp.RuntimeProgram(arch)
	if err != nil {
		t.Fatal(err)
	}
	var raw []bpf.RawInstruction
	for at := 0; at < len(program); at += 8 {
		ins := program[at:]
		raw = append(raw, bpf.RawInstruction{
			Op: binary.LittleEndian.Uint16(ins), Jt: ins[2], Jf: ins[3], K: binary.LittleEndian.Uint32(ins[4:]),
		})
	}
	filter, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the filter has instructions that are none")
	}
	vm, err := bpf.NewVM(filter)
	if err != nil {
		t.Fatal(err)
	}
	return machine{t, vm}
}

// TestRuntime: what a module's process may do, by name and arguments.
func TestRuntime(t *testing.T) {
	t.Parallel()
	const thread, cgoThread, fork = 0x50f00, 0x3d0f00, 0x11
	for _, arch := range seccomp.Archs() {
		numbers := map[string]uint32{}
		for number, name := range seccomp.Names(arch) {
			numbers[name] = uint32(number)
		}
		m := runtimeMachine(t, arch)
		for _, tt := range []struct {
			name string
			args []uint64
			want seccomp.Action
		}{
			{"read", nil, seccomp.Allow},
			{"futex", nil, seccomp.Allow},
			{"exit_group", nil, seccomp.Allow},
			{"getrandom", nil, seccomp.Allow},
			{"clone", []uint64{thread}, seccomp.Allow},
			{"clone", []uint64{cgoThread}, seccomp.Allow},
			{"clone", []uint64{fork}, seccomp.Kill},
			{"clone", []uint64{thread | 0x10000000}, seccomp.Kill},
			{"mmap", []uint64{0, 0, 3}, seccomp.Allow},
			{"mmap", []uint64{0, 0, 5}, seccomp.Kill},
			{"mprotect", []uint64{0, 0, 1}, seccomp.Allow},
			{"mprotect", []uint64{0, 0, 7}, seccomp.Kill},
			{"execve", nil, seccomp.Kill},
			{"socket", nil, seccomp.Kill},
			{"socket", []uint64{1}, seccomp.Kill},
			{"connect", nil, seccomp.Kill},
			{"kill", nil, seccomp.Kill},
			{"ptrace", nil, seccomp.Kill},
			{"mount", nil, seccomp.Kill},
			{"unshare", nil, seccomp.Kill},
			{"bpf", nil, seccomp.Kill},
			{"io_uring_setup", nil, seccomp.Kill},
			{"openat", nil, seccomp.Errno(38)},
			{"execveat", nil, seccomp.Errno(38)},
			{"memfd_create", nil, seccomp.Errno(38)},
			{"setresuid", nil, seccomp.Errno(38)},
			{"prctl", nil, seccomp.Errno(38)},
		} {
			if got := m.run(archID(arch), numbers[tt.name], tt.args...); got != tt.want {
				t.Errorf("%s: %s%#x: got %s, want %s", arch, tt.name, tt.args, got, tt.want)
			}
		}
		if got := m.run(i386, 0); got != seccomp.Kill {
			t.Errorf("%s: a call of another architecture: got %s, want kill", arch, got)
		}
	}
	if _, err := seccomp.RuntimeProgram("mips"); err == nil {
		t.Error("got no error for an architecture without a table, want one")
	}
}
