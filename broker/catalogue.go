package broker

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"airlock/job"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// CatalogueConfig is what a Catalogue needs. The durations may be zero.
type CatalogueConfig struct {
	Log zerolog.Logger
	// Refresh is how often all providers are asked what they offer: 5 s.
	Refresh time.Duration
	// OnDemand is how long after one round of asking the next may follow
	// when a call names a tool that is not known: 1 s.
	OnDemand time.Duration
}

const (
	// maxTools bounds the catalogue, whatever is announced.
	maxTools = 10_000
	// keepRefreshes is how many rounds a tool stays known that nobody
	// announces: one lost message must not fail calls.
	keepRefreshes = 3
)

// toolName is a tool's full name.
type toolName struct{ namespace, name string }

func (n toolName) compare(other toolName) int {
	return cmp.Or(cmp.Compare(n.namespace, other.namespace), cmp.Compare(n.name, other.name))
}

// entry is a known tool, when it was last announced, and by how many.
type entry struct {
	tool      *Tool
	seen      int // the round
	providers int
}

// Catalogue knows the tools that NATS micro services offer at subjects
// tools.<namespace>.<tool>, and calls them. It implements Tools. Nothing that
// a provider announces is trusted: what does not check is left out and logged.
type Catalogue struct {
	nc    *nats.Conn
	cfg   CatalogueConfig
	inbox inbox
	// asking holds a token while providers are being asked.
	asking chan struct{}
	// checked remembers what became of announcements, and heard what of whole
	// answers. They are used by whoever holds asking, as are told and answered.
	checked map[string]checkedTool
	heard   map[digestKey]heardService
	// told counts the refusals of a round that the log was given, and answered
	// the answers of the last round.
	told, answered int

	mu      sync.RWMutex
	entries map[toolName]entry // guarded by mu, as all below
	refused []job.RefusedTool
	round   int
	asked   time.Time
}

var (
	_ Tools     = (*Catalogue)(nil)
	_ Canceller = (*Catalogue)(nil)
)

// NewCatalogue makes a Catalogue that uses nc. It is empty until it is asked
// or run.
func NewCatalogue(nc *nats.Conn, cfg CatalogueConfig) *Catalogue {
	cfg.Refresh = cmp.Or(cfg.Refresh, 5*time.Second)
	cfg.OnDemand = cmp.Or(cfg.OnDemand, time.Second)
	return &Catalogue{
		nc: nc, cfg: cfg, inbox: inbox{nc: nc}, asking: make(chan struct{}, 1),
		checked: map[string]checkedTool{}, heard: map[digestKey]heardService{}, entries: map[toolName]entry{},
	}
}

// Run keeps the catalogue fresh until ctx ends, and then gives up what it
// holds of the connection: open calls get no answer any more, and no new ones
// are made. It must outlive the conversations, and is run once.
func (c *Catalogue) Run(ctx context.Context) error {
	defer c.inbox.close()
	tick := time.NewTicker(c.cfg.Refresh)
	defer tick.Stop()
	for {
		c.refresh(ctx, c.cfg.Refresh/2)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Tools lists everything that is offered, sorted by namespace and name.
func (c *Catalogue) Tools(ctx context.Context) []*Tool {
	c.refresh(ctx, c.cfg.Refresh)
	return c.known(func(toolName) bool { return true })
}

// List implements Tools.
func (c *Catalogue) List(ctx context.Context, namespaces []string) []*Tool {
	if len(namespaces) == 0 {
		return nil
	}
	freshness := 2 * c.cfg.Refresh
	if !c.serves(namespaces) {
		freshness = c.cfg.OnDemand
	}
	c.refresh(ctx, freshness)
	return c.known(func(n toolName) bool { return slices.Contains(namespaces, n.namespace) })
}

// serves reports whether a tool is known of each of the namespaces.
func (c *Catalogue) serves(namespaces []string) bool {
	missing := map[string]bool{}
	for _, n := range namespaces {
		missing[n] = true
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for name := range c.entries {
		if delete(missing, name.namespace); len(missing) == 0 {
			return true
		}
	}
	return len(missing) == 0
}

func (c *Catalogue) known(wanted func(toolName) bool) []*Tool {
	c.mu.RLock()
	var found []*Tool
	for name, e := range c.entries {
		if wanted(name) {
			found = append(found, e.tool)
		}
	}
	c.mu.RUnlock()
	slices.SortFunc(found, func(a, b *Tool) int {
		return toolName{a.Namespace, a.Name}.compare(toolName{b.Namespace, b.Name})
	})
	return found
}

// Find implements Tools.
func (c *Catalogue) Find(ctx context.Context, namespace, name string) (*Tool, error) {
	if t := c.lookup(namespace, name); t != nil {
		return t, nil
	}
	c.refresh(ctx, c.cfg.OnDemand)
	if t := c.lookup(namespace, name); t != nil {
		return t, nil
	}
	if c.serves([]string{namespace}) {
		return nil, ErrUnknownTool
	}
	return nil, ErrNoProvider
}

func (c *Catalogue) lookup(namespace, name string) *Tool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.entries[toolName{namespace, name}].tool
}

// refresh asks all providers what they offer, unless that was done less than
// freshness ago. Whoever comes while another asks shares the outcome.
func (c *Catalogue) refresh(ctx context.Context, freshness time.Duration) {
	if c.fresh(freshness) {
		return
	}
	select {
	case c.asking <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-c.asking }()
	if c.fresh(freshness) {
		return
	}
	announced, refused, err := c.ask(ctx)
	if err != nil {
		c.cfg.Log.Debug().Err(err).Msg("providers not asked")
		return
	}
	c.merge(announced, refused)
}

func (c *Catalogue) fresh(freshness time.Duration) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return !c.asked.IsZero() && time.Since(c.asked) < freshness
}

// merge takes one round of announcements. Where instances differ, what was
// known stays for as long as one of them announces it: calls reach them all.
func (c *Catalogue) merge(announced map[toolName][]*Tool, refused []job.RefusedTool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.round++
	c.asked = time.Now()
	c.refused = refused
	for name, tools := range announced {
		e, known := c.entries[name]
		if !known && len(c.entries) >= maxTools {
			c.refuse(tools[0], len(tools))
			continue
		}
		if !slices.Contains(tools, e.tool) {
			e.tool = tools[0]
		}
		c.entries[name] = entry{e.tool, c.round, len(tools)}
	}
	for name, e := range c.entries {
		if e.seen != c.round && e.providers > 0 {
			e.providers = 0
			c.entries[name] = e
		}
		if c.round-e.seen >= keepRefreshes {
			delete(c.entries, name)
			c.cfg.Log.Info().Str(fieldNamespace, name.namespace).Str(fieldTool, name.name).Msg("tool gone")
		}
	}
}

// MaxArguments implements Tools.
func (c *Catalogue) MaxArguments() int {
	return max(0, int(c.nc.MaxPayload())-headerRoom)
}

// headerRoom is more than the headers of a call take: all of their parts are
// bounded.
const headerRoom = 1 << 10

// callID names a call in a header: all of it is ours.
func callID(id job.ID, attempt, seq int) string {
	return id.String() + "." + itoa(attempt) + "." + itoa(seq)
}
