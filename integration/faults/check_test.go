//go:build linux

package faults_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"airlock/broker"
	"airlock/job"
	"airlock/store"
	"airlock/store/storetest"
)

// settlePatience outlasts a lease, the queue's own patience with a delivery
// and a reconciler's term, on a busy machine.
const settlePatience = job.Lease + job.AckWait + 2*time.Minute

// tellEvery is how often the log says what is waited for.
const tellEvery = 15 * time.Second

// verdict is what became of the jobs of one lane.
type verdict struct {
	jobs, attempts int
	// lost jobs have no result, or not the one they had to come back with;
	// twice is what was done that should be done once.
	lost, twice int
	// wrong is all else that does not hold.
	wrong []string
}

func (v *verdict) note(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

// settle waits until every job has ended and nothing is in the queue.
func (p *plant) settle(t testing.TB, jobs int) {
	t.Helper()
	db := p.database(t)
	began, told := time.Now(), time.Now()
	deadline := began.Add(settlePatience)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		if db.IsClosed() { // as it is once an answer has not come in time
			db = p.database(t)
		}
		state := p.unsettled(db, jobs)
		if state == "" {
			return
		}
		if time.Since(told) > tellEvery {
			told = time.Now()
			t.Logf("after %s: %s", time.Since(began).Round(time.Second), state)
		}
		if time.Now().After(deadline) {
			t.Errorf("not settled after %s: %s", settlePatience, state)
			return
		}
	}
}

// unsettled says what is still to be done, or nothing.
func (p *plant) unsettled(db *pgx.Conn, jobs int) string {
	ctx, cancel := context.WithTimeout(context.Background(), askPatience)
	defer cancel()
	var ended, untold int
	err := db.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM jobs WHERE state IN ('finished', 'dead')), (SELECT count(*) FROM announcements)`).Scan(&ended, &untold)
	if err != nil || ended < jobs || untold > 0 {
		return fmt.Sprintf("%d of %d jobs ended, %d results not announced, error %v", ended, jobs, untold, err)
	}
	if p.early {
		return ""
	}
	for _, stream := range []string{"JOBS", "QUEUED"} {
		if n, err := p.waiting(stream); err != nil || n > 0 {
			return fmt.Sprintf("%s holds %d messages, error %v", stream, n, err)
		}
	}
	if lanes, err := p.stuck(); err != nil || len(lanes) > 0 {
		return fmt.Sprintf("lanes are stuck: %v, error %v", lanes, err)
	}
	return ""
}

// checker reads what is recorded.
type checker struct {
	p     *plant
	db    *pgx.Conn
	store *store.Store
	// called are the provider's books.
	called map[string]int
	tool   map[string]string
	told   map[string]*job.Result
	// calm is set where the fault is no reason to lose an attempt.
	calm bool
}

func (p *plant) checker(t testing.TB) *checker {
	t.Helper()
	c := &checker{p: p, db: p.database(t), store: storetest.OpenURL(t, p.url), told: map[string]*job.Result{}}
	c.called, c.tool = p.books.calls()
	return c
}

// lane holds the jobs of a lane against all that must always hold.
func (c *checker) lane(t testing.TB, jobs []asked) *verdict {
	t.Helper()
	v := &verdict{jobs: len(jobs)}
	for _, a := range jobs {
		c.one(t, v, a)
	}
	return v
}

func (c *checker) one(t testing.TB, v *verdict, a asked) {
	t.Helper()
	ctx := t.Context()
	record, err := c.store.Job(ctx, a.job.Tenant, a.job.ID)
	if err != nil {
		v.lost++
		v.note("job %s: %v", a.job.ID, err)
		return
	}
	result, err := c.store.Result(ctx, a.job.Tenant, a.job.ID)
	if err != nil || result.Status != job.StatusOK || string(result.Value) != a.value {
		v.lost++
		v.note("job %s is %s, %s: want ok with %s (%v)", a.job.ID, record.State, record.Status, a.value, err)
		if result != nil && result.Error != nil {
			v.note("  %s: %s", result.Error.Type, result.Error.Message)
		}
		return
	}
	c.attempts(t, v, a)
	c.calls(t, v, a, result)
	c.announced(t, v, a, result)
}

// attempts: exactly one made the result, and it is the newest, which held the
// fence; all others have a cause.
func (c *checker) attempts(t testing.TB, v *verdict, a asked) {
	t.Helper()
	rows, err := c.db.Query(t.Context(), `
		SELECT a.number, a.outcome, coalesce(a.status, ''), coalesce(convert_from(a.error_type, 'UTF8'), ''),
		    a.number = j.ended_by AND a.number = j.attempt AND a.worker = j.worker
		FROM jobs j
		JOIN attempts a ON a.job = j.id
		WHERE j.id = $1
		ORDER BY a.number`, a.job.ID.String())
	if err != nil {
		t.Fatal(err)
	}
	var number, finished, last int
	var outcome, status, cause string
	var holder bool
	_, err = pgx.ForEachRow(rows, []any{&number, &outcome, &status, &cause, &holder}, func() error {
		v.attempts++
		if last++; number != last {
			v.note("job %s: attempt %d is not recorded", a.job.ID, last)
			last = number
		}
		switch {
		case outcome == "finished" && holder:
			finished++
		case outcome == "finished":
			v.twice++
			v.note("job %s: attempt %d finished, and no longer held the job", a.job.ID, number)
		case outcome == "running":
			v.note("job %s: attempt %d is still running", a.job.ID, number)
		case outcome != "released" && (status != string(job.StatusInfraError) || cause == ""):
			v.note("job %s: attempt %d is %s without a cause (%s)", a.job.ID, number, outcome, status)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.calm && last > 1 {
		v.note("job %s: %d attempts, want one: nothing took it from its worker", a.job.ID, last)
	}
	if finished > 1 {
		v.twice += finished - 1
	}
	if finished != 1 {
		v.note("job %s: %d attempts finished it", a.job.ID, finished)
	}
}

// calls: each call that the provider saw was recorded before, each recorded
// answer came from a call that it saw, none was made twice, and no record is
// missing from the chain.
func (c *checker) calls(t testing.TB, v *verdict, a asked, result *job.Result) {
	t.Helper()
	all, err := c.store.Calls(t.Context(), a.job.Tenant, a.job.ID)
	if err != nil {
		t.Fatal(err)
	}
	recorded, attempts := map[string]bool{}, map[int][]job.Call{}
	for _, call := range all {
		id := fmt.Sprintf("%s.%d.%d", call.Job, call.Attempt, call.Seq)
		recorded[id] = true
		attempts[call.Attempt] = append(attempts[call.Attempt], call)
		if call.State == job.CallOK && c.called[id] == 0 {
			v.note("call %s is recorded as answered, and the provider never saw it", id)
		}
		if call.State == job.CallRefused && c.called[id] > 0 {
			v.note("call %s is recorded as refused, and the provider saw it", id)
		}
	}
	for id, times := range c.called {
		if !strings.HasPrefix(id, a.job.ID.String()+".") {
			continue
		}
		if !recorded[id] {
			v.note("the provider saw call %s, which is not recorded", id)
		}
		if times > 1 && c.tool[id] == spend {
			v.twice += times - 1
			v.note("the provider saw call %s of a tool that is not idempotent %d times", id, times)
		}
	}
	c.repeated(t, v, a, attempts)
	for number, calls := range attempts {
		head, err := broker.Verify(a.job.ID, number, calls)
		if err != nil {
			v.note("job %s, attempt %d: %v", a.job.ID, number, err)
		}
		if number == result.Attempt && head != result.AuditHead {
			v.note("job %s: the result's audit head is not that of its calls", a.job.ID)
		}
	}
}

// announced: RESULTS has the result that is recorded, once.
func (c *checker) announced(t testing.TB, v *verdict, a asked, result *job.Result) {
	t.Helper()
	told := c.told[a.job.ID.String()]
	switch {
	case told == nil && c.p.forgetful:
	case told == nil:
		v.lost++
		v.note("job %s: its result is not in RESULTS", a.job.ID)
	case told.Attempt != result.Attempt || told.Status != result.Status || string(told.Value) != string(result.Value):
		v.note("job %s: RESULTS has that of attempt %d, Postgres that of %d", a.job.ID, told.Attempt, result.Attempt)
	}
}

// read takes RESULTS in, and says what in JetStream and Postgres is not as it
// should be when all jobs have ended.
func (c *checker) read(t testing.TB, jobs int) *verdict {
	t.Helper()
	v := &verdict{jobs: jobs}
	if state := c.p.unsettled(c.db, jobs); state != "" {
		v.note("%s", state)
	}
	var known int
	if err := c.db.QueryRow(t.Context(), `SELECT count(*) FROM jobs`).Scan(&known); err != nil || known != jobs {
		v.note("Postgres knows %d jobs, want %d (%v)", known, jobs, err)
	}
	c.readResults(t, v)
	if len(c.told) != jobs && !c.p.forgetful {
		v.note("RESULTS has %d results, want %d", len(c.told), jobs)
	}
	return v
}

func (c *checker) readResults(t testing.TB, v *verdict) {
	t.Helper()
	stream, err := c.p.js.Stream(t.Context(), "RESULTS")
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := stream.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		t.Fatal(err)
	}
	for range stream.CachedInfo().State.Msgs {
		msg, err := consumer.Next(jetstream.FetchMaxWait(patience))
		if err != nil {
			t.Fatal(err)
		}
		var r job.Result
		if err := json.Unmarshal(msg.Data(), &r); err != nil {
			t.Fatal(err)
		}
		id := r.Job.String()
		if c.told[id] != nil {
			v.twice++
			v.note("job %s has two results in RESULTS", id)
		}
		c.told[id] = &r
	}
}
