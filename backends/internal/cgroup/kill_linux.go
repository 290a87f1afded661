package cgroup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// members lists the processes of the group at dir but the one that is spared.
// A group that is gone has none.
func members(dir string, spared int) ([]int, error) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var pids []int
	for word := range strings.FieldsSeq(string(data)) {
		pid, err := strconv.Atoi(word)
		// On version 1 a thread of ours in the group shows as our process.
		if err == nil && pid > 0 && pid != os.Getpid() && pid != spared {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// killAll kills the members of the group until it has none but the spared one.
func killAll(ctx context.Context, dir string, spared int) error {
	for {
		pids, err := members(dir, spared)
		if err != nil || len(pids) == 0 {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		killMembers(dir, pids)
	}
}

// patience is how long one round waits for the killed to be gone; those that
// they started meanwhile wait for the next round.
const patience = 20 * time.Millisecond

// killMembers kills by descriptor and only what is still a member once the
// descriptor is open, so that a reused pid is never hit.
func killMembers(dir string, pids []int) {
	var polls []unix.PollFd
	defer func() {
		for _, p := range polls {
			_ = unix.Close(int(p.Fd))
		}
	}()
	for _, pid := range pids {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			polls = append(polls, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		} else {
			polls = append(polls, unix.PollFd{Fd: -1})
		}
	}
	still, err := members(dir, 0)
	if err != nil {
		return
	}
	deadline := time.Now().Add(patience)
	for i, pid := range pids {
		switch {
		case !slices.Contains(still, pid):
		case polls[i].Fd >= 0:
			_ = unix.PidfdSendSignal(int(polls[i].Fd), unix.SIGKILL, nil, 0)
		default: // no pidfd_open before Linux 5.3
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	waitAll(polls, deadline)
}

// waitAll waits until each descriptor reports an exit, or the deadline.
func waitAll(polls []unix.PollFd, deadline time.Time) {
	for i := range polls {
		left := time.Until(deadline).Milliseconds()
		if polls[i].Fd < 0 {
			left = min(left, 1)
		}
		if left > 0 {
			_, _ = unix.Poll(polls[i:i+1], int(left)) // a negative descriptor only waits
		}
	}
}
