package bubblewrap

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

const (
	// block is how many users one worker has for its guests.
	block = 1024
	// firstUID and blocks make the default range: 1,900,000,000 up to
	// 1,967,108,863, which neither distributions nor container managers hand
	// out.
	firstUID = 1_900_000_000
	blocks   = 1 << 16
)

// ids hands out the host's users, each to one guest at a time.
type ids struct {
	first int

	mu   sync.Mutex
	used [block]bool // guarded by mu
}

// newIDs reserves nothing on the host: workers keep apart by their pids.
func newIDs(configured int) (*ids, error) {
	first := configured
	if first == 0 {
		first = firstUID + os.Getpid()%blocks*block
	}
	for _, file := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		fits, err := mapped(file, first)
		if err != nil {
			return nil, err
		}
		if fits != first && configured != 0 {
			return nil, fmt.Errorf("uids from %d on are not mapped in this user namespace, see %s", first, file)
		}
		first = fits
	}
	return &ids{first: first}, nil
}

// mapped returns first if a block from there on exists in our user namespace,
// else the last block that does.
func mapped(file string, first int) (int, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, fmt.Errorf("read ids: %w", err)
	}
	defer f.Close()
	last := -1
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var inside, outside, count int
		if _, err := fmt.Sscan(lines.Text(), &inside, &outside, &count); err != nil {
			return 0, fmt.Errorf("read ids: %w", err)
		}
		if inside <= first && first+block <= inside+count {
			return first, nil
		}
		if count > block {
			last = max(last, inside+count-block)
		}
	}
	if last <= 0 {
		return 0, errors.New("this user namespace has no 1024 uids for guests besides root: map more of them, or run the worker as another user")
	}
	return last, nil
}

// take returns a user that no other guest of ours has, and the function to
// give it back.
func (i *ids) take() (id int, back func(), err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n, used := range i.used {
		if !used {
			i.used[n] = true
			return i.first + n, func() {
				i.mu.Lock()
				defer i.mu.Unlock()
				i.used[n] = false
			}, nil
		}
	}
	return 0, nil, fmt.Errorf("more than %d guests at once", block)
}

func credential(id int) *syscall.Credential {
	return &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}
}
