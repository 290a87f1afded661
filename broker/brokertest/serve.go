package brokertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"airlock/broker"
	"airlock/job"
)

// Attempt is the first attempt at a job that grants tools such as math.add or
// math.*. The edits are made before the job is prepared.
func Attempt(t testing.TB, tools string, edits ...func(*job.Job)) *job.Attempt {
	t.Helper()
	j := &job.Job{Code: "pass"}
	j.Limits.ToolTime = job.Duration(time.Hour) // a busy machine takes its time for calls too
	for name := range strings.FieldsSeq(tools) {
		namespace, tool, _ := strings.Cut(name, ".")
		j.Tools = append(j.Tools, job.Grant{Namespace: namespace, Name: tool})
	}
	for _, edit := range edits {
		edit(j)
	}
	if err := j.Prepare(time.Now()); err != nil {
		t.Fatalf("prepare job: %v", err)
	}
	return &job.Attempt{Job: j, Number: 1, Worker: "w", Backend: "fake", Claimed: time.Now()}
}

// Running is a conversation that is being served.
type Running struct {
	t      testing.TB
	cancel context.CancelCauseFunc
	done   chan struct{}
	report *job.Report
	err    error
}

// Serve holds a conversation in the background.
func Serve(t testing.TB, b *broker.Broker, a *job.Attempt, ch io.ReadWriteCloser) *Running {
	t.Helper()
	return start(t, func(ctx context.Context) (*job.Report, error) { return b.Serve(ctx, a, ch, job.Clock{}) })
}

// ServeClock is Serve with a clock.
func ServeClock(t testing.TB, b *broker.Broker, a *job.Attempt, ch io.ReadWriteCloser, clock job.Clock) *Running {
	t.Helper()
	return start(t, func(ctx context.Context) (*job.Report, error) { return b.Serve(ctx, a, ch, clock) })
}

// ServeToken is Serve for a channel with a token.
func ServeToken(t testing.TB, b *broker.Broker, a *job.Attempt, ch io.ReadWriteCloser, token string) *Running {
	t.Helper()
	return start(t, func(ctx context.Context) (*job.Report, error) {
		return b.ServeToken(ctx, a, ch, job.Clock{}, token)
	})
}

func start(t testing.TB, serve func(ctx context.Context) (*job.Report, error)) *Running {
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &Running{t: t, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.report, r.err = serve(ctx)
	}()
	t.Cleanup(func() {
		cancel(errors.New("the test is over"))
		<-r.done
	})
	return r
}

// Cancel ends the conversation's context.
func (r *Running) Cancel(cause error) { r.cancel(cause) }

// Done is closed when the conversation is over.
func (r *Running) Done() <-chan struct{} { return r.done }

// Wait returns what came of the conversation.
func (r *Running) Wait() (*job.Report, error) {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(2 * patience):
		r.t.Fatalf("the conversation does not end")
	}
	return r.report, r.err
}

// Verdict sums a conversation up in one word and a reason: ok, guest_error,
// result_limit, no_result, or breach with what was broken.
func Verdict(r *job.Report, err error) string {
	switch {
	case r.Breach != "":
		return "breach: " + r.Breach
	case err != nil:
		return fmt.Sprintf("error: %v", err)
	case r.ResultLimited:
		return "result_limit"
	case !r.Done:
		return "no_result"
	case r.Error != nil:
		return "guest_error"
	}
	return "ok"
}
