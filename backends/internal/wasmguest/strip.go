package wasmguest

import (
	"encoding/binary"
	"errors"
)

// The sections of a module that put bytes into a new memory.
const (
	dataSection      = 11
	dataCountSection = 12
	headerSize       = 8
)

// errModule is returned for what is no WebAssembly module.
var errModule = errors.New("the file is no WebAssembly module")

// Strip returns the module without its data, for instances whose memory comes
// from an image: they would overwrite megabytes of it first.
func Strip(module []byte) ([]byte, error) {
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
		if id := module[at]; id != dataSection && id != dataCountSection {
			out = append(out, module[at:end]...)
		}
		at = end
	}
	return out, nil
}
