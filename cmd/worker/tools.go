package main

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"airlock/broker"
	"airlock/broker/policy"
	"airlock/job"
	"airlock/store"
)

// statSpan is how far back the calls of tools are summed up unless asked
// otherwise.
const statSpan = 24 * time.Hour

// toolsRequest asks for the tools of a namespace, or of all.
type toolsRequest struct {
	Namespace string `json:"namespace,omitzero"`
	// Since is from when on calls are summed up; a day ago if zero.
	Since time.Time `json:"since,omitzero"`
	// Schemas adds the tools' schemas; Refused asks for the announcements
	// that are no tools, and for nothing else.
	Schemas bool `json:"schemas,omitzero"`
	Refused bool `json:"refused,omitzero"`
}

// toolRow is a tool as this worker knows it, and how the tenant's calls went.
type toolRow struct {
	Namespace    string         `json:"namespace"`
	Name         string         `json:"name"`
	Description  string         `json:"description,omitzero"`
	InputSchema  jsontext.Value `json:"input_schema,omitzero"`
	OutputSchema jsontext.Value `json:"output_schema,omitzero"`
	ReadOnly     bool           `json:"read_only"`
	Idempotent   bool           `json:"idempotent"`
	SchemaDigest string         `json:"schema_digest"`
	Providers    int            `json:"providers"`
	// Approval: calls wait for a person.
	Approval bool `json:"approval,omitzero"`
	// Breaker is closed, open or half-open in this worker; empty where the
	// operator's rules have none.
	Breaker string `json:"breaker,omitzero"`

	Calls  int          `json:"calls"`
	Errors int          `json:"errors"`
	P50    job.Duration `json:"p50,omitzero"`
	P99    job.Duration `json:"p99,omitzero"`
}

// toolsAnswer has one of its lists.
type toolsAnswer struct {
	Tools   []toolRow        `json:"tools"`
	Refused []broker.Refused `json:"refused"`
}

// listTools answers what this worker's catalogue has, but for what the
// operator's rules deny to the tenant.
func (p *pool) listTools(ctx context.Context, tenant string, r toolsRequest) (any, error) {
	if r.Refused {
		return toolsAnswer{Refused: p.catalogue.Refused()}, nil
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
	rows := []toolRow{}
	for _, o := range p.catalogue.Offers(r.Namespace) {
		rule := rules.For(tenant, o.Namespace, o.Name)
		if rule.Deny {
			continue
		}
		row := newToolRow(o, known[[2]string{o.Namespace, o.Name}], r.Schemas)
		row.Approval, row.Breaker = rule.Approve, breakerOf(rule, o, breakers)
		rows = append(rows, row)
	}
	return toolsAnswer{Tools: rows}, nil
}

func newToolRow(o broker.Offer, s store.ToolStat, schemas bool) toolRow {
	row := toolRow{
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
