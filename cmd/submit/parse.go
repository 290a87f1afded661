package main

import (
	"encoding/binary"
	"encoding/hex"

	"airlock/job"
	"airlock/job/jobfile"
)

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
func parse(p *jobfile.Parser, l jobfile.Line) (*job.Job, ref, error) {
	parsed, err := p.Parse(l)
	if err != nil {
		return nil, ref{}, err
	}
	return parsed.Job, ref{line: l.Number, key: hash(parsed.Job.Key), content: bits(parsed.Digest), own: parsed.OwnKey}, nil
}

// bits are the first 64 of a hex digest.
func bits(digest string) uint64 {
	raw, err := hex.DecodeString(digest[:16])
	if err != nil {
		return hash(digest)
	}
	return binary.BigEndian.Uint64(raw)
}
