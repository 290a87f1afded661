package broker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"airlock/broker/provider"
	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
)

// How long a round of asking waits: for another answer, and in all, which is
// also how long it waits for the first and for as many as the last round had:
// where there is no provider at all, the server says so at once. One that
// misses a round is asked again in the next.
const (
	nextAnswer = 100 * time.Millisecond
	lastAnswer = 2 * time.Second
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
	tool    *Tool
	refused *job.RefusedTool
	used    bool // in the last round
}

// ask collects one round of announcements, by tool, in a stable order, and
// those that were refused.
func (c *Catalogue) ask(ctx context.Context) (map[toolName][]*Tool, []job.RefusedTool, error) {
	answers, err := c.collect(ctx)
	if err != nil {
		return nil, nil, err
	}
	found, refused := c.sort(c.hear(answers))
	return found, refused, nil
}

// sort parts the tools from the refusals.
func (c *Catalogue) sort(round []heardService) (map[toolName][]*Tool, []job.RefusedTool) {
	found, refused := map[toolName][]*Tool{}, refusals{}
	for _, s := range round {
		for _, o := range s.offers {
			if o.tool == nil {
				refused.add(*o.refused)
				continue
			}
			name := toolName{o.tool.Namespace, o.tool.Name}
			found[name] = append(found[name], o.tool)
		}
	}
	return found, refused.list()
}

// collect asks all micro services at once and takes the answers as they come.
func (c *Catalogue) collect(ctx context.Context) ([][]byte, error) {
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
	var answers [][]byte
	defer func() { c.answered = len(answers) }()
	for len(answers) < maxServices {
		msg, err := next(ctx, sub, c.answerWait(len(answers)))
		if err != nil {
			// Slow providers are no reason to forget the quick ones.
			if len(answers) == 0 && !errors.Is(err, nats.ErrNoResponders) {
				return nil, err
			}
			break
		}
		answers = append(answers, msg.Data)
	}
	return answers, nil
}

// answerWait is how long the next answer may take when so many have come. One
// that is due is waited for: who answered the last time may be slower than
// another by more than there is between two answers.
func (c *Catalogue) answerWait(have int) time.Duration {
	if have == 0 || have < c.answered {
		return lastAnswer
	}
	return nextAnswer
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
func (c *Catalogue) check(subject string, metadata map[string]string) checkedTool {
	key := announcementKey(subject, metadata)
	known, ok := c.checked[key]
	if !ok {
		known = c.judge(subject, metadata)
	}
	known.used = true
	c.checked[key] = known
	return known
}

func (c *Catalogue) judge(subject string, metadata map[string]string) checkedTool {
	tool, err := announcedTool(subject, metadata)
	if err != nil {
		no := &job.RefusedTool{Subject: job.Printable(subject, 200), Reason: job.Printable(err.Error(), 500), Providers: 1}
		c.tellRefused(no)
		return checkedTool{refused: no}
	}
	c.cfg.Log.Info().Str(fieldNamespace, tool.Namespace).Str(fieldTool, tool.Name).Str(fieldSchema, tool.Digest).Msg("tool found")
	return checkedTool{tool: tool}
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
