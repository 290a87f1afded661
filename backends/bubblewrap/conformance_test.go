package bubblewrap_test

import (
	"os/exec"
	"testing"

	"airlock/backends"
	"airlock/backends/backendtest"
	"airlock/backends/bubblewrap"
	"airlock/backends/internal/guestproc"

	"github.com/rs/zerolog"
)

func TestConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Harness{
		Name: bubblewrap.Name, Except: unknowable(t),
		New: func(t testing.TB) backends.Backend {
			return bubblewrap.New(bubblewrap.Config{Log: zerolog.New(zerolog.NewTestWriter(t))})
		},
	})
}

// TestParkedConformance tells the same stories of guests that were started
// before their jobs came.
func TestParkedConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Harness{
		Name: bubblewrap.Name, Unrecorded: true,
		New: func(t testing.TB) backends.Backend {
			log := zerolog.New(zerolog.NewTestWriter(t))
			return backends.Parked(bubblewrap.New(bubblewrap.Config{Log: log}), backends.ParkedConfig{Size: 2, Log: log})
		},
		Except: with(unknowable(t), "nothing stays: descriptors, goroutines, children, mounts, files", "the guests that are parked next are there"),
	})
}

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

func with(m map[string]string, key, value string) map[string]string {
	m[key] = value
	return m
}
