package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// awaitHealth returns when the instance may serve, or ctx has ended.
func (r *Responder) awaitHealth(ctx context.Context, nc *nats.Conn) error {
	for told := false; ; told = true {
		err := r.health(ctx)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if !told {
			r.namespace.Log.Warn().Err(err).Str("namespace", r.namespace.Name).Msg("provider not healthy")
		}
		select {
		case <-ctx.Done():
		case <-time.After(r.namespace.HealthEvery):
		}
		if nc.IsClosed() {
			return nats.ErrConnectionClosed
		}
	}
}

// watchHealth asks until health fails, and closes ill then. forget ends it.
func (r *Responder) watchHealth(ctx context.Context) (ill <-chan struct{}, forget func()) {
	failing, done := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(done)
		if r.namespace.Health == nil {
			return
		}
		tick := time.NewTicker(r.namespace.HealthEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if r.health(ctx) != nil && ctx.Err() == nil {
				close(failing)
				return
			}
		}
	}()
	return failing, func() { cancel(); <-done }
}

func (r *Responder) health(ctx context.Context) (err error) {
	if r.namespace.Health == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, r.namespace.HealthEvery)
	defer cancel()
	return r.namespace.Health(ctx)
}

// Ping reports whether a healthy provider serves the namespace, in whatever
// language: it is a check of health for a provider that runs elsewhere.
func Ping(ctx context.Context, nc *nats.Conn, namespace string) error {
	subject, err := micro.ControlSubject(micro.PingVerb, namespace, "")
	if err != nil {
		return fmt.Errorf("name the service: %w", err)
	}
	if _, err := nc.RequestWithContext(ctx, subject, nil); err != nil {
		return fmt.Errorf("ask for a provider of %s: %w", namespace, err)
	}
	return nil
}
