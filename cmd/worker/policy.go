package main

import (
	"context"
	"fmt"
	"time"

	"airlock/broker/policy"
)

// readPolicy reads the operator's rules for tools; a worker does not start
// without those it was told of.
func (c *config) readPolicy() (err error) {
	if c.Policy == "" {
		return nil
	}
	if c.rules, err = policy.Open(c.Policy); err != nil {
		return fmt.Errorf("--policy: %w (broker/POLICY.md says what may stand there)", err)
	}
	return nil
}

// recordPolicy comes before a policy is in force: what an attempt says it kept
// to can be looked up.
func (p *pool) recordPolicy(ctx context.Context, taken *policy.Policy) error {
	if taken == nil {
		return nil
	}
	return p.store.PolicyTaken(ctx, p.id, time.Now().UTC(), taken.Digest(), taken.Text())
}

// followPolicy takes what changes in the file, until ctx ends.
func (p *pool) followPolicy(ctx context.Context) {
	if p.cfg.rules == nil {
		return
	}
	again, stop := hangups()
	defer stop()
	p.cfg.rules.Run(ctx, policy.Watch{Again: again, Adopt: p.recordPolicy, Changed: p.announceChange, Log: p.log})
}
