package broker_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"airlock/broker"
	"airlock/job"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// verified runs a Verifier over rows as a database gives them.
func verified(sealed job.Sealed, rows []job.Call) []job.Fault {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b job.Call) int { return a.Seq - b.Seq })
	v := broker.NewVerifier(sealed.Job, sealed.Attempt)
	for i := range rows {
		v.Link(&rows[i])
	}
	for i := range rows {
		v.Call(&rows[i])
	}
	faults, _ := v.Faults(sealed)
	return faults
}

// found is what a test compares of faults.
func found(faults []job.Fault) []string {
	var all []string
	for _, f := range faults {
		all = append(all, fmt.Sprintf("%s call %d link %d", f.Kind, f.Seq, f.Link))
	}
	return all
}

// chain holds a conversation of three calls, one after the other, with a
// refused one between: links 1 2, 3, 4 5 and 6 7.
func chain(t *testing.T) (job.Sealed, []job.Call) {
	t.Helper()
	b := begin(t, setup{grants: "math.add"})
	b.Hello()
	for i, tool := range []string{"math.add", "math.echo", "math.add", "math.add"} {
		b.Call(i, tool, fmt.Sprintf(`{"a":%d,"b":1}`, i))
		b.Recv()
	}
	report := b.end(t)
	return job.Sealed{
		Job: b.attempt.Job.ID, Attempt: 1, Outcome: "finished", Status: job.StatusOK, Head: report.AuditHead, ToolCalls: report.ToolCalls,
	}, b.audit.Calls()
}

func TestTheVerifierNamesWhatWasDone(t *testing.T) {
	t.Parallel()
	sealed, rows := chain(t)
	without := func(seqs ...int) func(*job.Sealed, []job.Call) []job.Call {
		return func(_ *job.Sealed, rows []job.Call) []job.Call {
			return slices.DeleteFunc(rows, func(c job.Call) bool { return slices.Contains(seqs, c.Seq) })
		}
	}
	change := func(seq int, edit func(*job.Call)) func(*job.Sealed, []job.Call) []job.Call {
		return func(_ *job.Sealed, rows []job.Call) []job.Call { edit(&rows[seq-1]); return rows }
	}
	lost := func(s *job.Sealed) { s.Head, s.Outcome, s.Status, s.ToolCalls = "", "lost", job.StatusInfraError, 0 }
	for _, c := range []struct {
		name string
		do   func(*job.Sealed, []job.Call) []job.Call
		want []string
	}{
		{"nothing", func(_ *job.Sealed, rows []job.Call) []job.Call { return rows }, nil},
		{"arguments", change(3, func(c *job.Call) { c.Arguments = jsontext.Value(`{"a":9,"b":1}`) }), []string{"changed call 3 link 4"}},
		{"answer", change(1, func(c *job.Call) { c.Answer = jsontext.Value(`{"sum":9}`) }), []string{"changed call 1 link 2"}},
		{"state", change(4, func(c *job.Call) { c.State = job.CallFailed }), []string{"changed call 4 link 7"}},
		{"refused into made", change(2, func(c *job.Call) { c.State, c.Code = job.CallOK, "" }), []string{"changed call 2 link 3"}},
		{"hash in the middle", change(3, func(c *job.Call) { c.StartHash = flipped(c.StartHash) }), []string{"changed call 3 link 4"}},
		{"hash before another call", change(1, func(c *job.Call) { c.EndHash = flipped(c.EndHash) }), []string{"changed call 1 link 2"}},
		{"last hash", change(4, func(c *job.Call) { c.EndHash = flipped(c.EndHash) }), []string{"changed call 4 link 7"}},
		{"end taken away", change(3, func(c *job.Call) { c.EndLink, c.EndHash = 0, nil }), []string{"removed call 0 link 5", "unchecked call 4 link 6"}},
		{"a link that is none", change(2, func(c *job.Call) { c.EndLink = -1 }), []string{"removed call 0 link 3", "changed call 2 link -1", "unchecked call 3 link 4"}},
		{"a link far away", change(4, func(c *job.Call) { c.EndLink = 1 << 40 }), nil},
		{"first row", without(1), []string{"removed call 1 link 1", "unchecked call 2 link 3"}},
		{"middle row", without(3), []string{"removed call 3 link 4", "unchecked call 4 link 6"}},
		{"refused row", without(2), []string{"removed call 2 link 3", "unchecked call 3 link 4"}},
		{"last row", without(4), []string{"removed call 0 link 6"}},
		{"last two rows", without(3, 4), []string{"removed call 0 link 4"}},
		{"all rows", without(1, 2, 3, 4), []string{"removed call 0 link 1"}},
		{"two swapped", func(_ *job.Sealed, rows []job.Call) []job.Call {
			rows[2].Seq, rows[3].Seq = 4, 3
			return rows
		}, []string{"moved call 3 link 6", "moved call 4 link 4"}},
		{"added without a link", func(s *job.Sealed, rows []job.Call) []job.Call {
			return append(rows, job.Call{Job: s.Job, Attempt: 1, Seq: 5, State: job.CallOK})
		}, []string{"added call 5 link 0"}},
		{"added with another's links", func(s *job.Sealed, rows []job.Call) []job.Call {
			c := rows[0]
			c.Seq = 5
			return append(rows, c)
		}, []string{"added call 5 link 1", "added call 5 link 2"}},
		{"added at the end", func(s *job.Sealed, rows []job.Call) []job.Call {
			c := rows[1]
			c.Seq, c.EndLink, c.EndHash = 5, 8, flipped(c.EndHash)
			return append(rows, c)
		}, []string{"added call 5 link 8"}},
		{"head changed", func(s *job.Sealed, rows []job.Call) []job.Call {
			s.Head = fmt.Sprintf("%x", sha256.Sum256(nil))
			return rows
		}, []string{"head call 0 link 7"}},
		{"head no hash", func(s *job.Sealed, rows []job.Call) []job.Call { s.Head = "x"; return rows }, []string{"head call 0 link 7"}},
		{"head removed", func(s *job.Sealed, rows []job.Call) []job.Call { s.Head = ""; return rows }, []string{"head call 0 link 0"}},
		{"head removed, of a failure", func(s *job.Sealed, rows []job.Call) []job.Call {
			s.Head, s.Status = "", job.StatusGuestError
			return rows
		}, []string{"head call 0 link 0"}},
		{"head of an earlier link", func(s *job.Sealed, rows []job.Call) []job.Call {
			s.Head = fmt.Sprintf("%x", rows[2].EndHash)
			return rows
		}, []string{"added call 4 link 6"}},
		{"of another attempt", func(s *job.Sealed, rows []job.Call) []job.Call { s.Attempt = 2; return rows }, []string{"changed call 1 link 1"}},
		{"worker died", func(s *job.Sealed, rows []job.Call) []job.Call {
			lost(s)
			rows[3].EndLink, rows[3].EndHash, rows[3].State = 0, nil, job.CallStarted
			return rows
		}, nil},
		{"worker died before an end that others followed", func(s *job.Sealed, rows []job.Call) []job.Call {
			lost(s)
			rows[2].EndLink, rows[2].EndHash, rows[2].State = 0, nil, job.CallStarted
			return rows
		}, nil},
		{"worker died, and a row is gone", func(s *job.Sealed, rows []job.Call) []job.Call {
			lost(s)
			return slices.Delete(rows, 2, 3)
		}, []string{"removed call 3 link 4", "unchecked call 4 link 6"}},
		{"worker died, and a start is gone", func(s *job.Sealed, rows []job.Call) []job.Call {
			lost(s)
			rows[2].StartLink, rows[2].StartHash = 0, nil
			return rows
		}, []string{"removed call 0 link 4", "unchecked call 3 link 5"}},
		{"worker died, and a row was changed", func(s *job.Sealed, rows []job.Call) []job.Call {
			lost(s)
			rows[0].Answer = nil
			return rows
		}, []string{"changed call 1 link 2"}},
		{"still running", func(s *job.Sealed, rows []job.Call) []job.Call {
			lost(s)
			s.Outcome, s.Status = "running", ""
			return slices.Delete(rows, 2, 3)
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := sealed
			rows := c.do(&s, slices.Clone(rows))
			faults := verified(s, rows)
			if c.name == "a link far away" { // what matters is that it ends
				if len(faults) == 0 {
					t.Error("got no fault")
				}
				return
			}
			if diff := cmp.Diff(c.want, found(faults)); diff != "" {
				t.Errorf("faults (-want +got):\n%s\n%+v", diff, faults)
			}
		})
	}
}

func flipped(hash []byte) []byte {
	hash = bytes.Clone(hash)
	hash[0] ^= 1
	return hash
}

func TestTheVerifierBoundsWhatItTells(t *testing.T) {
	t.Parallel()
	id := job.NewID()
	v := broker.NewVerifier(id, 1)
	for seq := range 1000 {
		v.Link(&job.Call{Job: id, Attempt: 1, Seq: seq + 1})
	}
	if faults, all := v.Faults(job.Sealed{Job: id, Attempt: 1, Outcome: "lost"}); len(faults) != 20 || all != 1000 {
		t.Errorf("got %d faults of %d, want 20 of 1000", len(faults), all)
	}
}
