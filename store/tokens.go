package store

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"airlock/job"
)

// Scope is a kind of thing that a token allows.
type Scope string

// The scopes. ScopeAdmin is for requeueing and for what is not one tenant's.
const (
	ScopeSubmit Scope = "submit"
	ScopeRead   Scope = "read"
	ScopeCancel Scope = "cancel"
	ScopeAdmin  Scope = "admin"
)

// Scopes lists them.
func Scopes() []Scope { return []Scope{ScopeSubmit, ScopeRead, ScopeCancel, ScopeAdmin} }

// Token is what is known of a bearer token. The token itself is kept nowhere.
type Token struct {
	ID     job.ID  `json:"id"`
	Tenant string  `json:"tenant"`
	Scopes []Scope `json:"scopes"`
	// Note says whose it is.
	Note    string    `json:"note,omitzero"`
	Created time.Time `json:"created"`
	// Expires and Revoked are zero where it is neither.
	Expires time.Time `json:"expires,omitzero"`
	Revoked time.Time `json:"revoked,omitzero"`
	// Hash is the token's SHA-256.
	Hash []byte `json:"-"`
}

const tokenColumns = `id, hash, tenant, scopes, note, created_at, expires_at, revoked_at`

func scanToken(row pgx.CollectableRow) (Token, error) {
	var t Token
	var id [16]byte
	var scopes []string
	var expires, revoked *time.Time
	err := row.Scan(&id, &t.Hash, &t.Tenant, &scopes, &t.Note, &t.Created, &expires, &revoked)
	t.ID, t.Created, t.Expires, t.Revoked = job.ID(id), t.Created.UTC(), deref(expires).UTC(), deref(revoked).UTC()
	for _, s := range scopes {
		t.Scopes = append(t.Scopes, Scope(s))
	}
	return t, err
}

// AddToken keeps a new token, of which it needs all but Created and Revoked.
// Actor is who made it, for the record of administrative acts.
func (s *Store) AddToken(ctx context.Context, actor string, t Token) error {
	scopes := make([]string, len(t.Scopes))
	for i, scope := range t.Scopes {
		scopes[i] = string(scope)
	}
	return s.act(ctx, "add token", act{actor, "token.create", t.Tenant, map[string]any{
		"token": t.ID.String(), "scopes": scopes, "note": t.Note, "expires": t.Expires,
	}}, `
		INSERT INTO tokens (id, hash, tenant, scopes, note, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6)
		RETURNING true`, [16]byte(t.ID), t.Hash, t.Tenant, scopes, textColumn(t.Note), optionalTime(t.Expires))
}

// RevokeToken ends a token at once. Revoking it again is harmless; ErrNotFound
// if there never was one.
func (s *Store) RevokeToken(ctx context.Context, actor string, id job.ID) error {
	return s.act(ctx, "revoke token", act{actor, "token.revoke", "", map[string]any{"token": id.String()}}, `
		UPDATE tokens SET revoked_at = coalesce(revoked_at, now()) WHERE id = $1 RETURNING true`, [16]byte(id))
}

// Tokens lists all tokens, newest first, those revoked or expired among them.
func (s *Store) Tokens(ctx context.Context) ([]Token, error) {
	return collect(ctx, s, "list tokens", scanToken, `
		SELECT `+tokenColumns+` FROM tokens ORDER BY created_at DESC, id DESC`)
}

// TokenByHash returns the token with the SHA-256, unless it was revoked or has
// expired: ErrNotFound.
func (s *Store) TokenByHash(ctx context.Context, hash []byte) (Token, error) {
	return one(ctx, s, "find token", scanToken, `
		SELECT `+tokenColumns+` FROM tokens
		WHERE hash = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())`, hash)
}

// AnyToken reports whether there is a token that was neither revoked nor has
// expired.
func (s *Store) AnyToken(ctx context.Context) (bool, error) {
	return one(ctx, s, "look for tokens", pgx.RowTo[bool], `
		SELECT EXISTS (SELECT FROM tokens WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()))`)
}

// act is an administrative act.
type act struct {
	actor, act, tenant string
	detail             map[string]any
}

// RecordAct keeps an administrative act that was done elsewhere.
func (s *Store) RecordAct(ctx context.Context, actor, did, tenant string, detail map[string]any) error {
	return s.act(ctx, "record act", act{actor, did, tenant, detail}, `SELECT true`)
}

// act does what sql says and records it, together. ErrNotFound if sql returns
// no row: then nothing was done.
func (s *Store) act(ctx context.Context, what string, a act, sql string, args ...any) error {
	detail, err := json.Marshal(a.detail)
	if err != nil {
		return fmt.Errorf("%s: encode: %w", what, err)
	}
	n := len(args)
	args = append(args, a.actor, a.act, a.tenant, string(detail))
	_, err = one(ctx, s, what, pgx.RowTo[int64], fmt.Sprintf(`
		WITH done AS (%s)
		INSERT INTO admin_acts (actor, act, tenant, detail)
		SELECT $%d, $%d, nullif($%d, ''), $%d::text::jsonb FROM done
		RETURNING id`, sql, n+1, n+2, n+3, n+4), args...)
	return err
}

// Act is an administrative act, as it was recorded.
type Act struct {
	At         time.Time
	Actor, Act string
	Tenant     string
	Detail     []byte
}

// Acts lists administrative acts, newest first.
func (s *Store) Acts(ctx context.Context, limit int) ([]Act, error) {
	return collect(ctx, s, "list acts", func(row pgx.CollectableRow) (Act, error) {
		var a Act
		err := row.Scan(&a.At, &a.Actor, &a.Act, &a.Tenant, &a.Detail)
		return a, err
	}, `SELECT at, actor, act, coalesce(tenant, ''), detail FROM admin_acts ORDER BY id DESC LIMIT $1`, limit)
}
