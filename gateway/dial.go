package gateway

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// CallbackConfig is how callbacks are delivered. The zero value is ready.
type CallbackConfig struct {
	// Allow are networks that callbacks may be sent to beside the public ones.
	Allow []netip.Prefix
	// Tries is how often a delivery is tried: 10 times, of which each waits
	// three times as long as the one before, from Pause on, 5 s, up to two
	// hours: some six hours in all.
	Tries int
	Pause time.Duration
	// Patience is how long one try may take: 10 s.
	Patience time.Duration
}

// maxPause bounds the wait between two tries.
const maxPause = 2 * time.Hour

// special are networks that are nobody's on the public net, or lead elsewhere
// than they say. Of IPv6 only 2000::/3 is public at all.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.88.99.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("3fff::/20"),
}

var publicIPv6 = netip.MustParsePrefix("2000::/3")

// allows reports whether a callback may be sent to the address.
func (c CallbackConfig) allows(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	holds := func(p netip.Prefix) bool { return p.Contains(addr) }
	switch {
	case slices.ContainsFunc(c.Allow, holds):
		return true
	case !addr.IsGlobalUnicast() || addr.IsPrivate() || slices.ContainsFunc(special, holds):
		return false
	}
	return addr.Is4() || publicIPv6.Contains(addr)
}

var errAddress = errors.New("the address is one that callbacks may not be sent to")

// client calls where allowed only. The address is looked at when the connection
// is made, so that no name, and no second answer to its look-up, leads around
// it; redirects are not followed, and no proxy is asked.
func (c CallbackConfig) client() *http.Client {
	dialer := &net.Dialer{Timeout: c.Patience, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || !c.allows(at.Addr()) {
			return errAddress
		}
		return nil
	}}
	return &http.Client{
		Timeout:       c.Patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, DisableKeepAlives: true, TLSHandshakeTimeout: c.Patience,
			ResponseHeaderTimeout: c.Patience, MaxResponseHeaderBytes: maxHeader,
		},
	}
}
