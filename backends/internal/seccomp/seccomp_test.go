package seccomp_test

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"airlock/backends/internal/seccomp"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/bpf"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The kernel's names of architectures.
const (
	amd64 = 0xc000003e
	arm64 = 0xc00000b7
	i386  = 0x40000003
	arm   = 0x40000028
)

func archID(arch string) uint32 {
	if arch == "arm64" {
		return arm64
	}
	return amd64
}

type machine struct {
	t  *testing.T
	vm *bpf.VM
}

func newMachine(t *testing.T, arch string) machine {
	t.Helper()
	filter, err := seccomp.Filter(arch)
	if err != nil {
		t.Fatal(err)
	}
	vm, err := bpf.NewVM(filter)
	if err != nil {
		t.Fatal(err)
	}
	return machine{t, vm}
}

// run answers what the filter does with a call. The VM reads words in network
// order, so that is how struct seccomp_data is written for it; of each
// argument the low word comes first, as on the little-endian machines we have.
func (m machine) run(arch, number uint32, args ...uint64) seccomp.Action {
	m.t.Helper()
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[0:], number)
	binary.BigEndian.PutUint32(data[4:], arch)
	for i, arg := range args {
		binary.BigEndian.PutUint32(data[16+8*i:], uint32(arg))
		binary.BigEndian.PutUint32(data[20+8*i:], uint32(arg>>32))
	}
	got, err := m.vm.Run(data)
	if err != nil {
		m.t.Fatalf("run filter on call %d: %v", number, err)
	}
	return seccomp.Action(uint32(got))
}

// all says what happens to each number. All-ones arguments show which calls
// depend on an argument.
func (m machine) all(arch string) string {
	names := seccomp.Names(arch)
	var got strings.Builder
	for number := range uint32(601) {
		name := names[int(number)]
		if name == "" {
			name = "-"
		}
		zeros := m.run(archID(arch), number)
		ones := m.run(archID(arch), number, 1<<63-1, 1<<63-1, 1<<63-1)
		fmt.Fprintf(&got, "%d %s %s", number, name, zeros)
		if ones != zeros {
			fmt.Fprintf(&got, " or %s by argument", ones)
		}
		got.WriteString("\n")
	}
	return got.String()
}

// TestGolden writes out what happens to each number, in the filter of guests
// and in that of a module's process; any difference is to be reviewed.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, arch := range seccomp.Archs() {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()
			checkGolden(t, filepath.Join("testdata", arch+".txt"), newMachine(t, arch).all(arch))
			checkGolden(t, filepath.Join("testdata", "runtime-"+arch+".txt"), runtimeMachine(t, arch).all(arch))
		})
	}
}

func checkGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("the filter changed; review it and run with -update (-want +got):\n%s", diff)
	}
}

// TestBudget keeps the number of calls that reach the kernel from growing
// unnoticed.
func TestBudget(t *testing.T) {
	t.Parallel()
	const budget = 205
	for _, arch := range seccomp.Archs() {
		m, allowed := newMachine(t, arch), 0
		for number := range uint32(601) {
			if m.run(archID(arch), number) == seccomp.Allow {
				allowed++
			}
		}
		if allowed > budget {
			t.Errorf("%s: got %d calls allowed, want at most %d", arch, allowed, budget)
		}
	}
}

func TestForeignArchitectureIsKilled(t *testing.T) {
	t.Parallel()
	for _, arch := range seccomp.Archs() {
		m := newMachine(t, arch)
		for _, foreign := range []uint32{i386, arm, amd64, arm64, 0, 0xffffffff} {
			if foreign == archID(arch) {
				continue
			}
			for number := range uint32(601) {
				if got := m.run(foreign, number); got != seccomp.Kill {
					t.Fatalf("%s filter, call %d of architecture %#x: got %s, want kill", arch, number, foreign, got)
				}
			}
		}
	}
}

func TestX32IsKilled(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "amd64")
	for number := range uint32(601) {
		if got := m.run(amd64, 0x40000000|number); got != seccomp.Kill {
			t.Fatalf("x32 call %d: got %s, want kill", number, got)
		}
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	eperm, enotty := seccomp.Errno(1), seccomp.Errno(25)
	for _, tt := range []struct {
		name string
		call string
		args []uint64
		want seccomp.Action
	}{
		{"fork", "clone", []uint64{17}, seccomp.Allow},
		{"thread", "clone", []uint64{0x3d0f00}, seccomp.Allow},
		{"new mount namespace", "clone", []uint64{0x00020000 | 17}, eperm},
		{"new cgroup namespace", "clone", []uint64{0x02000000 | 17}, eperm},
		{"new uts namespace", "clone", []uint64{0x04000000}, eperm},
		{"new ipc namespace", "clone", []uint64{0x08000000}, eperm},
		{"new user namespace", "clone", []uint64{0x10000000}, eperm},
		{"new pid namespace", "clone", []uint64{0x20000000}, eperm},
		{"new net namespace", "clone", []uint64{0x40000000}, eperm},
		{"unix socket", "socket", []uint64{1, 1}, seccomp.Allow},
		{"unix socket with high bits that the kernel ignores", "socket", []uint64{1<<32 | 1, 1}, seccomp.Allow},
		{"inet socket", "socket", []uint64{2, 1}, eperm},
		{"inet6 socket", "socket", []uint64{10, 1}, eperm},
		{"netlink socket", "socket", []uint64{16, 3}, eperm},
		{"packet socket", "socket", []uint64{17, 3}, eperm},
		{"kernel crypto socket", "socket", []uint64{38, 5}, eperm},
		{"vsock socket", "socket", []uint64{40, 1}, eperm},
		{"unix pair", "socketpair", []uint64{1, 1}, seccomp.Allow},
		{"inet pair", "socketpair", []uint64{2, 1}, eperm},
		{"terminal attributes", "ioctl", []uint64{0, 0x5401}, seccomp.Allow},
		{"terminal injection", "ioctl", []uint64{0, 0x5412}, enotty},
		{"terminal injection with high bits", "ioctl", []uint64{0, 1<<32 | 0x5412}, enotty},
		{"console selection", "ioctl", []uint64{0, 0x541c}, enotty},
		{"thread name", "prctl", []uint64{15}, seccomp.Allow},
		{"dumpable", "prctl", []uint64{4}, eperm},
		{"own filter", "prctl", []uint64{22}, eperm},
		{"drop from bounding set", "prctl", []uint64{24}, eperm},
		{"memory map", "prctl", []uint64{35}, eperm},
		{"ptracer", "prctl", []uint64{0x59616d61}, eperm},
		{"own limits", "prlimit64", []uint64{0}, seccomp.Allow},
		{"another's limits", "prlimit64", []uint64{1}, eperm},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, arch := range seccomp.Archs() {
				number := uint32(1 << 20)
				for n, name := range seccomp.Names(arch) {
					if name == tt.call {
						number = uint32(n)
					}
				}
				if got := newMachine(t, arch).run(archID(arch), number, tt.args...); got != tt.want {
					t.Errorf("%s: got %s, want %s", arch, got, tt.want)
				}
			}
		})
	}
}

func TestProgram(t *testing.T) {
	t.Parallel()
	for _, arch := range seccomp.Archs() {
		program, err := seccomp.Program(arch)
		if err != nil {
			t.Fatal(err)
		}
		// 4096 instructions are the kernel's maximum; loading costs by length.
		if n := len(program); n%8 != 0 || n/8 < 100 || n/8 > 700 {
			t.Errorf("%s: got a program of %d bytes, want 100 to 700 instructions of 8", arch, n)
		}
	}
	if _, err := seccomp.Program("riscv64"); err == nil {
		t.Error("an architecture without a table: got no error")
	}
}
