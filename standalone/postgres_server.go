package standalone

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// pgServer is the running postmaster.
type pgServer struct {
	cmd     *exec.Cmd
	pgctl   string
	dataDir string
	done    chan struct{} // closed when the process has ended and was reaped
	err     error         // how it ended; read after done
}

// startServer starts the process and waits for it in the background until
// stop has seen its end.
func startServer(cmd *exec.Cmd, pgctl, dataDir string) (*pgServer, error) {
	s := &pgServer{cmd: cmd, pgctl: pgctl, dataDir: dataDir, done: make(chan struct{})}
	detach(cmd)
	started := make(chan error)
	go func() {
		defer close(s.done)
		// The parent-death signal is sent when the starting thread ends, so
		// that thread must live as long as the server.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			s.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		<-s.done
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	return s, nil
}

func (s *pgServer) pid() int { return s.cmd.Process.Pid }

// stop asks for a fast shutdown, then for an immediate one, then kills.
func (s *pgServer) stop(patience time.Duration) error {
	if s.ended(0) {
		return nil
	}
	for _, mode := range []string{"fast", "immediate"} {
		if err := s.signal(mode); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop postgres: %w", err)
		}
		if s.ended(patience) {
			return nil
		}
	}
	_ = s.cmd.Process.Kill() // its children end when they notice
	<-s.done
	return fmt.Errorf("postgres did not stop within %s and was killed", 2*patience)
}

func (s *pgServer) ended(patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-s.done:
		return true
	case <-timer.C:
	}
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// stopLeftover stops a server that a killed process left on this directory.
// The lock on the directory is ours, so that its parent is gone.
func (p *Postgres) stopLeftover(ctx context.Context) error {
	pidFile := filepath.Join(p.dataDir(), "postmaster.pid")
	pid, err := leftoverPID(pidFile)
	if err != nil || pid == 0 {
		return err
	}
	if !servesDir(pid, p.dataDir()) {
		return nil // the number is another process's by now; postgres sorts that out by itself
	}
	p.cfg.Log.Warn().Int("pid", pid).Msg("stopping the postgres that an earlier process left running")
	for _, mode := range []string{"fast", "immediate"} {
		cmd := exec.CommandContext(ctx, p.programs.pgctl, "stop", "-D", p.dataDir(), "-m", mode, "-w", "-t", "30")
		cmd.Env, cmd.Dir = p.programs.env(), p.cfg.Dir
		p.account.run(cmd)
		var out []byte
		if out, err = cmd.CombinedOutput(); err == nil {
			return nil
		}
		err = fmt.Errorf("stop leftover postgres with pid %d: %w: %s", pid, err, lastLines(string(out), 3))
	}
	if _, gone := os.Stat(pidFile); errors.Is(gone, os.ErrNotExist) {
		return nil // it ended by itself meanwhile
	}
	return err
}

// leftoverPID reads the first line of a postmaster.pid; 0 if there is none.
func leftoverPID(path string) (int, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read postmaster.pid: %w", err)
	}
	line, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid <= 1 {
		return 0, nil // half written by a crash: postgres refuses or replaces it
	}
	return pid, nil
}
