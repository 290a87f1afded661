package gateway

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"airlock/job"
	"airlock/queue"
)

const (
	// submitTime bounds the submission of one job.
	submitTime = 15 * time.Second
	// atOnce is how many jobs are being published at a time, by all requests:
	// each is a round trip, and so many keep the server busy.
	atOnce = 256
)

// adopt makes a job that came over HTTP the tenant's own, and checks it.
func adopt(j *job.Job, tenant string) error {
	if j.Tenant != "" && j.Tenant != tenant {
		return &job.FieldError{Field: "tenant", Reason: "is another than this token's: leave it out"}
	}
	j.Tenant = tenant
	return j.Prepare(time.Now())
}

// submit puts a prepared job into the queue.
func (g *Gateway) submit(ctx context.Context, j *job.Job, park bool) (queue.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, submitTime)
	defer cancel()
	select {
	case g.submitting <- struct{}{}:
		defer func() { <-g.submitting }()
	case <-ctx.Done():
		return queue.Receipt{}, ctx.Err()
	}
	receipt, err := g.cfg.Queue.Submit(ctx, j, queue.SubmitOptions{Park: park})
	var conflict *queue.ConflictError
	if errors.As(err, &conflict) {
		return receipt, g.explainConflict(ctx, j, conflict)
	}
	return receipt, err
}

// explainConflict names the fields in which a job differs from the one that had
// its key first.
func (g *Gateway) explainConflict(ctx context.Context, j *job.Job, conflict *queue.ConflictError) error {
	p := problemf(CodeConflict, "this idempotency key stands for job %s, which has another content", conflict.Earlier)
	earlier, err := settled(ctx, conflict.Earlier, func() (*job.Job, error) { return g.cfg.Store.Spec(ctx, j.Tenant, conflict.Earlier) })
	if err != nil {
		return p // it may not have reached the history yet
	}
	for _, field := range differing(earlier, j) {
		p.with(FieldDetail{field, fmt.Sprintf("differs from job %s", conflict.Earlier)})
	}
	return p
}

// differing names the fields in which two jobs differ, apart from those that
// say which they are.
func differing(a, b *job.Job) []string {
	var names []string
	va, vb := reflect.ValueOf(*a), reflect.ValueOf(*b)
	for i := range va.NumField() {
		name, _, _ := strings.Cut(va.Type().Field(i).Tag.Get("json"), ",")
		if name != "id" && name != "key" && !reflect.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			names = append(names, name)
		}
	}
	return names
}

// How long a job may take from the queue into the history: on a busy machine it
// is seconds. Of a batch only the first job is waited for, before its receipt.
const (
	settle      = 10 * time.Second
	settleBatch = 2 * time.Second
)

// settled is ask about a job that may be of this moment: that it is not there
// counts once it had time to come.
func settled[T any](ctx context.Context, id job.ID, ask func() (T, error)) (T, error) {
	return settledBy(ctx, id.Time().Add(settle), ask)
}

// settledBy is ask, again until that time while it finds nothing.
func settledBy[T any](ctx context.Context, until time.Time, ask func() (T, error)) (T, error) {
	for {
		v, err := ask()
		if err == nil || problemOf(err).Code != CodeNotFound || !time.Now().Before(until) {
			return v, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return v, err
		}
	}
}
