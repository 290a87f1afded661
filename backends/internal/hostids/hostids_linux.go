//go:build linux

// Package hostids hands out the users that guests are on the host when the
// worker is root.
package hostids

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"syscall"
)

const (
	// Block is how many users one backend of one worker has for its guests.
	Block = 1024
	// firstUID and blocks make the default ranges, which neither distributions
	// nor container managers hand out: from 1,900,000,000 up to 1,967,108,863
	// for backends of the first kind, and as many more for those of each other.
	firstUID = 1_900_000_000
	blocks   = 1 << 16
)

// Kind tells the backends of one worker apart.
type Kind int

// The kinds.
const (
	Started Kind = iota // guests are started, each as a user
	Forked              // guests are forked, inside one user namespace
	Modules             // guests are modules, each in a process of a user
)

// IDs hands out the host's users, each to one guest at a time. Its methods may
// be called from several goroutines at once.
type IDs struct {
	// First is the first of Block users, and groups.
	First int

	mu   sync.Mutex
	used [Block]bool // guarded by mu
}

// Open finds the users: those from configured on, or by default a block after
// our pid. It reserves nothing on the host: workers keep apart by their pids.
func Open(configured int, kind Kind) (*IDs, error) {
	first := configured
	if first == 0 {
		first = firstUID + (int(kind)*blocks+os.Getpid()%blocks)*Block
	}
	for _, file := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		fits, err := mapped(file, first, kind)
		if err != nil {
			return nil, err
		}
		if fits != first && configured != 0 {
			return nil, fmt.Errorf("uids from %d on are not mapped in this user namespace, see %s", first, file)
		}
		first = fits
	}
	return &IDs{First: first}, nil
}

// mapped returns first if a block from there on exists in our user namespace,
// else the last block that does, or for the second kind the one before.
func mapped(file string, first int, kind Kind) (int, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, fmt.Errorf("read ids: %w", err)
	}
	defer f.Close()
	last, need := -1, (int(kind)+1)*Block
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var inside, outside, count int
		if _, err := fmt.Sscan(lines.Text(), &inside, &outside, &count); err != nil {
			return 0, fmt.Errorf("read ids: %w", err)
		}
		if inside <= first && first+Block <= inside+count {
			return first, nil
		}
		if count > need {
			last = max(last, inside+count-need)
		}
	}
	if last <= 0 {
		return 0, fmt.Errorf("this user namespace has no %d uids for guests besides root: map more of them, or run the worker as another user", need)
	}
	return last, nil
}

// Take returns a user that no other guest of ours has, and the function to
// give it back.
func (i *IDs) Take() (id int, back func(), err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n, used := range i.used {
		if !used {
			i.used[n] = true
			return i.First + n, func() {
				i.mu.Lock()
				defer i.mu.Unlock()
				i.used[n] = false
			}, nil
		}
	}
	return 0, nil, fmt.Errorf("more than %d guests at once", Block)
}

// Credential makes a process that user's and its group's.
func Credential(id int) *syscall.Credential {
	return &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}
}
