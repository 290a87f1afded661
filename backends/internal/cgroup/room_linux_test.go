package cgroup_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"airlock/backends/internal/cgroup"

	"github.com/google/go-cmp/cmp"
)

func TestRooms(t *testing.T) {
	t.Parallel()
	v1 := func(limit, used, idle string) map[string]string {
		return map[string]string{"memory.limit_in_bytes": limit, "memory.usage_in_bytes": used, "memory.stat": "cache 1\ninactive_file 7\ntotal_inactive_file " + idle + "\n"}
	}
	v2 := func(limit, used, idle string) map[string]string {
		return map[string]string{"memory.max": limit, "memory.current": used, "memory.stat": "anon 1\ninactive_file " + idle + "\nactive_file 3\n"}
	}
	for _, tt := range []struct {
		name  string
		mount string // its mountinfo's end
		group string
		files map[string]map[string]string // by directory below the mount
		want  []cgroup.Room
	}{
		{
			name: "version 1, one above has a limit", mount: "cgroup cgroup rw,memory", group: "4:memory:/a/b",
			files: map[string]map[string]string{"a/b": v1("9223372036854771712\n", "5\n", "1"), "a": v1("1000\n", "900\n", "100"), ".": v1("9223372036854771712\n", "1\n", "1")},
			want:  []cgroup.Room{{Used: 800, Limit: 1000}},
		},
		{
			name: "version 2, each has one", mount: "cgroup2 cgroup2 rw", group: "0::/a/b",
			files: map[string]map[string]string{"a/b": v2("100\n", "90\n", "0"), "a": v2("1000\n", "900\n", "950"), ".": {"cgroup.procs": ""}},
			want:  []cgroup.Room{{Used: 90, Limit: 100}, {Used: 0, Limit: 1000}},
		},
		{
			name: "version 2, memory is counted above only", mount: "cgroup2 cgroup2 rw", group: "0::/a/b",
			files: map[string]map[string]string{"a/b": {"cgroup.procs": ""}, "a": v2("1000\n", "900\n", "1"), ".": v2("max\n", "900\n", "1")},
			want:  []cgroup.Room{{Used: 899, Limit: 1000}},
		},
		{
			name: "no limit", mount: "cgroup2 cgroup2 rw", group: "0::/a",
			files: map[string]map[string]string{"a": v2("max\n", "900\n", "1")},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			for dir, files := range tt.files {
				if err := os.MkdirAll(filepath.Join(top, dir), 0o700); err != nil {
					t.Fatal(err)
				}
				for name, text := range files {
					write(t, filepath.Join(top, dir, name), text)
				}
			}
			proc := t.TempDir()
			mountinfo, groups := filepath.Join(proc, "mountinfo"), filepath.Join(proc, "cgroup")
			write(t, mountinfo, fmt.Sprintf("35 31 0:32 / %s rw - %s\n", top, tt.mount))
			write(t, groups, tt.group+"\n")
			got, err := cgroup.RoomsOf(mountinfo, groups)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("rooms (-want +got):\n%s", diff)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
