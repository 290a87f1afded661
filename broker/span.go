package broker

import (
	"context"
	"errors"

	"airlock/job"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The attributes of spans. Those of a call are OpenTelemetry's for the tools of
// generative AI, and a few of ours.
const (
	attrOperation = attribute.Key("gen_ai.operation.name")
	attrTool      = attribute.Key("gen_ai.tool.name")
	attrCall      = attribute.Key("gen_ai.tool.call.id")
	attrError     = attribute.Key("error.type")
	attrNamespace = attribute.Key("airlock.tool.namespace")
	attrProvider  = attribute.Key("airlock.tool.provider")
	attrState     = attribute.Key("airlock.call.state")
	attrJob       = attribute.Key("airlock.job")
	attrAttempt   = attribute.Key("airlock.attempt")
	attrTenant    = attribute.Key("airlock.tenant")
	attrBatch     = attribute.Key("airlock.batch")
)

// executeTool is the operation of a call.
const executeTool = "execute_tool"

// TraceLabel is the label by which a job joins its submitter's trace: a W3C
// traceparent.
const TraceLabel = "traceparent"

// attemptSpan is the span of a conversation, whose calls are below it. All
// methods take nil, which is what there is without a tracer.
type attemptSpan struct {
	tracer trace.Tracer
	span   trace.Span
}

func (b *Broker) beginSpan(a *job.Attempt) *attemptSpan {
	if b.cfg.Tracer == nil {
		return nil
	}
	j := a.Job
	// The label is in the job, and so holds for each attempt; what submitted
	// this generation is linked then.
	label, submitted := parentOf(j.Labels[TraceLabel]), parentOf(a.TraceParent)
	parent, also := submitted, []trace.Link(nil)
	if trace.SpanContextFromContext(label).IsValid() {
		parent = label
		if link := trace.LinkFromContext(submitted); link.SpanContext.IsValid() {
			also = append(also, link)
		}
	}
	_, span := b.cfg.Tracer.Start(parent, "airlock.attempt", trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(also...), trace.WithAttributes(
		attrJob.String(j.ID.String()), attrAttempt.Int(a.Number), attrTenant.String(j.Tenant), attrBatch.String(j.Batch)))
	return &attemptSpan{b.cfg.Tracer, span}
}

// parentOf has the span that a traceparent names, or none.
func parentOf(parent string) context.Context {
	if !traceParentPattern.MatchString(parent) {
		return context.Background()
	}
	carrier := propagation.MapCarrier{TraceLabel: parent}
	return propagation.TraceContext{}.Extract(context.Background(), carrier)
}

// end closes the span. Of an error it tells the kind alone: the text may hold
// what the guest sent.
func (s *attemptSpan) end(err error) {
	if s == nil {
		return
	}
	if err != nil {
		kind := "internal"
		for name, known := range map[string]error{"breach": ErrBreach, "no_hello": ErrNoHello, "audit": ErrAudit, "fenced": job.ErrFenced} {
			if errors.Is(err, known) {
				kind = name
			}
		}
		s.span.SetAttributes(attrError.String(kind))
		s.span.SetStatus(codes.Error, kind)
	}
	s.span.End()
}

// call begins the span of a call. A refused call may name anything, so the
// span's own name comes with the end.
func (s *attemptSpan) call(c *job.Call) trace.Span {
	if s == nil {
		return nil
	}
	_, span := s.tracer.Start(trace.ContextWithSpan(context.Background(), s.span), executeTool, trace.WithTimestamp(c.Started), trace.WithAttributes(
		attrOperation.String(executeTool), attrCall.String(callID(c.Job, c.Attempt, c.Seq))))
	return span
}

// endSpan closes the call's span with what was recorded of it. Neither
// arguments nor answers, nor a text of the provider's, are in it.
func (f *flight) endSpan() {
	if f.span == nil {
		return
	}
	f.span.SetAttributes(attrTool.String(f.call.Name), attrNamespace.String(f.call.Namespace), attrState.String(string(f.call.State)))
	if f.tool != nil {
		f.span.SetName(executeTool + " " + f.tool.Name)
	}
	if f.call.Provider != "" {
		f.span.SetAttributes(attrProvider.String(f.call.Provider))
	}
	if f.call.Code != "" {
		f.span.SetAttributes(attrError.String(f.call.Code))
		f.span.SetStatus(codes.Error, f.call.Code)
	}
	if f.call.Ended.IsZero() {
		f.span.End()
		return
	}
	f.span.End(trace.WithTimestamp(f.call.Ended))
}

// traceParent is what the provider continues the trace with.
func (f *flight) traceParent() string {
	if f.span == nil {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), f.span), carrier)
	return carrier[TraceLabel]
}
