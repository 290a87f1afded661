package queue

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

const (
	dialTimeout = 2 * time.Second
	dialEvery   = 500 * time.Millisecond
	// A dead connection is noticed after pingEvery × maxPings, which is well
	// within a lease.
	pingEvery     = 5 * time.Second
	maxPings      = 2
	reconnectWait = 200 * time.Millisecond
)

// Connect dials the NATS server at url, or one of those of a cluster whose urls
// have commas between, and keeps trying until ctx ends; its error then wraps
// ErrUnreachable, the context's cause and the last failure. Once connected, the
// connection reconnects for ever, and says in the log when it is lost and when
// it is back. The caller closes it.
//
// Where the address names a user, nats://user:password@host, the inboxes of the
// connection begin with _INBOX.<user>: permissions let each user read its own.
func Connect(ctx context.Context, url, name string, log zerolog.Logger) (*nats.Conn, error) {
	return ConnectVia(ctx, nil, url, name, log)
}

// ConnectVia is Connect to a server in this process, which url names in the
// log, without the network; over the network if local is nil.
func ConnectVia(ctx context.Context, local nats.InProcessConnProvider, url, name string, log zerolog.Logger) (*nats.Conn, error) {
	log = log.With().Str("nats", redact(url)).Logger()
	told := ""
	options := connectOptions(url, name, log)
	if local != nil {
		options = append(options, nats.InProcessServer(local))
	}
	for {
		nc, err := nats.Connect(url, options...)
		if err == nil {
			log.Debug().Msg("connected to nats")
			return nc, nil
		}
		if err.Error() != told {
			told = err.Error()
			log.Warn().Err(err).Msg("nats is not reachable, trying again")
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to %s: %w (%w): %w", redact(url), ErrUnreachable, err, context.Cause(ctx))
		case <-time.After(dialEvery):
		}
	}
}

func connectOptions(address, name string, log zerolog.Logger) []nats.Option {
	options := []nats.Option{
		nats.Name(name),
		nats.Timeout(dialTimeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, reconnectWait),
		// Without it two refused logins in a row close the connection for
		// good, also when the server was only being reconfigured.
		nats.IgnoreAuthErrorAbort(),
		nats.PingInterval(pingEvery),
		nats.MaxPingsOutstanding(maxPings),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if !nc.IsClosed() {
				log.Warn().Err(err).Msg("connection to nats lost")
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info().Msg("connection to nats is back") }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) { logAsync(log, sub, err) }),
	}
	if user := userOf(address); user != "" {
		options = append(options, nats.CustomInboxPrefix(InboxPrefix(user)))
	}
	return options
}

// userOf is the login in the first of the addresses, if it can begin an inbox.
func userOf(addresses string) string {
	first, _, _ := strings.Cut(addresses, ",")
	u, err := url.Parse(strings.TrimSpace(first))
	if err != nil || u.User == nil || !userPattern.MatchString(u.User.Username()) {
		return ""
	}
	return u.User.Username()
}

// logAsync reports what no caller is told of, such as a refused permission or
// messages dropped for a slow reader.
func logAsync(log zerolog.Logger, sub *nats.Subscription, err error) {
	event := log.Error().Err(err)
	if sub != nil {
		event = event.Str("subject", sub.Subject)
	}
	if errors.Is(err, nats.ErrSlowConsumer) && sub != nil {
		if dropped, dropErr := sub.Dropped(); dropErr == nil {
			event = event.Int("dropped", dropped)
		}
	}
	event.Msg("nats reported an error")
}

// redact hides the passwords in the addresses of one server, or of several
// with commas between.
func redact(addresses string) string {
	list := strings.Split(addresses, ",")
	for i, address := range list {
		u, err := url.Parse(strings.TrimSpace(address))
		if err != nil {
			return "(unreadable address)"
		}
		list[i] = u.Redacted()
	}
	return strings.Join(list, ",")
}
