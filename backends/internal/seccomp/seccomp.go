package seccomp

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/net/bpf"
)

// Action is what the kernel does with a call; its value is the filter's
// return value in the kernel's ABI.
type Action uint32

// The actions without a number of their own.
const (
	Allow Action = 0x7fff0000
	// Kill ends the whole process by SIGSYS.
	Kill Action = 0x80000000
)

// The error numbers that the filter answers with; they are the same on every
// architecture of Linux.
const (
	eperm  = 1
	enotty = 25
	enosys = 38
)

// Errno makes the call fail with the number. It is never zero: the call would
// then seem to have worked.
func Errno(number uint16) Action { return 0x00050000 | Action(number) }

// String names the action as golden files do.
func (a Action) String() string {
	switch a {
	case Allow:
		return "allow"
	case Kill:
		return "kill"
	case Errno(eperm):
		return "EPERM"
	case Errno(enotty):
		return "ENOTTY"
	case Errno(enosys):
		return "ENOSYS"
	}
	return fmt.Sprintf("action %#x", uint32(a))
}

// Archs lists the architectures that the table covers, by their GOARCH.
func Archs() []string { return []string{"amd64", "arm64"} }

// audit is the kernel's name of an architecture, AUDIT_ARCH_….
var audit = map[string]uint32{"amd64": 0xc000003e, "arm64": 0xc00000b7}

// Program is the guest's filter for one of Archs as the kernel takes it: an
// array of struct sock_filter. Both architectures are little-endian.
func Program(arch string) ([]byte, error) {
	filter, err := Filter(arch)
	if err != nil {
		return nil, err
	}
	raw, err := bpf.Assemble(filter)
	if err != nil {
		return nil, fmt.Errorf("assemble filter: %w", err)
	}
	return encode(raw), nil
}

// encode is the program as an array of struct sock_filter.
func encode(raw []bpf.RawInstruction) []byte {
	program := make([]byte, 0, 8*len(raw))
	for _, ins := range raw {
		program = binary.LittleEndian.AppendUint16(program, ins.Op)
		program = append(program, ins.Jt, ins.Jf)
		program = binary.LittleEndian.AppendUint32(program, ins.K)
	}
	return program
}

// Filter is the guest's filter for one of Archs as instructions.
func Filter(arch string) ([]bpf.Instruction, error) {
	id, ok := audit[arch]
	if !ok {
		return nil, fmt.Errorf("no system-call filter for %s, only for %v", arch, Archs())
	}
	return assemble(id, spans(arch)), nil
}
