package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"airlock/gateway"
	"airlock/job"
)

// healthCmd is for health checks of the container that a gateway runs in.
type healthCmd struct {
	URL string `name:"url" help:"Where the gateway is; by default where --listen-http, or AIRLOCK_LISTEN_HTTP, has it listen." placeholder:"URL"`
	serving
}

// serving are the flags of serve that say where it is.
type serving struct {
	ListenHttp string `help:"Address to listen on; port 0 takes a free one. Anything but loopback needs a token." default:"127.0.0.1:8080" placeholder:"HOST:PORT"`
	TlsCert    string `help:"File with the certificate, in PEM; with --tls-key it is HTTPS." placeholder:"FILE"`
}

const (
	healthTime = 10 * time.Second
	maxHealth  = 64 << 10
)

// Run implements the command.
func (c *healthCmd) Run(ctx context.Context, a *app) error {
	at, err := c.where()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.JoinPath("readyz").String(), nil)
	if err != nil {
		return usageError("--url: " + err.Error())
	}
	resp, err := c.client().Do(req)
	if err != nil {
		return fmt.Errorf("ask the gateway (is it up, and --url right?): %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxHealth))
	if err != nil {
		return fmt.Errorf("ask the gateway: %w", err)
	}
	var h gateway.Health
	if err := job.DecodeStrict(body, &h); err != nil {
		return fmt.Errorf("%s is no gateway: %w", at, err)
	}
	if resp.StatusCode != http.StatusOK || !h.Ready {
		return errors.New("the gateway is not ready: " + problems(h))
	}
	_, err = fmt.Fprintf(a.stdout, "gateway %s is ready\n", at)
	return err
}

func problems(h gateway.Health) string {
	var all []string
	for _, part := range []string{"nats", "postgres"} {
		if why := h.Problems[part]; why != "" {
			all = append(all, part+": "+job.Printable(why, 300))
		}
	}
	return strings.Join(all, "; ")
}

// where is the gateway's address, seen from the same host.
func (c *healthCmd) where() (*url.URL, error) {
	text := c.URL
	if text == "" {
		scheme := "http"
		if c.TlsCert != "" {
			scheme = "https"
		}
		host := c.ListenHttp
		for _, any := range []string{"0.0.0.0:", "[::]:", ":"} {
			if port, ok := strings.CutPrefix(host, any); ok {
				host = "127.0.0.1:" + port
				break
			}
		}
		text = scheme + "://" + host
	}
	at, err := url.Parse(text)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, usageError("--url: want http:// or https:// and a host")
	}
	return at, nil
}

// client takes any certificate, when the gateway was found by its own flags:
// it is asked by an address that is not in the certificate, on this host.
func (c *healthCmd) client() *http.Client {
	if c.URL != "" {
		return http.DefaultClient
	}
	own := http.DefaultTransport.(*http.Transport).Clone()
	own.Proxy = nil
	own.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	return &http.Client{Transport: own}
}
