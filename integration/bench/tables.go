package main

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
)

// section is one table with its title and what is to be known to read it.
type section struct {
	title, note string
	head        table.Row
	rows        []table.Row
}

// sections are all tables of the report, without the empty ones.
func (r *report) sections() []section {
	var full []section
	for _, s := range []section{
		r.goalTable(), r.figureTable(), r.ratioTable(), r.cpuTable(), r.scalingTable(), r.sustainedTable(), r.memoryTable(),
		r.queuedTable(), r.batchTable(), r.httpTable(), r.curveTable("output/", "How cost grows with output", "bytes of output"),
		r.curveTable("calls/", "How cost grows with tool calls", "tool calls"), r.trialTable(),
	} {
		if len(s.rows) > 0 {
			full = append(full, s)
		}
	}
	return full
}

func (r *report) goalTable() section {
	s := section{title: "Goals", head: table.Row{"what", "goal", "measured", "met"}}
	for _, g := range r.Goals {
		s.rows = append(s.rows, table.Row{g.What, g.Goal, g.Measured, g.Met})
	}
	return s
}

func (r *report) figureTable() section {
	s := section{
		title: "Figures",
		note:  "Milliseconds from a job's submission until its result was seen; start is from its claim until its guest's first frame.",
		head:  table.Row{"what", "jobs", "p50 ms", "p99 ms", "start p50", "start p99", "jobs/s"},
	}
	for _, f := range r.figures() {
		s.rows = append(s.rows, table.Row{f.Name, f.Jobs, number(f.P50), number(f.P99), optional(f.StartP50), optional(f.StartP99), rateOf(f)})
	}
	return s
}

// floorOf names what a row is compared with: the ends of its ID and those of
// the floors.
var floorOf = []struct{ end, floor, title string }{
	{"/print/idle", "floor/fork/1", "fork of a warm interpreter"},
	{"/print/idle", "floor/bwrap/1", "bwrap python3 by hand"},
	{"/print/idle", "floor/docker/1", "docker run by hand"},
	{"/print/idle", "control/idle", "no sandbox"},
	{"/asyncio/idle", "floor/bwrap-asyncio/1", "bwrap python3 by hand, asyncio"},
	{"/print/2slots", "floor/fork/2", "fork of a warm interpreter"},
	{"/print/2slots", "floor/bwrap/2", "bwrap python3 by hand"},
	{"/print/2slots", "floor/docker/2", "docker run by hand"},
	{"/asyncio/2slots", "floor/fork-asyncio/2", "fork of a warm interpreter, asyncio"},
	{"/asyncio/2slots", "floor/bwrap-asyncio/2", "bwrap python3 by hand, asyncio"},
}

func (r *report) ratioTable() section {
	s := section{
		title: "Ratios", note: "Of this run's rows: how many times the jobs per second, and the median, of the same work by hand.",
		head: table.Row{"what", "against", "rate, times", "p50, times"},
	}
	rows := r.byID()
	for _, f := range r.figures() {
		for _, c := range floorOf {
			floor, ok := rows[c.floor]
			if ok && strings.HasSuffix(f.ID, c.end) {
				s.rows = append(s.rows, table.Row{f.Name, c.title, number(f.Rate / floor.Rate), number(f.P50 / floor.P50)})
			}
		}
	}
	return s
}

func (r *report) cpuTable() section {
	s := section{
		title: "Processor time of a job, by process, in ms",
		note: "NATS is embedded in the worker's process. Guests is what their control groups counted, or of forks by hand their own processes. Sandboxes are the worker's other children, as far as they were waited for: " +
			"nobody waits for forkserver's slots, nor do groups count what a parked guest took until its job came, so that with forkserver 1 to 1.5 ms of a job are only the machine's. Machine is all that was used meanwhile, by whomever: the kernel's own threads, " +
			"a container engine, and what was started by hand are only there.",
		head: table.Row{"what", "worker", "Postgres", "sandboxes", "guests", "submit", "machine"},
	}
	for _, f := range r.Rows {
		if c := f.CPU; c != nil && (f.First > 0 || !f.isOf(curves)) {
			s.rows = append(s.rows, table.Row{f.Name, some(c.Worker), some(c.Postgres), some(c.Sandboxes), some(c.Guests), some(c.Submit), some(c.Machine)})
		}
	}
	return s
}

func (r *report) scalingTable() section {
	s := section{title: "Scaling with slots", head: table.Row{"what", "slots", "p50 ms", "p99 ms", "jobs/s", "machine ms/job"}}
	for _, f := range r.of("scaling/") {
		s.rows = append(s.rows, table.Row{f.Name, f.Size, number(f.P50), number(f.P99), rateOf(f), machineOf(f)})
	}
	return s
}

func (r *report) sustainedTable() section {
	s := section{
		title: "Sustained", note: "jobs/s in the first and in the last sixth of the time.",
		head: table.Row{"what", "jobs", "p50 ms", "p99 ms", "jobs/s", "first", "last", "last/first"},
	}
	for _, f := range r.of("sustained/") {
		s.rows = append(s.rows, table.Row{f.Name, f.Jobs, number(f.P50), number(f.P99), rateOf(f), number(f.First), number(f.Last), number(steady(f))})
	}
	return s
}

func (r *report) memoryTable() section {
	s := section{title: "Memory", note: "PSS shares out what several processes map; own are the pages that nobody else maps, and that would be free without it.", head: table.Row{"what", "MiB", "kind"}}
	for _, w := range r.Weights {
		s.rows = append(s.rows, table.Row{w.Name, number(w.MiB), w.Kind})
	}
	return s
}

func (r *report) queuedTable() section {
	s := section{
		title: "How cost grows with queued jobs",
		note:  "No sandbox. Jobs wait for a second worker; meanwhile another job goes its whole way. Drained is the rate of at most the first three minutes, and memory the most until then.",
		head:  table.Row{"queued", "submitted/s", "other p50 ms", "other p99 ms", "drained/s", "worker MiB", "NATS MiB", "Postgres MiB"},
	}
	for _, l := range r.loads("queued") {
		s.rows = append(s.rows, table.Row{l.Jobs, number(l.SubmitRate), number(l.P50), number(l.P99), number(l.Rate), number(l.Worker), number(l.NATS), number(l.Postgres)})
	}
	return s
}

func (r *report) batchTable() section {
	s := section{
		title: "How cost grows with a batch", note: "No sandbox; submit batch of one file, run by a worker that is not the one with NATS in it. The most memory that each held.",
		head: table.Row{"jobs", "lost", "jobs/s", "submit MiB", "worker MiB", "NATS MiB", "Postgres MiB"},
	}
	for _, l := range r.loads("batch") {
		s.rows = append(s.rows, table.Row{l.Jobs, l.Lost, number(l.Rate), number(l.Submit), number(l.Worker), number(l.NATS), number(l.Postgres)})
	}
	return s
}

func (r *report) trialTable() section {
	s := section{title: "Single trials: what computes, what dies, what shares", head: table.Row{"what", "measured", "unit", "how"}}
	for _, t := range r.Trials {
		s.rows = append(s.rows, table.Row{t.Name, number(t.Value), t.Unit, t.Detail})
	}
	return s
}

func (r *report) loads(kind string) (all []load) {
	for _, l := range r.Loads {
		if l.kind() == kind {
			all = append(all, l)
		}
	}
	return all
}

func (r *report) curveTable(prefix, title, unit string) section {
	s := section{title: title, note: "One job after the other.", head: table.Row{unit, "p50 ms", "p99 ms", "jobs/s", "machine ms/job"}}
	for _, f := range r.of(prefix) {
		s.rows = append(s.rows, table.Row{f.Size, number(f.P50), number(f.P99), rateOf(f), machineOf(f)})
	}
	return s
}

func number(f float64) string {
	if f >= 1000 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.2f", f)
}

// optional is empty for one that was not measured.
func optional(f *float64) string {
	if f == nil {
		return ""
	}
	return number(*f)
}

func rateOf(r row) string { return some(r.Rate) }

// some is empty for nothing.
func some(f float64) string {
	if f == 0 {
		return ""
	}
	return number(f)
}

func machineOf(r row) string {
	if r.CPU == nil {
		return ""
	}
	return number(r.CPU.Machine)
}
