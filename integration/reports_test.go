package integration_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"testing"
)

// reports are how many there are.
const reports = 56

// explained are the parts of reports that are not acted out, and why.
var explained = map[string]string{
	"F52": "poolers: the leader's lock is a session's, so that only a pooler of sessions will do (DEPLOY.md)",
}

// TestEachReportHasATest is the index of what users of queues and worker pools
// like this one reported, by the numbers (F) under which the tests name them:
// where it is acted out here. It fails when that test is renamed away, and when
// a number is neither acted out nor explained.
func TestEachReportHasATest(t *testing.T) {
	t.Parallel()
	const (
		matrix  = "integration/faults/matrix_test.go"
		checks  = "integration/faults/check_test.go"
		queues  = "queue/reports_test.go"
		bursts  = "queue/bursts_test.go"
		stored  = "store/*_test.go"
		handled = "worker/handle_test.go"
		queued  = "queue/*_test.go"
	)
	named := map[string]bool{}
	for _, row := range []struct{ name, files, holds string }{
		{"F1, F2 consumers that overlap", queues, "func TestF1ConsumersDoNotOverlap("},
		{"F3 a filter that the server ignored", queues, "func TestF3ServerHasWhatWasAskedFor("},
		{"F4 messages past their last delivery", queues, "func TestF4NothingIsLeftUndelivered("},
		{"F5 the same on three servers", queues, "StartCluster(t, 3)"},
		{"F6 advisories that come late", queues, "F4, F5, F6"},
		{"F7, F8 a requeue swallowed as a duplicate", queues, "func TestF7RequeueIsNotSwallowed("},
		{"F9, F10 duplicates that the queue does not know", matrix, `"published-twice"`},
		{"F11, F12 BackOff bends delays", queues, "BackOff"},
		{"F13 an outage uses deliveries up", queues, "func TestF13DeliveriesAreNotUsedUp("},
		{"F14, F15 stale acknowledgements", queues, "func TestF14StaleAcknowledgementsActOnTheHolder("},
		{"F14, F15 a worker without its lease is silent", handled, "func TestALostLeaseLeavesNoTrace("},
		{"F14, F15 at each step", matrix, `"stale-acknowledgements"`},
		{"F16 anybody ends another's delivery", "queue/permissions_test.go", `pub("$JS.ACK.`},
		{"F17 deliveries of the dead mislead who scales", bursts, "func TestF17WhatDeadWorkersHoldIsStillWaitedFor("},
		{"F18 a lane that stalls", checks, "lanes are stuck"},
		{"F19 a stream whose end is torn", bursts, "func TestF19ATornStreamGivesNewJobsOut("},
		{"F20, F22, F23 prefetched jobs wait at a worker that stops", queues, "func TestF22AStoppedWorkerHoldsNothingBack("},
		{"F21 consumers that are dead after a reconnect", queued, "func TestSurvivesRestart("},
		{"F24 unacknowledged messages deleted by a limit", queues, "DiscardNew"},
		{"F25, F26, F27, F28 schedules lost, overwritten, refused, early", stored, `"recorded job before its time"`},
		{"F29 expiry that no watcher sees", queued, "func TestWorkersComeAndGo("},
		{"F30 two writers of one blob", queued, "func TestLargeJob("},
		{"F31 replies that others read", queued, "func TestEachRoleIsRefusedWhatIsNotItsOwn("},
		{"F32 dead letters that cannot be listed", "integration/operators_test.go", "func TestADeadJobKeepsItsInputAndCanBeRequeued("},
		{"F33 bursts on three servers", bursts, "func TestF33ABurstOnThreeServersLeavesNothing("},
		{"F34 acknowledged publishes lost in a crash", matrix, `"nats-killed"`},
		{"F35 a rescue overwrites an end", stored, "func TestF35LostAndFinishedAtOnce("},
		{"F36 an ended job runs on", handled, `"somebody else holds it"`},
		{"F37 a cancel lost while nobody listened", handled, "func TestACancelSeenByAHeartbeatEndsTheGuest("},
		{"F38 jobs longer than a lease", handled, "func TestHeartbeatsKeepALongJobAlive("},
		{"F39 dead workers behind many live ones", stored, "func TestF39ADeadWorkerBehindManyLiveOnes("},
		{"F40 a wedged attempt keeps its lease", "worker/reports_test.go", "func TestF40AWedgedAttemptLosesItsLease("},
		{"F41 running without a lease", stored, "func TestF41RunningWithoutALease("},
		{"F42 two reconcilers take one job", stored, "func TestTakeDueByTwoGivesEachJobOnce("},
		{"F43 a second copy runs while the first does", matrix, `"worker-stopped"`},
		{"F43 calls repeated under another key", "broker/*_test.go", "func TestIdempotencyKeyIsStableOverAttempts("},
		{"F44 one job twice in one worker", queued, "func TestSameJobTwiceInOneWorker("},
		{"F45 workers told apart by their host", matrix, `"worker-killed"`},
		{"F46 an orphan blocks its key", queued, "func TestKeyWithoutItsJobHeals("},
		{"F47 heartbeats end before the jobs", matrix, `"drain-during-load"`},
		{"F48 a worker that the host starves", matrix, `"worker-starved"`},
		{"F49 no word why a job waits", queued, "func TestUnplaceable("},
		{"F50 a global counter halves what runs at once", bursts, "func TestF50AllSlotsAreBusyAtOnce("},
		{"F51 NUL keeps a job running", stored, "func TestHostileBytesReachEveryColumn("},
		{"F52 statements called off in a storm", stored, "func TestF52ClaimsCalledOffInAStorm("},
		{"F53 calls without arguments and answers", stored, "func TestCallsAreKeptWhole("},
		{"F54 tools that tell nothing of themselves", "broker/*_test.go", "func TestSubjectsAndHeaders("},
		{"F55 the last acknowledgement is lost", queued, "func TestConsumeWaitsForHandlers("},
		{"F56 plain messages dropped for a slow reader", bursts, "func TestF56AFloodOfPlainMessagesLosesNothing("},
	} {
		for _, number := range reportNumber.FindAllString(row.name, -1) {
			named[number] = true
		}
		if !found(t, filepath.Join("..", row.files), row.holds) {
			t.Errorf("%s: %s has no %s", row.name, row.files, row.holds)
		}
	}
	for n := 1; n <= reports; n++ {
		if number := fmt.Sprintf("F%d", n); !named[number] && explained[number] == "" {
			t.Errorf("%s is neither acted out nor explained", number)
		}
	}
}

var reportNumber = regexp.MustCompile(`F[0-9]+`)
