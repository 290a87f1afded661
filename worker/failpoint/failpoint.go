// Package failpoint lets tests end or hold a worker at a named step of an
// attempt. It is for tests only: nothing but the environment variable Env arms
// it, and a worker with armed points says so loudly.
//
// A worker without it has a nil *Points, of which At is one comparison that the
// compiler inlines; BenchmarkUnarmed shows what it costs.
package failpoint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// Env is the variable that arms points: name[@hit][=action], with commas
// between several. hit is which arrival counts, the first by default. Each
// point acts once in the life of a process.
//
//	AIRLOCK_FAILPOINT=after-claim
//	AIRLOCK_FAILPOINT=in-call@3=pause=2s,result-ready=stop
//
// The action is kill, the default: SIGKILL to the worker itself; stop: SIGSTOP
// to it, where the system has that; or pause=DURATION, which holds this one
// attempt.
const Env = "AIRLOCK_FAILPOINT"

// Name is a step of an attempt.
type Name string

// The steps, in the order in which an attempt takes them.
const (
	// BeforeClaim: the queue has delivered the job.
	BeforeClaim Name = "before-claim"
	// AfterClaim: the claim is committed, and no guest started.
	AfterClaim Name = "after-claim"
	// GuestRunning: the guest has its code.
	GuestRunning Name = "guest-running"
	// InCall: a provider was sent a call, and has not answered.
	InCall Name = "in-call"
	// ResultReady: the guest is gone, and its result nowhere but in memory.
	ResultReady Name = "result-ready"
	// AfterCommit: the result is committed, the job not yet acknowledged.
	AfterCommit Name = "after-commit"
	// AfterAck: the job is acknowledged, its result not yet announced.
	AfterAck Name = "after-ack"
)

// Names lists the steps in order.
func Names() []Name {
	return []Name{BeforeClaim, AfterClaim, GuestRunning, InCall, ResultReady, AfterCommit, AfterAck}
}

// Reached is what the log says when a point acts; tests wait for it.
const Reached = "failpoint reached"

// Points are those that are armed. A nil *Points has none. Its methods may be
// called from several goroutines at once.
type Points struct {
	log   zerolog.Logger
	armed map[Name]*point
}

type point struct {
	name Name
	hit  int64
	act  func()
	told string
	// came counts arrivals.
	came atomic.Int64
}

// Parse reads the value of Env. It returns nil for an empty one, and an error
// for one that names an unknown point or action.
func Parse(value string, log zerolog.Logger) (*Points, error) {
	if value == "" {
		return nil, nil
	}
	p := &Points{log: log, armed: map[Name]*point{}}
	for text := range strings.SplitSeq(value, ",") {
		one, err := parsePoint(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", Env, text, err)
		}
		if p.armed[one.name] != nil {
			return nil, fmt.Errorf("%s: %s is named twice", Env, one.name)
		}
		p.armed[one.name] = one
	}
	log.Error().Str("points", value).Msg("FAILPOINTS ARE ARMED: this worker is going to fail on purpose; unset " + Env + " outside of tests")
	return p, nil
}

func parsePoint(text string) (*point, error) {
	where, action, _ := strings.Cut(text, "=")
	name, hit, counted := strings.Cut(where, "@")
	p := &point{name: Name(name), hit: 1, told: action}
	if !slices.Contains(Names(), p.name) {
		return nil, fmt.Errorf("no such point, want one of %v", Names())
	}
	if counted {
		var err error
		if p.hit, err = strconv.ParseInt(hit, 10, 32); err != nil || p.hit < 1 {
			return nil, fmt.Errorf("%q is no arrival, want a number from 1", hit)
		}
	}
	var err error
	p.act, err = parseAction(action)
	return p, err
}

func parseAction(text string) (func(), error) {
	kind, value, valued := strings.Cut(text, "=")
	switch {
	case (kind == "" || kind == "kill") && !valued:
		return kill, nil
	case kind == "stop" && !valued:
		return stop()
	case kind == "pause":
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("pause=%q, want a duration such as pause=2s", value)
		}
		return func() { time.Sleep(d) }, nil
	}
	return nil, fmt.Errorf("no such action, want kill, stop or pause=DURATION")
}

// At acts if the point is armed and this is the arrival that counts.
func (p *Points) At(name Name) {
	if p != nil {
		p.at(name)
	}
}

// Armed reports whether the point will act, or did.
func (p *Points) Armed(name Name) bool { return p != nil && p.armed[name] != nil }

func (p *Points) at(name Name) {
	one := p.armed[name]
	if one == nil || one.came.Add(1) != one.hit {
		return
	}
	p.log.Error().Str("point", string(name)).Str("action", one.told).Msg(Reached)
	one.act()
}
