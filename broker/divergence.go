package broker

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"airlock/job"

	"github.com/go-json-experiment/json/jsontext"
)

// maxShownDifference bounds each side of a difference that is told.
const maxShownDifference = 64 << 10

// Diverged compares the calls of an ended job with those of its replay, and
// returns the first that went another way, or nil, with how many calls the
// replay made. Calls are matched by tool, arguments and how many equal ones came
// before, so that the order of parallel ones does not matter.
func Diverged(ctx context.Context, source Past, tenant string, id, replay job.ID) (first *job.Divergence, calls int, err error) {
	d := differ{places: map[sameness][]place{}}
	read := func(id job.ID, each func(*job.Call)) error {
		q := job.CallQuery{Tenant: tenant, Job: id, Last: true}
		return source.Recorded(ctx, q, func(c job.Call) error { each(&c); return nil })
	}
	if err := read(id, d.before); err != nil {
		return nil, 0, err
	}
	if err := read(replay, d.after); err != nil {
		return nil, 0, err
	}
	at, ok := d.first()
	if !ok {
		return nil, d.calls, nil
	}
	first, err = at.tell(ctx, source, tenant, id, replay)
	return first, d.calls, err
}

// place is a call of the job or of its replay, and what it told its guest.
type place struct {
	seq  int
	tool string
	told [32]byte
	met  bool
}

// difference names a call then, one now, or both.
type difference struct {
	kind      string
	tool      string
	then, now int
}

type differ struct {
	places map[sameness][]place // of the job
	extra  []place              // of the replay
	other  []difference         // calls that were told something else
	calls  int
}

func (d *differ) before(c *job.Call) {
	same, _ := samenessOf(job.ID{}, c.Namespace, c.Name, c.Arguments)
	d.places[same] = append(d.places[same], placeOf(c))
}

func placeOf(c *job.Call) place {
	p := place{seq: c.Seq, tool: c.Namespace + "." + c.Name}
	same, _ := samenessOf(job.ID{}, c.Code, "", c.Answer)
	if c.Code != "" { // an answer that came too late was told to nobody
		same, _ = samenessOf(job.ID{}, c.Code, "", nil)
	}
	p.told = same
	return p
}

func (d *differ) after(c *job.Call) {
	d.calls++
	same, _ := samenessOf(job.ID{}, c.Namespace, c.Name, c.Arguments)
	now, places := placeOf(c), d.places[same]
	at := slices.IndexFunc(places, func(p place) bool { return !p.met })
	if at < 0 {
		d.extra = append(d.extra, now)
		return
	}
	places[at].met = true
	if places[at].told != now.told {
		d.other = append(d.other, difference{"answer", now.tool, places[at].seq, now.seq})
	}
}

// first pairs what has no counterpart, tool by tool, and returns the difference
// that came first.
func (d *differ) first() (difference, bool) {
	var missing []place
	for _, places := range d.places {
		for _, p := range places {
			if !p.met {
				missing = append(missing, p)
			}
		}
	}
	bySeq := func(a, b place) int { return cmp.Compare(a.seq, b.seq) }
	slices.SortFunc(missing, bySeq)
	slices.SortFunc(d.extra, bySeq)
	all := d.other
	for _, now := range d.extra {
		at := slices.IndexFunc(missing, func(p place) bool { return p.tool == now.tool })
		if at < 0 {
			all = append(all, difference{"extra", now.tool, 0, now.seq})
			continue
		}
		all = append(all, difference{"arguments", now.tool, missing[at].seq, now.seq})
		missing = slices.Delete(missing, at, at+1)
	}
	for _, then := range missing {
		all = append(all, difference{"missing", then.tool, then.seq, 0})
	}
	if len(all) == 0 {
		return difference{}, false
	}
	return slices.MinFunc(all, func(a, b difference) int {
		return cmp.Or(cmp.Compare(cmp.Or(a.now, a.then), cmp.Or(b.now, b.then)), cmp.Compare(a.kind, b.kind))
	}), true
}

// tell reads what the difference is made of.
func (d difference) tell(ctx context.Context, source Past, tenant string, id, replay job.ID) (*job.Divergence, error) {
	told := &job.Divergence{Kind: d.kind, Tool: d.tool, Seq: d.then, ReplaySeq: d.now}
	for _, side := range []struct {
		id   job.ID
		seq  int
		into *job.Bytes
	}{{id, d.then, &told.Before}, {replay, d.now, &told.After}} {
		if side.seq == 0 {
			continue
		}
		q := job.CallQuery{Tenant: tenant, Job: side.id, Last: true}
		err := source.Recorded(ctx, q, func(c job.Call) error {
			if c.Seq == side.seq {
				*side.into = shown(d.kind, &c)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return told, nil
}

func shown(kind string, c *job.Call) job.Bytes {
	text := []byte(c.Arguments)
	if kind == "answer" {
		if text = []byte(c.Answer); c.Code != "" {
			text = []byte(c.Code + ": " + c.Message)
		}
	}
	return cut(text)
}

// DivergedResult returns the first difference between what a job and its replay
// came to, or nil: status, value, error, stdout. The members of a value may
// stand in any order; a traceback is not compared.
func DivergedResult(before, after *job.Result) *job.Divergence {
	for _, part := range []struct {
		kind string
		same bool
		text func(*job.Result) []byte
	}{
		{"status", before.Status == after.Status, func(r *job.Result) []byte { return []byte(r.Status) }},
		{"value", sameValue(before.Value, after.Value), func(r *job.Result) []byte { return r.Value }},
		{"error", errorLine(before) == errorLine(after), func(r *job.Result) []byte { return []byte(errorLine(r)) }},
		{"stdout", before.StdoutBytes == after.StdoutBytes && bytes.Equal(before.Stdout, after.Stdout), func(r *job.Result) []byte { return r.Stdout }},
	} {
		if !part.same {
			return &job.Divergence{Kind: part.kind, Before: cut(part.text(before)), After: cut(part.text(after))}
		}
	}
	return nil
}

func sameValue(a, b jsontext.Value) bool {
	return bytes.Equal(a, b) || len(a) > 0 && len(b) > 0 && bytes.Equal(canonical(a), canonical(b))
}

func errorLine(r *job.Result) string {
	if r.Error == nil {
		return ""
	}
	return r.Error.Type + ": " + r.Error.Message
}

func cut(text []byte) job.Bytes { return job.Bytes(text[:min(len(text), maxShownDifference)]) }
