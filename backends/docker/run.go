package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"airlock/backends"
	"airlock/backends/internal/guestproc"
	"airlock/job"
)

// guest is one guest that runs.
type guest struct {
	*ready
	backend *Backend
	facts   *facts
	image   *runner
	// network is the engine's network that the guest is in; "" is none.
	network string
	task    backends.Task
	uid     int
	id      string
	*carrier
	meter meter
	// probes has the guest's counters be seen to work before it is told
	// anything.
	probes bool
	// stopped is why we killed the guest, spent that it was for its processor
	// time.
	stopped error
	spent   bool
	greeting
}

// run runs the guest to its end and removes its container.
func (g *guest) run(ctx context.Context) (out backends.Outcome, err error) {
	if ctx.Err() != nil {
		return killed(), nil
	}
	leave, err := g.enter(ctx)
	if err != nil {
		return killed(), nil // ctx ended before it was our turn
	}
	defer leave()
	uid, giveBack, err := g.shared.ids.take()
	if err != nil {
		return backends.Outcome{}, fmt.Errorf("run guest: %w", err)
	}
	defer giveBack()
	g.uid = uid
	// What is begun is also cleaned up, so the requests outlive ctx.
	alone := context.WithoutCancel(ctx)
	name, forget := g.newName()
	request := g.newRequest(name)
	g.id, err = g.engine.create(alone, request)
	if err != nil {
		defer forget()
		// The engine may have made it although its answer was lost.
		err = fmt.Errorf("run guest in the image %s: %w", job.Printable(g.image.known[0], 100), err)
		return backends.Outcome{}, errors.Join(err, g.engine.remove(alone, name))
	}
	defer func() { err = errors.Join(err, g.clear(alone, forget)) }()
	streams, err := g.engine.attach(alone, g.id)
	if err != nil {
		return backends.Outcome{}, fmt.Errorf("run guest: %w", err)
	}
	g.carrier = carry(streams, g.task)
	defer g.stop()
	defer g.stopMeter()
	if err := g.launch(ctx); err != nil {
		if ctx.Err() != nil {
			return killed(), nil
		}
		return backends.Outcome{}, g.explain(err)
	}
	leave()
	out, err = g.attend(ctx)
	if err == nil {
		about := g.backend.isolated(g.facts, g.image, told{g.greeting, g.meter.by()}, g.network)
		out.Isolated = &about
	}
	return out, err
}

// try runs a guest with that code, which must end well.
func (g *guest) try(ctx context.Context, code string) error {
	return guestproc.ProbeCode(ctx, code, func(ctx context.Context, task backends.Task) (backends.Outcome, error) {
		g.task = task
		return g.run(ctx)
	})
}

// clear removes the container, at once unless the first process has reported
// that nothing of the guest runs any more. Then there is no hurry: what is left
// is one process that has hung up, or is about to.
func (g *guest) clear(ctx context.Context, forget func()) error {
	if g.carrier == nil || !g.reported() {
		defer forget()
		return g.engine.remove(ctx, g.id)
	}
	g.shared.clearer.later(func(ctx context.Context) {
		defer forget()
		// The sweeper comes for what cannot be removed now.
		if err := g.engine.remove(ctx, g.id); err != nil {
			g.config.Log.Warn().Err(err).Str("container", g.id).Msg("a container that is over cannot be removed")
		}
	})
	return nil
}

// reported reports whether the first process has said that the guest is over.
func (g *guest) reported() bool {
	select {
	case <-g.ended:
		return true
	default:
		return false
	}
}

// killed is the outcome of a guest that was not there long enough to end in
// another way.
func killed() backends.Outcome {
	return backends.Outcome{Cause: backends.Killed, Signal: "SIGKILL"}
}

// enter waits for the turn to start a container. leave may be called twice.
func (r *ready) enter(ctx context.Context) (leave func(), err error) {
	select {
	case r.shared.starts <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	left := false
	return func() {
		if !left {
			left = true
			<-r.shared.starts
		}
	}, nil
}

// launch starts the container and waits until its first process is ready.
func (g *guest) launch(ctx context.Context) error {
	alone := context.WithoutCancel(ctx)
	if err := g.engine.start(alone, g.id); err != nil {
		return err
	}
	timer := time.NewTimer(g.config.patience.start)
	defer timer.Stop()
	select {
	case <-g.carrier.ready:
		g.greeting = g.carrier.greeting
		if err := g.greeting.check(g.uid); err != nil {
			return err
		}
	case <-g.broken:
		return fmt.Errorf("the container ended at its start: %w", g.err)
	case <-timer.C:
		return errors.New("the container says nothing")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if limit := g.task.Limits.Processes + ownProcesses; limit < fewestProcesses {
		if err := g.engine.limitProcesses(alone, g.id, int64(limit)); err != nil {
			return err
		}
	}
	var err error
	if g.meter, err = g.newMeter(alone); err != nil || !g.probes {
		return err
	}
	return g.meter.works(ctx)
}

func (g *guest) stopMeter() {
	if g.meter != nil {
		g.meter.stop()
	}
}
