package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"airlock/job"
)

// parser makes jobs of lines. It must see the lines in order: how often a
// content has stood before is a part of its key.
type parser struct {
	tenant, batch string
	// defaults is a job's JSON, or nil.
	defaults []byte

	// seen counts contents by 64 bits of their digest. A collision only
	// numbers a line one higher, the same in every run.
	seen map[uint64]int
	// ids are the lines of the ids that lines name.
	ids map[job.ID]int
}

// ref is what is remembered of a line until its result has come.
type ref struct {
	line int
	// key and content are 64 bits of the digests of both.
	key, content uint64
	// own is set when the line has a key of its own, under which a job of
	// another batch may be known.
	own bool
}

// parse returns a *job.FieldError for a line that is no job of this batch.
func (p *parser) parse(l line) (*job.Job, ref, error) {
	if l.size > maxLine || len(l.text) > int(job.MaxSpec) {
		return nil, ref{}, &job.FieldError{Reason: fmt.Sprintf("the job is %d bytes, the maximum is %s", l.size, job.MaxSpec)}
	}
	j, err := p.decode(l.text)
	if err != nil {
		return nil, ref{}, err
	}
	if err := p.adopt(j, l.number); err != nil {
		return nil, ref{}, err
	}
	if err := j.Prepare(time.Now()); err != nil {
		return nil, ref{}, err
	}
	digest, err := j.ContentDigest()
	if err != nil {
		return nil, ref{}, &job.FieldError{Reason: err.Error()}
	}
	r := ref{line: l.number, content: bits(digest), own: j.Key != ""}
	if !r.own {
		j.Key = p.derivedKey(digest, r.content)
	}
	r.key = hash(j.Key)
	return j, r, nil
}

// decode is job.Decode over the defaults.
func (p *parser) decode(text []byte) (*job.Job, error) {
	if p.defaults == nil {
		return job.Decode(text)
	}
	if err := job.CheckJSON(text); err != nil {
		return nil, err
	}
	var j job.Job
	if err := job.DecodeStrict(p.defaults, &j); err != nil {
		return nil, err
	}
	return &j, job.DecodeStrict(text, &j)
}

// adopt makes the job one of this run's tenant and batch, because that is
// where its result is waited for.
func (p *parser) adopt(j *job.Job, number int) error {
	for _, own := range []struct {
		field string
		has   *string
		want  string
	}{{"tenant", &j.Tenant, p.tenant}, {"batch", &j.Batch, p.batch}} {
		if *own.has != "" && *own.has != own.want {
			return &job.FieldError{Field: own.field, Reason: fmt.Sprintf("is %q, but this run is for %q: leave it out, or pass --%s",
				job.Printable(*own.has, 64), own.want, own.field)}
		}
		*own.has = own.want
	}
	if j.ID.IsZero() {
		return nil
	}
	if earlier, twice := p.ids[j.ID]; twice {
		return &job.FieldError{Field: "id", Reason: fmt.Sprintf("is that of line %d", earlier)}
	}
	if p.ids == nil {
		p.ids = map[job.ID]int{}
	}
	p.ids[j.ID] = number
	return nil
}

func (p *parser) derivedKey(digest string, content uint64) string {
	if p.seen == nil {
		p.seen = map[uint64]int{}
	}
	p.seen[content]++
	return fmt.Sprintf("batch/%s/%s/%d", p.batch, digest[:32], p.seen[content])
}

// bits are the first 64 of a hex digest.
func bits(digest string) uint64 {
	raw, err := hex.DecodeString(digest[:16])
	if err != nil {
		return hash(digest)
	}
	return binary.BigEndian.Uint64(raw)
}
