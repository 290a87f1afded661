package queue

import (
	"context"
	"regexp"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
)

// tracePattern is of a W3C traceparent; version ff and ids of zeros are none.
var tracePattern = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// carryTrace has msg name the span in ctx, if there is one, so that the attempts
// are below it. What is published again later, by a reconciler, names none.
func carryTrace(ctx context.Context, msg *nats.Msg) {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	if parent := carrier[headerTrace]; parent != "" {
		msg.Header.Set(headerTrace, parent)
	}
}

// traceOf is the span that a message names, "" if it names none. Whoever may
// submit wrote it: what is not a traceparent is left out.
func traceOf(header nats.Header) string {
	if parent := header.Get(headerTrace); tracePattern.MatchString(parent) {
		return parent
	}
	return ""
}
