package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"airlock/job"
)

// healthCmd is for health checks of the container or unit that the gateway runs
// in, which may hold nothing else that speaks HTTP.
type healthCmd struct {
	ListenHttp string `help:"The address that the gateway was given." default:"127.0.0.1:8080" placeholder:"HOST:PORT"`
	TlsCert    string `help:"As the gateway was given it: it is asked over HTTPS." placeholder:"FILE"`
}

// healthTime bounds the answer.
const healthTime = 10 * time.Second

// Run implements the command.
func (c *healthCmd) Run(ctx context.Context, a *app) error {
	host, port, err := net.SplitHostPort(c.ListenHttp)
	if err != nil {
		return usageError("--listen-http: want a host and a port")
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	scheme := "http"
	if c.TlsCert != "" {
		scheme = "https"
	}
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return usageError("--listen-http: want a host and a port")
	}
	// The certificate is for other names than this one, and nothing that is
	// secret is sent.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("no gateway answers: %w", err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the gateway is not ready: %s", job.Printable(string(said), 1000))
	}
	_, err = fmt.Fprintln(a.stdout, "the gateway is ready")
	return err
}
