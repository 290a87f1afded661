package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// machine is what was measured on. Facts that a system does not tell are
// empty.
type machine struct {
	Time   time.Time `json:"time"`
	CPU    string    `json:"cpu,omitzero"`
	Cores  int       `json:"cores"`
	Memory string    `json:"memory,omitzero"`
	System string    `json:"system"`
	Kernel string    `json:"kernel,omitzero"`
	Cgroup string    `json:"cgroup,omitzero"`

	Commit     string `json:"commit,omitzero"`
	Go         string `json:"go"`
	Python     string `json:"python,omitzero"`
	NATS       string `json:"nats,omitzero"`
	Postgres   string `json:"postgres,omitzero"`
	Bubblewrap string `json:"bubblewrap,omitzero"`
	Docker     string `json:"docker,omitzero"`

	// Load is the average of the minute before, Busy how much of all
	// processors was in use just before, in percent.
	Load string  `json:"load,omitzero"`
	Busy float64 `json:"busy_percent"`
}

// The figures of a machine that does something else say nothing.
const (
	tooBusy = 5.0 // percent
	// tooLoaded is per core.
	tooLoaded = 0.5
	watchFor  = 2 * time.Second
)

func thisMachine(ctx context.Context, bin string, all []listed) machine {
	load, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
	m := machine{
		Time: time.Now().UTC().Truncate(time.Second), CPU: cpuModel(), Cores: runtime.NumCPU(), Memory: memorySize(),
		System: runtime.GOOS + "/" + runtime.GOARCH, Kernel: firstLine("/proc/sys/kernel/osrelease"), Cgroup: cgroupMode(),
		Go: runtime.Version(), Docker: engineVersion(ctx), Postgres: postgresVersion(ctx), Load: load,
	}
	m.built(filepath.Join(bin, "worker"))
	for _, l := range all {
		if l.Available && m.Python == "" {
			m.Python = l.Facts.Python
		}
		if l.Available && l.Backend == "bubblewrap" {
			m.Bubblewrap = strings.TrimPrefix(l.Facts.Version, "bubblewrap ")
		}
	}
	before := machineBusy()
	time.Sleep(watchFor)
	m.Busy = 100 * float64(machineBusy()-before) / float64(watchFor) / float64(m.Cores)
	return m
}

// built reads what Go recorded in the worker's binary.
func (m *machine) built(path string) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	m.commit(settings["vcs.revision"], settings["vcs.modified"] == "true")
	for _, dep := range info.Deps {
		if dep.Path == "github.com/nats-io/nats-server/v2" {
			m.NATS = strings.TrimPrefix(dep.Version, "v")
		}
	}
}

// commit asks Git where Go was told to record nothing.
func (m *machine) commit(revision string, modified bool) {
	if revision == "" {
		out, _ := exec.Command("git", "rev-parse", "HEAD").Output()
		changed, _ := exec.Command("git", "status", "--porcelain", "--untracked-files=no").Output()
		revision, modified = strings.TrimSpace(string(out)), len(changed) > 0
	}
	m.Commit = revision[:min(12, len(revision))]
	if modified && revision != "" {
		m.Commit += " and changes"
	}
}

func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func memorySize() string {
	info, _ := os.ReadFile("/proc/meminfo")
	if total := kilobytes(info, "MemTotal:"); total > 0 {
		return fmt.Sprintf("%.1f GiB", total/1024)
	}
	return ""
}

// cgroupMode tells the unified hierarchy from the older ones.
func cgroupMode() string {
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return "v2"
	}
	if _, err := os.Stat(filepath.Join(root, "memory")); err == nil {
		return "v1"
	}
	return ""
}

// postgresVersion asks the newest of the places where the standalone worker
// looks first.
func postgresVersion(ctx context.Context) string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if path, err := exec.LookPath("postgres"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		return ""
	}
	out, _ := exec.CommandContext(ctx, found[len(found)-1], "--version").Output()
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "postgres (PostgreSQL) ")
}

func firstLine(path string) string {
	text, _ := os.ReadFile(path)
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// warning says that the machine was busy, or is "".
func (m machine) warning() string {
	load, _ := strconv.ParseFloat(m.Load, 64)
	if m.Busy <= tooBusy && load <= tooLoaded*float64(m.Cores) {
		return ""
	}
	return fmt.Sprintf("THE MACHINE WAS BUSY: load %s, and %.0f %% of its processors in use before the first figure. What follows says little.", m.Load, m.Busy)
}

func (m machine) lines() []string {
	return []string{
		fmt.Sprintf("%s, commit %s", m.Time.Format("2006-01-02 15:04 MST"), or(m.Commit)),
		fmt.Sprintf("%d × %s, %s, %s, kernel %s, cgroup %s", m.Cores, or(m.CPU), or(m.Memory), m.System, or(m.Kernel), or(m.Cgroup)),
		fmt.Sprintf("%s, Python %s, NATS %s, Postgres %s, bubblewrap %s, Docker Engine %s", m.Go, or(m.Python), or(m.NATS), or(m.Postgres), or(m.Bubblewrap), or(m.Docker)),
		fmt.Sprintf("before the first figure: load %s, %.0f %% of the processors in use", or(m.Load), m.Busy),
	}
}

func or(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
