package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"airlock/job"
)

// CallbackState is where a callback stands. The set is closed.
type CallbackState string

// The states.
const (
	// CallbackWaiting: the job or batch has not ended, as far as is known.
	CallbackWaiting CallbackState = "waiting"
	// CallbackDue: it has, and is being told.
	CallbackDue       CallbackState = "due"
	CallbackDelivered CallbackState = "delivered"
	// CallbackGivenUp: the last try failed too.
	CallbackGivenUp CallbackState = "given_up"
)

// Callback is where to tell of the end of a job, or of a batch.
type Callback struct {
	ID     job.ID
	Tenant string
	Job    job.ID
	Batch  string
	// Expected is how many jobs the batch has at least.
	Expected int
	URL      string
	Secret   []byte
	State    CallbackState
	Attempts int
	Created  time.Time
	Next     time.Time
	Ended    time.Time
	// Deliveries are there in listings.
	Deliveries []Delivery
}

// Delivery is one try to tell.
type Delivery struct {
	Number int
	At     time.Time
	Took   time.Duration
	// Status is what was answered, zero for no answer; Error says why.
	Status int
	Error  string
}

const callbackColumns = `c.id, c.tenant, c.job, c.batch, c.expected, c.url, c.secret, c.state, c.attempts, c.created_at, c.next_at, c.ended_at`

func scanCallback(row pgx.CollectableRow) (Callback, error) {
	var c Callback
	var id [16]byte
	var of *[16]byte
	var batch *string
	var ended *time.Time
	err := row.Scan(&id, &c.Tenant, &of, &batch, &c.Expected, &c.URL, &c.Secret, &c.State, &c.Attempts, &c.Created, &c.Next, &ended)
	c.ID, c.Job, c.Batch = job.ID(id), job.ID(deref(of)), deref(batch)
	c.Created, c.Next, c.Ended = c.Created.UTC(), c.Next.UTC(), deref(ended).UTC()
	return c, err
}

// AddCallback keeps a callback, which is looked at first when after has passed.
// One of the same job or batch, tenant and URL stays as it is, but for a batch
// that is still waited for, of which more jobs are expected.
func (s *Store) AddCallback(ctx context.Context, c Callback, after time.Duration) error {
	var of any
	conflict := `ON CONFLICT (tenant, batch, url) DO UPDATE SET expected = c.expected + excluded.expected WHERE c.state = 'waiting'`
	if !c.Job.IsZero() {
		of, conflict = [16]byte(c.Job), `ON CONFLICT (tenant, job, url) DO NOTHING`
	}
	secret := c.Secret
	if secret == nil {
		secret = []byte{} // nil would be NULL
	}
	_, err := s.exec(ctx, "add callback", `
		INSERT INTO callbacks AS c (id, tenant, job, batch, expected, url, secret, next_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, now() + $8::interval)
		`+conflict, [16]byte(c.ID), c.Tenant, of, optionalText(c.Batch), c.Expected, c.URL, secret, after)
	return err
}

// CallbacksDue has the callbacks of jobs that have just ended taken at once.
func (s *Store) CallbacksDue(ctx context.Context, ids []job.ID) error {
	raw := make([][16]byte, len(ids))
	for i, id := range ids {
		raw[i] = [16]byte(id)
	}
	_, err := s.exec(ctx, "hasten callbacks", `
		UPDATE callbacks SET next_at = now() WHERE id = ANY($1::uuid[]) AND state = 'waiting'`, raw)
	return err
}

// Busy are those whose callbacks are not taken now: tenants, and hosts in lower
// case, with the port if the URL has one.
type Busy struct{ Tenants, Hosts []string }

// TakeCallbacks takes up to limit callbacks that are to be looked at, or told,
// now, of none that are busy. Nobody else takes them until the lease is over.
func (s *Store) TakeCallbacks(ctx context.Context, limit int, lease time.Duration, busy Busy) ([]Callback, error) {
	return collect(ctx, s, "take callbacks", scanCallback, `
		UPDATE callbacks c SET next_at = now() + $2::interval
		WHERE c.id IN (
		    SELECT id
		    FROM callbacks
		    WHERE state IN ('waiting', 'due') AND next_at <= now()
		        AND tenant <> ALL(coalesce($3::text[], '{}'))
		        AND lower(substring(url FROM '://([^/?#]*)')) <> ALL(coalesce($4::text[], '{}'))
		    ORDER BY next_at
		    LIMIT $1
		    FOR UPDATE SKIP LOCKED)
		RETURNING `+callbackColumns, limit, lease, busy.Tenants, busy.Hosts)
}

// ReturnCallbacks gives back what was taken and has no place now: others may
// take it, after what has waited longer.
func (s *Store) ReturnCallbacks(ctx context.Context, taken []Callback) error {
	ids, leases := make([][16]byte, len(taken)), make([]time.Time, len(taken))
	for i, c := range taken {
		ids[i], leases[i] = [16]byte(c.ID), c.Next
	}
	_, err := s.exec(ctx, "return callbacks", `
		UPDATE callbacks SET next_at = now()
		WHERE (id, next_at) IN (SELECT * FROM unnest($1::uuid[], $2::timestamptz[])) AND state IN ('waiting', 'due')`, ids, leases)
	return err
}

// TellCallback notes that a callback is about to be told, whose end has come. It
// reports false of one that is somebody else's by now: CallbacksDue has those
// taken too that are just being looked at.
func (s *Store) TellCallback(ctx context.Context, c Callback) (ours bool, err error) {
	tag, err := s.exec(ctx, "tell callback", `
		UPDATE callbacks SET state = 'due' WHERE id = $1 AND next_at = $2 AND state IN ('waiting', 'due')`, [16]byte(c.ID), c.Next)
	return err == nil && tag.RowsAffected() == 1, err
}

// PostponeCallback has a callback looked at later, whose job or batch has not
// ended, unless it is somebody else's by now.
func (s *Store) PostponeCallback(ctx context.Context, c Callback, after time.Duration) error {
	_, err := s.exec(ctx, "postpone callback", `
		UPDATE callbacks SET next_at = now() + $3::interval WHERE id = $1 AND next_at = $2 AND state = 'waiting'`, [16]byte(c.ID), c.Next, after)
	return err
}

// NoteDelivery records a try, and where the callback stands after it; again is
// when the next one is due. A try that was noted before changes nothing.
func (s *Store) NoteDelivery(ctx context.Context, id job.ID, d Delivery, state CallbackState, again time.Duration) error {
	_, err := s.exec(ctx, "note delivery", `
		WITH tried AS (
		    UPDATE callbacks SET
		        attempts = $2, state = $3, next_at = now() + $4::interval,
		        ended_at = CASE WHEN $3 IN ('delivered', 'given_up') THEN now() END
		    WHERE id = $1 AND state IN ('waiting', 'due') AND attempts < $2
		    RETURNING id
		)
		INSERT INTO callback_deliveries (callback, number, took, status, error)
		SELECT id, $2, $5, nullif($6::integer, 0), nullif($7, '') FROM tried`,
		[16]byte(id), d.Number, string(state), again, d.Took, d.Status, textColumn(d.Error))
	return err
}

// Callbacks lists a tenant's callbacks, newest first, with their tries. Secrets
// are not among what it returns.
func (s *Store) Callbacks(ctx context.Context, tenant string, limit int) ([]Callback, error) {
	list, err := collect(ctx, s, "list callbacks", scanCallback, `
		SELECT `+callbackColumns+` FROM callbacks c WHERE c.tenant = $1 ORDER BY c.id DESC LIMIT $2`, tenant, limit)
	if err != nil {
		return nil, err
	}
	at, ids := map[job.ID]int{}, make([][16]byte, len(list))
	for i := range list {
		list[i].Secret = nil
		at[list[i].ID], ids[i] = i, [16]byte(list[i].ID)
	}
	_, err = collect(ctx, s, "list deliveries", func(row pgx.CollectableRow) (struct{}, error) {
		var id [16]byte
		var d Delivery
		var status *int
		var text *string
		err := row.Scan(&id, &d.Number, &d.At, &d.Took, &status, &text)
		d.At, d.Status, d.Error = d.At.UTC(), deref(status), deref(text)
		if i, ok := at[job.ID(id)]; ok {
			list[i].Deliveries = append(list[i].Deliveries, d)
		}
		return struct{}{}, err
	}, `
		SELECT callback, number, at, took, status, error
		FROM callback_deliveries
		WHERE callback = ANY($1::uuid[])
		ORDER BY callback, number`, ids)
	return list, err
}

// DropCallbacks forgets what ended before then, with its tries.
func (s *Store) DropCallbacks(ctx context.Context, before time.Time) error {
	_, err := s.exec(ctx, "drop callbacks", `DELETE FROM callbacks WHERE ended_at < $1`, before)
	return err
}
