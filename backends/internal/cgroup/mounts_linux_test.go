package cgroup_test

import (
	"os"
	"path/filepath"
	"testing"

	"airlock/backends/internal/cgroup"

	"github.com/google/go-cmp/cmp"
)

func TestMounts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, mountinfo, groups string
		v1                      map[cgroup.Controller]string
		own, top                string
		fails                   bool
	}{
		{
			name:      "version 2",
			mountinfo: "25 30 0:23 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
			groups:    "0::/user.slice/worker.service\n",
			v1:        map[cgroup.Controller]string{}, own: "/sys/fs/cgroup/user.slice/worker.service", top: "/sys/fs/cgroup",
		},
		{
			name: "version 1, controllers together, beside an empty version 2",
			mountinfo: "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" +
				"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:1 master:2 - cgroup cgroup rw,cpu,cpuacct\n" +
				"35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
				"39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n" +
				"40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n" +
				"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			groups: "9:name=systemd:/x\n8:pids:/\n4:memory:/a/b\n2:cpu,cpuacct:/c\n0::/u\n",
			v1: map[cgroup.Controller]string{
				"cpu": "/sys/fs/cgroup/cpu,cpuacct/c", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct/c",
				"memory": "/sys/fs/cgroup/memory/a/b", "pids": "/sys/fs/cgroup/pids",
			},
			own: "/sys/fs/cgroup/unified/u", top: "/sys/fs/cgroup/unified",
		},
		{
			name:      "a container that sees its own part only",
			mountinfo: "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			groups:    "4:memory:/docker/abc\n8:pids:/docker/abc\n",
			v1:        map[cgroup.Controller]string{"memory": "/sys/fs/cgroup/memory"},
		},
		{
			name:      "our own group is outside of what is mounted",
			mountinfo: "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			groups:    "4:memory:/docker/abcdef\n",
			fails:     true,
		},
		{
			name:      "a mount point with a space",
			mountinfo: `25 30 0:23 / /sys/fs/c\040group rw - cgroup2 cgroup2 rw` + "\n",
			groups:    "0::/\n",
			v1:        map[cgroup.Controller]string{}, own: "/sys/fs/c group", top: "/sys/fs/c group",
		},
		{name: "none", mountinfo: "31 23 0:28 / / rw - ext4 /dev/vda rw\nnonsense\n", groups: "0::/\n", fails: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			mountinfo, groups := filepath.Join(dir, "mountinfo"), filepath.Join(dir, "cgroup")
			for path, text := range map[string]string{mountinfo: tt.mountinfo, groups: tt.groups} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			v1, own, top, err := cgroup.Mounts(mountinfo, groups)
			if (err != nil) != tt.fails {
				t.Fatalf("got error %v, want one: %v", err, tt.fails)
			}
			if diff := cmp.Diff(tt.v1, v1); diff != "" && !tt.fails {
				t.Errorf("version 1 groups (-want +got):\n%s", diff)
			}
			if own != tt.own || top != tt.top {
				t.Errorf("got own %q and top %q, want %q and %q", own, top, tt.own, tt.top)
			}
		})
	}
}
