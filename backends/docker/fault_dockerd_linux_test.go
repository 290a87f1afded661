package docker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"airlock/backends/docker"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
)

// dockerd is an engine of a test's own, to be stopped, hung and starved. All
// of it is below one directory and in a network namespace of its own, where it
// may have a docker0 and a firewall as it likes.
type dockerd struct {
	dir, host string
	args      []string
	api       *client.Client
	// dead is closed when the process is.
	cmd, containerd      *exec.Cmd
	dead, containerdDead chan struct{}
}

// newDockerd starts an engine that has the runner image.
func newDockerd(t *testing.T) *dockerd {
	t.Helper()
	dir, err := os.MkdirTemp("", "airlock-dockerd-")
	if err != nil {
		t.Fatal(err)
	}
	return dockerdIn(t, dir)
}

// dockerdIn is newDockerd in a directory, which it removes at the end.
func dockerdIn(t *testing.T, dir string) *dockerd {
	t.Helper()
	d := &dockerd{dir: dir, host: "unix://" + filepath.Join(dir, "s")}
	t.Cleanup(func() { d.clear(t) })
	d.start(t)
	d.api = api(t, d.host)
	d.load(t, runnerImage(t))
	return d
}

// load has the engine take the images of a file.
func (d *dockerd) load(t *testing.T, name string) {
	t.Helper()
	image, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	loaded, err := d.api.ImageLoad(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Body.Close()
	if said, err := io.ReadAll(loaded.Body); err != nil || strings.Contains(string(said), "errorDetail") {
		t.Fatalf("load the runner image: %v: %s", err, said)
	}
}

// needDockerd skips a test that cannot have an engine of its own.
func needDockerd(t *testing.T) {
	t.Helper()
	why := ""
	if os.Getuid() != 0 {
		why = "only root can start an engine"
	} else if _, err := exec.LookPath("dockerd"); err != nil {
		why = "there is no dockerd to start an engine of"
	}
	lack(t, why)
}

// lack skips the test if there is a reason to, unless it is required.
func lack(t testing.TB, why string) {
	t.Helper()
	switch {
	case why == "":
	case slices.Contains(strings.Split(os.Getenv("AIRLOCK_REQUIRE"), ","), docker.Name):
		t.Fatalf("AIRLOCK_REQUIRE names docker, but: %s", why)
	default:
		t.Skip(why)
	}
}

func api(t testing.TB, host string) *client.Client {
	t.Helper()
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if host != "" {
		opts = append(opts, client.WithHost(host))
	}
	api, err := client.NewClientWithOpts(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Close() })
	return api
}

// savedImage is the runner image of the engine that there is, in a file that
// has no name any more. Without its tag the engine saves those of before too.
var savedImage = sync.OnceValues(func() (*os.File, error) {
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, err
	}
	defer api.Close()
	image, err := api.ImageSave(context.Background(), []string{docker.DefaultImage + ":latest"})
	if err != nil {
		return nil, err
	}
	defer image.Close()
	file, err := os.CreateTemp("", "airlock-runner-")
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(file, image)
	return file, errors.Join(err, os.Remove(file.Name()))
})

// runnerImage is a path at which any process of this user finds it.
func runnerImage(t testing.TB) string {
	t.Helper()
	file, err := savedImage()
	if err != nil {
		lack(t, "the runner image is not to be had: "+err.Error())
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), file.Fd())
}

// start starts the engine, also again, and waits until it answers. Its
// containerd is a process of its own, as on most hosts, and stays when the
// engine goes.
func (d *dockerd) start(t *testing.T) {
	t.Helper()
	if d.containerd == nil {
		d.startContainerd(t)
	}
	d.cmd = d.command("dockerd", append([]string{
		"-H", d.host, "--containerd", d.at("c.sock"), "--data-root", d.at("data"), "--exec-root", d.at("run"), "--pidfile", d.at("pid"),
		"--iptables=false", "--ip6tables=false", "--ip-forward=false",
	}, d.args...)...)
	d.dead = spawn(t, d.cmd)
	until(t, "the test's own engine answers", func() bool {
		select {
		case <-d.dead:
			t.Fatalf("dockerd ended at its start:\n%s", d.log())
		default:
		}
		_, err := api(t, d.host).Ping(t.Context())
		return err == nil
	})
}

func (d *dockerd) startContainerd(t *testing.T) {
	t.Helper()
	config := fmt.Sprintf("version = 2\nroot = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = %q\n",
		d.at("data/containerd"), d.at("run/containerd"), d.at("c.sock"))
	if err := os.WriteFile(d.at("containerd.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	d.containerd = d.command("containerd", "--config", d.at("containerd.toml"))
	d.containerdDead = spawn(t, d.containerd)
	until(t, "the test's own containerd answers", func() bool {
		conn, err := net.Dial("unix", d.at("c.sock"))
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

func (d *dockerd) at(name string) string { return filepath.Join(d.dir, name) }

// command is a program in a network namespace of its own that logs to the
// engine's log.
func (d *dockerd) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Stdout = logTo(d.at("log"))
	cmd.Stderr = cmd.Stdout
	// It is not to outlive the tests, however they end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return cmd
}

// logTo appends to a file that need not stay open.
type logTo string

// Write implements io.Writer.
func (l logTo) Write(p []byte) (int, error) {
	file, err := os.OpenFile(string(l), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	return file.Write(p)
}

// spawn starts a process; the channel is closed when it is dead.
func spawn(t *testing.T, cmd *exec.Cmd) (dead chan struct{}) {
	t.Helper()
	started := make(chan error)
	dead = make(chan struct{})
	go func() {
		defer close(dead)
		// The signal of a parent's death is that of the thread's.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	return dead
}

// log is the end of the engine's.
func (d *dockerd) log() string {
	all, _ := os.ReadFile(d.at("log"))
	return string(all[max(0, len(all)-2000):])
}

// signal sends the process one; end also waits for its death.
func (d *dockerd) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func (d *dockerd) end(t testing.TB, s syscall.Signal) {
	t.Helper()
	d.signal(t, s)
	select {
	case <-d.dead:
	case <-time.After(40 * time.Second):
		t.Fatalf("dockerd does not end:\n%s", d.log())
	}
}

// clear ends the engine and removes all there is of it.
func (d *dockerd) clear(t *testing.T) {
	if t.Failed() {
		t.Logf("the end of the engine's log:\n%s", d.log())
	}
	if d.dead != nil {
		_ = d.cmd.Process.Signal(syscall.SIGCONT)
		quit(d.cmd, d.dead)
	}
	if d.containerdDead != nil {
		quit(d.containerd, d.containerdDead)
	}
	for _, pid := range d.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, mount := range d.mounts() {
		_ = syscall.Unmount(mount, syscall.MNT_DETACH)
	}
	until(t, "the engine's files are gone", func() bool { return os.RemoveAll(d.dir) == nil })
}

// quit asks a process to end and sees to it that it does.
func quit(cmd *exec.Cmd, dead <-chan struct{}) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-dead:
	case <-time.After(15 * time.Second):
		_ = cmd.Process.Kill()
		<-dead
	}
}

// processes are the engine's that outlived it: they name its directory.
func (d *dockerd) processes() []int {
	var found []int
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		line, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(line), d.dir+"/") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && pid != os.Getpid() {
			found = append(found, pid)
		}
	}
	return found
}

// mounts are those below the engine's directory, the innermost first.
func (d *dockerd) mounts() []string {
	table, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer table.Close()
	var found []string
	for lines := bufio.NewScanner(table); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 && strings.HasPrefix(fields[4]+"/", d.dir+"/") {
			found = append(found, fields[4])
		}
	}
	slices.Reverse(found)
	return found
}

// containers are the states of an engine's guests by the names of their owners.
func containers(t testing.TB, api *client.Client) map[string]container.State {
	t.Helper()
	return containersOf(t, api, "airlock.owner")
}

// containersOf are those with the label.
func containersOf(t testing.TB, api *client.Client, label string) map[string]container.State {
	t.Helper()
	all, err := api.ContainerList(t.Context(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", label))})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]container.State{}
	for _, c := range all {
		one, err := api.ContainerInspect(t.Context(), c.ID)
		if client.IsErrNotFound(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		found[one.Config.Labels["airlock.owner"]] = *one.State
	}
	return found
}

// living are the processes that are there and no zombies.
func living(pids []int) []int {
	return slices.DeleteFunc(slices.Clone(pids), func(pid int) bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return true
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(after, "Z") || strings.HasPrefix(after, "X")
	})
}

// containerIDs are those of all of an engine's.
func containerIDs(t testing.TB, api *client.Client) map[string]bool {
	t.Helper()
	all, err := api.ContainerList(t.Context(), container.ListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, c := range all {
		found[c.ID] = true
	}
	return found
}
