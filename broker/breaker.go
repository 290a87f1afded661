package broker

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"airlock/broker/policy"

	"github.com/rs/zerolog"
	"github.com/sony/gobreaker/v2"
)

// breakers leave tools alone that have failed too often in a row. They are the
// worker's, for all tenants to whom rules say the same of a tool.
type breakers struct {
	mu    sync.Mutex
	known map[breakerKey]*circuit // guarded by mu, as below
	prune int
	log   zerolog.Logger
}

type breakerKey struct {
	tool toolName
	rule policy.Breaker
}

type circuit struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	// since is when the state was last another one, in Unix nanoseconds.
	since atomic.Int64
}

// breakerPause is how long a tool is left alone where the rule does not say.
const breakerPause = 30 * time.Second

// manyBreakers is how many may lie about that have nothing to tell.
const manyBreakers = 1024

// What became of a try, for its breaker. nil is a provider that works.
var (
	errToolFailed = errors.New("the tool does not work")
	// errNoVerdict: the provider is not to blame, and was not proved to work.
	errNoVerdict = errors.New("nothing was learnt of the tool")
)

func (b *breakers) circuit(key breakerKey) *circuit {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.known[key]
	if c == nil {
		b.forgetQuiet()
		c = b.newCircuit(key)
		b.known[key] = c
	}
	return c
}

func (b *breakers) newCircuit(key breakerKey) *circuit {
	c, rule := &circuit{}, key.rule
	c.TwoStepCircuitBreaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: 1,
		Timeout:     cmp.Or(rule.Pause.Std(), breakerPause),
		ReadyToTrip: func(n gobreaker.Counts) bool { return int(n.ConsecutiveFailures) >= rule.Failures },
		IsExcluded:  func(err error) bool { return errors.Is(err, errNoVerdict) },
		OnStateChange: func(_ string, _, now gobreaker.State) {
			c.since.Store(time.Now().UnixNano())
			b.log.Warn().Str(fieldNamespace, key.tool.namespace).Str(fieldTool, key.tool.name).Stringer(fieldState, now).Msg("breaker changed")
		},
	})
	return c
}

// forgetQuiet is called with mu held.
func (b *breakers) forgetQuiet() {
	if b.known == nil {
		b.known, b.prune = map[breakerKey]*circuit{}, manyBreakers
	}
	if len(b.known) < b.prune {
		return
	}
	for key, c := range b.known {
		if c.quiet() && c.Counts().Requests == c.Counts().TotalSuccesses {
			delete(b.known, key)
		}
	}
	b.prune = max(manyBreakers, 2*len(b.known))
}

// quiet reports whether there is nothing to tell of it.
func (c *circuit) quiet() bool {
	return c.State() == gobreaker.StateClosed && c.Counts().ConsecutiveFailures == 0
}

// passBreaker asks the breaker, if the rule has one, whether the next try may
// be made. Each yes must be followed by a call of turn.pass.
func (f *flight) passBreaker() *refusal {
	if f.rule.Breaker.Failures == 0 {
		return nil
	}
	done, err := f.s.b.breakers.circuit(breakerKey{f.toolName(), f.rule.Breaker}).Allow()
	if err != nil {
		return refusef(CodeCircuitOpen, "%s.%s has failed too often in a row, and is left alone for a while", f.tool.Namespace, f.tool.Name)
	}
	f.turn.pass = func(outcome error) {
		f.turn.pass = nil
		done(outcome)
	}
	return nil
}

// verdict is what a try tells of its tool. cause is why the call ended, if it
// has.
func verdict(end exchanged, cause error) error {
	switch {
	case end.unsent:
		return errNoVerdict
	case end.pending != nil && errors.Is(cause, errCallTimeout):
		return errToolFailed
	case end.pending != nil:
		return errNoVerdict
	case end.no == nil:
		return nil
	}
	switch end.no.code {
	case CodeTimeout, CodeNoProvider, CodeBadAnswer:
		return errToolFailed
	case CodeProviderError:
		if end.no.retryable {
			return errToolFailed
		}
	}
	return nil
}

// BreakerState is a breaker that is not closed, or has counted failures.
type BreakerState struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// State is closed, open or half-open: the next call is the one to try.
	State string `json:"state"`
	// Failures are those in a row while it is closed, of Limit.
	Failures int `json:"failures,omitzero"`
	Limit    int `json:"limit"`
	// Since is when it came into its state; zero if it never left it.
	Since time.Time `json:"since,omitzero"`
	// Until is when an open one lets a call through.
	Until time.Time `json:"until,omitzero"`
}

// Breakers lists the breakers that have something to tell, by namespace and
// name. A tool may have several, where rules differ.
func (b *Broker) Breakers() []BreakerState {
	b.breakers.mu.Lock()
	var states []BreakerState
	for key, c := range b.breakers.known {
		if !c.quiet() {
			states = append(states, c.state(key))
		}
	}
	b.breakers.mu.Unlock()
	slices.SortFunc(states, func(x, y BreakerState) int {
		return cmp.Or(toolName{x.Namespace, x.Name}.compare(toolName{y.Namespace, y.Name}), cmp.Compare(x.Limit, y.Limit))
	})
	return states
}

func (c *circuit) state(key breakerKey) BreakerState {
	at := c.State()
	s := BreakerState{
		Namespace: key.tool.namespace, Name: key.tool.name, State: at.String(),
		Failures: int(c.Counts().ConsecutiveFailures), Limit: key.rule.Failures,
	}
	if since := c.since.Load(); since != 0 {
		s.Since = time.Unix(0, since).UTC()
	}
	if at == gobreaker.StateOpen {
		s.Until = s.Since.Add(cmp.Or(key.rule.Pause.Std(), breakerPause))
	}
	return s
}
