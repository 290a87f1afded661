// Package policy is what an operator allows tools to be used for: a file of
// rules, of which the first that covers a tenant's tool decides. A Policy does
// not change; who reads the file again makes another one.
//
// What a job grants itself is checked beside this: a call needs both.
// broker/POLICY.md is the operator's page.
package policy

import (
	"slices"

	"airlock/broker/internal/toolschema"
	"airlock/job"

	"github.com/go-json-experiment/json/jsontext"
)

// Any as a rule's tenant, namespace or name covers all of them.
const Any = "*"

// Policy is an operator's rules for all tenants. With rules, a tool that none
// of them covers is refused; without any, a job's grants alone decide. It may
// be used from several goroutines.
type Policy struct {
	Rules []Rule `json:"rules"`

	// What Parse prepares.
	digest string
	text   []byte
	other  *Rule
}

// Rule says what one tenant may do with one tool. Its zero fields leave what
// the worker's flags, the job and the tool say.
type Rule struct {
	// Tenant, Namespace and Name are compared whole; Any covers all.
	Tenant    string `json:"tenant"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`

	// Deny refuses the calls, whatever the job grants.
	Deny bool `json:"deny,omitzero"`
	// Arguments is JSON Schema that the arguments must fit too.
	Arguments jsontext.Value `json:"arguments,omitzero"`
	// Timeout bounds one call, all its tries and its waits for its turn
	// included, approval apart. It takes the place of the worker's own.
	Timeout job.Duration `json:"timeout,omitzero"`
	// Rate and Concurrency bound a tenant's calls of one tool by one worker,
	// of all its jobs together. A call waits its turn, within its timeout.
	Rate        Rate `json:"rate,omitzero"`
	Concurrency int  `json:"concurrency,omitzero"`
	// Calls and Bytes bound what one attempt at a job may do: its calls of the
	// tool, and their arguments and answers in bytes.
	Calls int      `json:"calls,omitzero"`
	Bytes job.Size `json:"bytes,omitzero"`
	// Retries are further tries of a call that failed in a way that lets it
	// be made again, of a tool that says it is idempotent or read-only.
	Retries int `json:"retries,omitzero"`
	// Breaker refuses calls for a while after failures in a row.
	Breaker Breaker `json:"breaker,omitzero"`
	// Cache is how long the answer of a read-only tool is given again for the
	// same arguments to the same tenant.
	Cache job.Duration `json:"cache,omitzero"`
	// Redact names fields, at any depth and in any case, whose values the
	// audit does not keep.
	Redact []string `json:"redact,omitzero"`
	// Approve has each call wait for a person, at most for ApproveWithin, one
	// hour unless set. The guest's clock and its tool time stand still.
	Approve       bool         `json:"approve,omitzero"`
	ApproveWithin job.Duration `json:"approve_within,omitzero"`

	// schema is Arguments, once Parse has read it.
	schema *toolschema.Schema
}

// Rate is how many calls a second, and how many at once after a pause: one
// unless Burst is set.
type Rate struct {
	PerSecond float64 `json:"per_second"`
	Burst     int     `json:"burst,omitzero"`
}

// Breaker opens after Failures in a row, and lets one call through after Pause,
// 30 s unless set.
type Breaker struct {
	Failures int          `json:"failures"`
	Pause    job.Duration `json:"pause,omitzero"`
}

// For returns the rule that decides for a tenant's tool: the first that covers
// it. A tool that no rule covers is denied, and its calls are redacted by all
// rules; without any rule, all are allowed. It never returns nil, and what it
// returns must not be changed.
func (p *Policy) For(tenant, namespace, name string) *Rule {
	if p == nil || len(p.Rules) == 0 {
		return &Rule{}
	}
	for i := range p.Rules {
		if r := &p.Rules[i]; r.covers(tenant, namespace, name) {
			return r
		}
	}
	if p.other != nil {
		return p.other
	}
	return p.otherwise()
}

// otherwise is the rule for what no rule covers. It redacts what any does: a
// call that misses a rule, by a slip or on purpose, must not take a secret into
// the audit.
func (p *Policy) otherwise() *Rule {
	r := &Rule{Deny: true}
	for i := range p.Rules {
		r.Redact = append(r.Redact, p.Rules[i].Redact...)
	}
	slices.Sort(r.Redact)
	r.Redact = slices.Compact(r.Redact)
	return r
}

func (r *Rule) covers(tenant, namespace, name string) bool {
	return covers(r.Tenant, tenant) && covers(r.Namespace, namespace) && covers(r.Name, name)
}

func covers(pattern, word string) bool { return pattern == Any || pattern == word }

// CheckArguments reports whether arguments, which job.CheckJSON has accepted,
// fit the rule's schema. The error may quote the arguments.
func (r *Rule) CheckArguments(arguments jsontext.Value) error {
	if len(r.Arguments) == 0 {
		return nil
	}
	schema := r.schema
	if schema == nil { // a rule that no file said
		var err error
		if schema, err = toolschema.Parse(r.Arguments); err != nil {
			return err
		}
	}
	return schema.Check(arguments)
}
