package main

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// process is one line of the process table.
type process struct {
	pid, parent int
	name        string
	// own is the processor time of the process, reaped that of its children
	// that ended and were waited for.
	own, reaped time.Duration
}

// tick is USER_HZ, which is the same on every Linux that Go runs on.
const tick = time.Second / 100

// processes reads the process table; it is empty where there is no /proc.
func processes() map[int]process {
	all := map[int]process{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // it ended meanwhile
		}
		if p, ok := parseStat(string(line)); ok {
			all[p.pid] = p
		}
	}
	return all
}

// parseStat reads proc_pid_stat(5). The name may hold spaces and brackets.
func parseStat(line string) (p process, ok bool) {
	pid, rest, _ := strings.Cut(line, " (")
	at := strings.LastIndex(rest, ") ")
	if at < 0 {
		return p, false
	}
	p.name = rest[:at]
	fields := strings.Fields(rest[at+2:])
	if len(fields) < 15 {
		return p, false
	}
	var err error
	if p.pid, err = strconv.Atoi(pid); err != nil {
		return p, false
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		return n
	}
	p.parent = int(number(1))
	p.own = time.Duration(number(11)+number(12)) * tick
	p.reaped = time.Duration(number(13)+number(14)) * tick
	return p, true
}

// below are the descendants of a process.
func below(all map[int]process, root int) []process {
	children := map[int][]int{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p.pid)
	}
	var found []process
	for next := children[root]; len(next) > 0; next = next[1:] {
		found = append(found, all[next[0]])
		next = append(next, children[next[0]]...)
	}
	return found
}

// spent is processor time since the processes began.
type spent struct{ worker, postgres, sandboxes, submit, machine time.Duration }

// spentBy adds up what a standalone worker and all around it used; nil where
// the system does not tell.
func spentBy(worker int) *spent {
	all := processes()
	w, ok := all[worker]
	if !ok {
		return nil
	}
	// What the worker waited for were sandboxes; it started Postgres once.
	s := &spent{worker: w.own, sandboxes: w.reaped, submit: all[os.Getpid()].own, machine: machineBusy()}
	for _, p := range below(all, worker) {
		if isPostgres(p) {
			s.postgres += p.own + p.reaped
		} else {
			s.sandboxes += p.own + p.reaped
		}
	}
	return s
}

func isPostgres(p process) bool { return p.name == "postgres" }

// since is what was spent after an earlier look.
func (s *spent) since(before *spent) *spent {
	if s == nil || before == nil {
		return nil
	}
	return &spent{
		worker: s.worker - before.worker, postgres: s.postgres - before.postgres, sandboxes: s.sandboxes - before.sandboxes,
		submit: s.submit - before.submit, machine: s.machine - before.machine,
	}
}

// machineBusy is the processor time that was not idle, of all processors.
func machineBusy() time.Duration {
	fields := strings.Fields(firstLine("/proc/stat"))
	var busy time.Duration
	for i, field := range fields {
		// user nice system idle iowait irq softirq steal …
		if i == 1 || i == 2 || i == 3 || i == 6 || i == 7 {
			n, _ := strconv.ParseInt(field, 10, 64)
			busy += time.Duration(n) * tick
		}
	}
	return busy
}

// memory is what processes hold, in MiB.
type memory struct {
	rss, pss  float64
	processes int
}

// held adds up the processes' memory. ok is false where one of them may not
// be looked at.
func held(pids ...int) (m memory, ok bool) {
	for _, pid := range pids {
		raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
		if err != nil {
			return m, false
		}
		m.rss += kilobytes(raw, "Rss:")
		m.pss += kilobytes(raw, "Pss:")
	}
	return m, true
}

// peak is the most that a process ever held, in MiB; 0 where nothing tells.
func peak(pid int) float64 {
	raw, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	return kilobytes(raw, "VmHWM:")
}

func kilobytes(file []byte, field string) float64 {
	lines := bufio.NewScanner(bytes.NewReader(file))
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) >= 2 && words[0] == field {
			n, _ := strconv.ParseFloat(words[1], 64)
			return n / 1024
		}
	}
	return 0
}
