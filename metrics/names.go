package metrics

import "sync"

// Other stands for all values of a label beyond those that fit.
const Other = "other"

// names bounds how many values a label has: the first that come have their
// own. Its methods may be called from several goroutines at once.
type names struct {
	max int

	mu    sync.Mutex
	known map[string]bool // guarded by mu
}

// of is the value that stands for name.
func (n *names) of(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known[name] {
		return name
	}
	if len(n.known) >= n.max {
		return Other
	}
	if n.known == nil {
		n.known = map[string]bool{}
	}
	n.known[name] = true
	return name
}
