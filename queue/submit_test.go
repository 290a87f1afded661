package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

func TestAttachNeedsAQueue(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	_, err := queue.Attach(testContext(t), srv.Connect(), queue.Config{})
	if !errors.Is(err, queue.ErrNoQueue) {
		t.Errorf("got error %v, want ErrNoQueue", err)
	}
}

func TestOpenByManyAtOnce(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	var opening sync.WaitGroup
	for range 8 {
		nc := srv.Connect()
		opening.Go(func() {
			q, err := queue.Open(testContext(t), nc, queue.Config{})
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			must(t, q.Close())
			must(t, q.Close())
		})
	}
	opening.Wait()
}

func TestConnectGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := queue.Connect(ctx, "nats://user:secret@127.0.0.1:1", "test", testLog(t))
	if !errors.Is(err, queue.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v, want ErrUnreachable and the context's", err)
	}
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Errorf("error %q shows the password", err)
	}
}

func TestConnectWaitsForTheServer(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	url := srv.URLOf("submitter-default")
	srv.Stop()
	connected := make(chan error)
	go func() {
		nc, err := queue.Connect(testContext(t), url, "test", testLog(t))
		if err == nil {
			nc.Close()
		}
		connected <- err
	}()
	srv.Resume()
	must(t, <-connected)
}

func TestKeys(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	keyed := func(key, code, tenant string) *job.Job {
		return newJob(t, func(j *job.Job) { j.Key, j.Code, j.Tenant = key, code, tenant })
	}
	strange := strings.Repeat("ä.*> \n", 30)
	first := submit(t, q, keyed(strange, "1", "a"))
	if first.Known {
		t.Error("got Known for a new key")
	}
	same := submit(t, q, keyed(strange, "1", "a"))
	if !same.Known || same.Job != first.Job {
		t.Errorf("got %+v for the same job, want Known and job %s", same, first.Job)
	}
	_, err := q.Submit(testContext(t), keyed(strange, "2", "a"), queue.SubmitOptions{Park: true})
	var conflict *queue.ConflictError
	if !errors.As(err, &conflict) || conflict.Earlier != first.Job {
		t.Errorf("got error %v, want a conflict with %s", err, first.Job)
	}
	if other := submit(t, q, keyed(strange, "2", "b")); other.Known {
		t.Error("another tenant's key was known")
	}
	if waiting, _ := total(t, q); waiting != 2 {
		t.Errorf("got %d jobs waiting, want 2", waiting)
	}
}

func TestKeyFromManyAtOnce(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	const same, conflicting = 20, 5
	var mu sync.Mutex
	ids, unknown, conflicts := map[job.ID]bool{}, 0, 0
	var submitting sync.WaitGroup
	try := func(code string) {
		receipt, err := q.Submit(testContext(t), newJob(t, func(j *job.Job) { j.Key, j.Code = "k", code }), queue.SubmitOptions{Park: true})
		mu.Lock()
		defer mu.Unlock()
		var conflict *queue.ConflictError
		switch {
		case errors.As(err, &conflict):
			conflicts++
		case err != nil:
			t.Errorf("submit: %v", err)
		default:
			ids[receipt.Job] = true
			if !receipt.Known {
				unknown++
			}
		}
	}
	for range same {
		submitting.Go(func() { try("1") })
	}
	submitting.Wait()
	for range conflicting {
		submitting.Go(func() { try("2") })
	}
	submitting.Wait()
	if len(ids) != 1 || unknown != 1 || conflicts != conflicting {
		t.Errorf("got %d ids, %d new, %d conflicts; want 1, 1, %d", len(ids), unknown, conflicts, conflicting)
	}
	w := work(t, q, 4, nil, offer("bubblewrap"))
	waitEmpty(t, q)
	if got := len(w.wait(1)); got != 1 {
		t.Errorf("got %d deliveries, want 1", got)
	}
}

// A submitter that died between its key and its publish must not have lost the
// job: whoever submits the same again heals it.
func TestKeyWithoutItsJobHeals(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{MaxPerTenant: 1})
	submit(t, q, newJob(t, nil)) // fills the quota
	lost := newJob(t, func(j *job.Job) { j.Key = "k" })
	if _, err := q.Submit(testContext(t), lost, queue.SubmitOptions{Park: true}); !errors.Is(err, queue.ErrOverQuota) {
		t.Fatalf("got error %v, want ErrOverQuota", err)
	}
	w := work(t, q, 1, nil, offer("bubblewrap"))
	w.wait(1)
	waitEmpty(t, q)
	healed := submit(t, q, newJob(t, func(j *job.Job) { j.Key = "k" }))
	if healed.Job != lost.ID || !healed.Known {
		t.Errorf("got %+v, want the lost job %s", healed, lost.ID)
	}
	if got := w.wait(2)[1]; got.Job.ID != lost.ID {
		t.Errorf("got job %s delivered, want %s", got.Job.ID, lost.ID)
	}
}

func TestQuotaAndFullQueue(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{MaxPerTenant: 2, MaxJobs: 5})
	try := func(tenant string, priority job.Priority) error {
		_, err := q.Submit(testContext(t), newJob(t, func(j *job.Job) { j.Tenant, j.Priority = tenant, priority }), queue.SubmitOptions{Park: true})
		return err
	}
	for i, step := range []struct {
		tenant   string
		priority job.Priority
		want     error
	}{
		{"a", job.PriorityLow, nil},
		{"a", job.PriorityLow, nil},
		{"a", job.PriorityLow, queue.ErrOverQuota},
		{"a", job.PriorityHigh, nil},
		{"b", job.PriorityLow, nil},
		{"b", job.PriorityLow, nil},
		{"c", job.PriorityLow, queue.ErrQueueFull},
	} {
		if err := try(step.tenant, step.priority); !errors.Is(err, step.want) {
			t.Errorf("step %d: got error %v, want %v", i, err, step.want)
		}
	}
}

func TestUnplaceable(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	submitter := attach(t, srv)
	ctx := testContext(t)

	refusal := func(change func(*job.Job)) string {
		_, err := submitter.Submit(ctx, newJob(t, change), queue.SubmitOptions{})
		if err == nil {
			return ""
		}
		var unplaceable *queue.UnplaceableError
		if !errors.As(err, &unplaceable) {
			t.Errorf("got error %v, want an *UnplaceableError", err)
		}
		return err.Error()
	}
	contains := func(name, got string, want ...string) {
		t.Helper()
		for _, phrase := range want {
			if !strings.Contains(got, phrase) {
				t.Errorf("%s: got %q, want it to contain %q", name, got, phrase)
			}
		}
	}
	contains("nobody", refusal(nil), "no worker is there")

	weak := offer("local")
	weak.Isolation = job.IsolationNone
	unlimited := offer("seatbelt")
	unlimited.Limits = []job.LimitName{job.LimitCPU}
	small := presence("small", offer("bubblewrap"), weak, unlimited)
	small.Max = job.Limits{Memory: 512 * job.MiB}
	small.Unavailable = map[string]string{"docker": "the daemon does not answer"}
	draining := presence("draining", offer("wasm"))
	draining.Draining = true
	must(t, q.Advertise(ctx, small))
	must(t, q.Advertise(ctx, draining))

	if got := refusal(nil); got != "" {
		t.Errorf("got refusal %q of a job that fits", got)
	}
	for _, c := range []struct {
		name   string
		change func(*job.Job)
		want   []string
	}{
		{"backend", func(j *job.Job) { j.Requires.Backends = []string{"docker"} }, []string{"backend docker", "host-small/docker: not available: the daemon does not answer", "backend is bubblewrap, want docker"}},
		{"isolation", func(j *job.Job) {
			j.Requires.Backends, j.Requires.Isolation = []string{"local"}, job.IsolationPartial
		}, []string{"host-small/local: isolation is none, want at least partial"}},
		{"limit", func(j *job.Job) { j.Requires.Backends = []string{"seatbelt"} }, []string{"host-small/seatbelt: cannot enforce the disk limit"}},
		{"os", func(j *job.Job) { j.Requires.OS = "plan9" }, []string{"os is linux, want plan9"}},
		{"label", func(j *job.Job) { j.Requires.Labels = map[string]string{"gpu": "yes"} }, []string{`label gpu is "", want "yes"`}},
		{"draining", func(j *job.Job) { j.Requires.Backends = []string{"wasm"} }, []string{"host-draining/wasm: the worker is draining"}},
		{"maximum", func(j *job.Job) { j.Limits.Memory = job.GiB }, []string{"host-small/bubblewrap: limits.memory is 1GiB, the maximum is 512MiB"}},
	} {
		contains(c.name, refusal(c.change), c.want...)
	}

	// Parked, it waits for a worker that fits.
	parked, err := submitter.Submit(ctx, newJob(t, func(j *job.Job) { j.Requires.OS = "plan9" }), queue.SubmitOptions{Park: true})
	must(t, err)
	other := offer("bubblewrap")
	other.OS = "plan9"
	// So does this one's for the job that was accepted above.
	got := work(t, q, 1, nil, other).wait(2)
	if !slices.ContainsFunc(got, func(d job.Delivery) bool { return d.Job.ID == parked.Job }) {
		t.Errorf("the parked job %s is not among the deliveries", parked.Job)
	}
}

func TestUnplaceableErrorStaysShort(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	for i := range 30 {
		must(t, q.Advertise(testContext(t), presence(fmt.Sprintf("w%02d", i), offer("bubblewrap"))))
	}
	err := q.Placeable(testContext(t), newJob(t, func(j *job.Job) { j.Requires.Arch = "riscv64" }))
	if err == nil || len(err.Error()) > 1500 || !strings.Contains(err.Error(), "and 22 more workers") {
		t.Errorf("got error %v, want a short one that counts the rest", err)
	}
}

func TestLargeJob(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	submitter := attach(t, srv)
	want := newJob(t, func(j *job.Job) {
		j.Stdin = job.Bytes(strings.Repeat("\x00", int(job.MaxStdin)))
		j.Code = strings.Repeat("#", int(job.MaxCode))
		j.Stdin = j.Stdin[:100_000]
		j.Files = []job.File{{Path: "f", Content: job.Bytes(strings.Repeat("x", 1<<20))}}
	})
	submit(t, submitter, want)
	w := work(t, q, 1, nil, offer("bubblewrap"))
	if got := w.wait(1)[0].Job; !cmp.Equal(want, got, wholeBytes) {
		t.Error("the large job arrived changed")
	}
	waitEmpty(t, q)

	tooLarge := newJob(t, func(j *job.Job) {
		j.Files = []job.File{{Path: "f", Content: job.Bytes(strings.Repeat("x", int(job.MaxSpec)))}}
	})
	if _, err := q.Submit(testContext(t), tooLarge, queue.SubmitOptions{Park: true}); !errors.Is(err, queue.ErrTooLarge) {
		t.Errorf("got error %v, want ErrTooLarge", err)
	}
}

func TestTooManyLanes(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	lane := func(i int) *job.Job {
		return newJob(t, func(j *job.Job) { j.Requires.Labels = map[string]string{"n": fmt.Sprint(i)} })
	}
	for i := range queue.MaxLanes {
		submit(t, q, lane(i))
	}
	if _, err := q.Submit(testContext(t), lane(queue.MaxLanes), queue.SubmitOptions{Park: true}); !errors.Is(err, queue.ErrTooManyLanes) {
		t.Errorf("got error %v, want ErrTooManyLanes", err)
	}
	submit(t, q, lane(0))
}

func TestSubmitNeedsAPreparedJob(t *testing.T) {
	t.Parallel()
	q := open(t, natstest.Start(t), queue.Config{})
	for name, change := range map[string]func(*job.Job){
		"no id":        func(j *job.Job) { j.ID = job.ID{} },
		"bad tenant":   func(j *job.Job) { j.Tenant = "a.b" },
		"wide tenant":  func(j *job.Job) { j.Tenant = "*" },
		"bad priority": func(j *job.Job) { j.Priority = ">" },
		"bad backend":  func(j *job.Job) { j.Requires.Backends = []string{"a.*"} },
	} {
		j := newJob(t, nil)
		change(j)
		if _, err := q.Submit(testContext(t), j, queue.SubmitOptions{Park: true}); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if waiting, _ := total(t, q); waiting != 0 {
		t.Errorf("got %d jobs waiting, want none", waiting)
	}
}

func TestSubmitAgainIsOneJob(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	j := newJob(t, nil)
	submit(t, q, j)
	submit(t, q, j)
	if waiting, _ := total(t, q); waiting != 1 {
		t.Errorf("got %d jobs waiting, want 1", waiting)
	}
}

func TestSubmitWaitsForTheServer(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	submit(t, q, newJob(t, nil))
	srv.Stop()
	submitted := make(chan error)
	go func() {
		_, err := q.Submit(testContext(t), newJob(t, nil), queue.SubmitOptions{Park: true})
		submitted <- err
	}()
	srv.Resume()
	must(t, <-submitted)
	if waiting, _ := total(t, q); waiting != 2 {
		t.Errorf("got %d jobs waiting, want 2", waiting)
	}
}
