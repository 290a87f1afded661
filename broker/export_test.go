package broker

import (
	"context"

	"airlock/job"

	"github.com/nats-io/nats.go"
)

// ReadAnswer is what is made of a provider's message.
func ReadAnswer(msg *nats.Msg) Answer { return readAnswer(msg) }

// ReadAnnouncement is what is made of a service's account of itself: the tools
// it offers, without those that are refused.
func ReadAnnouncement(data []byte) []*Tool {
	s, err := decodeService(data)
	if err != nil {
		return nil
	}
	var tools []*Tool
	for _, e := range s.Endpoints {
		if t, err := announcedTool(e.Subject, e.Metadata); err == nil {
			tools = append(tools, t)
		}
	}
	return tools
}

// What PROVIDERS.md states.
const (
	HeaderRoom = headerRoom
	MaxAnswer  = maxAnswer
)

// Hear takes a round of answers as if providers had given them.
func (c *Catalogue) Hear(answers [][]byte) {
	found, refused := c.sort(c.hear(answers))
	c.merge(found, refused)
}

// ListTools is what a guest costs that asks for the tools of its job: the body
// of the answer.
func ListTools(ctx context.Context, j *job.Job, tools Tools) ([]byte, error) {
	return listed(New(Config{Tools: tools}).newRights(j).granted(ctx), true)
}
