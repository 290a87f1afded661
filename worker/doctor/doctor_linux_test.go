package doctor_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"airlock/job"
	"airlock/worker/doctor"
)

// files are the text of files by path.
type files map[string]string

// sound is a host on which no check finds anything.
func sound(t *testing.T) doctor.Host {
	return doctor.Host{
		Root: tree(files{
			"proc/sys/kernel/unprivileged_userns_clone": "1", "proc/sys/user/max_user_namespaces": "96365",
			"proc/sys/kernel/kptr_restrict": "1", "proc/sys/kernel/dmesg_restrict": "1", "proc/sys/kernel/yama/ptrace_scope": "1",
			"proc/sys/fs/protected_symlinks": "1", "proc/sys/fs/protected_hardlinks": "1", "proc/sys/fs/protected_fifos": "1",
			"proc/sys/fs/protected_regular": "2", "proc/sys/kernel/unprivileged_bpf_disabled": "2",
			"proc/sys/kernel/perf_event_paranoid": "3", "proc/sys/kernel/io_uring_disabled": "2",
			"proc/sys/vm/unprivileged_userfaultfd": "0", "proc/sys/fs/suid_dumpable": "0", "proc/sys/kernel/randomize_va_space": "2",
			"proc/sys/kernel/kexec_load_disabled": "1", "proc/sys/kernel/core_pattern": "/var/crash/core.%p\n",
			"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "0", "proc/sys/kernel/osrelease": "6.18.44",
			"proc/mounts":                                       "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
			"proc/self/cgroup":                                  "0::/user.slice/worker\n",
			"sys/fs/cgroup/cgroup.controllers":                  "cpuset cpu io memory pids",
			"sys/fs/cgroup/user.slice/worker/memory.swap.max":   "max",
			"proc/swaps":                                        "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n",
			"sys/devices/system/cpu/vulnerabilities/meltdown":   "Not affected",
			"sys/devices/system/cpu/vulnerabilities/spectre_v1": "Mitigation: barriers",
			"sys/devices/system/cpu/smt/active":                 "0",
			"proc/net/tcp":                                      "sl local_address rem_address st\n 0: 0100007F:1092 00000000:0000 0A\n 1: 0100007F:0947 0100007F:1111 01\n",
			"etc/group":                                         "root:x:0:\ndocker:x:99:ann,ben\n",
			"etc/passwd":                                        "root:x:0:0::/:/x\nann:x:1000:1000::/:/x\ncarl:x:1001:99::/:/x\n",
			"usr/bin/bwrap":                                     "",
		}),
		Run: programs(map[string]string{
			"runc": "runc version 1.4.3\ncommit: x", "containerd": "containerd github.com/containerd/containerd 2.2.1 abc", "bwrap": "bubblewrap 0.11.0\n",
		}),
		Engine:   &doctor.Engine{Address: "unix:///run/no-engine.sock", Version: "29.4.0", Containerd: "v2.2.1", Runc: "1.4.3", Rootless: true, LiveRestore: true},
		NATS:     "nats://worker:uo8Ahqu9@" + natsSays(t, `INFO {"version":"2.15.3","host":"127.0.0.1","auth_required":true,"more":[1]}`+"\r\n"),
		Postgres: "postgres://worker:uo8Ahqu9@127.0.0.1/airlock",
		Database: &doctor.Database{Listens: "localhost", TLS: true},
		Backends: []doctor.Backend{{Name: "bubblewrap", Isolation: job.IsolationStrong}},
	}
}

func tree(text files) fstest.MapFS {
	root := fstest.MapFS{}
	for path, content := range text {
		root[path] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
	}
	return root
}

// with adds to the files of a host; an empty path removes the prefix's.
func with(h doctor.Host, more fstest.MapFS) doctor.Host {
	root := maps.Clone(h.Root.(fstest.MapFS))
	maps.Copy(root, more)
	h.Root = root
	return h
}

func without(h doctor.Host, paths ...string) doctor.Host {
	root := maps.Clone(h.Root.(fstest.MapFS))
	for _, path := range paths {
		delete(root, path)
	}
	h.Root = root
	return h
}

func programs(versions map[string]string) func(context.Context, string, ...string) (string, error) {
	return func(_ context.Context, name string, _ ...string) (string, error) {
		if text, ok := versions[name]; ok {
			return text, nil
		}
		return "", errors.New("not there")
	}
}

func socket(mode fs.FileMode, uid, gid uint32) fstest.MapFS {
	return fstest.MapFS{"run/docker.sock": {Mode: fs.ModeSocket | mode, Sys: &syscall.Stat_t{Uid: uid, Gid: gid}}}
}

// sick is a way in which a host is not sound.
type sick struct {
	check    string
	name     string
	change   func(h doctor.Host) doctor.Host
	severity doctor.Severity
	seen     string
}

// setting is a bad value of a kernel setting.
func setting(name, value string, severity doctor.Severity, seen string) sick {
	return sick{"sysctl " + name, value, func(h doctor.Host) doctor.Host {
		return with(h, tree(files{"proc/sys/" + strings.ReplaceAll(name, ".", "/"): value}))
	}, severity, seen}
}

func text(path, content string) func(doctor.Host) doctor.Host {
	return func(h doctor.Host) doctor.Host { return with(h, tree(files{path: content})) }
}

func engine(change func(*doctor.Engine)) func(doctor.Host) doctor.Host {
	return func(h doctor.Host) doctor.Host {
		e := *h.Engine
		change(&e)
		h.Engine = &e
		return h
	}
}

func sicknesses() []sick {
	all := []sick{
		setting("kernel.unprivileged_userns_clone", "0", doctor.Info, "bubblewrap"),
		setting("user.max_user_namespaces", "0", doctor.Warning, "bubblewrap"),
		setting("kernel.kptr_restrict", "0", doctor.Warning, "addresses"),
		setting("kernel.dmesg_restrict", "0", doctor.Warning, "log"),
		setting("kernel.yama.ptrace_scope", "0", doctor.Warning, "look into"),
		setting("fs.protected_symlinks", "0", doctor.Warning, "links"),
		setting("fs.protected_hardlinks", "0", doctor.Warning, "hard links"),
		setting("fs.protected_fifos", "0", doctor.Warning, "pipes"),
		setting("fs.protected_regular", "0", doctor.Warning, "files"),
		setting("kernel.unprivileged_bpf_disabled", "0", doctor.Warning, "BPF"),
		setting("kernel.perf_event_paranoid", "1", doctor.Warning, "measure"),
		setting("kernel.perf_event_paranoid", "-1", doctor.Warning, "it is -1"),
		setting("kernel.io_uring_disabled", "0", doctor.Info, "io_uring"),
		setting("vm.unprivileged_userfaultfd", "1", doctor.Warning, "page faults"),
		setting("fs.suid_dumpable", "2", doctor.Warning, "dumps"),
		setting("kernel.randomize_va_space", "0", doctor.Critical, "addresses"),
		setting("kernel.randomize_va_space", "1", doctor.Warning, "heap"),
		setting("kernel.kexec_load_disabled", "0", doctor.Info, "kernel"),
		setting("kernel.kptr_restrict", "what", doctor.Info, "not checked"),
		{"sysctl kernel.yama.ptrace_scope", "no Yama", func(h doctor.Host) doctor.Host { return without(h, "proc/sys/kernel/yama/ptrace_scope") }, doctor.Info, "no Yama"},
		{"core dumps", "to a program", text("proc/sys/kernel/core_pattern", "|/usr/share/apport %p"), doctor.Warning, "/usr/share/apport"},
		{"core dumps", "to the directory", text("proc/sys/kernel/core_pattern", "core"), doctor.Info, `"core"`},
		{"apparmor userns", "on", text("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"), doctor.Info, "AppArmor"},
	}
	return slices.Concat(all, sickResources(), sickVersions(), sickEngines(), sickServices())
}

func sickResources() []sick {
	v1 := "cgroup /g/memory cgroup rw,memory 0 0\ncgroup /g/pids cgroup rw,pids 0 0\ncgroup /g/cpu cgroup rw,cpu,cpuacct 0 0\n"
	return []sick{
		{"cgroups", "version 1", text("proc/mounts", v1), doctor.Info, "version 1"},
		{"cgroups", "none", text("proc/mounts", "tmpfs /tmp tmpfs rw 0 0\n"), doctor.Warning, "cpu, memory, pids"},
		{"cgroups", "no memory", text("sys/fs/cgroup/cgroup.controllers", "cpu pids"), doctor.Warning, "for memory:"},
		{"cgroup delegation", "another's group", func(h doctor.Host) doctor.Host {
			h.UID = 1000
			return with(h, fstest.MapFS{"sys/fs/cgroup/user.slice/worker": {Mode: fs.ModeDir | 0o755, Sys: &syscall.Stat_t{Uid: 0}}})
		}, doctor.Warning, "/user.slice/worker"},
		{"swap", "not counted", func(h doctor.Host) doctor.Host {
			return without(h, "sys/fs/cgroup/user.slice/worker/memory.swap.max")
		}, doctor.Warning, "does not count"},
		{"swap", "not counted by version 1", text("proc/mounts", v1), doctor.Warning, "swapaccount=1"},
		{"swap", "in the root group", func(h doctor.Host) doctor.Host {
			return text("proc/self/cgroup", "0::/\n")(h)
		}, doctor.Info, "not checked"},
		{"processor flaws", "vulnerable", text("sys/devices/system/cpu/vulnerabilities/mds", "Vulnerable: no microcode"), doctor.Warning, "mds"},
		{"processor flaws", "by threads", text("sys/devices/system/cpu/vulnerabilities/mds", "Mitigation: clear buffers; SMT vulnerable"), doctor.Warning, "SMT vulnerable"},
		{"processor flaws", "unknown", text("sys/devices/system/cpu/vulnerabilities/mds", "Unknown: in a virtual machine"), doctor.Info, "Unknown"},
		{"hyper-threads", "on", text("sys/devices/system/cpu/smt/active", "1"), doctor.Info, "two threads"},
	}
}

func sickVersions() []sick {
	return []sick{
		{"kernel version", "Dirty Pipe", text("proc/sys/kernel/osrelease", "5.10.60"), doctor.Critical, "CVE-2022-0847"},
		{"kernel version", "Copy Fail", text("proc/sys/kernel/osrelease", "6.7.3"), doctor.Warning, "CVE-2026-31431"},
		{"kernel version", "a distribution's", text("proc/version_signature", "Ubuntu 5.15.0-20.20-generic 5.15.20"), doctor.Warning, "CVE-2022-0847"},
		{"kernel version", "Debian's", text("proc/version", "Linux version 6.1.0-18-amd64 (x) #1 SMP Debian 5.10.92-1 (2022)"), doctor.Warning, "5.10.92-1-deb has CVE-2022-0847"},
		{"kernel version", "nonsense", text("proc/sys/kernel/osrelease", "six"), doctor.Info, "not understood"},
		{"runc version", "by the engine", engine(func(e *doctor.Engine) { e.Runc = "1.1.11" }), doctor.Critical, "CVE-2024-21626"},
		{"runc version", "by itself", func(h doctor.Host) doctor.Host {
			h.Engine, h.Run = nil, programs(map[string]string{"runc": "runc version 1.3.2"})
			return h
		}, doctor.Critical, "CVE-2025-31133"},
		{"runc version", "a distribution's", engine(func(e *doctor.Engine) { e.Runc = "1.1.5+ds1" }), doctor.Warning, "distribution"},
		{"containerd version", "old", engine(func(e *doctor.Engine) { e.Containerd = "1.7.28" }), doctor.Warning, "CVE-2024-25621"},
		{"engine version", "old", engine(func(e *doctor.Engine) { e.Version = "29.3.0" }), doctor.Warning, "CVE-2026-34040"},
		{"bubblewrap version", "old", func(h doctor.Host) doctor.Host {
			h.Run = programs(map[string]string{"bwrap": "bubblewrap 0.4.0"})
			return h
		}, doctor.Critical, "CVE-2020-5291"},
		{"bubblewrap setuid", "set", func(h doctor.Host) doctor.Host {
			return with(h, fstest.MapFS{"usr/bin/bwrap": {Mode: fs.ModeSetuid | 0o755}})
		}, doctor.Warning, "/usr/bin/bwrap"},
	}
}

func sickEngines() []sick {
	reached := func(mode fs.FileMode, uid, gid uint32) func(doctor.Host) doctor.Host {
		return func(h doctor.Host) doctor.Host {
			return with(engine(func(e *doctor.Engine) { e.Address = "unix:///run/docker.sock" })(h), socket(mode, uid, gid))
		}
	}
	return []sick{
		{"engine socket", "for all", reached(0o666, 0, 99), doctor.Critical, "every user"},
		{"engine socket", "for a group", reached(0o660, 0, 99), doctor.Info, "docker: ann, ben, carl"},
		{"engine socket", "for a user", reached(0o660, 1000, 0), doctor.Info, "uid 1000"},
		{"engine socket", "for root", reached(0o600, 0, 99), doctor.Info, "only root"},
		{"engine tcp", "without TLS", engine(func(e *doctor.Engine) { e.Address = "tcp://10.0.0.1:2375" }), doctor.Critical, "10.0.0.1"},
		{"engine tcp", "listening", text("proc/net/tcp", "sl local_address rem_address st\n 0: 00000000:0947 00000000:0000 0A\n"), doctor.Critical, "0.0.0.0:2375"},
		{"engine tcp", "listening by IPv6", text("proc/net/tcp6", "sl local_address rem_address st\n 0: 00000000000000000000000001000000:0947 0:0 0A\n"), doctor.Critical, "[::1]:2375"},
		{"engine users", "as on the host", engine(func(e *doctor.Engine) { e.Rootless = false }), doctor.Info, "remap"},
		{"engine restart", "ends guests", engine(func(e *doctor.Engine) { e.LiveRestore = false }), doctor.Info, "restart"},
	}
}

func TestASoundHost(t *testing.T) {
	t.Parallel()
	r := doctor.Examine(t.Context(), sound(t))
	if diff := cmp.Diff([]doctor.Finding{}, r.Findings); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(doctor.Checks(), r.Passed); diff != "" {
		t.Errorf("checks that found nothing (-want +got):\n%s", diff)
	}
}

func TestSickHosts(t *testing.T) {
	t.Parallel()
	for _, tc := range sicknesses() {
		t.Run(tc.check+"/"+tc.name, func(t *testing.T) {
			t.Parallel()
			r := doctor.Examine(t.Context(), tc.change(sound(t)))
			of := func(f doctor.Finding) bool {
				return f.Check == tc.check && f.Severity == tc.severity && strings.Contains(f.Seen+f.Remedy, tc.seen)
			}
			if !slices.ContainsFunc(r.Findings, of) {
				t.Errorf("got %+v, want one of %q, %s, with %q in it", r.Findings, tc.check, tc.severity, tc.seen)
			}
			if slices.Contains(r.Passed, tc.check) {
				t.Errorf("%q has passed", tc.check)
			}
			if r.Critical() != slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return f.Severity == doctor.Critical }) {
				t.Errorf("critical is %v", r.Critical())
			}
			for _, f := range r.Findings {
				if f.Remedy == "" && !strings.Contains(f.Seen, "not checked") && f.Severity != doctor.Info {
					t.Errorf("%+v has no remedy", f)
				}
			}
		})
	}
}

// TestEachCheckIsTried: a check that no fixture makes fail proves nothing.
func TestEachCheckIsTried(t *testing.T) {
	t.Parallel()
	tried := map[string]bool{}
	for _, tc := range sicknesses() {
		tried[tc.check] = true
	}
	for _, name := range doctor.Checks() {
		if !tried[name] {
			t.Errorf("%q has no fixture that it finds anything in", name)
		}
	}
}

// TestANakedHost: nothing can be seen, and that is said.
func TestANakedHost(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]doctor.Host{"nothing": {}, "no files": {Root: fstest.MapFS{}, UID: 1000}} {
		r := doctor.Examine(t.Context(), h)
		if r.Critical() || len(r.Findings) == 0 {
			t.Errorf("%s: got %+v, want that most was not checked", name, r.Findings)
		}
	}
}

// TestThisHost: it ends, whatever is found.
func TestThisHost(t *testing.T) {
	t.Parallel()
	r := doctor.Examine(t.Context(), doctor.This())
	names := map[string]bool{}
	for _, f := range r.Findings {
		names[f.Check] = true
	}
	for _, name := range r.Passed {
		names[name] = true
	}
	if len(names) != len(doctor.Checks()) {
		t.Errorf("got %d checks, want %d", len(names), len(doctor.Checks()))
	}
}

// TestAlsoSound are other ways of being so than the first host's.
func TestAlsoSound(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		check  string
		change func(doctor.Host) doctor.Host
	}{
		{"cgroup delegation", func(h doctor.Host) doctor.Host {
			h.UID = 1000
			return with(h, fstest.MapFS{"sys/fs/cgroup/user.slice/worker": {Mode: fs.ModeDir | 0o755, Sys: &syscall.Stat_t{Uid: 1000}}})
		}},
		{"swap", func(h doctor.Host) doctor.Host {
			return with(without(h, "sys/fs/cgroup/user.slice/worker/memory.swap.max"), tree(files{
				"proc/mounts": "cgroup /g/memory cgroup rw,memory 0 0\n", "g/memory/memory.memsw.limit_in_bytes": "9",
			}))
		}},
		{"swap", text("proc/swaps", "Filename Type Size Used Priority\n")},
		{"sysctl kernel.io_uring_disabled", func(h doctor.Host) doctor.Host { return without(h, "proc/sys/kernel/io_uring_disabled") }},
		{"engine tcp", engine(func(e *doctor.Engine) { e.Address, e.TLS = "tcp://10.0.0.1:2376", true })},
		{"engine users", engine(func(e *doctor.Engine) { e.Rootless, e.Remapped = false, true })},
		{"kernel version", text("proc/version", "Linux version 6.12.9 (x) #1 SMP Debian 6.12.90-1 (2026)")},
		{"core dumps", text("proc/sys/kernel/core_pattern", "")},
	} {
		r := doctor.Examine(t.Context(), tc.change(sound(t)))
		if !slices.Contains(r.Passed, tc.check) {
			t.Errorf("%s has not passed: %+v", tc.check, r.Findings)
		}
	}
}
