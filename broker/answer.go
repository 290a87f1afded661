package broker

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"airlock/job"

	"github.com/go-json-experiment/json/jsontext"
)

// The causes for which one call ends before its answer.
var (
	errToolTime    = errors.New("tool time used up")
	errCallTimeout = errors.New("no answer in time")
)

// lateWait is how long the answer of a call that timed out is waited for while
// the conversation goes on.
const lateWait = 10 * time.Second

// settle records the answer and passes it on, in this order: what a guest
// knows has been recorded.
func (f *flight) settle(ctx context.Context, end exchanged) {
	no := end.no
	if no == nil {
		no = f.s.spend(f, len(end.answer.Body))
	}
	if no != nil {
		f.call.Answer = nil
		f.fail(job.CallFailed, no)
	} else {
		f.call.State, f.call.Detail = job.CallOK, f.story()
	}
	if !f.record(ctx) {
		no = refusef(CodeAuditFailed, "the answer could not be recorded")
	}
	if no != nil {
		f.reply(ctx, errorReply(f.id, no, f.tool))
		return
	}
	f.reply(ctx, okReply(f.id, end.answer.Body))
}

// maxAnswer leaves room for what a reply wraps around it.
const maxAnswer = MaxFrame - 64

// judge takes an answer into the call's record and returns what is wrong with
// it.
func (f *flight) judge(answer Answer) *refusal {
	f.call.Provider = answer.Provider
	if answer.Code != "" {
		return &refusal{code: answer.Code, message: answer.Message, detail: answer.Detail, retryable: answer.Retryable,
			foreign: answer.Code != CodeNoProvider}
	}
	if len(answer.Body) > maxAnswer {
		return refusef(CodeTooLarge, "the answer is %d bytes, a frame carries %d", len(answer.Body), maxAnswer)
	}
	if err := checkDocument(answer.Body); err != nil {
		no := refusef(CodeBadAnswer, "the answer is not the JSON it should be")
		no.foreign = true
		no.detail = err.Error() + ": " + job.Printable(string(answer.Body[:min(len(answer.Body), 200)]), 200)
		return no
	}
	f.call.Answer = f.rule.Kept(answer.Body)
	return nil
}

// checkDocument is job.CheckJSON for a body that may also be missing.
func checkDocument(body jsontext.Value) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return errors.New("there is no body")
	}
	return job.CheckJSON(body)
}

// abandon tells the guest at once, and records the call when its answer came
// too late or will not be waited for any longer.
func (f *flight) abandon(ctx context.Context, cause error, answers <-chan Answer) {
	no, state := ending(cause), job.CallCancelled
	switch no.code {
	case CodeTimeout:
		state = job.CallFailed
	case CodeToolTimeLimit:
		f.s.limited()
	}
	f.reply(ctx, errorReply(f.id, no, f.tool))
	f.cancel()
	if answer, ok := f.s.late(ctx, answers); ok {
		state = job.CallLate
		if wrong := f.judge(answer); wrong != nil {
			no.detail, no.foreign = "answered late with "+wrong.Error()+" "+wrong.detail, wrong.foreign
		}
	}
	f.fail(state, no)
	f.record(ctx)
}

// cancel tells the provider that nobody waits any more.
func (f *flight) cancel() {
	if c, ok := f.s.policy.tools.(Canceller); ok {
		c.Cancel(f.tool, Request{Job: f.call.Job, Attempt: f.call.Attempt, Seq: f.call.Seq})
	}
}

func (s *session) limited() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.ToolLimited = true
}

// late waits for an answer that nobody will get: for lateWait, or until a
// moment after the conversation ended.
func (s *session) late(ctx context.Context, answers <-chan Answer) (Answer, bool) {
	wait := time.NewTimer(lateWait)
	defer wait.Stop()
	select {
	case answer := <-answers:
		return answer, true
	case <-wait.C:
		return Answer{}, false
	case <-ctx.Done():
	}
	wait.Reset(s.b.cfg.Grace)
	select {
	case answer := <-answers:
		return answer, true
	case <-wait.C:
		return Answer{}, false
	}
}

// ending is what the guest is told of a call that ends before its answer.
func ending(cause error) *refusal {
	switch {
	case errors.Is(cause, errCallTimeout):
		return refusef(CodeTimeout, "no answer in time; the tool may still have acted")
	case errors.Is(cause, errToolTime):
		return refusef(CodeToolTimeLimit, "the time that this job's calls may take is used up")
	}
	return refusef(CodeCancelled, "the job is ending")
}

// unsent is the answer that stands for a request which did not leave.
func unsent(err error) Answer {
	answer := Answer{Code: CodeNoProvider, Message: "the call could not be sent", Detail: err.Error()}
	if errors.Is(err, ErrTooLarge) {
		answer.Code, answer.Message = CodeTooLarge, "the arguments exceed what one message carries"
	}
	return answer
}

// ErrTooLarge is wrapped by Tools.Call's error for a request that no message
// carries.
var ErrTooLarge = errors.New("larger than one message")

// reply ends the call for the guest.
func (f *flight) reply(ctx context.Context, body []byte) {
	if f.metered {
		f.metered = false
		f.s.meter.end()
	}
	f.s.reply(ctx, f.id, body)
}

// fail writes why the call failed into its record.
func (f *flight) fail(state job.CallState, no *refusal) {
	f.call.State = state
	f.call.Code = string(no.code)
	message, detail := f.kept(no)
	if no.retryable {
		detail = strings.TrimSuffix(retryableDetail+": "+detail, ": ")
	}
	if story := f.story(); story != "" {
		detail = strings.TrimSuffix(story+": "+detail, ": ")
	}
	f.call.Message = job.Printable(message, maxMessage)
	f.call.Detail = job.Printable(detail, maxDetail)
	f.call.Retryable = no.retryableBy(f.tool)
}

// kept is what the audit keeps of a failure's texts. Of a provider's error the
// code stays, which is one of a few.
func (f *flight) kept(no *refusal) (message, detail string) {
	if !no.foreign {
		return no.message, no.detail
	}
	message, detail = f.rule.KeptText(no.message), f.rule.KeptText(no.detail)
	code, _, _ := strings.Cut(no.message, ": ")
	if message != no.message && no.code == CodeProviderError && codePattern.MatchString(code) {
		message = code + ": " + message
	}
	return message, detail
}

// retryableDetail begins the detail of a call whose provider said that it may
// be made again.
const retryableDetail = "retryable"

// maxDetail bounds what operators are told of a failure.
const maxDetail = 2000

// record writes the call's end. Without it the conversation cannot go on.
func (f *flight) record(ctx context.Context) bool {
	if err := f.s.audit.ended(ctx, &f.call); err != nil {
		f.s.lose(err)
		return false
	}
	return true
}
