package queue

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"airlock/job"
)

// Event is news of a job, as it came by.
type Event struct {
	Tenant, Batch string
	Job           job.ID
	job.News
	// Size is how many bytes the news took.
	Size int
}

// Tell tells whoever listens what happened to a job. It waits for nothing, not
// for the network either, and what cannot be sent is lost: nobody may depend
// on it. Without a connection it does nothing, so that news take none of the
// room in which the library keeps what is to be sent later.
func (q *Queue) Tell(j *job.Job, n job.News) {
	if !q.nc.IsConnected() {
		return
	}
	subject, err := eventSubject(j.Tenant, j.Batch, j.ID)
	if err != nil {
		return // a delivered job has been checked
	}
	body, err := json.Marshal(&n)
	if err == nil {
		err = q.nc.Publish(subject, body)
	}
	if err != nil {
		q.cfg.Log.Debug().Err(err).Stringer("job", j.ID).Msg("news not told")
	}
}

// OverhearEvents calls heard, from one goroutine, for the news of every job
// that is wanted, until ctx ends. What nobody wants is not decoded. News that
// come while heard is slow, or the connection away, are missed.
func (q *Queue) OverhearEvents(ctx context.Context, wanted func(job.ID) bool, heard func(Event)) error {
	return q.overhear(ctx, eventFilter(), func(msg *nats.Msg) {
		if e, ok := parseEvent(msg, wanted); ok {
			heard(e)
		}
	})
}

func parseEvent(msg *nats.Msg, wanted func(job.ID) bool) (Event, bool) {
	tenant, batch, id, ok := parseOwned(msg.Subject)
	if !ok || !wanted(id) {
		return Event{}, false
	}
	e := Event{Tenant: tenant, Batch: batch, Job: id, Size: len(msg.Data)}
	// A newer worker may say more than we know.
	return e, json.Unmarshal(msg.Data, &e.News) == nil && e.Attempt >= 1
}
