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
			number, ok := numbers[tt.name]
			if got := m.run(archID(arch), number, tt.args...); !ok || got != tt.want {
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

// TestRuntimeOfARM gives the filter for arm64 that architecture's own numbers,
// as the kernel's asm-generic/unistd.h has them, since hardly a machine that
// tests run on has it.
func TestRuntimeOfARM(t *testing.T) {
	t.Parallel()
	const thread, fork, readWrite, readExec = 0x50f00, 0x11, 3, 5
	m := runtimeMachine(t, "arm64")
	for _, tt := range []struct {
		name   string
		number uint32
		args   []uint64
		want   seccomp.Action
	}{
		{"epoll_pwait", 22, nil, seccomp.Allow},
		{"close", 57, nil, seccomp.Allow},
		{"read", 63, nil, seccomp.Allow},
		{"write", 64, nil, seccomp.Allow},
		{"exit_group", 94, nil, seccomp.Allow},
		{"futex", 98, nil, seccomp.Allow},
		{"nanosleep", 101, nil, seccomp.Allow},
		{"clock_gettime", 113, nil, seccomp.Allow},
		{"tgkill", 131, nil, seccomp.Allow},
		{"sigaltstack", 132, nil, seccomp.Allow},
		{"rt_sigreturn", 139, nil, seccomp.Allow},
		{"munmap", 215, nil, seccomp.Allow},
		{"madvise", 233, nil, seccomp.Allow},
		{"getrandom", 278, nil, seccomp.Allow},
		{"clone, a thread", 220, []uint64{thread}, seccomp.Allow},
		{"clone, a process", 220, []uint64{fork}, seccomp.Kill},
		{"mmap", 222, []uint64{0, 0, readWrite}, seccomp.Allow},
		{"mmap of code", 222, []uint64{0, 0, readExec}, seccomp.Kill},
		{"mprotect", 226, []uint64{0, 0, readWrite}, seccomp.Allow},
		{"mprotect to code", 226, []uint64{0, 0, readExec}, seccomp.Kill},
		{"openat", 56, nil, seccomp.Errno(38)},
		{"memfd_create", 279, nil, seccomp.Errno(38)},
		{"execveat", 281, nil, seccomp.Errno(38)},
		{"pivot_root", 41, nil, seccomp.Kill},
		{"mount", 40, nil, seccomp.Kill},
		{"unshare", 97, nil, seccomp.Kill},
		{"ptrace", 117, nil, seccomp.Kill},
		{"kill", 129, nil, seccomp.Kill},
		{"socket", 198, nil, seccomp.Kill},
		{"socketpair", 199, nil, seccomp.Kill},
		{"connect", 203, nil, seccomp.Kill},
		{"execve", 221, nil, seccomp.Kill},
		{"bpf", 280, nil, seccomp.Kill},
		{"process_vm_writev", 271, nil, seccomp.Kill},
		{"io_uring_setup", 425, nil, seccomp.Kill},
		{"pidfd_open", 434, nil, seccomp.Kill},
		{"clone3", 435, nil, seccomp.Errno(38)},
		{"a call of tomorrow", 600, nil, seccomp.Errno(38)},
	} {
		if got := m.run(arm64, tt.number, tt.args...); got != tt.want {
			t.Errorf("%s (%d): got %s, want %s", tt.name, tt.number, got, tt.want)
		}
	}
	for _, foreign := range []uint32{amd64, arm, i386, 0} {
		for number := range uint32(601) {
			if got := m.run(foreign, number); got != seccomp.Kill {
				t.Fatalf("call %d of architecture %#x: got %s, want kill", number, foreign, got)
			}
		}
	}
}
