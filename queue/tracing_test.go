package queue_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/propagation"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

const someTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestTheSubmittersTraceComesWithTheDelivery: and not with a job that was
// published again, or of one without a span.
func TestTheSubmittersTraceComesWithTheDelivery(t *testing.T) {
	t.Parallel()
	q := open(t, natstest.Start(t), queue.Config{})
	w := work(t, q, 1, nil, offer("bubblewrap"))
	ctx := propagation.TraceContext{}.Extract(testContext(t), propagation.MapCarrier{"traceparent": someTrace})
	traced, plain := newJob(t, nil), newJob(t, func(j *job.Job) { j.Labels = map[string]string{"traceparent": someTrace} })
	if _, err := q.Submit(ctx, traced, queue.SubmitOptions{Park: true}); err != nil {
		t.Fatal(err)
	}
	w.wait(1)
	submit(t, q, plain) // a label is the broker's affair
	w.wait(2)
	must(t, q.Republish(testContext(t), job.Republish{Job: traced, Generation: 2, Reason: "retry"}))
	var got []string
	for _, d := range w.wait(3) {
		got = append(got, d.TraceParent)
	}
	if diff := cmp.Diff([]string{someTrace, "", ""}, got); diff != "" {
		t.Errorf("traces (-want +got):\n%s", diff)
	}
}

// TestATraceThatIsNone: whoever may submit writes the header.
func TestATraceThatIsNone(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	submit(t, q, newJob(t, nil)) // makes the lane
	w := work(t, q, 1, nil, offer("bubblewrap"))
	w.wait(1)
	nc := srv.Connect()
	for i, header := range []string{"x", someTrace + "\u0000", strings.ToUpper(someTrace), "ff" + someTrace[2:], strings.Repeat("0", 5000)} {
		body, err := newJob(t, nil).Encode()
		must(t, err)
		publishRaw(t, nc, "jobs.any.normal.default", string(body), map[string]string{"traceparent": header})
		if got := w.wait(i + 2)[i+1].TraceParent; got != "" {
			t.Errorf("%.80q: got %q, want none", header, got)
		}
	}
}
