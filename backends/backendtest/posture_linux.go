package backendtest

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	diff "github.com/google/go-cmp/cmp"
)

var updatePosture = flag.Bool("update-posture", false, "write the postures that were seen as the golden files")

// snapshot is what the host sees of a live guest. Of what differs between
// hosts or guests it keeps the kind.
type snapshot struct {
	Users        string              `json:"users"`
	Capabilities map[string]string   `json:"capabilities"`
	NoNewPrivs   string              `json:"no_new_privs"`
	Seccomp      []string            `json:"seccomp_of_threads"`
	Shared       []string            `json:"namespaces_shared_with_host"`
	Mounts       []string            `json:"mounts"`
	Descriptors  []string            `json:"descriptors"`
	Environment  []string            `json:"environment"`
	Groups       []string            `json:"control_groups_of_its_own"`
	Limits       map[string][]string `json:"limits_soft_and_hard"`
}

// postureStory compares a live guest with the golden file of its backend and
// the host's control groups, in testdata of the backend's package. Remake it with -update-posture.
func postureStory() story {
	return story{
		name: "posture of a live guest", rows: "KS3", blind: "a guest without a wall is a process like any other",
		code: helped("import threading\nmark()\nthreading.Thread(target=time.sleep, args=(30,), daemon=True).start()\nawait look()\nos._exit(0)"),
		arrange: func(s *stage) {
			s.tools["look"] = func([]byte) any {
				if dir := s.guestDir(); dir != "" {
					comparePosture(s, look(s.T, s.suite, dir))
				}
				return nil
			}
		},
		check: exited(0),
	}
}

// guestDir is where the host sees the guest's one marked process, or "" after
// an error.
func (s *stage) guestDir() string {
	found := marked(s.marker)
	if len(found) != 1 {
		s.Errorf("the host sees %d processes of the guest, want 1", len(found))
		return ""
	}
	return fmt.Sprintf("/proc/%d", found[0].pid)
}

func comparePosture(t *stage, got snapshot) {
	t.Helper()
	golden := "testdata/posture-cgroup-" + t.suite.caps.Isolated.Cgroup + ".json"
	doc, err := json.Marshal(got, jsontext.WithIndent("\t"), json.Deterministic(true))
	if err != nil {
		t.Error(err)
		return
	}
	doc = append(doc, '\n')
	if *updatePosture {
		if err := cmp.Or(os.MkdirAll("testdata", 0o755), os.WriteFile(golden, doc, 0o644)); err != nil {
			t.Error(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Errorf("no golden posture: run this test with -update-posture, and read the file: %v", err)
		return
	}
	if d := diff.Diff(string(want), string(doc)); d != "" {
		t.Errorf("posture (-golden +got):\n%s", d)
	}
}

func look(t *testing.T, s *suite, dir string) snapshot {
	return snapshot{
		Users:        users(dir),
		Capabilities: fields(dir, "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"),
		NoNewPrivs:   status(dir, "NoNewPrivs"),
		Seccomp:      ofThreads(dir, "Seccomp"),
		Shared:       sharedNamespaces(dir),
		Mounts:       mountsOf(t, dir),
		Descriptors:  descriptorsOf(dir),
		Environment:  environmentOf(dir),
		Groups:       ownGroups(dir),
		Limits:       limitsOf(dir),
	}
}

// users says whether all of a guest's ids are one, which is not root's.
func users(dir string) string {
	ids := strings.Fields(status(dir, "Uid") + " " + status(dir, "Gid"))
	slices.Sort(ids)
	ids = slices.Compact(ids)
	switch {
	case slices.Contains(ids, "0"):
		return "root among " + strings.Join(ids, " ")
	case len(ids) == 1:
		return "one, not root"
	}
	return strings.Join(ids, " ")
}

func fields(dir string, names ...string) map[string]string {
	found := map[string]string{}
	for _, name := range names {
		found[name] = status(dir, name)
	}
	return found
}

func ofThreads(dir, field string) []string {
	threads, _ := filepath.Glob(dir + "/task/*")
	found := []string{}
	for _, thread := range threads {
		found = append(found, status(thread, field))
	}
	return found
}

func sharedNamespaces(dir string) []string {
	shared := []string{}
	for _, kind := range []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"} {
		theirs, err1 := os.Readlink(dir + "/ns/" + kind)
		ours, err2 := os.Readlink("/proc/self/ns/" + kind)
		if err1 != nil || err2 != nil || theirs == ours {
			shared = append(shared, kind)
		}
	}
	return shared
}

var libraries = regexp.MustCompile(`^(/usr|/lib|/lib64|/opt|/root|/home)(/.*)?$`)

// mountsOf are a guest's mounts: where, of which kind, and with which flags.
// What it has of the system's files differs between hosts, so that it is kept
// as one line for each kind of flags.
func mountsOf(t *testing.T, dir string) []string {
	text, err := os.ReadFile(dir + "/mountinfo")
	if err != nil {
		t.Error(err)
	}
	found := []string{}
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(strings.TrimSpace(line), " - ")
		place, kind := strings.Fields(before), strings.Fields(after)
		at, flags := libraries.ReplaceAllString(place[4], "(system's files)"), place[5]
		what := kind[0]
		if what != "tmpfs" && what != "proc" && what != "mqueue" && what != "devpts" && what != "sysfs" {
			what = "disk"
		}
		if strings.HasPrefix(at, "/proc/") {
			at, what, flags = "(below /proc)", "masked or read-only", ""
		}
		if libraries.MatchString(place[4]) || at == "/airlock" {
			what = "files" // of whatever the host keeps them on
		}
		options := ""
		if what == "tmpfs" && strings.Contains(kind[2], "size=") {
			options = " sized"
		}
		if what == "tmpfs" && strings.Contains(kind[2], "nr_inodes=") {
			options += " counted"
		}
		found = append(found, at+" "+what+" "+flags+options)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// descriptorsOf are a guest's open files by kind.
func descriptorsOf(dir string) []string {
	fds, _ := os.ReadDir(dir + "/fd")
	found := []string{}
	for _, fd := range fds {
		target, _ := os.Readlink(dir + "/fd/" + fd.Name())
		kind, _, _ := strings.Cut(target, ":")
		found = append(found, fd.Name()+" "+kind)
	}
	slices.Sort(found)
	return found
}

func environmentOf(dir string) []string {
	text, _ := os.ReadFile(dir + "/environ")
	found := []string{}
	for entry := range strings.SplitSeq(strings.TrimRight(string(text), "\x00"), "\x00") {
		name, _, _ := strings.Cut(entry, "=")
		found = append(found, name)
	}
	slices.Sort(found)
	return found
}

// ownGroups are the control group hierarchies in which a guest is not where
// the host's test is.
func ownGroups(dir string) []string {
	theirs, ours := groupsIn(dir), groupsIn("/proc/self")
	maps.DeleteFunc(theirs, func(name, path string) bool { return ours[name] == path })
	return slices.Sorted(maps.Keys(theirs))
}

func groupsIn(dir string) map[string]string {
	text, _ := os.ReadFile(dir + "/cgroup")
	found := map[string]string{}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 {
			found[cmp.Or(parts[1], "unified")] = parts[2]
		}
	}
	return found
}

func limitsOf(dir string) map[string][]string {
	text, _ := os.ReadFile(dir + "/limits")
	found := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if name, rest, ok := strings.Cut(line, "  "); ok && strings.HasPrefix(line, "Max ") {
			if values := strings.Fields(rest); len(values) >= 2 {
				found[strings.TrimSpace(name)] = values[:2]
			}
		}
	}
	// By the host's size, its own limits, and how slow it is.
	for _, name := range []string{"Max pending signals", "Max processes", "Max cpu time"} {
		delete(found, name)
	}
	if stack := found["Max stack size"]; len(stack) > 1 {
		found["Max stack size"] = stack[:1]
	}
	return found
}
