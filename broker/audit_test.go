package broker_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/job"

	"github.com/google/go-cmp/cmp"
)

func TestCallRecord(t *testing.T) {
	t.Parallel()
	b := begin(t, setup{grants: "math.add"})
	b.Hello()
	b.Call(0, "math.add", `{"a":1,"b":2}`)
	b.Recv()
	b.Call(0, "math.echo", `{"text":"x"}`)
	b.Recv()
	b.end(t)
	type row struct {
		Seq                    int
		Name, Arguments        string
		State                  job.CallState
		Answer, Code           string
		StartLink, EndLink     int
		HasStarted, HasEnded   bool
		HasDigest, WholeMicros bool
	}
	var got []row
	for _, c := range b.audit.Calls() {
		got = append(got, row{
			c.Seq, c.Namespace + "." + c.Name, string(c.Arguments), c.State, string(c.Answer), c.Code, c.StartLink, c.EndLink,
			!c.Started.IsZero(), !c.Ended.IsZero(), c.SchemaDigest != "", c.Ended.Equal(c.Ended.Truncate(time.Microsecond)),
		})
	}
	want := []row{
		{1, "math.add", `{"a":1,"b":2}`, job.CallOK, `{"sum":3}`, "", 1, 2, true, true, true, true},
		{2, "math.echo", `{"text":"x"}`, job.CallRefused, "", "not_granted", 0, 3, true, true, false, true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("recorded calls (-want +got):\n%s", diff)
	}
}

func TestAuditBeforeCall(t *testing.T) {
	t.Parallel()
	disk := errors.New("disk full: /secret/path")
	audit := &brokertest.Audit{StartErr: func(c job.Call) error {
		if c.Seq == 1 {
			return disk
		}
		return nil
	}}
	b := begin(t, setup{audit: audit})
	b.Hello()
	b.Call(1, "math.add", `{"a":1,"b":2}`)
	got := b.Recv()
	if !strings.Contains(got, `"code":"audit_failed"`) || strings.Contains(got, "secret") {
		t.Errorf("got %s, want audit_failed without the reason", got)
	}
	if sent := b.tools.Requests(); len(sent) != 0 {
		t.Errorf("got %d requests sent, want none before a record", len(sent))
	}
	b.Call(2, "math.add", `{"a":1,"b":2}`)
	b.Expect(`{"id":2,"ok":true,"value":{"sum":3}}`)
	b.end(t)
	if call := audit.Calls()[0]; call.State != job.CallRefused || call.Detail != disk.Error() {
		t.Errorf("got call %s (%s), want it refused with the reason", call.State, call.Detail)
	}
}

func TestAuditWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	var failures atomic.Int32
	down := func(job.Call) error {
		if failures.Add(1)%3 != 0 {
			return fmt.Errorf("insert: %w", job.ErrUnreachable)
		}
		return nil
	}
	b := begin(t, setup{audit: &brokertest.Audit{StartErr: down, EndErr: down}})
	b.Hello()
	b.Call(1, "math.add", `{"a":1,"b":2}`)
	b.Expect(`{"id":1,"ok":true,"value":{"sum":3}}`)
	b.end(t)
}

func TestFenceEndsTheConversation(t *testing.T) {
	t.Parallel()
	fenced := func(job.Call) error { return fmt.Errorf("update: %w", job.ErrFenced) }
	for name, audit := range map[string]*brokertest.Audit{"at the start": {StartErr: fenced}, "at the end": {EndErr: fenced}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := begin(t, setup{audit: audit})
			b.Hello()
			b.Call(1, "math.add", `{"a":1,"b":2}`)
			if _, err := b.Wait(); !errors.Is(err, job.ErrFenced) {
				t.Errorf("Serve: got error %v, want ErrFenced", err)
			}
			want := map[string]int{"at the start": 0, "at the end": 1}[name]
			if sent := b.tools.Requests(); len(sent) != want {
				t.Errorf("got %d requests sent, want %d", len(sent), want)
			}
		})
	}
}

func TestAuditLostEndsTheConversation(t *testing.T) {
	t.Parallel()
	audit := &brokertest.Audit{EndErr: func(job.Call) error { return errors.New("no") }}
	b := begin(t, setup{audit: audit})
	b.Hello()
	b.Call(1, "math.add", `{"a":1,"b":2}`)
	report, err := b.Wait()
	if !errors.Is(err, broker.ErrAudit) {
		t.Errorf("Serve: got error %v, want ErrAudit", err)
	}
	if report.AuditHead != "" {
		t.Errorf("got head %s, want none: the rows do not lead to it", report.AuditHead)
	}
}

func TestAuditLostWhileTheGuestIsEnded(t *testing.T) {
	t.Parallel()
	tools := &brokertest.Tools{}
	tools.Add(t, "slow.tool", "", func(broker.Request) *broker.Answer { return nil })
	started := make(chan struct{})
	audit := &brokertest.Audit{
		OnStart: func(job.Call) { close(started) },
		EndErr:  func(job.Call) error { return errors.New("no") },
	}
	b := begin(t, setup{tools: tools, audit: audit, grants: "slow.tool", cfg: broker.Config{Grace: time.Millisecond}})
	b.Hello()
	b.Call(1, "slow.tool", `{}`)
	<-started
	b.Cancel(job.ErrTimeout)
	if _, err := b.Wait(); !errors.Is(err, broker.ErrAudit) {
		t.Errorf("Serve: got error %v, want ErrAudit although the context has ended", err)
	}
}

func TestLostLeaseWritesNothing(t *testing.T) {
	t.Parallel()
	tools := &brokertest.Tools{}
	tools.Add(t, "slow.tool", "", func(broker.Request) *broker.Answer { return nil })
	started := make(chan struct{})
	audit := &brokertest.Audit{OnStart: func(job.Call) { close(started) }}
	b := begin(t, setup{tools: tools, audit: audit, grants: "slow.tool", cfg: broker.Config{Grace: time.Millisecond}})
	b.Hello()
	b.Call(1, "slow.tool", `{}`)
	<-started
	b.Cancel(job.ErrLeaseLost)
	if _, err := b.Wait(); !errors.Is(err, job.ErrFenced) {
		t.Errorf("Serve: got error %v, want ErrFenced", err)
	}
	if call := audit.Calls()[0]; call.State != job.CallStarted {
		t.Errorf("got call %s, want nothing written after the lease was lost", call.State)
	}
}
