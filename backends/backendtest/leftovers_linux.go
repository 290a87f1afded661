package backendtest

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// process is one that the host sees.
type process struct {
	pid  int
	name string
}

// marked lists the processes that call themselves marker, or have it among
// their arguments. A zombie that init has yet to reap holds nothing and is
// left out; one of this process's own is not.
func marked(marker string) []process {
	entries, _ := os.ReadDir("/proc")
	var found []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		dir := filepath.Join("/proc", e.Name())
		comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if strings.TrimSpace(string(comm)) != marker && !bytes.Contains(args, []byte(marker)) {
			continue
		}
		if foreignZombie(dir) {
			continue
		}
		found = append(found, process{pid, strings.TrimSpace(string(comm)) + " " + string(bytes.ReplaceAll(args, []byte{0}, []byte{' '}))})
	}
	return found
}

func foreignZombie(dir string) bool {
	state, parent := status(dir, "State"), status(dir, "PPid")
	return strings.HasPrefix(state, "Z") && parent != strconv.Itoa(os.Getpid())
}

// status is one field of a process's status file; "" when it is gone.
func status(dir, field string) string {
	text, _ := os.ReadFile(filepath.Join(dir, "status"))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// checkLeftovers fails for whatever is still there of a run that returned.
func (s *suite) checkLeftovers(t interface {
	Helper()
	Errorf(format string, args ...any)
}, sg *stage) {
	t.Helper()
	for _, p := range marked(sg.marker) {
		t.Errorf("process %d (%s) of the guest is still there", p.pid, p.name)
	}
	for _, dir := range named(sg.job.String()) {
		t.Errorf("%s is still there", dir)
	}
}

// named lists the cgroups, mounts and temporary files that carry a job's id.
func named(id string) []string {
	short := strings.ReplaceAll(id, "-", "")
	ours := func(s string) bool { return strings.Contains(s, id) || strings.Contains(s, short) }
	var found []string
	for _, root := range []string{"/sys/fs/cgroup", os.TempDir()} {
		_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err == nil && ours(e.Name()) {
				found = append(found, path)
			}
			return nil
		})
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if ours(line) {
			found = append(found, "mount "+strings.TrimSpace(line))
		}
	}
	return found
}

// groups lists the control groups that are named after this process.
func groups() []string {
	var found []string
	ours := fmt.Sprintf("-%d-", os.Getpid())
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && strings.Contains(e.Name(), ours) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// holdings are what a process holds beyond its memory.
type holdings struct {
	descriptors map[string]string
	children    []string
	mounts      string
	temp        []string
	groups      []string
	// technology is what the harness says that the backend's holds.
	technology []string
}

// mounts is the list of this namespace's mounts that name us, as all of ours
// do: others, such as container engines, come and go beside any test.
func mounts() string {
	var ours strings.Builder
	info, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(info)) {
		if strings.Contains(line, "airlock") && !strings.Contains(line, "dockerd") {
			ours.WriteString(line)
		}
	}
	return ours.String()
}

func (s *suite) hold() holdings {
	h := holdings{descriptors: map[string]string{}}
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		// The descriptor of the directory being read is gone by now.
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			h.descriptors[e.Name()] = target
		}
	}
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range tasks {
		pids, _ := os.ReadFile(file)
		h.children = append(h.children, strings.Fields(string(pids))...)
	}
	h.mounts, h.groups = mounts(), groups()
	if s.Holds != nil {
		h.technology = s.Holds()
	}
	_ = filepath.WalkDir(os.TempDir(), func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			h.temp = append(h.temp, path)
		}
		return nil
	})
	return h
}
