package doctor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// runTime bounds a program that is asked for its version.
const runTime = 10 * time.Second

// This is the host that the program runs on, without what has to be asked
// elsewhere: the caller adds engine, services and backends.
func This() Host {
	return Host{Root: os.DirFS(systemRoot), UID: os.Geteuid(), Run: run}
}

// head keeps the beginning of what is written to it.
type head struct{ bytes.Buffer }

func (h *head) Write(b []byte) (int, error) {
	_, _ = h.Buffer.Write(b[:min(len(b), maxFile-h.Len())])
	return len(b), nil
}

func run(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out head
	cmd.Stdout, cmd.WaitDelay = &out, time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("run %s: %w", name, err)
	}
	return out.String(), nil
}
