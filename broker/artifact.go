package broker

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"airlock/job"

	"github.com/go-json-experiment/json/jsontext"
)

// artifactFrames are the frames that a job which collects has beside the
// others: one for each file, and one for each 64 KiB of content, though the
// guest of ours sends four times as much at once.
const artifactFrames = job.MaxArtifacts + int(job.MaxArtifactBytes/(64*job.KiB))

func decodeArtifact(params jsontext.Value) (*job.Piece, error) {
	var wire struct {
		Path    field[string]     `json:"path"`
		Base64  field[string]     `json:"base64"`
		More    field[bool]       `json:"more"`
		Refused field[job.Reason] `json:"refused"`
		Size    field[int64]      `json:"size"`
	}
	if err := decodeObject("params", params, &wire); err != nil {
		return nil, err
	}
	switch {
	case !wire.Path.set:
		return nil, presence("path", true)
	case wire.Base64.set == wire.Refused.set:
		return nil, errors.New("want exactly one of base64 and refused")
	case wire.More.set && !wire.Base64.set:
		return nil, presence("more", false)
	case wire.Size.set && !wire.Refused.set:
		return nil, presence("size", false)
	case wire.Size.value < 0:
		return nil, errors.New("size: is negative")
	case wire.Refused.set && !slices.Contains(job.Reasons(), wire.Refused.value):
		return nil, fmt.Errorf("refused: %q is no reason", job.Printable(string(wire.Refused.value), 40))
	}
	data, err := base64.StdEncoding.Strict().DecodeString(wire.Base64.value)
	if err != nil {
		return nil, fmt.Errorf("base64: %w", err)
	}
	return &job.Piece{
		Path: wire.Path.value, Data: data, More: wire.More.value,
		Refused: wire.Refused.value, Size: job.Size(wire.Size.value),
	}, nil
}

// newCollection is nil for a job that collects nothing.
func (b *Broker) newCollection(j *job.Job) *job.Collection {
	if len(j.Collect) == 0 {
		return nil
	}
	return job.NewCollection(j.Collect, b.cfg.MaxArtifacts)
}

// takeArtifact keeps a piece of a file. It has no reply: the channel's own
// back-pressure is enough.
func (s *session) takeArtifact(p *job.Piece) error {
	switch {
	case s.finished:
		return breachf("an artifact after the result")
	case s.artifacts == nil:
		return breachf("an artifact of a job that collects nothing")
	}
	if err := s.artifacts.Add(*p); err != nil {
		return breachf("%v", err)
	}
	return nil
}

// artifactsEnd is what was brought back by the time of the result.
func (s *session) artifactsEnd(r *Result) ([]job.Artifact, error) {
	if s.artifacts == nil {
		if r.LeftOut != 0 {
			return nil, breachf("left_out: the job collects nothing")
		}
		return nil, nil
	}
	list, err := s.artifacts.End()
	if err != nil {
		return nil, breachf("%v", err)
	}
	return list, nil
}
