package seccomp

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/net/bpf"
)

// Decide says what the filter of an architecture does with a call of that
// number whose arguments are all zero.
func Decide(arch string, number uint32) (Action, error) {
	program, err := Filter(arch)
	if err != nil {
		return 0, err
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		return 0, fmt.Errorf("load the filter: %w", err)
	}
	// The kernel's struct seccomp_data: number, architecture, address, six
	// arguments. The machine reads words in network order.
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data, number)
	binary.BigEndian.PutUint32(data[4:], audit[arch])
	action, err := vm.Run(data)
	if err != nil {
		return 0, fmt.Errorf("run the filter: %w", err)
	}
	return Action(uint32(action)), nil
}
