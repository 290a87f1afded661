package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"airlock/job"
	"airlock/queue"
	"airlock/store"
)

// Code is a problem's stable name: what programs branch on.
type Code string

// The codes, each with the one status that it comes with.
const (
	CodeBadRequest   Code = "bad_request"
	CodeUnauthorized Code = "unauthorized"
	CodeForbidden    Code = "forbidden"
	CodeNotFound     Code = "not_found"
	CodeMethod       Code = "method_not_allowed"
	CodeConflict     Code = "conflict"
	CodeTooLarge     Code = "too_large"
	CodeMediaType    Code = "unsupported_media_type"
	// CodeInvalidJob: Errors say which fields of the job are wrong, and why.
	CodeInvalidJob Code = "invalid_job"
	// CodeUnplaceable: no live worker can run the job; Errors say why not.
	CodeUnplaceable Code = "unplaceable"
	CodeOverQuota   Code = "over_quota"
	CodeRateLimited Code = "rate_limited"
	CodeQueueFull   Code = "queue_full"
	// CodeUnavailable: NATS or Postgres cannot be reached just now.
	CodeUnavailable Code = "unavailable"
	CodeInternal    Code = "internal"
)

// statuses has all codes.
var statuses = map[Code]int{
	CodeBadRequest:   http.StatusBadRequest,
	CodeUnauthorized: http.StatusUnauthorized,
	CodeForbidden:    http.StatusForbidden,
	CodeNotFound:     http.StatusNotFound,
	CodeMethod:       http.StatusMethodNotAllowed,
	CodeConflict:     http.StatusConflict,
	CodeTooLarge:     http.StatusRequestEntityTooLarge,
	CodeMediaType:    http.StatusUnsupportedMediaType,
	CodeInvalidJob:   http.StatusUnprocessableEntity,
	CodeUnplaceable:  http.StatusUnprocessableEntity,
	CodeOverQuota:    http.StatusTooManyRequests,
	CodeRateLimited:  http.StatusTooManyRequests,
	CodeQueueFull:    http.StatusServiceUnavailable,
	CodeUnavailable:  http.StatusServiceUnavailable,
	CodeInternal:     http.StatusInternalServerError,
}

// Problem is an error as RFC 9457 writes it.
type Problem struct {
	Type   string `json:"type" doc:"Always about:blank: code says what it is."`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   Code   `json:"code" doc:"Stable name of the problem."`
	Detail string `json:"detail,omitzero" doc:"For people."`
	// Line is of an NDJSON body.
	Line   int           `json:"line,omitzero" doc:"Line of an NDJSON body, from 1."`
	Errors []FieldDetail `json:"errors,omitzero"`

	retry time.Duration
}

// FieldDetail is what is wrong with one part of a request.
type FieldDetail struct {
	Field  string `json:"field,omitzero" doc:"Path, such as limits.wall or [3].code."`
	Reason string `json:"reason"`
}

// Error implements error.
func (p *Problem) Error() string { return string(p.Code) + ": " + p.Detail }

func problemf(code Code, format string, args ...any) *Problem {
	status := statuses[code]
	return &Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code,
		Detail: job.Printable(fmt.Sprintf(format, args...), 2000),
	}
}

func (p *Problem) with(details ...FieldDetail) *Problem {
	p.Errors = append(p.Errors, details...)
	return p
}

// after says when another try may succeed.
func (p *Problem) after(d time.Duration) *Problem {
	p.retry = d
	return p
}

const (
	quotaPause = 5 * time.Second
	shortPause = time.Second
)

// problemOf says what the client is told of an error. What is ours, and not to
// be told, is only in the log: internal.
func problemOf(err error) *Problem {
	var (
		problem     *Problem
		field       *job.FieldError
		conflict    *queue.ConflictError
		unplaceable *queue.UnplaceableError
		remote      *queue.RemoteError
		tooBig      *http.MaxBytesError
	)
	switch {
	case errors.As(err, &problem):
		return problem
	case errors.As(err, &field):
		return problemf(CodeInvalidJob, "%s", field).with(FieldDetail{field.Field, field.Reason})
	case errors.As(err, &tooBig):
		return problemf(CodeTooLarge, "the body is larger than %s", job.Size(tooBig.Limit))
	case errors.As(err, &conflict):
		return problemf(CodeConflict, "%s", conflict)
	case errors.As(err, &unplaceable):
		p := problemf(CodeUnplaceable, "no live worker can run this job: change what it requires, or ask with park=true")
		for _, misfit := range unplaceable.Misfits {
			p.with(FieldDetail{"requires", misfit.String()})
		}
		return p
	case errors.Is(err, queue.ErrOverQuota):
		return problemf(CodeOverQuota, "%s", err).after(quotaPause)
	case errors.Is(err, queue.ErrQueueFull):
		return problemf(CodeQueueFull, "%s", queue.ErrQueueFull).after(quotaPause)
	case errors.Is(err, queue.ErrTooLarge):
		return problemf(CodeTooLarge, "%s", err)
	case errors.Is(err, queue.ErrTooManyLanes):
		return problemf(CodeUnplaceable, "%s", queue.ErrTooManyLanes)
	case errors.As(err, &remote):
		return remoteProblem(remote)
	case errors.Is(err, store.ErrNotFound):
		return problemf(CodeNotFound, "there is no such thing, or it is not yours")
	case errors.Is(err, job.ErrUnreachable), errors.Is(err, queue.ErrUnreachable), errors.Is(err, queue.ErrNoWorker),
		errors.Is(err, queue.ErrClosed), errors.Is(err, store.ErrClosed), errors.Is(err, context.DeadlineExceeded):
		return problemf(CodeUnavailable, "the queue or the database cannot be reached now").after(shortPause)
	}
	return problemf(CodeInternal, "an error of the gateway's own: its log says more")
}

func remoteProblem(e *queue.RemoteError) *Problem {
	switch e.Code {
	case "not_found":
		return problemf(CodeNotFound, "there is no such thing, or it is not yours")
	case "conflict":
		return problemf(CodeConflict, "%s", e.Message)
	case queue.CodeBadRequest:
		return problemf(CodeBadRequest, "%s", e.Message)
	case queue.CodeTooLarge:
		return problemf(CodeTooLarge, "%s", e.Message)
	case queue.CodeUnavailable, queue.CodeTimeout:
		return problemf(CodeUnavailable, "%s", e.Message).after(shortPause)
	}
	return problemf(CodeInternal, "a worker could not answer")
}

// write sends the problem, unless an answer has begun.
func (p *Problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil {
		body = []byte(`{"type":"about:blank","status":500,"code":"internal"}`)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	if p.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((p.retry+time.Second-1)/time.Second)))
	}
	if p.Code == CodeUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="airlock"`)
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // the client has left
}
