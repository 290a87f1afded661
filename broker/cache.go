package broker

import (
	"container/list"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"airlock/broker/policy"

	"github.com/go-json-experiment/json/jsontext"
)

// providerCache is recorded as the provider of an answer that was kept. No
// instance of a provider can have the name.
const providerCache = "(cache)"

// cache keeps answers of read-only tools, for all conversations of a worker.
// Beyond max bytes, those go that were not asked for the longest.
type cache struct {
	max int64

	mu      sync.Mutex
	entries map[cacheKey]*list.Element // guarded by mu, as all below
	recent  list.List                  // of *cached, the last asked for first
	size    int64
}

// cacheKey is a digest of tenant, tool, schemas and arguments.
type cacheKey [sha256.Size]byte

type cached struct {
	key  cacheKey
	body jsontext.Value
	at   time.Time
	// from is the call that the answer was given to.
	from string
}

const (
	// cachedOverhead is what an entry takes beside its body, about.
	cachedOverhead = 400
	// cacheShare is the part of the cache that one answer may take.
	cacheShare = 8
)

func (e *cached) size() int64 { return int64(len(e.body)) + cachedOverhead }

// get returns an answer that is younger than ttl, or nil.
func (c *cache) get(key cacheKey, ttl time.Duration) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.entries[key]
	if element == nil {
		return nil
	}
	entry := element.Value.(*cached)
	if time.Since(entry.at) >= ttl {
		return nil // another rule may give it longer
	}
	c.recent.MoveToFront(element)
	return entry
}

// put keeps an answer, unless it is large. The entry must not change any more.
func (c *cache) put(entry *cached) {
	if entry.size() > c.max/cacheShare {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = map[cacheKey]*list.Element{}
	}
	if old := c.entries[entry.key]; old != nil {
		c.drop(old)
	}
	c.entries[entry.key] = c.recent.PushFront(entry)
	for c.size += entry.size(); c.size > c.max; {
		c.drop(c.recent.Back())
	}
}

// drop is called with mu held.
func (c *cache) drop(element *list.Element) {
	entry := c.recent.Remove(element).(*cached)
	delete(c.entries, entry.key)
	c.size -= entry.size()
}

// recall looks for a kept answer to the call, if its rule has answers kept.
func (f *flight) recall() bool {
	if f.rule.Cache == 0 || !f.tool.ReadOnly {
		return false
	}
	arguments, err := policy.Canonical(f.ask.Arguments)
	if err != nil {
		return false
	}
	h := sha256.New()
	for _, part := range []string{f.s.policy.tenant, f.tool.Namespace, f.tool.Name, f.tool.Digest} {
		writePrefixed(h, []byte(part))
	}
	writePrefixed(h, arguments)
	h.Sum(f.turn.key[:0])
	f.turn.stored = f.s.b.cache.get(f.turn.key, f.rule.Cache.Std())
	return f.turn.stored != nil
}

// recalled is the kept answer, as if it had come from a provider.
func (f *flight) recalled() exchanged {
	f.call.Provider, f.call.Answer = providerCache, f.rule.Kept(f.turn.stored.body)
	return exchanged{answer: Answer{Body: f.turn.stored.body, Provider: providerCache}, forget: func() {}}
}

// keep keeps an answer that the rule has kept.
func (f *flight) keep(body jsontext.Value) {
	if f.turn.key == (cacheKey{}) {
		return
	}
	f.s.b.cache.put(&cached{
		key: f.turn.key, body: body, at: time.Now(), from: callID(f.call.Job, f.call.Attempt, f.call.Seq),
	})
}

// provenance says where a kept answer is from, for the call's record.
func (e *cached) provenance() string {
	return fmt.Sprintf("the answer to call %s, %s old", e.from, time.Since(e.at).Round(time.Millisecond))
}
