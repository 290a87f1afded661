package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"airlock/job"
	"airlock/store"
)

const (
	// tokenPrefix lets people and scanners of leaked secrets know one.
	tokenPrefix = "airlock_"
	tokenBytes  = 32
	// MaxTokenLife is how long a revoked token may still be taken, by a
	// gateway that saw it just before.
	MaxTokenLife = 5 * time.Second
	// maxKnown bounds the tokens that are remembered for that time.
	maxKnown = 10_000
)

// NewToken makes a token with what is to be kept of it. The text is shown once
// and kept nowhere.
func NewToken(tenant string, scopes []store.Scope, note string, expires time.Time) (text string, t store.Token) {
	secret := make([]byte, tokenBytes)
	_, _ = rand.Read(secret) // never fails
	text = tokenPrefix + base64.RawURLEncoding.EncodeToString(secret)
	return text, store.Token{ID: job.NewID(), Tenant: tenant, Scopes: scopes, Note: note, Expires: expires, Hash: hashToken(text)}
}

func hashToken(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// principal is who asks.
type principal struct {
	tenant string
	scopes []store.Scope
	// name is for the record of administrative acts.
	name string
}

func (p principal) may(scope store.Scope) bool { return slices.Contains(p.scopes, scope) }

// Tokens is where tokens are looked up; *store.Store is one.
type Tokens interface {
	TokenByHash(ctx context.Context, hash []byte) (store.Token, error)
	AnyToken(ctx context.Context) (bool, error)
}

// gate tells who asks. It remembers for MaxTokenLife what it has looked up.
type gate struct {
	tokens Tokens
	// tenant is for whom an open gateway acts.
	tenant string
	// loopback: only this machine can reach the gateway.
	loopback bool

	mu     sync.Mutex
	known  map[[sha256.Size]byte]knownToken // guarded by mu
	open   bool                             // guarded by mu
	openAt time.Time                        // guarded by mu
}

type knownToken struct {
	token store.Token
	at    time.Time
}

// enter returns who asks, or a problem.
func (g *gate) enter(r *http.Request) (principal, error) {
	text, borne := bearer(r)
	if !borne {
		return g.anonymous(r)
	}
	t, err := g.lookUp(r.Context(), text)
	if errors.Is(err, store.ErrNotFound) {
		return principal{}, problemf(CodeUnauthorized, "this token is not known, or was revoked, or has expired")
	}
	if err != nil {
		return principal{}, err
	}
	return principal{tenant: t.Tenant, scopes: t.Scopes, name: "token " + t.ID.String()}, nil
}

func bearer(r *http.Request) (string, bool) {
	scheme, text, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(text), ok && strings.EqualFold(scheme, "Bearer")
}

// anonymous lets everybody in who is on this machine, while there is no token.
func (g *gate) anonymous(r *http.Request) (principal, error) {
	open, err := g.isOpen(r.Context())
	switch {
	case err != nil:
		return principal{}, err
	case !open || !g.loopback:
		return principal{}, problemf(CodeUnauthorized, "send a token: Authorization: Bearer …; gateway token create makes one")
	case !isLoopback(r.Host):
		// A page that has its own name resolve to 127.0.0.1 is no user of
		// this machine.
		return principal{}, problemf(CodeForbidden, "an open gateway is asked as localhost or 127.0.0.1, not as %q", job.Printable(r.Host, 100))
	}
	return principal{tenant: g.tenant, scopes: store.Scopes(), name: "anonymous"}, nil
}

func (g *gate) isOpen(ctx context.Context) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.openAt) < MaxTokenLife {
		return g.open, nil
	}
	any, err := g.tokens.AnyToken(ctx)
	if err != nil {
		return false, err
	}
	g.open, g.openAt = !any, time.Now()
	return g.open, nil
}

func (g *gate) lookUp(ctx context.Context, text string) (store.Token, error) {
	if len(text) > 200 || !strings.HasPrefix(text, tokenPrefix) {
		return store.Token{}, store.ErrNotFound
	}
	sum := [sha256.Size]byte(hashToken(text))
	if t, ok := g.recall(sum); ok {
		return t, nil
	}
	t, err := g.tokens.TokenByHash(ctx, sum[:])
	if err != nil {
		return store.Token{}, err
	}
	if subtle.ConstantTimeCompare(t.Hash, sum[:]) != 1 {
		return store.Token{}, store.ErrNotFound
	}
	g.remember(sum, t)
	return t, nil
}

func (g *gate) recall(sum [sha256.Size]byte) (store.Token, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k, ok := g.known[sum]
	fresh := ok && time.Since(k.at) < MaxTokenLife && (k.token.Expires.IsZero() || time.Now().Before(k.token.Expires))
	return k.token, fresh
}

func (g *gate) remember(sum [sha256.Size]byte, t store.Token) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil || len(g.known) >= maxKnown {
		g.known = map[[sha256.Size]byte]knownToken{}
	}
	g.known[sum] = knownToken{t, time.Now()}
}

// isLoopback reports whether a host, with or without a port, names this
// machine only.
func isLoopback(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
