package queue

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"airlock/job"
)

// Announcement is the news that a job has ended.
type Announcement struct {
	Tenant, Batch string
	Job           job.ID
	body          []byte
}

// Result is the announced one; false where it does not travel with the news,
// being too large, or cannot be read. The history has it.
func (a Announcement) Result() (*job.Result, bool) {
	var r job.Result
	if len(a.body) == 0 || json.Unmarshal(a.body, &r) != nil {
		return nil, false
	}
	return &r, r.Tenant == a.Tenant && r.Job == a.Job
}

// overheardAhead is how many announcements wait while one is being taken.
const overheardAhead = 16_384

// Overhear calls heard, from one goroutine, for each job of every tenant that
// ends, until ctx ends. It costs the server nothing and is as quick as can be,
// but hears nothing of before, and misses what is announced while the
// connection is away or heard is slow: it is for those who look into the
// history too.
func (q *Queue) Overhear(ctx context.Context, heard func(Announcement)) error {
	return q.overhear(ctx, resultsFilter(), func(msg *nats.Msg) {
		if a, ok := parseAnnouncement(msg); ok {
			heard(a)
		}
	})
}

// overhear takes the messages of a filter, from one goroutine, until ctx ends.
func (q *Queue) overhear(ctx context.Context, filter string, take func(*nats.Msg)) error {
	news := make(chan *nats.Msg, overheardAhead)
	sub, err := q.nc.ChanSubscribe(filter, news)
	if err != nil {
		return fmt.Errorf("listen to %s: %w", filter, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // a connection that is closed has none
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-q.background.Done():
			return ErrClosed
		case msg := <-news:
			take(msg)
		}
	}
}

// parseOwned reads the subject of what belongs to a job: four tokens, of which
// the last three are the tenant, the batch and the job.
func parseOwned(subject string) (tenant, batch string, id job.ID, ok bool) {
	tokens := strings.Split(subject, ".")
	if len(tokens) != 4 {
		return "", "", job.ID{}, false
	}
	tenant, batch = tokens[1], tokens[2]
	if batch == noBatch {
		batch = ""
	}
	id, err := job.ParseID(tokens[3])
	return tenant, batch, id, err == nil && checkOwner(tenant, batch) == nil
}

func parseAnnouncement(msg *nats.Msg) (Announcement, bool) {
	tenant, batch, id, ok := parseOwned(msg.Subject)
	return Announcement{Tenant: tenant, Batch: batch, Job: id, body: msg.Data}, ok
}

// Ping reports whether the server answers.
func (q *Queue) Ping(ctx context.Context) error {
	if !q.nc.IsConnected() {
		return fmt.Errorf("ping: %w", ErrUnreachable)
	}
	if err := q.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("ping: %w: %w", ErrUnreachable, err)
	}
	return nil
}
