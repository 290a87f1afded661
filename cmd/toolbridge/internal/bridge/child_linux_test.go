package bridge_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// alive reports whether the process is there and no zombie.
func alive(t *testing.T, pid string) bool {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil || n < 2 {
		t.Fatalf("got %q for a process's number", pid)
	}
	raw, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(raw), ") Z ")
}

// Nothing of a server is left, whether it ends when asked or not, and whatever
// it started.
func TestNoOrphans(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"all", "stays"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			nc, _, stop := serve(t, local("n", kind))
			server, grandchild := text(t, nc, "tools.n.pid", `{}`), text(t, nc, "tools.n.spawn", `{}`)
			if !alive(t, server) || !alive(t, grandchild) {
				t.Fatal("they do not live now")
			}
			stop()
			if alive(t, server) {
				t.Error("the server lives on")
			}
			eventually(t, "its child has taken its signal", func() bool { return !alive(t, grandchild) })
		})
	}
}

// A server whose child holds its output is seen to have died all the same.
func TestADeathThatTheOutputHides(t *testing.T) {
	t.Parallel()
	nc, _, _ := serve(t, local("n", "all"))
	grandchild := text(t, nc, "tools.n.spawn", `{}`)
	server := text(t, nc, "tools.n.pid", `{}`)
	pid, _ := strconv.Atoi(server)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another serves", func() bool {
		answer := ask(t, nc, "tools.n.pid", `{}`)
		return len(answer.Data) > 0 && string(answer.Data) != `"`+server+`"`
	})
	eventually(t, "what the dead server started is gone", func() bool { return !alive(t, grandchild) })
}

// A server ends even where toolbridge gets no chance to end it.
func TestTheServerOfABridgeThatIsKilled(t *testing.T) {
	t.Parallel()
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), kindVariable+"=bridge")
	out, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "open\n" {
		t.Fatalf("got %q (%v), want open", said, err)
	}
	server := childOf(t, holder.Process.Pid)
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	holder.Wait()
	eventually(t, "the server is gone", func() bool { return !alive(t, server) })
}

// childOf is the number of the process's only child.
func childOf(t *testing.T, pid int) string {
	t.Helper()
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	var all string
	for _, list := range lists {
		raw, err := os.ReadFile(list)
		if err != nil {
			t.Skipf("this kernel does not list children: %v", err)
		}
		all += string(raw)
	}
	if strings.TrimSpace(all) == "" || len(strings.Fields(all)) != 1 {
		t.Fatalf("got children %q, want one", all)
	}
	return strings.TrimSpace(all)
}
