package integration_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEachKnownWeaknessHasATest is the index of what earlier systems of this
// kind got wrong (W) and what users of such systems reported (B): where the
// test is that would catch it here. It fails when that test is renamed away.
func TestEachKnownWeaknessHasATest(t *testing.T) {
	t.Parallel()
	const (
		endToEnd = "integration/weaknesses_test.go"
		faults   = "integration/faults_test.go"
		stories  = "backends/backendtest/*.go"
		broker   = "broker/*_test.go"
		breaches = "broker/testdata/wire/*.txtar"
	)
	for _, row := range []struct{ name, files, holds string }{
		{"W1 the host's environment reaches the guest", endToEnd, `"W1 `},
		{"W2 limits that the guest may raise", endToEnd, `"W2 `},
		{"W3 processes counted by user", endToEnd, `"W3 `},
		{"W4 capabilities, unbounded tmpfs, no filter", stories, `"wall: posture"`},
		{"W5 a host directory that the guest may write", stories, `"write to the host"`},
		{"W6 wrapping that corrupts programs", endToEnd, `"W6 `},
		{"W7 every unix socket reachable, all files readable", stories, `"sockets of services"`},
		{"W8 processes outlive the run", endToEnd, `"W8 `},
		{"W9 cancelling leaks the guest", faults, "func TestCancelAtEachStage("},
		{"W10 a survivor that holds the channel hangs the run", stories, `"the channel ends with the guest, whoever holds it"`},
		{"W11 output fills the host's memory", endToEnd, `"W11 `},
		{"W12 no frame cap", broker, "func TestBK1LengthIsRefusedBeforeTheBody("},
		{"W13 replies that cannot be encoded hang the guest", endToEnd, `"W13 `},
		{"W14 unbounded work per connection", broker, "func TestBK29EveryFrameCostsBudget("},
		{"W15 no audit", broker, "func TestAuditBeforeCall("},
		{"W16 policy that is off by default", broker, "func TestNoGrantsAllowNothing("},
		{"W17 open calls survive the end", broker, "func TestResultEndsOpenCalls("},
		{"W18 dotted names", endToEnd, `"W18 `},
		{"W19 any end after a result is success", endToEnd, `"W19 `},
		{"W20 error kinds that lie", "worker/judge_test.go", "func TestEachEndHasOneStatus("},
		{"W21 no schema check, no time limit, no idempotency key", broker, "func TestIdempotencyKeyIsStableOverAttempts("},
		{"W22 NaN, NUL and integers", endToEnd, `"W22 `},
		{"second result", breaches, "result"},
		{"B02 output deadlocks", endToEnd, `"B02 `},
		{"B07 characters across reads", endToEnd, `"B07 `},
		{"B19 NUL on every path", "store/*_test.go", "NUL"},
		{"B22 NaN loses the result", endToEnd, "B22 "},
		{"B32 a grandchild holds the pipe", endToEnd, "B32 "},
		{"B33 the call waits for a background child", endToEnd, `"B33 `},
		{"B45 stdin left open", endToEnd, `"B45 `},
		{"B98 an answer beyond max_payload is a time-out", broker, "// B98"},
	} {
		if !found(t, filepath.Join("..", row.files), row.holds) {
			t.Errorf("%s: %s has no %s", row.name, row.files, row.holds)
		}
	}
}

func found(t *testing.T, pattern, text string) bool {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if raw, err := os.ReadFile(file); err == nil && strings.Contains(string(raw), text) {
			return true
		}
	}
	return false
}
