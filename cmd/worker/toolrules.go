package main

import "airlock/broker/policy"

// rule is the operator's for a tenant's tool.
func (p *pool) rule(tenant, namespace, name string) *policy.Rule {
	return p.cfg.rules.Policy().For(tenant, namespace, name)
}

// hides reports whether a tool is not the tenant's to see.
func (p *pool) hides(tenant, namespace, name string) bool {
	return p.rule(tenant, namespace, name).Deny
}
