package main

import (
	"context"
	"time"

	"airlock/broker"
	"airlock/broker/policy"
	"airlock/job"
	"airlock/store"
)

// statSpan is how far back the calls of tools are summed up unless asked
// otherwise.
const statSpan = 24 * time.Hour

// listTools answers what this worker's catalogue has, but for what the
// operator's rules deny to the tenant.
func (p *pool) listTools(ctx context.Context, tenant string, r job.ToolsQuery) (any, error) {
	if r.Refused {
		return job.ToolList{Refused: p.catalogue.Refused()}, nil
	}
	if r.Since.IsZero() {
		r.Since = time.Now().Add(-statSpan)
	}
	stats, err := p.store.ToolStats(ctx, tenant, r.Namespace, r.Since)
	if err != nil {
		return nil, err
	}
	known := map[[2]string]store.ToolStat{}
	for _, s := range stats {
		known[[2]string{s.Namespace, s.Name}] = s
	}
	rules, breakers := p.cfg.rules.Policy(), p.broker.Breakers()
	rows := []job.ListedTool{}
	for _, o := range p.catalogue.Offers(r.Namespace) {
		rule := rules.For(tenant, o.Namespace, o.Name)
		if rule.Deny {
			continue
		}
		row := newToolRow(o, known[[2]string{o.Namespace, o.Name}], r.Schemas)
		row.Approval, row.Breaker = rule.Approve, breakerOf(rule, o, breakers)
		rows = append(rows, row)
	}
	return job.ToolList{Tools: rows}, nil
}

func newToolRow(o broker.Offer, s store.ToolStat, schemas bool) job.ListedTool {
	row := job.ListedTool{
		Namespace: o.Namespace, Name: o.Name, Description: o.Description, ReadOnly: o.ReadOnly, Idempotent: o.Idempotent,
		SchemaDigest: o.Digest, Providers: o.Providers,
		Calls: s.Calls, Errors: s.Errors, P50: job.Duration(s.P50), P99: job.Duration(s.P99),
	}
	if schemas {
		row.InputSchema, row.OutputSchema = o.InputSchema, o.OutputSchema
	}
	return row
}

// breakerOf is the state of a tool's breaker in this worker; empty where the
// rule has none.
func breakerOf(rule *policy.Rule, o broker.Offer, states []broker.BreakerState) string {
	if rule.Breaker.Failures == 0 {
		return ""
	}
	for _, s := range states {
		if s.Namespace == o.Namespace && s.Name == o.Name && s.Limit == rule.Breaker.Failures {
			return s.State
		}
	}
	return "closed"
}
