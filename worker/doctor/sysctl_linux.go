package doctor

import (
	"context"
	"fmt"
	"strings"
)

// knob is a kernel setting with the values that are not good enough.
type knob struct {
	name string // such as kernel.kptr_restrict
	// bad reports whether the value weakens anything.
	bad      func(value int) bool
	severity Severity
	why      string
	// want is the value to set.
	want int
	// absent is a finding where the kernel does not have the setting; ""
	// means that it needs none there.
	absent string
}

func below(least int) func(int) bool { return func(v int) bool { return v < least } }
func above(most int) func(int) bool  { return func(v int) bool { return v > most } }

// knobs is the table of settings. Their meaning is documented in the kernel's
// Documentation/admin-guide/sysctl and, of Yama, in its LSM.
func knobs() []knob {
	return []knob{
		{name: "kernel.unprivileged_userns_clone", bad: below(1), severity: Info, want: 1,
			why: "unprivileged users cannot make user namespaces, so that bubblewrap works for workers that run as root only"},
		{name: "user.max_user_namespaces", bad: below(1), severity: Warning, want: 65536,
			why: "no user namespace can be made, so that bubblewrap cannot isolate anything"},
		{name: "kernel.kptr_restrict", bad: below(1), severity: Warning, want: 1,
			why: "any process can read the kernel's addresses, which exploits need"},
		{name: "kernel.dmesg_restrict", bad: below(1), severity: Warning, want: 1,
			why: "any process can read the kernel's log, and its addresses and other guests' ends in it"},
		{name: "kernel.yama.ptrace_scope", bad: below(1), severity: Warning, want: 1,
			why:    "a process can look into every other of the same user, such as the worker of one that escaped",
			absent: "the kernel has no Yama: processes can look into others of the same user"},
		{name: "fs.protected_symlinks", bad: below(1), severity: Warning, want: 1,
			why: "links in directories that all may write are followed for others"},
		{name: "fs.protected_hardlinks", bad: below(1), severity: Warning, want: 1,
			why: "hard links to files of others can be made"},
		{name: "fs.protected_fifos", bad: below(1), severity: Warning, want: 2,
			why: "pipes that others planted in directories that all may write are opened"},
		{name: "fs.protected_regular", bad: below(1), severity: Warning, want: 2,
			why: "files that others planted in directories that all may write are opened"},
		{name: "kernel.unprivileged_bpf_disabled", bad: below(1), severity: Warning, want: 1,
			why: "unprivileged users may load BPF programs, which has been a way into kernels"},
		{name: "kernel.perf_event_paranoid", bad: below(2), severity: Warning, want: 2,
			why: "unprivileged users may measure the kernel, which helps exploits and side channels"},
		{name: "kernel.io_uring_disabled", bad: below(1), severity: Info, want: 2,
			why: "io_uring is open to everybody; the guests' filter refuses it, and nothing else does"},
		{name: "vm.unprivileged_userfaultfd", bad: above(0), severity: Warning, want: 0,
			why: "unprivileged users may stop the kernel at page faults, which exploits of races use"},
		{name: "fs.suid_dumpable", bad: above(0), severity: Warning, want: 0,
			why: "privileged programs leave core dumps"},
		{name: "kernel.randomize_va_space", bad: below(1), severity: Critical, want: 2,
			why: "addresses are not randomised, which every exploit is glad of"},
		{name: "kernel.kexec_load_disabled", bad: below(1), severity: Info, want: 1,
			why: "root may boot another kernel without the firmware's consent"},
	}
}

func sysctlChecks() []check {
	all := make([]check, 0, len(knobs()))
	for _, k := range knobs() {
		all = append(all, check{"sysctl " + k.name, k.look})
	}
	return all
}

func (k knob) look(_ context.Context, h Host) []Finding {
	path := "proc/sys/" + strings.ReplaceAll(k.name, ".", "/")
	remedy := fmt.Sprintf("sysctl -w %s=%d, and keep it in /etc/sysctl.d", k.name, k.want)
	if !h.exists(path) {
		if !h.exists("proc/sys/kernel") {
			return unchecked("/proc/sys is not there")
		}
		if k.absent == "" {
			return nil
		}
		return found(Info, k.absent, "use a kernel that has it")
	}
	value, ok := h.number(path)
	if !ok {
		return unchecked("it cannot be read as this user")
	}
	if k.name == "kernel.randomize_va_space" && value == 1 {
		return found(Warning, "it is 1: the heap's address is not randomised", remedy)
	}
	if !k.bad(value) {
		return nil
	}
	return found(k.severity, fmt.Sprintf("it is %d: %s", value, k.why), remedy)
}

// coreDumps: a program that the kernel pipes dumps to runs as root, on the
// host, on bytes of the guest's, also when the guest's limit is 0.
func coreDumps(_ context.Context, h Host) []Finding {
	pattern, ok := h.read("proc/sys/kernel/core_pattern")
	switch {
	case !ok:
		return unchecked("/proc/sys/kernel/core_pattern cannot be read")
	case strings.HasPrefix(pattern, "|"):
		return found(Warning, fmt.Sprintf("the kernel gives every dump to %q, which runs as root on memory that a guest wrote", show(pattern[1:])),
			"sysctl -w kernel.core_pattern=/dev/null, or be sure of that program")
	case pattern != "" && !strings.HasPrefix(pattern, "/"):
		return found(Info, fmt.Sprintf("dumps go to %q in the directory of what crashed; only the guests' limit keeps them from being written", show(pattern)),
			"sysctl -w kernel.core_pattern=/var/crash/core.%p")
	}
	return nil
}

// appArmorUserns: what protects the host from users keeps bubblewrap out too.
func appArmorUserns(_ context.Context, h Host) []Finding {
	if on, ok := h.number("proc/sys/kernel/apparmor_restrict_unprivileged_userns"); !ok || on == 0 {
		return nil
	}
	return found(Info, "AppArmor refuses user namespaces to programs without a profile that allows them, so that bubblewrap may not start",
		"give bwrap a profile that allows userns; do not switch the restriction off")
}
