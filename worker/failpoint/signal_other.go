//go:build !unix

package failpoint

import (
	"errors"
	"os"
)

// kill ends the process without any of its own clean-up. It does not return.
func kill() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}

func stop() (func(), error) {
	return nil, errors.New("this system has no signal that stops a process; take pause=DURATION")
}
