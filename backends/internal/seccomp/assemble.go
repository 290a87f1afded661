package seccomp

import (
	"cmp"
	"slices"

	"golang.org/x/net/bpf"
)

// The offsets in struct seccomp_data. Of an argument only the low word is
// looked at: each one the table tests is an int, or flags below bit 32, and
// the kernel ignores the rest too.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// x32Bit marks a call of the x32 ABI, which shares AUDIT_ARCH_X86_64.
const x32Bit = 0x40000000

// span is a run of call numbers from start on that are treated alike.
type span struct {
	start uint32
	act   Action
	rule  *rule
}

// spans covers all numbers, from 0 upward.
func spans(arch string) []span { return cover(table(arch), arch, Errno(enosys)) }

// cover has the numbers that calls leave out treated as the others.
func cover(calls []span, arch string, others Action) []span {
	slices.SortFunc(calls, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	all := []span{}
	next := uint32(0)
	for _, c := range calls {
		if c.start > next {
			all = add(all, span{start: next, act: others})
		}
		all = add(all, c)
		next = c.start + 1
	}
	all = add(all, span{start: next, act: others})
	if arch == "amd64" {
		all = append(all, span{start: x32Bit, act: Kill})
	}
	return all
}

// add appends s, or nothing when the last span covers it already.
func add(all []span, s span) []span {
	if len(all) > 0 {
		last := all[len(all)-1]
		if last.act == s.act && last.rule == nil && s.rule == nil {
			return all
		}
	}
	return append(all, s)
}

func assemble(arch uint32, all []span) []bpf.Instruction {
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1},
		bpf.RetConstant{Val: uint32(Kill)},
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
	}
	return append(program, tree(all)...)
}

// tree searches the spans by halves. The kernel runs a new filter once for
// every number, so that its shape decides what loading it costs.
func tree(all []span) []bpf.Instruction {
	if len(all) == 1 {
		return leaf(all[0])
	}
	middle := len(all) / 2
	low, high := tree(all[:middle]), tree(all[middle:])
	// A conditional jump reaches 255 instructions, an unconditional one any.
	program := []bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: all[middle].start, SkipFalse: 1},
		bpf.Jump{Skip: uint32(len(low))},
	}
	if len(low) <= 255 {
		program = []bpf.Instruction{
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: all[middle].start, SkipTrue: uint8(len(low))},
		}
	}
	return append(append(program, low...), high...)
}

// leaf always returns, so that no later comparison ever sees the argument that
// a rule has loaded in place of the number.
func leaf(s span) []bpf.Instruction {
	if s.rule == nil {
		return []bpf.Instruction{bpf.RetConstant{Val: uint32(s.act)}}
	}
	r := s.rule
	program := []bpf.Instruction{bpf.LoadAbsolute{Off: offsetArgs + 8*r.arg, Size: 4}}
	if r.noneOf != 0 {
		return append(program,
			bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: r.noneOf, SkipTrue: 1},
			bpf.RetConstant{Val: uint32(Allow)},
			bpf.RetConstant{Val: uint32(r.otherwise)})
	}
	for i, value := range r.oneOf {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipTrue: uint8(len(r.oneOf) - i)})
	}
	return append(program,
		bpf.RetConstant{Val: uint32(r.otherwise)},
		bpf.RetConstant{Val: uint32(Allow)})
}
