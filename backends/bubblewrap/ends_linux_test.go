package bubblewrap_test

import (
	"os/exec"
	"testing"

	"airlock/backends/internal/guestproc"
)

// unknowable are the stories about ends that nothing tells apart before Linux
// 6.15: bwrap says 128+n both of a guest that signal n ended and of one that
// exits with that code.
func unknowable(t *testing.T) map[string]string {
	cmd := exec.Command("/bin/sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	main := guestproc.OpenMain(cmd.Process.Pid)
	main.Kill()
	_ = cmd.Wait() // it was killed
	except := map[string]string{}
	if _, ok := main.Status(); ok {
		return except
	}
	for _, code := range []string{"exit 137 is no kill", "exit 159 is no filter"} {
		except[code] = "before Linux 6.15 bwrap's exit status is all there is, and looks the same for both; it harms only the guest that does it"
	}
	return except
}
