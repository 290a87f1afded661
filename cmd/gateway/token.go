package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"

	"airlock/gateway"
	"airlock/job"
	"airlock/store"
)

// createCmd makes a token.
type createCmd struct {
	database
	Tenant string        `help:"Whose token it is: what it submits and sees is this tenant's." required:"" placeholder:"NAME"`
	Scopes []store.Scope `help:"What it may do: submit, read, cancel, admin." default:"submit,read,cancel" placeholder:"SCOPE,…"`
	Note   string        `help:"Whose it is, for people." placeholder:"TEXT"`
	Life   time.Duration `help:"How long it is good for; 0 is until it is revoked." default:"0"`
	JSON   bool          `name:"json" help:"Print JSON."`
}

// Run implements the command.
func (c *createCmd) Run(ctx context.Context, a *app) error {
	for _, scope := range c.Scopes {
		if !slices.Contains(store.Scopes(), scope) {
			return usageError(fmt.Sprintf("--scopes: %q is none of submit, read, cancel and admin", job.Printable(string(scope), 40)))
		}
	}
	switch {
	case !job.ValidName(c.Tenant):
		return usageError("--tenant: want 1 to 64 letters, digits, _ and -")
	case len(c.Scopes) == 0:
		return usageError("--scopes: want at least one")
	case c.Life < 0:
		return usageError("--life: want more than nothing")
	}
	var expires time.Time
	if c.Life > 0 {
		expires = time.Now().Add(c.Life).UTC().Truncate(time.Second)
	}
	slices.Sort(c.Scopes)
	s, err := c.open(ctx, c.log(a.stderr))
	if err != nil {
		return err
	}
	defer s.Close()
	text, token := gateway.NewToken(c.Tenant, slices.Compact(c.Scopes), job.Printable(c.Note, 200), expires)
	if err := s.AddToken(ctx, actor(), token); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.stdout, map[string]any{"id": token.ID, "token": text})
	}
	fmt.Fprintf(a.stderr, "gateway: token %s of tenant %s; it is shown this once\n", token.ID, c.Tenant)
	_, err = fmt.Fprintln(a.stdout, text)
	return err
}

// actor is who does this, for the record of administrative acts.
func actor() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return job.Printable(name+"@"+host, 200)
}

// listCmd lists tokens.
type listCmd struct {
	database
	JSON bool `name:"json" help:"Print JSON, one token a line."`
}

// Run implements the command.
func (c *listCmd) Run(ctx context.Context, a *app) error {
	s, err := c.open(ctx, c.log(a.stderr))
	if err != nil {
		return err
	}
	defer s.Close()
	tokens, err := s.Tokens(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		for _, t := range tokens {
			if err := printJSON(a.stdout, t); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tTENANT\tSCOPES\tSTATE\tCREATED\tNOTE")
	for _, t := range tokens {
		scopes := make([]string, len(t.Scopes))
		for i, scope := range t.Scopes {
			scopes[i] = string(scope)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", t.ID, t.Tenant, strings.Join(scopes, ","), standing(t),
			t.Created.Format(time.DateTime), job.Printable(t.Note, 60))
	}
	return w.Flush()
}

func standing(t store.Token) string {
	switch {
	case !t.Revoked.IsZero():
		return "revoked"
	case !t.Expires.IsZero() && time.Now().After(t.Expires):
		return "expired"
	case !t.Expires.IsZero():
		return "until " + t.Expires.Format(time.DateTime)
	}
	return "good"
}

// revokeCmd ends a token.
type revokeCmd struct {
	database
	ID job.ID `arg:"" help:"The token's id, as list shows it."`
}

// Run implements the command.
func (c *revokeCmd) Run(ctx context.Context, a *app) error {
	s, err := c.open(ctx, c.log(a.stderr))
	if err != nil {
		return err
	}
	defer s.Close()
	err = s.RevokeToken(ctx, actor(), c.ID)
	if errors.Is(err, store.ErrNotFound) {
		return usageError(fmt.Sprintf("there is no token %s", c.ID))
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "token %s is revoked; gateways take it for at most %s more\n", c.ID, gateway.MaxTokenLife)
	return err
}

func printJSON(w io.Writer, v any) error {
	body, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = w.Write(append(body, '\n'))
	return err
}
