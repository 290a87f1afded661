package bridge

import (
	"errors"
	"fmt"
	"sync"
)

// fullName is a tool's name with its namespace.
type fullName struct{ namespace, name string }

// claims says which server has a name. Whoever had it first keeps it, dead or
// alive, until it no longer offers it.
type claims struct {
	mu sync.Mutex
	of map[fullName]*upstream // guarded by mu
}

// take claims the names of the offers for u, gives up what u had besides, and
// returns the offers whose names it got. The error tells of the others.
func (c *claims) take(u *upstream, offers []offer) ([]offer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var got []offer
	var problems []error
	kept := map[fullName]string{}
	for _, o := range offers {
		name := fullName{u.server.Namespace, o.Name}
		owner := c.of[name]
		other, twice := kept[name]
		switch {
		case twice:
			problems = append(problems, fmt.Errorf("tools %q and %q would both be %s.%s; rename one of them", other, o.theirs, name.namespace, name.name))
		case owner != nil && owner != u:
			problems = append(problems, fmt.Errorf("%s.%s is a tool of %s already; rename one, leave one out by tools, or take another namespace", name.namespace, name.name, owner.where()))
		default:
			c.of[name], kept[name] = u, o.theirs
			got = append(got, o)
		}
	}
	for name, owner := range c.of {
		if _, still := kept[name]; owner == u && !still {
			delete(c.of, name)
		}
	}
	return got, errors.Join(problems...)
}
