package doctor

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// natsTime bounds the question that a NATS server is asked.
const natsTime = 5 * time.Second

// natsPort is where a URL without a port points.
const natsPort = "4222"

// greeting is what a NATS server says to everybody who connects. It says more,
// which is of no interest.
type greeting struct {
	Version      string `json:"version"`
	Host         string `json:"host"`
	AuthRequired bool   `json:"auth_required"`
	TLSRequired  bool   `json:"tls_required"`
}

// natsServer asks the server at the first of the addresses.
func natsServer(ctx context.Context, h Host) []Finding {
	if h.NATS == "" {
		return unchecked("give --nats")
	}
	first, _, _ := strings.Cut(h.NATS, ",")
	if !strings.Contains(first, "://") {
		first = "nats://" + first
	}
	s, err := parseService("NATS", first)
	if err != nil {
		return unchecked(err.Error())
	}
	all := s.password()
	said, err := s.greet(ctx)
	if err != nil {
		return append(all, unchecked(show(err.Error()))...)
	}
	all = append(all, s.exposure(said.Host, !said.AuthRequired, said.TLSRequired || s.url.Scheme == "tls")...)
	return append(all, flawsOf("nats-server", said.Version, natsFlaws)...)
}

// greet connects and reads the server's first line.
func (s service) greet(ctx context.Context) (said greeting, err error) {
	ctx, cancel := context.WithTimeout(ctx, natsTime)
	defer cancel()
	port := s.url.Port()
	if port == "" {
		port = natsPort
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(s.url.Hostname(), port))
	if err != nil {
		return said, fmt.Errorf("NATS does not answer: %w", err)
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return said, fmt.Errorf("ask NATS: %w", err)
	}
	line, err := bufio.NewReader(io.LimitReader(conn, maxFile)).ReadBytes('\n')
	if err != nil {
		return said, errors.New("NATS says nothing before TLS, or is something else")
	}
	body, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("INFO "))
	if !ok {
		return said, errors.New("what answers is no NATS server")
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return said, errors.New("what answers greets as no NATS server does")
	}
	return said, nil
}
