//go:build unix

package storetest

import (
	"io"
	"os/exec"
	"syscall"
)

// removeAfterExit removes dir once this process and the server in dir have
// ended. A shell waits for the end of a pipe that only this process holds, and
// ends the server if it still runs, as it does where the system has no signal
// for a parent's death.
func removeAfterExit(dir string) (io.Closer, error) {
	const script = `
		cat >/dev/null
		pidfile="$1/postgres/data/postmaster.pid"
		if pid=$(head -n 1 "$pidfile" 2>/dev/null); then
			kill -QUIT "$pid" 2>/dev/null
			while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
		fi
		rm -rf -- "$1"`
	cmd := exec.Command("/bin/sh", "-c", script, "sh", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return pipe, cmd.Start()
}
