package main

import (
	"fmt"
	"strings"

	"airlock/job"
)

// verdict is a goal and what became of it.
type verdict struct {
	What string `json:"what"`
	Goal string `json:"goal"`
	// Measured says why not, where Met is empty.
	Measured string `json:"measured"`
	Met      string `json:"met,omitzero"`
}

// goal is one figure to reach. All rows it names must be there and hold.
type goal struct {
	what string
	ids  []string
	// value is taken of each row; unit is how it is shown.
	value func(row) float64
	unit  string
	// over names the row that value is divided by, if any.
	over string
	// least and most are what to reach, one of which is 0.
	least, most float64
	// long is set where a shorter run proves nothing.
	long bool
}

func p50(r row) float64  { return r.P50 }
func p99(r row) float64  { return r.P99 }
func rate(r row) float64 { return r.Rate }

// goals are those of rows.
var goals = []goal{
	{what: "whole path, forkserver, idle, p50", ids: []string{"forkserver/print/idle", "forkserver/print/spaced"}, value: p50, unit: "ms", most: 4},
	{what: "whole path, forkserver, idle, p99", ids: []string{"forkserver/print/idle", "forkserver/print/spaced"}, value: p99, unit: "ms", most: 15},
	{what: "sustained, forkserver, 2 slots, print", ids: []string{"forkserver/print/2slots"}, value: rate, unit: "jobs/s", least: 400},
	{what: "sustained, forkserver, 2 slots, asyncio and a tool call", ids: []string{"forkserver/asyncio/2slots"}, value: rate, unit: "jobs/s", least: 250},
	{what: "against bwrap python3 per job, two at once, print", ids: []string{"forkserver/print/2slots"}, value: rate, over: "floor/bwrap/2", unit: "times", least: 4},
	{what: "against bwrap python3 per job, two at once, asyncio", ids: []string{"forkserver/asyncio/2slots"}, value: rate, over: "floor/bwrap-asyncio/2", unit: "times", least: 8},
	{what: "control plane alone, 64 slots", ids: []string{"control/64slots"}, value: rate, unit: "jobs/s", least: 3000},
	{what: "control plane alone, idle, p50", ids: []string{"control/idle"}, value: p50, unit: "ms", most: 2},
	{what: "docker, warm pool, idle, p50", ids: []string{"docker/print/spaced"}, value: p50, unit: "ms", most: 25},
	{what: "tool call, guest to provider and back, audited, p50", ids: []string{"forkserver/call"}, value: p50, unit: "ms", most: 2},
	{what: "5,000 tools, listed for an operator and in a guest, p50", ids: []string{"tools/list", "tools/list-guest"}, value: p50, unit: "ms", most: 50},
	{what: "whole path, wasm with spare guests, idle, p50", ids: []string{"wasm/print/spaced"}, value: p50, unit: "ms", most: 15},
	{what: "wasm with spare guests, idle, from a job's claim until its guest's first byte, p50", ids: []string{"wasm/first/spaced"}, value: p50, unit: "ms", most: 5},
	{what: "what the gateway adds to a submission, p50", ids: []string{"http/own"}, value: p50, unit: "ms", most: 1},
	{what: "cancelling a running job, no sandbox and in one, p99", ids: []string{"cancel/fake", "cancel/sandbox"}, value: p99, unit: "ms", most: 500},
	{what: "a quiet tenant's 20 ms job behind 50,000 of another, p99", ids: []string{"noisy/quiet"}, value: p99, unit: "ms", most: 1000 + briefMS, long: true},
	{what: "print for a minute: rate of the last 10 s over the first 10 s", ids: []string{"sustained/forkserver/print"}, value: steady, unit: "times", least: 0.95, long: true},
	{what: "asyncio and a tool call for a minute: the same", ids: []string{"sustained/forkserver/asyncio"}, value: steady, unit: "times", least: 0.95, long: true},
}

func steady(r row) float64 { return r.Last / r.First }

func (g goal) want() string {
	if g.most > 0 {
		return fmt.Sprintf("≤ %s %s", short(g.most), g.unit)
	}
	return fmt.Sprintf("≥ %s %s", short(g.least), g.unit)
}

func (g goal) judge(rows map[string]row, whole bool) verdict {
	v := verdict{What: g.what, Goal: g.want()}
	divisor := 1.0
	if g.over != "" {
		divisor = rows[g.over].Rate
	}
	met := true
	var measured []string
	for _, id := range g.ids {
		r, ok := rows[id]
		if !ok || divisor == 0 {
			v.Measured = "not measured here"
			return v
		}
		got := g.value(r) / divisor
		measured = append(measured, short(got))
		met = met && (g.most == 0 || got <= g.most) && got >= g.least
	}
	v.Measured, v.Met = strings.Join(measured, " and ")+" "+g.unit, yes(met)
	if g.long && !whole {
		v.Measured, v.Met = v.Measured+", in a run that was too short to tell", ""
	}
	return v
}

func yes(met bool) string {
	if met {
		return "yes"
	}
	return "NO"
}

// short shows a number with three digits or so.
func short(f float64) string {
	if f >= 100 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.3g", f)
}

// The goals of memory.
const (
	idleWorker    = 100 // MiB resident
	parkedGuest   = 3   // MiB that would be free without it
	spareWasm     = 45  // MiB resident
	largeBatch    = 100_000
	smallerBatch  = 10_000
	flatTolerance = 1.5
)

// weighed judges what was weighed.
func (r *report) weighed() []verdict {
	worker := verdict{What: "worker idle, without warm guests", Goal: fmt.Sprintf("< %d MiB resident", idleWorker), Measured: "not measured here"}
	parked := verdict{What: "each parked guest, forkserver", Goal: fmt.Sprintf("< %d MiB", parkedGuest), Measured: "not measured here"}
	spare := verdict{What: "each spare guest, wasm", Goal: fmt.Sprintf("≤ %d MiB resident", spareWasm), Measured: "not measured here"}
	for _, w := range r.Weights {
		switch w.ID {
		case "memory/worker":
			worker.Measured, worker.Met = fmt.Sprintf("%.0f MiB with NATS", w.MiB), yes(w.MiB < idleWorker)
		case "memory/forkserver/parked":
			parked.Measured, parked.Met = short(w.MiB)+" MiB", yes(w.MiB < parkedGuest)
		case "memory/wasm/parked":
			spare.Measured, spare.Met = short(w.MiB)+" MiB", yes(w.MiB <= spareWasm)
		case "memory/forkserver/slot": // comes behind
			parked.Measured += ", and its slot's process " + short(w.MiB)
		}
	}
	return []verdict{worker, parked, spare}
}

// flat judges whether a batch ten times as large takes the same memory.
func (r *report) flat() verdict {
	v := verdict{What: "100,000-job batch: nothing lost, memory of submit and worker flat", Measured: "not measured here"}
	v.Goal = fmt.Sprintf("≤ %.1f times that of 10,000", flatTolerance)
	batches := map[int]load{}
	for _, l := range r.Loads {
		if l.kind() == "batch" {
			batches[l.Jobs] = l
		}
	}
	small, ok1 := batches[smallerBatch]
	large, ok2 := batches[largeBatch]
	if !ok1 || !ok2 || small.Submit == 0 || small.Worker == 0 {
		return v
	}
	submit, worker := large.Submit/small.Submit, large.Worker/small.Worker
	v.Measured = fmt.Sprintf("%d lost, submit %s times, worker %s times", large.Lost, short(submit), short(worker))
	v.Met = yes(large.Lost == 0 && submit <= flatTolerance && worker <= flatTolerance)
	return v
}

// promise is a goal of one trial; least or most is 0.
type promise struct {
	id, what, unit string
	least, most    float64
}

// afterLease is how long after the end of a lease a dead worker's jobs may
// have their results; resume bounds an election.
const (
	afterLease = 5
	resume     = 5
)

var promises = []promise{
	{id: "recovery/claims", what: "16 workers on one lane, fewest claims over the mean", unit: "times", least: 0.5},
	{id: computed, what: "CPU-bound Python, wasm over the host's by processor time, at worst", unit: "times", most: 8},
	{id: "recovery/worker", what: "SIGKILL of a worker: results of all its jobs", unit: "s", most: job.Lease.Seconds() + afterLease},
	{id: "recovery/leader", what: "NATS leader lost: submission resumes", unit: "s", most: resume},
}

func (p promise) judge(trials []trial) verdict {
	v := verdict{What: p.what, Goal: goal{unit: p.unit, least: p.least, most: p.most}.want(), Measured: "not measured here"}
	for _, t := range trials {
		if t.ID == p.id {
			v.Measured = short(t.Value) + " " + p.unit
			v.Met = yes(t.Value >= p.least && (p.most == 0 || t.Value <= p.most))
		}
	}
	return v
}

// judge sets the verdicts of all that was measured.
func (r *report) judge() {
	rows := r.byID()
	r.Goals = nil
	for _, g := range goals {
		r.Goals = append(r.Goals, g.judge(rows, r.Scale >= 1))
	}
	r.Goals = append(append(r.Goals, r.flat(), r.flatGateway()), r.weighed()...)
	for _, g := range promises {
		r.Goals = append(r.Goals, g.judge(r.Trials))
	}
}
