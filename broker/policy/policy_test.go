package policy_test

import (
	"testing"

	"airlock/broker/policy"
)

func TestTheFirstRuleThatCoversAToolDecides(t *testing.T) {
	t.Parallel()
	rules := &policy.Policy{Rules: []policy.Rule{
		{Tenant: "a", Namespace: "bank", Name: "pay", Approve: true},
		{Tenant: "a", Namespace: "bank", Name: policy.Any, Calls: 7},
		{Tenant: policy.Any, Namespace: "math", Name: policy.Any},
	}}
	for _, c := range []struct {
		policy                  *policy.Policy
		tenant, namespace, name string
		deny, approve           bool
		calls                   int
	}{
		{rules, "a", "bank", "pay", false, true, 0},
		{rules, "a", "bank", "read", false, false, 7},
		{rules, "b", "bank", "pay", true, false, 0},
		{rules, "b", "math", "add", false, false, 0},
		{&policy.Policy{}, "b", "bank", "pay", false, false, 0},
		{nil, "b", "bank", "pay", false, false, 0},
	} {
		got := c.policy.For(c.tenant, c.namespace, c.name)
		if got.Deny != c.deny || got.Approve != c.approve || got.Calls != c.calls {
			t.Errorf("For(%s, %s, %s): got %+v, want deny %t, approve %t, calls %d",
				c.tenant, c.namespace, c.name, got, c.deny, c.approve, c.calls)
		}
	}
}
