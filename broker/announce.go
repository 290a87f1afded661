package broker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"airlock/broker/provider"
	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
)

// How long a round of asking waits: for the first answer, for the next one,
// and in all. A provider that misses it is asked again in the next round.
const (
	firstAnswer = 500 * time.Millisecond
	nextAnswer  = 100 * time.Millisecond
	lastAnswer  = 2 * time.Second
	// maxServices bounds how many answers one round takes.
	maxServices = 4096
)

// service is what a provider's instance says of itself, as far as it matters
// here.
type service struct {
	ID        string `json:"id"`
	Endpoints []struct {
		Subject  string            `json:"subject"`
		Metadata map[string]string `json:"metadata"`
	} `json:"endpoints"`
}

// checkedTool is what became of an announcement: tool, or a refusal.
type checkedTool struct {
	tool *Tool
	used bool // in the last round
}

// ask collects one round of announcements, by tool, in a stable order.
func (c *Catalogue) ask(ctx context.Context) (map[toolName][]*Tool, error) {
	services, err := c.collect(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(services, func(a, b service) int { return strings.Compare(a.ID, b.ID) })
	found := map[toolName][]*Tool{}
	for _, s := range services {
		for _, e := range s.Endpoints {
			if !strings.HasPrefix(e.Subject, provider.SubjectPrefix) {
				continue // another kind of service
			}
			if t := c.check(e.Subject, e.Metadata); t != nil {
				name := toolName{t.Namespace, t.Name}
				found[name] = append(found[name], t)
			}
		}
	}
	c.forgetUnused()
	return found, nil
}

// collect asks all micro services at once and takes the answers as they come.
func (c *Catalogue) collect(ctx context.Context) ([]service, error) {
	if !c.nc.IsConnected() {
		return nil, errors.New("not connected to NATS")
	}
	reply := toolInbox(c.nc)
	sub, err := c.nc.SubscribeSync(reply)
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	defer sub.Unsubscribe()
	if err := c.nc.PublishRequest("$SRV.INFO", reply, nil); err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lastAnswer)
	defer cancel()
	var services []service
	for wait := firstAnswer; len(services) < maxServices; wait = nextAnswer {
		msg, err := next(ctx, sub, wait)
		if err != nil {
			// Slow providers are no reason to forget the quick ones.
			if len(services) == 0 && !errors.Is(err, nats.ErrNoResponders) {
				return nil, err
			}
			break
		}
		s, err := decodeService(msg.Data)
		if err != nil {
			c.cfg.Log.Debug().Err(err).Msg("announcement not read")
			continue
		}
		services = append(services, s)
	}
	return services, nil
}

func next(ctx context.Context, sub *nats.Subscription, wait time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return sub.NextMsgWithContext(ctx)
}

func decodeService(data []byte) (s service, err error) {
	if err := job.CheckJSON(data); err != nil {
		return s, err
	}
	return s, json.Unmarshal(data, &s)
}

// check turns an announcement into a tool, or logs once why not.
func (c *Catalogue) check(subject string, metadata map[string]string) *Tool {
	key := announcementKey(subject, metadata)
	known, ok := c.checked[key]
	if !ok {
		tool, err := announcedTool(subject, metadata)
		if err != nil {
			c.cfg.Log.Warn().Str(fieldSubject, job.Printable(subject, 200)).Str(fieldReason, job.Printable(err.Error(), 500)).Msg("tool refused")
		} else {
			c.cfg.Log.Info().Str(fieldNamespace, tool.Namespace).Str(fieldTool, tool.Name).Str(fieldSchema, tool.Digest).Msg("tool found")
		}
		known.tool = tool
	}
	known.used = true
	c.checked[key] = known
	return known.tool
}

func (c *Catalogue) forgetUnused() {
	for key, known := range c.checked {
		if !known.used {
			delete(c.checked, key)
			continue
		}
		known.used = false
		c.checked[key] = known
	}
}

var toolMetadata = []string{
	provider.MetadataDescription, provider.MetadataInputSchema, provider.MetadataOutputSchema,
	provider.MetadataIdempotent, provider.MetadataReadOnly,
}

func announcementKey(subject string, metadata map[string]string) string {
	h := sha256.New()
	writePrefixed(h, []byte(subject))
	for _, key := range toolMetadata {
		writePrefixed(h, []byte(metadata[key]))
	}
	return string(h.Sum(nil))
}

func announcedTool(subject string, metadata map[string]string) (*Tool, error) {
	parts := strings.Split(strings.TrimPrefix(subject, provider.SubjectPrefix), ".")
	if len(parts) != 2 {
		return nil, errors.New("the subject is not tools.<namespace>.<tool>")
	}
	spec := ToolSpec{
		Namespace: parts[0], Name: parts[1], Description: metadata[provider.MetadataDescription],
		Idempotent: metadata[provider.MetadataIdempotent] == "true",
		ReadOnly:   metadata[provider.MetadataReadOnly] == "true",
	}
	if s := metadata[provider.MetadataInputSchema]; s != "" {
		spec.InputSchema = []byte(s)
	}
	if s := metadata[provider.MetadataOutputSchema]; s != "" {
		spec.OutputSchema = []byte(s)
	}
	return NewTool(spec)
}
