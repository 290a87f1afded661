package docker

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// ending is what the container's first process reports of the guest when all
// of it is dead and reaped.
type ending struct {
	// status is the main process's, as the kernel gave it.
	status   uint32
	diskFull bool
	// many says that the guest had more than one process or thread, or that
	// the kernel does not tell.
	many bool
	// cpu is the processor time of all processes that were waited for, which
	// those are not whose parent ignored SIGCHLD.
	cpu time.Duration
	// largest is the resident peak of the largest such process, in bytes.
	largest int64
}

// The body of a guestEnded frame. first.py describes it.
const (
	endingSize = 4 + 1 + 8 + 8

	flagFull = 1
	flagMany = 2
)

func readEnding(body []byte) (ending, error) {
	if len(body) != endingSize {
		return ending{}, fmt.Errorf("the container reports the guest's end in %d bytes, want %d", len(body), endingSize)
	}
	flags := body[4]
	cpu, largest := binary.BigEndian.Uint64(body[5:]), binary.BigEndian.Uint64(body[13:])
	if flags&^(flagFull|flagMany) != 0 || cpu > math.MaxInt64/1000 || largest > math.MaxInt64 {
		return ending{}, fmt.Errorf("the container reports nonsense of the guest's end: flags %#x, %d µs, %d bytes", flags, cpu, largest)
	}
	return ending{
		status: binary.BigEndian.Uint32(body), diskFull: flags&flagFull != 0, many: flags&flagMany != 0,
		cpu: time.Duration(cpu) * time.Microsecond, largest: int64(largest),
	}, nil
}
