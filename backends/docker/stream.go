package docker

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"airlock/backends/internal/cgroup"

	"github.com/docker/docker/api/types/container"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// streamMeter has two sources: what the container's first process counted of a
// guest that is over, and a stream of what the engine counts meanwhile, about
// once a second. Nobody waits for the stream but the watch of processor time.
//
// The first misses children that nobody waited for, because their parent
// ignored SIGCHLD; the second counts them, and misses what was used since its
// last sample. So each is a lower bound, and the larger is taken. Both count
// the memory that a guest had at a time: the first its largest process's, the
// second the container's. Neither counts processes that were refused.
//
// Of a guest with a kernel of its own the engine also counts what runs that.
type streamMeter struct {
	engine *engine
	id     string
	// before is what the container had used for itself, memory its limit.
	before time.Duration
	memory int64

	cancel context.CancelFunc
	// news has an element when there are samples that waitCPU has not seen;
	// over is closed when no more come, and err says why.
	news, over chan struct{}
	err        error

	mu   sync.Mutex
	last cgroup.Usage // guarded by mu; the CPU is the container's
}

// newStreamMeter begins to follow the engine's counters, whatever becomes of
// ctx, until stop.
func newStreamMeter(ctx context.Context, g *guest) *streamMeter {
	m := &streamMeter{
		engine: g.engine, id: g.id, before: g.greeting.used, memory: int64(g.task.Limits.Memory),
		news: make(chan struct{}, 1), over: make(chan struct{}),
	}
	ctx, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(m.over)
		m.err = m.engine.follow(ctx, m.id, m.take)
	}()
	return m
}

// take notes a sample.
func (m *streamMeter) take(stats *container.StatsResponse) error {
	used, memory := stats.CPUStats.CPUUsage.TotalUsage, stats.MemoryStats
	if used == 0 {
		return errors.New("it counts no processor time of a container that runs: does it have a cpuacct control group?")
	}
	m.mu.Lock()
	m.last.CPU = max(m.last.CPU, time.Duration(used))
	m.last.PeakMemory = max(m.last.PeakMemory, int64(memory.MaxUsage), int64(memory.Usage))
	m.mu.Unlock()
	select {
	case m.news <- struct{}{}:
	default:
	}
	return nil
}

// sampled is the largest of the samples so far.
func (m *streamMeter) sampled() cgroup.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	usage := m.last
	usage.CPU = max(0, usage.CPU-m.before)
	return usage
}

// next waits for a sample.
func (m *streamMeter) next(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-m.news:
		return nil
	case <-m.over:
		return m.err
	}
}

func (m *streamMeter) waitCPU(ctx context.Context, limit time.Duration) error {
	for m.sampled().CPU < limit {
		if err := m.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// usage caps the largest process's memory at the limit: pages that it shares
// with other containers may be counted to those, and are resident here too.
func (m *streamMeter) usage(e ending) (cgroup.Usage, error) {
	usage := m.sampled()
	usage.CPU = max(usage.CPU, e.cpu)
	usage.PeakMemory = max(usage.PeakMemory, min(e.largest, m.memory))
	return usage, nil
}

func (*streamMeter) exact() bool { return false }

// killed waits for the container's end: until then an engine keeps to itself
// what the kernel did.
func (m *streamMeter) killed(ctx context.Context) (bool, error) {
	if err := m.engine.ended(ctx, m.id); err != nil {
		return false, err
	}
	state, err := m.engine.state(ctx, m.id)
	return state.OOMKilled, err
}

func (m *streamMeter) works(ctx context.Context) error { return m.next(ctx) }

func (*streamMeter) by() string { return "engine's counter, once a second; rlimit of each process" }

func (m *streamMeter) stop() {
	m.cancel()
	<-m.over
}

// follow hands on what the engine counts of a container, about once a second,
// until ctx or the container ends, take has an error, or the engine is silent
// for longer than a request may take. It always returns an error.
func (e *engine) follow(ctx context.Context, id string, take func(*container.StatsResponse) error) error {
	const what = "follow the engine's counters"
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(e.patience.ask, cancel)
	defer late.Stop()
	silent := func(err error) error {
		if !late.Stop() && errors.Is(err, context.Canceled) {
			err = context.DeadlineExceeded
		}
		return translate(what, err)
	}
	reply, err := e.api.ContainerStats(ctx, id, true)
	if err != nil {
		return silent(err)
	}
	defer reply.Body.Close()
	for in := jsontext.NewDecoder(reply.Body); ; late.Reset(e.patience.ask) {
		var stats container.StatsResponse
		err := json.UnmarshalDecode(in, &stats, json.MatchCaseInsensitiveNames(true))
		switch {
		case errors.Is(err, io.EOF):
			return translate(what, errors.New("the engine sends no more"))
		case err != nil:
			return silent(err)
		}
		if err := take(&stats); err != nil {
			return translate(what, err)
		}
	}
}
