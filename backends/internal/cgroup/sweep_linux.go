package cgroup

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// sweep removes the groups of dead workers, with whatever still runs in them.
// A group that cannot be removed is left for the next sweep.
func (h *Host) sweep() {
	for _, parent := range h.dirs() {
		entries, err := os.ReadDir(parent)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			if entry.IsDir() && h.owner.Left(entry.Name()) {
				reap(filepath.Join(parent, entry.Name()))
			}
		}
	}
}

// sweepTime bounds the removal of one leftover group.
const sweepTime = 2 * time.Second

func reap(dir string) {
	ctx, cancel := context.WithTimeout(context.Background(), sweepTime)
	defer cancel()
	if killAll(ctx, dir, 0) == nil {
		_ = rmdir(ctx, dir)
	}
}
