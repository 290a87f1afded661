package broker_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/job"
)

func TestAfterTheResult(t *testing.T) {
	t.Parallel()
	b := begin(t, setup{cfg: broker.Config{Linger: time.Hour}})
	b.Hello()
	b.Send(`{"id":1,"method":"result","params":{"value":1}}`)
	b.Recv()
	b.Call(1, "math.add", `{"a":1,"b":2}`)
	b.ExpectCode(1, broker.CodeFinished)
	b.Send(`{"id":2,"method":"list_tools"}`)
	b.ExpectCode(2, broker.CodeFinished)
	b.Close()
	report, err := b.Wait()
	if err != nil || report.ToolCalls != 0 || len(b.tools.Requests()) != 0 {
		t.Errorf("got %d calls and error %v, want none", report.ToolCalls, err)
	}
	b.verify(t, report)
	if call := b.audit.Calls()[0]; call.State != job.CallRefused || call.Code != "finished" {
		t.Errorf("got call %s %s, want it refused as finished", call.State, call.Code)
	}
}

func TestLingerIsBounded(t *testing.T) {
	t.Parallel()
	// Long enough for the acknowledgement to be written on a busy machine.
	b := begin(t, setup{cfg: broker.Config{Linger: 200 * time.Millisecond}})
	b.Hello()
	b.Send(`{"id":1,"method":"result","params":{"value":1}}`)
	b.Expect(`{"id":1,"ok":true}`)
	if report, err := b.Wait(); err != nil || !report.Done { // though the guest stays
		t.Errorf("got %+v and error %v, want a result", report, err)
	}
}

// A guest that says all it has to say and closes its half still gets its
// replies.
func TestHalfClosedGuestGetsTheAcknowledgement(t *testing.T) {
	t.Parallel()
	b := begin(t, setup{})
	b.Hello()
	b.Send(`{"id":1,"method":"result","params":{"value":1}}`)
	if err := b.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatalf("close one half: %v", err)
	}
	b.Expect(`{"id":1,"ok":true}`)
	if _, err := b.Wait(); err != nil {
		t.Errorf("Serve: got error %v, want none", err)
	}
}

// deaf is a channel whose other end takes the job and nothing more.
type deaf struct {
	net.Conn
	writes atomic.Int32
	failed chan struct{}
}

func (d *deaf) Write(p []byte) (int, error) {
	switch d.writes.Add(1) {
	case 1:
		return d.Conn.Write(p)
	case 2:
		close(d.failed)
	}
	return 0, syscall.EPIPE
}

// What a guest sent before it left counts, though its replies find nobody.
func TestResultOfAGuestThatDoesNotWait(t *testing.T) {
	t.Parallel()
	guest, host := brokertest.NewSocketGuest(t)
	channel := &deaf{Conn: host.(net.Conn), failed: make(chan struct{})}
	tools := &brokertest.Tools{}
	tools.Add(t, "quick.tool", "", func(broker.Request) *broker.Answer { return brokertest.Body("1") })
	tools.Add(t, "slow.tool", "", never(channel.failed, "1"))
	// One at a time: the result is read when a reply has failed.
	b := broker.New(broker.Config{Tools: tools, Audit: brokertest.Nothing{}, Parallel: 1})
	running := brokertest.Serve(t, b, brokertest.Attempt(t, "quick.tool slow.tool"), channel)
	guest.Hello()
	guest.Call(1, "quick.tool", `{}`)
	guest.Call(2, "slow.tool", `{}`)
	guest.Send(`{"id":3,"method":"list_tools"}`)
	guest.Send(`{"id":4,"method":"result","params":{"value":1}}`)
	guest.Close()
	report, err := running.Wait()
	if got := brokertest.Verdict(report, err); got != "ok" || report.ToolCalls != 2 {
		t.Errorf("got verdict %s and %d calls, want ok and 2", got, report.ToolCalls)
	}
}

func TestCallThatEndsBeforeItsRequestIsNotSent(t *testing.T) {
	t.Parallel()
	var b *bench
	ready := make(chan struct{})
	audit := &brokertest.Audit{OnStart: func(job.Call) { <-ready; b.Cancel(job.ErrCancelled) }}
	b = begin(t, setup{audit: audit})
	close(ready)
	b.Hello()
	b.Call(1, "math.add", `{"a":1,"b":2}`)
	report, _ := b.Wait()
	b.verify(t, report)
	if call := audit.Calls()[0]; len(b.tools.Requests()) != 0 || call.State != job.CallCancelled {
		t.Errorf("got %d requests sent and call %s, want none and it cancelled", len(b.tools.Requests()), call.State)
	}
}

func TestNoHello(t *testing.T) {
	t.Parallel()
	for _, memory := range []bool{true, false} {
		b := begin(t, setup{memory: memory, cfg: broker.Config{HelloTimeout: time.Millisecond}})
		report, err := b.Wait()
		if !errors.Is(err, broker.ErrNoHello) || report.Breach != "" || !report.Ready.IsZero() {
			t.Errorf("got %+v and error %v, want ErrNoHello and no breach", report, err)
		}
	}
}

func TestGuestGoneBeforeHello(t *testing.T) {
	t.Parallel()
	b := begin(t, setup{})
	b.Close()
	if report, err := b.Wait(); err != nil || report.Done || !report.Ready.IsZero() || report.Breach != "" {
		t.Errorf("got %+v and error %v, want an empty report", report, err)
	}
}

// plain hides the deadlines of a channel.
type plain struct{ io.ReadWriteCloser }

func TestChannelWithoutDeadlines(t *testing.T) {
	t.Parallel()
	serve := func(cfg broker.Config) (*brokertest.Guest, *brokertest.Running) {
		guest, host := brokertest.NewGuest(t)
		cfg.Tools, cfg.Audit = brokertest.Math(t), brokertest.Nothing{}
		return guest, brokertest.Serve(t, broker.New(cfg), brokertest.Attempt(t, "math.*"), plain{host})
	}
	t.Run("hello", func(t *testing.T) {
		_, running := serve(broker.Config{HelloTimeout: time.Millisecond})
		if _, err := running.Wait(); !errors.Is(err, broker.ErrNoHello) {
			t.Errorf("got error %v, want ErrNoHello", err)
		}
	})
	t.Run("unread", func(t *testing.T) {
		guest, running := serve(broker.Config{WriteTimeout: time.Millisecond})
		guest.Send(`{"method":"hello","params":{"protocol":1,"python":"3"}}`)
		if report, err := running.Wait(); !errors.Is(err, broker.ErrBreach) || !strings.Contains(report.Breach, "not taken") {
			t.Errorf("got breach %q and error %v, want a frame not taken", report.Breach, err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		guest, running := serve(broker.Config{})
		guest.Hello()
		running.Cancel(job.ErrCancelled)
		if _, err := running.Wait(); err != nil {
			t.Errorf("got error %v, want none", err)
		}
	})
}
