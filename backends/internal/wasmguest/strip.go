package wasmguest

import (
	"encoding/binary"
	"errors"
)

// The sections of a module that are dealt with here: the bodies of functions,
// and those that put bytes into a new memory.
const (
	codeSection      = 10
	dataSection      = 11
	dataCountSection = 12
	headerSize       = 8
)

// errModule is returned for what is no WebAssembly module.
var errModule = errors.New("the file is no WebAssembly module")

// Strip returns the module without its data, for instances whose memory comes
// from an image: they would overwrite megabytes of it first.
func Strip(module []byte) ([]byte, error) {
	return rewrite(module, func(id byte, section []byte) ([]byte, error) {
		if id == dataSection || id == dataCountSection {
			return nil, nil
		}
		return section, nil
	})
}

// Hollow returns a module whose functions are all empty. What compiled code is
// linked by is all there, so it stands for the module once that is compiled:
// most of a guest's start would go into checking millions of bytes of code
// again of which none is used.
func Hollow(module []byte) ([]byte, error) {
	return rewrite(module, func(id byte, section []byte) ([]byte, error) {
		if id != codeSection {
			return section, nil
		}
		_, n := binary.Uvarint(section[1:])
		count, m := binary.Uvarint(section[1+n:])
		if m <= 0 || count > uint64(len(section)) {
			return nil, errModule
		}
		bodies := binary.AppendUvarint(nil, count)
		for range count {
			bodies = append(bodies, hollowBody...)
		}
		return append(binary.AppendUvarint([]byte{codeSection}, uint64(len(bodies))), bodies...), nil
	})
}

// hollowBody is a function's: its size, no locals, unreachable, end.
var hollowBody = []byte{3, 0, 0x00, 0x0b}

// rewrite returns the module with what each of its sections becomes.
func rewrite(module []byte, become func(id byte, section []byte) ([]byte, error)) ([]byte, error) {
	if len(module) < headerSize || string(module[:4]) != "\x00asm" {
		return nil, errModule
	}
	out := append([]byte{}, module[:headerSize]...)
	for at := headerSize; at < len(module); {
		size, n := binary.Uvarint(module[at+1:])
		if n <= 0 || size > uint64(len(module)-at-1-n) {
			return nil, errModule
		}
		end := at + 1 + n + int(size)
		section, err := become(module[at], module[at:end])
		if err != nil {
			return nil, err
		}
		out, at = append(out, section...), end
	}
	return out, nil
}
