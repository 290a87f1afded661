package jobfile

import (
	"encoding/hex"
	"fmt"
	"time"

	"airlock/job"
)

// Parser makes jobs of lines. It must see the lines in order: how often a
// content has stood before is a part of its key, so that the same file read
// again names the same jobs.
type Parser struct {
	Tenant, Batch string
	// Defaults is a job's JSON, or nil.
	Defaults []byte

	// seen counts contents by 64 bits of their digest. A collision only
	// numbers a line one higher, the same in every run.
	seen map[[8]byte]int
	// ids are the lines of the ids that lines name.
	ids map[job.ID]int
}

// Parsed is a job that was read, prepared.
type Parsed struct {
	Job *job.Job
	// Digest is that of its content, in hex.
	Digest string
	// OwnKey is set when the line has a key of its own, under which a job of
	// another batch may be known.
	OwnKey bool
}

// Parse returns a *job.FieldError for a line that is no job of this batch.
func (p *Parser) Parse(l Line) (Parsed, error) {
	if l.Size > MaxLine || len(l.Text) > int(job.MaxSpec) {
		return Parsed{}, &job.FieldError{Reason: fmt.Sprintf("the job is %d bytes, the maximum is %s", l.Size, job.MaxSpec)}
	}
	j, err := p.decode(l.Text)
	if err != nil {
		return Parsed{}, err
	}
	if err := p.adopt(j, l.Number); err != nil {
		return Parsed{}, err
	}
	if err := j.Prepare(time.Now()); err != nil {
		return Parsed{}, err
	}
	digest, err := j.ContentDigest()
	if err != nil {
		return Parsed{}, &job.FieldError{Reason: err.Error()}
	}
	parsed := Parsed{Job: j, Digest: digest, OwnKey: j.Key != ""}
	if !parsed.OwnKey {
		j.Key = p.derivedKey(digest)
	}
	return parsed, nil
}

// decode is job.Decode over the defaults.
func (p *Parser) decode(text []byte) (*job.Job, error) {
	if p.Defaults == nil {
		return job.Decode(text)
	}
	if err := job.CheckJSON(text); err != nil {
		return nil, err
	}
	var j job.Job
	if err := job.DecodeStrict(p.Defaults, &j); err != nil {
		return nil, err
	}
	return &j, job.DecodeStrict(text, &j)
}

// adopt makes the job one of this run's tenant and batch, because that is
// where its result is waited for.
func (p *Parser) adopt(j *job.Job, number int) error {
	for _, own := range []struct {
		field string
		has   *string
		want  string
	}{{"tenant", &j.Tenant, p.Tenant}, {"batch", &j.Batch, p.Batch}} {
		if *own.has != "" && *own.has != own.want {
			return &job.FieldError{Field: own.field, Reason: fmt.Sprintf("is %q, but this run is for %q: leave it out, or run for that",
				job.Printable(*own.has, 64), own.want)}
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

func (p *Parser) derivedKey(digest string) string {
	var content [8]byte
	_, _ = hex.Decode(content[:], []byte(digest[:16])) // it is hex
	if p.seen == nil {
		p.seen = map[[8]byte]int{}
	}
	p.seen[content]++
	return fmt.Sprintf("batch/%s/%s/%d", p.Batch, digest[:32], p.seen[content])
}
