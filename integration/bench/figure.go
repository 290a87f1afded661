package main

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"airlock/job"
)

// series is one figure to take: so many jobs, or as many as there are in some
// time, of which that many are in flight at once, with a pause before each.
type series struct {
	// id is the row's, "" for a warm-up, which is not reported.
	id, name string
	job      job.Job
	// count or lasting is 0.
	count    int
	lasting  time.Duration
	inFlight int
	gap      time.Duration
	// size is where the row stands in a curve: slots, bytes, calls.
	size int
	// whole is set where a quick run does without.
	whole bool
	// each is handed every result, when set.
	each func(*job.Result) error
}

// seen is one job that ended.
type seen struct {
	// took is from its submission until its result was seen, start from its
	// claim until its guest said hello, 0 where nothing tells.
	took, start time.Duration
	// at is when its result was seen, since the series began.
	at time.Duration
}

// figure is one measured series.
type figure struct {
	series
	began time.Time
	spent *spent // on all jobs, nil where nothing tells

	mu     sync.Mutex // guards the rest until done
	jobs   []seen
	guests time.Duration // processor time of all guests
}

func newFigure(s series) *figure { return &figure{series: s, began: time.Now()} }

// add adds a job that ended now, with its guest's processor time.
func (f *figure) add(took, start, cpu time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs = append(f.jobs, seen{took: took, start: start, at: time.Since(f.began)})
	f.guests += cpu
}

// addAt adds a job that ended so long after the first began.
func (f *figure) addAt(at, took, cpu time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs = append(f.jobs, seen{took: took, at: at})
	f.guests += cpu
}

// row is a figure as it is reported. Times are in milliseconds.
type row struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Size     int      `json:"size,omitzero"`
	Jobs     int      `json:"jobs"`
	P50      float64  `json:"p50_ms"`
	P99      float64  `json:"p99_ms"`
	StartP50 *float64 `json:"start_p50_ms,omitzero"`
	StartP99 *float64 `json:"start_p99_ms,omitzero"`
	// Rate is of the whole series, its pauses included; 0 where the row is
	// of something within a job.
	Rate float64 `json:"jobs_per_s,omitzero"`
	CPU  *cpu    `json:"cpu_ms_per_job,omitzero"`
	// First and Last are the rates of the first and last sixth of a long
	// series.
	First float64 `json:"first_per_s,omitzero"`
	Last  float64 `json:"last_per_s,omitzero"`
	// Samples are the series in consecutive pieces, for benchstat.
	Samples []sample `json:"samples,omitzero"`
}

// cpu is the processor time of a job in milliseconds, by who used it.
type cpu struct {
	// Worker is the worker's own process, the embedded NATS server in it.
	Worker   float64 `json:"worker"`
	Postgres float64 `json:"postgres"`
	// Sandboxes are the worker's other children, as far as somebody waited
	// for them: what starts and keeps guests. A fork server's guests are among
	// them, those of bubblewrap and of an engine are not.
	Sandboxes float64 `json:"sandboxes"`
	// Guests is what the results say, by the guests' control groups.
	Guests float64 `json:"guests"`
	Submit float64 `json:"submit"`
	// Machine is all that was used on this machine meanwhile: the kernel's
	// own threads, a container engine, whoever else was busy.
	Machine float64 `json:"machine"`
}

// row reports the figure, which must have a job at least.
func (f *figure) row() row {
	slices.SortFunc(f.jobs, func(a, b seen) int { return cmp.Compare(a.at, b.at) })
	var starts, times []time.Duration
	for _, j := range f.jobs {
		times = append(times, j.took)
		if j.start > 0 {
			starts = append(starts, j.start)
		}
	}
	r := row{ID: f.id, Name: f.name, Size: f.size, Jobs: len(f.jobs), Rate: perSecond(len(f.jobs), f.jobs[len(f.jobs)-1].at)}
	r.P50, r.P99 = percentiles(times)
	if len(starts) > 0 {
		half, most := percentiles(starts)
		r.StartP50, r.StartP99 = &half, &most
	}
	r.CPU, r.Samples = f.cpu(), f.samples()
	return r
}

func (f *figure) cpu() *cpu {
	if f.spent == nil {
		return nil
	}
	guests := f.guests
	if slices.Contains(f.job.Requires.Backends, "fake") {
		guests = 0 // it makes a figure up
	}
	each := func(d time.Duration) float64 { return ms(d) / float64(len(f.jobs)) }
	return &cpu{
		Worker: each(f.spent.worker), Postgres: each(f.spent.postgres), Sandboxes: each(f.spent.sandboxes),
		Submit: each(f.spent.submit), Machine: each(f.spent.machine), Guests: each(guests),
	}
}

// sample is one piece of a series.
type sample struct {
	Jobs int     `json:"jobs"`
	Mean float64 `json:"mean_ms"`
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
	Rate float64 `json:"jobs_per_s"`
}

// pieces is some more than the six that benchstat wants for a confidence
// interval, which the fewest jobs give too.
const (
	pieces   = 10
	fewestOf = 3
)

func (f *figure) samples() []sample {
	count := max(1, min(pieces, len(f.jobs)/fewestOf))
	var all []sample
	var before time.Duration
	for i := range count {
		piece := f.jobs[i*len(f.jobs)/count : (i+1)*len(f.jobs)/count]
		end := piece[len(piece)-1].at
		var times []time.Duration
		var sum time.Duration
		for _, j := range piece {
			times = append(times, j.took)
			sum += j.took
		}
		s := sample{Jobs: len(piece), Mean: ms(sum) / float64(len(piece)), Rate: perSecond(len(piece), end-before)}
		s.P50, s.P99 = percentiles(times)
		all = append(all, s)
		before = end
	}
	return all
}

// rateIn is how many jobs ended per second in a part of the series.
func (f *figure) rateIn(from, to time.Duration) float64 {
	ended := 0
	for _, j := range f.jobs {
		if j.at >= from && j.at < to {
			ended++
		}
	}
	return perSecond(ended, to-from)
}

// percentiles sorts the times.
func percentiles(times []time.Duration) (p50, p99 float64) {
	slices.Sort(times)
	at := func(percent int) float64 { return ms(times[min(len(times)-1, len(times)*percent/100)]) }
	return at(50), at(99)
}

func perSecond(count int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(count) / d.Seconds()
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
