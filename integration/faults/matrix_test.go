//go:build linux

package faults_test

import (
	"syscall"
	"testing"
	"time"

	"airlock/worker/failpoint"
)

// fault is a row of the table: what breaks, while one worker stands at each
// step of an attempt, with a job in its hands.
type fault struct {
	name string
	// action is what the worker does at the step: kill and stop are the fault
	// itself; a pause holds it there while breaks runs.
	action string
	layout layout
	// steps at which the worker stands: all of them by default.
	steps []failpoint.Name
	// prepare runs when the workers are ready, before there are jobs.
	prepare func(t testing.TB, p *plant)
	// breaks runs when every step is reached. It mends what it broke.
	breaks func(t testing.TB, p *plant)
	// rescued has other workers join the lanes of the steps then.
	rescued bool
	// calm: the fault is no reason to lose an attempt.
	calm bool
	// after runs when all jobs have ended, before what came of them is read.
	after func(t testing.TB, p *plant)
	// short rows are part of every run of the tests.
	short bool
}

// leaseSteps are those at which a worker that dies leaves a lease, and those
// that the reconciler finds sooner. The others are found by JetStream, after
// AckWait, which is too slow for every run of the tests.
var leaseSteps = []failpoint.Name{failpoint.AfterClaim, failpoint.GuestRunning, failpoint.InCall, failpoint.ResultReady, failpoint.AfterAck}

// heldSteps are those at which a worker holds a lease and no clock of the job's
// runs.
var heldSteps = []failpoint.Name{failpoint.AfterClaim, failpoint.ResultReady}

// faults are the rows, the slowest first: the first has a worker to build.
var faults = []fault{
	{name: "clock-off", action: "pause=1s", layout: layout{skewed: true}},
	{name: "worker-starved", action: "pause=" + starvedFor, steps: heldSteps, breaks: starve, calm: true},
	{name: "worker-stopped", action: "stop", rescued: true, after: resume},
	{name: "worker-killed", action: "kill", rescued: true},
	{name: "worker-killed-bubblewrap", action: "kill", layout: layout{backend: "bubblewrap"}, rescued: true},
	{name: "worker-killed-forkserver", action: "kill", layout: layout{backend: "forkserver"}, rescued: true},
	{name: "worker-killed-short", action: "kill", layout: layout{early: true}, steps: leaseSteps, rescued: true, short: true},
	{name: "postgres-down-30s", action: "pause=3s", layout: layout{own: true}, breaks: postgresDown},
	{name: "postgres-refuses-writes", action: "pause=3s", breaks: refuseWrites},
	{name: "postgres-restart", action: "pause=3s", layout: layout{own: true}, breaks: restartPostgres, short: true},
	{name: "nats-killed", action: "pause=3s", breaks: killOnlyNode},
	{name: "nats-leader-killed", action: "pause=3s", layout: layout{servers: 3}, breaks: killLeader},
	{name: "nats-follower-killed", action: "pause=3s", layout: layout{servers: 3}, breaks: killFollower},
	{name: "nats-leader-partitioned", action: "pause=3s", layout: layout{servers: 3}, breaks: partitionLeader},
	{name: "connections-cut", action: "pause=3s", layout: layout{proxied: true}, breaks: cutConnections},
	{name: "network-slow", action: "pause=1s", layout: layout{proxied: true}, breaks: slowNetwork},
	{name: "published-twice", action: "pause=2s", breaks: publishAgain},
	{name: "stale-acknowledgements", action: "pause=" + heldFor, breaks: acknowledgeForOthers, short: true},
	{name: "message-lost-to-a-stale-ack", action: "kill", rescued: true, breaks: dropMessages},
	{name: "nats-wiped", action: "pause=3s", layout: layout{forgetful: true}, breaks: wipeNode},
	{name: "doorbells-lost", action: "pause=1s", prepare: loseDoorbells},
	{name: "drain-during-load", action: "pause=4s", rescued: true, breaks: drainAll},
}

// resume wakes the stopped workers when their jobs are long done by others,
// and has them leave in their own way: they had their say.
func resume(t testing.TB, p *plant) {
	for _, s := range p.steps {
		s.worker.signal(syscall.SIGCONT)
	}
	for _, s := range p.steps {
		s.worker.drain(t)
	}
}

const (
	outage = 30 * time.Second
	// starvedFor is longer than a lease.
	starvedFor = "55s"
	// heldFor is longer than the steps are reached one after the other, so that
	// most workers hold a message then.
	heldFor = "12s"
	// aWhile is how long lesser faults last.
	aWhile = 8 * time.Second
)
