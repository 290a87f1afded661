package broker

import (
	"context"
	"errors"
	"slices"

	"airlock/broker/policy"
	"airlock/job"
)

// rights are what one attempt may call: what the job grants and the operator's
// rules. They are a snapshot: what changes later, changes nothing for this
// attempt.
type rights struct {
	grants []job.Grant
	pin    string
	tools  Tools
	tenant string
	// rules are nil for a worker without a policy.
	rules *policy.Policy
}

func (b *Broker) newRights(j *job.Job) rights {
	r := rights{grants: slices.Clone(j.Tools), pin: j.Namespace, tools: b.cfg.Tools, tenant: j.Tenant}
	if b.cfg.Policy != nil {
		r.rules = b.cfg.Policy()
	}
	return r
}

// rule is the operator's for a tool, or for what is none; nil without a policy.
func (p rights) rule(namespace, name string) *policy.Rule {
	if p.rules == nil {
		return nil
	}
	return p.rules.For(p.tenant, namespace, name)
}

// meant is what a call names, whatever it is.
func (p rights) meant(c *CallTool) (namespace, name string) {
	if c.Namespace != nil {
		return *c.Namespace, c.Name
	}
	return p.pin, c.Name
}

// resolve finds the namespace and name that a call means, before anything is
// looked up or composed of them.
func (p rights) resolve(c *CallTool) (namespace, name string, no *refusal) {
	namespace, name = p.meant(c)
	switch {
	case c.Namespace != nil && !job.ValidToolName(namespace):
		no = refusef(CodeBadName, "%q is not a namespace's name", job.Printable(namespace, 80))
	case !job.ValidToolName(name):
		no = refusef(CodeBadName, "%q is not a tool's name", job.Printable(name, 80))
	case namespace == "":
		no = refusef(CodeNamespaceNotAllowed, "the call names no namespace, and the job pins none")
	case p.pin != "" && namespace != p.pin:
		no = refusef(CodeNamespaceNotAllowed, "this job calls tools of %s only", p.pin)
	case !job.Allows(p.grants, namespace, name):
		no = refusef(CodeNotGranted, "%s.%s is not granted to this job", namespace, name)
	}
	return namespace, name, no
}

// find returns the tool that a resolved call means.
func (p rights) find(ctx context.Context, namespace, name string) (*Tool, *refusal) {
	t, err := p.tools.Find(ctx, namespace, name)
	switch {
	case err == nil:
		return t, nil
	case errors.Is(err, ErrUnknownTool):
		return nil, refusef(CodeUnknownTool, "%s offers no tool %s", namespace, name)
	case errors.Is(err, ErrNoProvider):
		return nil, refusef(CodeNoProvider, "nobody serves %s", namespace)
	}
	no := refusef(CodeNoProvider, "%s.%s could not be looked up", namespace, name)
	no.detail = err.Error()
	return nil, no
}

// admit checks the arguments of a call to t.
func (p rights) admit(t *Tool, c *CallTool) *refusal {
	if max := p.tools.MaxArguments(); len(c.Arguments) > max {
		return refusef(CodeTooLarge, "the arguments are %d bytes, one message carries %d", len(c.Arguments), max)
	}
	if err := t.CheckArguments(c.Arguments); err != nil {
		no := refusef(CodeBadArguments, "arguments of %s.%s: %s", t.Namespace, t.Name, err)
		no.foreign = true
		return no
	}
	return nil
}

// admitted holds a call against the operator's rule for it.
func admitted(rule *policy.Rule, t *Tool, c *CallTool) *refusal {
	if err := rule.CheckArguments(c.Arguments); err != nil {
		no := refusef(CodeDenied, "arguments of %s.%s: against the operator's policy: %s", t.Namespace, t.Name, err)
		no.foreign = true
		return no
	}
	return nil
}

// granted lists the tools that the guest may call: those that providers offer
// now, and those granted by name that nobody offers.
func (p rights) granted(ctx context.Context) []*Tool {
	var granted []*Tool
	for _, t := range p.tools.List(ctx, p.namespaces()) {
		if p.allows(t.Namespace, t.Name) {
			granted = append(granted, t)
		}
	}
	for _, g := range p.grants {
		known := slices.ContainsFunc(granted, func(t *Tool) bool { return t.Namespace == g.Namespace && t.Name == g.Name })
		if g.Name != job.AnyTool && !known && p.allows(g.Namespace, g.Name) {
			granted = append(granted, unannounced(g.Namespace, g.Name))
		}
	}
	return granted
}

func (p rights) allows(namespace, name string) bool {
	if p.pin != "" && p.pin != namespace || !job.Allows(p.grants, namespace, name) {
		return false
	}
	rule := p.rule(namespace, name)
	return rule == nil || !rule.Deny
}

// namespaces are those in which something is granted.
func (p rights) namespaces() []string {
	var names []string
	for _, g := range p.grants {
		if p.pin == "" || p.pin == g.Namespace {
			names = append(names, g.Namespace)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
