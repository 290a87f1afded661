package gateway

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"airlock/job"
	"airlock/queue"
	"airlock/store"
)

// JobEvent is what the data of a server-sent event holds: the parts that belong
// to its name.
type JobEvent struct {
	Job     job.ID    `json:"job,omitzero"`
	Batch   string    `json:"batch,omitzero"`
	At      time.Time `json:"at,omitzero" doc:"When it happened."`
	Attempt int       `json:"attempt,omitzero"`
	// Worker and Backend belong to claimed.
	Worker  string `json:"worker,omitzero"`
	Backend string `json:"backend,omitzero"`

	Output *Output `json:"output,omitzero" doc:"Of output."`
	Call   *Called `json:"call,omitzero" doc:"Of call_started and call_ended."`
	Tried  *Tried  `json:"tried,omitzero" doc:"Of requeued: what came of the attempt."`
	Ended  *Ended  `json:"ended,omitzero" doc:"Of finished in a batch's stream."`
	// Result lacks what Omitted names.
	Result   *job.Result  `json:"result,omitzero" doc:"Of finished in a job's stream, without its large parts."`
	Omitted  []string     `json:"omitted,omitzero" doc:"The parts of the result that are cut or left out here: GET /v1/jobs/{id} has them."`
	Progress *job.Summary `json:"progress,omitzero" doc:"Of progress."`

	name  eventName
	place place
}

const (
	jobEventsText = "Server-sent events, whose data is a JobEvent in JSON: queued, claimed, started, output, call_started, call_ended, requeued and, last, finished. " +
		"Each but output comes once, with an id; a client that comes back with the last of these misses none. Output comes while the guest runs, what is left of it before finished, and is not repeated: " +
		"its offset shows what was missed, and the result has it. A line that begins with a colon is a comment: one comes every 15 s. " +
		"A client that reads too slowly is sent away, and may come back."
	batchEventsText = "Server-sent events, whose data is a JobEvent in JSON: finished for each job, with an id to resume from, in the order in which they ended; and progress, with the counts, when these have changed. " +
		"An end may come a second or two late, so that none comes before it later. The stream ends when all jobs have ended."
)

var (
	lastEvent      = param{"header", "Last-Event-ID", "The id of the last event that the client has: only later ones come.", "string"}
	lastEventQuery = param{"query", "last_event_id", "The same, for clients that cannot set headers.", "string"}
	outEvents      = map[int]content{
		200: {media: mediaEvents, of: JobEvent{}, text: "The events."},
		204: {text: "It has ended, and the client has all events: there is no need to come again."},
	}
)

type eventName string

// The names of events.
const (
	eventQueued      eventName = "queued"
	eventClaimed     eventName = "claimed"
	eventStarted     eventName = "started"
	eventOutput      eventName = "output"
	eventCallStarted eventName = "call_started"
	eventCallEnded   eventName = "call_ended"
	// eventRequeued: an attempt gave no result, and the job waits for another.
	eventRequeued eventName = "requeued"
	eventFinished eventName = "finished"
	eventProgress eventName = "progress"
)

// Output is what a guest has just printed.
type Output struct {
	Stream string `json:"stream" doc:"stdout or stderr."`
	// Offset is where in the stream Data begins: a gap shows.
	Offset int64     `json:"offset"`
	Data   job.Bytes `json:"data"`
}

// Called is the start or the end of a tool call.
type Called struct {
	Seq       int           `json:"seq" doc:"Number of the call in its attempt."`
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	State     job.CallState `json:"state"`
	Code      string        `json:"code,omitzero" doc:"Why it is not ok."`
}

// Tried is what came of an attempt that gave no result.
type Tried struct {
	Outcome string     `json:"outcome" doc:"failed, released or lost; finished for a dead job that was requeued."`
	Status  job.Status `json:"status,omitzero"`
	Error   *job.Error `json:"error,omitzero"`
}

// Ended says how a job of a batch ended.
type Ended struct {
	Key    string     `json:"key,omitzero"`
	Status job.Status `json:"status"`
	Error  *job.Error `json:"error,omitzero"`
}

// place is an event's in the order of a job's events, which is the same however
// often they are asked for. Each attempt begins with its claim and its start,
// goes on with the links of its calls, which are numbered without gaps, and
// comes to an end.
type place struct{ attempt, step int }

const (
	stepClaimed = 0
	stepStarted = 1
	// stepLink is added to a link's number.
	stepLink = 1
	stepEnd  = math.MaxInt
)

// The places before everything, and of being queued first.
var (
	placeNone   = place{-1, 0}
	placeQueued = place{0, 0}
)

func (p place) after(q place) bool {
	return p.attempt > q.attempt || p.attempt == q.attempt && p.step > q.step
}

// follows reports whether nothing can come between q and p.
func (p place) follows(q place) bool {
	if p.attempt == q.attempt {
		return p.step == q.step+1
	}
	return p.attempt == q.attempt+1 && p.step == stepClaimed && (q.step == stepEnd || q == placeQueued)
}

// String is the event's id.
func (p place) String() string {
	if p.step == stepEnd {
		return fmt.Sprintf("%d.end", p.attempt)
	}
	return fmt.Sprintf("%d.%d", p.attempt, p.step)
}

// maxID bounds the numbers in ids.
const maxID = 1 << 30

func parsePlace(id string) (place, bool) {
	attempt, step, _ := strings.Cut(id, ".")
	a, errA := strconv.ParseUint(attempt, 10, 32)
	if step == "end" {
		return place{int(a), stepEnd}, errA == nil && a < maxID
	}
	s, errS := strconv.ParseUint(step, 10, 32)
	return place{int(a), int(s)}, errA == nil && errS == nil && a < maxID && s < maxID
}

// newsEvent is the event that news tell of. Of output there is no place.
func newsEvent(n queue.Event) JobEvent {
	e := JobEvent{Job: n.Job, Batch: n.Batch, At: n.At, Attempt: n.Attempt}
	switch n.Kind {
	case job.NewsClaimed:
		e.name, e.place, e.Worker, e.Backend = eventClaimed, place{n.Attempt, stepClaimed}, n.Worker, n.Backend
	case job.NewsStarted:
		e.name, e.place = eventStarted, place{n.Attempt, stepStarted}
	case job.NewsOutput:
		e.name, e.Output = eventOutput, &Output{n.Stream, n.Offset, n.Data}
	case job.NewsCall:
		if n.Link < 1 || n.Link >= maxID {
			return JobEvent{}
		}
		e.name, e.place = eventCallEnded, place{n.Attempt, stepLink + n.Link}
		if n.State == job.CallStarted {
			e.name = eventCallStarted
		}
		e.Call = &Called{n.Seq, n.Namespace, n.Name, n.State, n.Code}
	}
	return e
}

// trailEvents are the events of a job in their order, as far as the history has
// them all. Its end is not among them.
func trailEvents(t store.Trail) []JobEvent {
	r := &t.Record
	blank := JobEvent{Job: r.ID, Batch: r.Batch}
	queued := blank
	queued.name, queued.place, queued.At = eventQueued, placeQueued, r.Submitted
	events := []JobEvent{queued}
	for _, a := range r.Attempts {
		if a.Number == 0 || a.Worker == "" {
			continue // an end that no attempt made
		}
		blank.Attempt = a.Number
		events = append(events, attemptEvents(blank, a, t)...)
	}
	return events
}

// attemptEvents are those of one attempt.
func attemptEvents(blank JobEvent, a job.AttemptRecord, t store.Trail) []JobEvent {
	claimed := blank
	claimed.name, claimed.place, claimed.At = eventClaimed, place{a.Number, stepClaimed}, a.Started
	claimed.Worker, claimed.Backend = a.Worker, a.Backend
	events := []JobEvent{claimed}
	over := !a.Ended.IsZero()
	links := linkEvents(blank, t.Calls, over)
	startup, known := t.Startup[a.Number]
	if known || len(links) > 0 {
		started := blank
		started.name, started.place, started.At = eventStarted, place{a.Number, stepStarted}, a.Started.Add(startup)
		if !known {
			started.At = links[0].At
		}
		events = append(events, started)
	}
	events = append(events, links...)
	if over && again(a, &t.Record) {
		tried := blank
		tried.name, tried.place, tried.At = eventRequeued, place{a.Number, stepEnd}, a.Ended
		tried.Tried = &Tried{a.Outcome, a.Status, a.Error}
		events = append(events, tried)
	}
	return events
}

// again reports whether the job went on after an attempt that is over. The
// record was read before the attempts, so that it may not know of the newest.
func again(a job.AttemptRecord, r *job.Record) bool {
	newest := r.Attempts[len(r.Attempts)-1].Number
	return a.Number < max(newest, r.Attempt) || r.State == job.StateQueued || r.State == job.StateRetryWait
}

// linkEvents are the starts and ends of an attempt's calls, in the order of
// its chain. While the attempt goes on they stop before the first link that is
// missing: it is about to be seen.
func linkEvents(blank JobEvent, calls []job.Call, over bool) []JobEvent {
	var events []JobEvent
	excused := 0
	add := func(c *job.Call, link int, name eventName, at time.Time, state job.CallState) {
		if link == 0 {
			return
		}
		e := blank
		e.name, e.place, e.At = name, place{blank.Attempt, stepLink + link}, at
		e.Call = &Called{Seq: c.Seq, Namespace: c.Namespace, Name: c.Name, State: state}
		if name == eventCallEnded {
			e.Call.Code = c.Code
		}
		events = append(events, e)
	}
	for i := range calls {
		c := &calls[i]
		if c.Attempt != blank.Attempt {
			continue
		}
		if c.State == job.CallLate {
			excused++ // it had been cancelled: that link's row is now the later one's
		}
		add(c, c.StartLink, eventCallStarted, c.Started, job.CallStarted)
		add(c, c.EndLink, eventCallEnded, c.Ended, c.State)
	}
	slices.SortFunc(events, func(a, b JobEvent) int { return a.place.step - b.place.step })
	if over || len(events) == 0 {
		return events
	}
	if last := events[len(events)-1].place.step - stepLink; last-len(events) <= excused {
		return events
	}
	for i, e := range events {
		if e.place.step != stepLink+1+i {
			return events[:i]
		}
	}
	return events
}

// What an event, or a callback, takes along of a result.
const (
	briefOutput = 16 << 10
	briefValue  = 64 << 10
)

// brief is a result without its large parts, and which were cut or left out.
func brief(r *job.Result) (*job.Result, []string) {
	var omitted []string
	short := *r
	for _, part := range []struct {
		name string
		data *job.Bytes
	}{{"stdout", &short.Stdout}, {"stderr", &short.Stderr}} {
		if len(*part.data) > briefOutput {
			*part.data = (*part.data)[:briefOutput]
			omitted = append(omitted, part.name)
		}
	}
	if len(short.Value) > briefValue {
		short.Value = nil
		omitted = append(omitted, "value")
	}
	if e := short.Error; e != nil && len(e.Message)+len(e.Traceback) > 2*briefOutput {
		cut := *e
		cut.Message, cut.Traceback = strings.ToValidUTF8(e.Message[:min(len(e.Message), briefOutput)], ""), ""
		short.Error = &cut
		omitted = append(omitted, "error")
	}
	return &short, omitted
}
