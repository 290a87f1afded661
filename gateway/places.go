package gateway

import (
	"strings"
	"sync"

	"airlock/store"
)

// How many callbacks a gateway tells at once: in all, of one host, and of one
// tenant. A host that answers slowly, or a tenant whose hosts do, leaves places
// for the others.
const (
	deliveriesAtOnce    = 32
	deliveriesPerHost   = 4
	deliveriesPerTenant = 8
)

// places are those of callbacks that are being told.
type places struct {
	// freed has a place for the news that one is free which was wanted.
	freed chan struct{}

	mu      sync.Mutex
	taken   int            // guarded by mu, as all below
	hosts   map[string]int // by hostOf
	tenants map[string]int
}

func newPlaces() *places {
	return &places{freed: make(chan struct{}, 1), hosts: map[string]int{}, tenants: map[string]int{}}
}

// hostOf is the part of the URL that names the host, and its port, as
// store.TakeCallbacks compares it.
func hostOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return strings.ToLower(rest)
}

// room is how many places are free, and whose callbacks have none.
func (p *places) room() (free int, full store.Busy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for host, n := range p.hosts {
		if n >= deliveriesPerHost {
			full.Hosts = append(full.Hosts, host)
		}
	}
	for tenant, n := range p.tenants {
		if n >= deliveriesPerTenant {
			full.Tenants = append(full.Tenants, tenant)
		}
	}
	return deliveriesAtOnce - p.taken, full
}

// take takes a place for the callback, if there is one for its host and its
// tenant.
func (p *places) take(c store.Callback) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	host := hostOf(c.URL)
	if p.taken >= deliveriesAtOnce || p.hosts[host] >= deliveriesPerHost || p.tenants[c.Tenant] >= deliveriesPerTenant {
		return false
	}
	p.taken++
	p.hosts[host]++
	p.tenants[c.Tenant]++
	return true
}

func (p *places) leave(c store.Callback) {
	p.mu.Lock()
	defer p.mu.Unlock()
	host := hostOf(c.URL)
	wanted := p.taken >= deliveriesAtOnce || p.hosts[host] >= deliveriesPerHost || p.tenants[c.Tenant] >= deliveriesPerTenant
	p.taken--
	for _, count := range []struct {
		of  map[string]int
		key string
	}{{p.hosts, host}, {p.tenants, c.Tenant}} {
		if count.of[count.key]--; count.of[count.key] == 0 {
			delete(count.of, count.key)
		}
	}
	if !wanted {
		return
	}
	select {
	case p.freed <- struct{}{}:
	default:
	}
}
