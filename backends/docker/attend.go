package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"airlock/backends"
	"airlock/backends/internal/cgroup"
	"airlock/backends/internal/guestproc"
	"airlock/job"
)

// attend sees a guest that is ready to its end.
func (g *guest) attend(ctx context.Context) (backends.Outcome, error) {
	g.converse(g.task.Stdin)
	t := guestproc.NewTalk(ctx, g.task, g.channel)
	err := g.watch(ctx, t.Served)
	err = errors.Join(err, g.finish(ctx))
	t.End(ctx)
	if err != nil {
		return backends.Outcome{}, g.explain(err)
	}
	return g.settle(context.WithoutCancel(ctx))
}

// watch waits until the guest ends or must be ended.
func (g *guest) watch(ctx context.Context, served <-chan error) error {
	counting, stop := context.WithCancel(ctx)
	cpu := make(chan error, 1)
	go func() { cpu <- g.meter.waitCPU(counting, g.task.Limits.CPU.Std()) }()
	counted := false
	defer func() {
		stop()
		if !counted {
			<-cpu
		}
	}()
	for {
		select {
		case <-g.ended:
			return nil
		case <-g.broken:
			return nil
		case <-ctx.Done():
			g.stopped = context.Cause(ctx)
			return nil
		case err := <-served:
			served = nil
			if err != nil && !g.gone() {
				g.stopped = err
				return nil
			}
		case err := <-cpu:
			counted = true
			return g.overspent(ctx, err)
		}
	}
}

// overspent notes the end of the watch of the guest's processor time, which is
// an error also when the container has just ended.
func (g *guest) overspent(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		g.stopped = context.Cause(ctx)
	case err == nil:
		g.spent = true
	case g.over(dying):
	default:
		return err
	}
	return nil
}

// dying is how long a guest may take from hanging up to being seen to be dead.
const dying = 200 * time.Millisecond

// gone reports whether Serve failed because the guest had ended, rather than
// because of what it said.
func (g *guest) gone() bool {
	select {
	case <-g.hungUp:
	case <-g.ended:
	case <-g.broken:
	default:
		return false
	}
	return g.over(dying)
}

// over waits for the end of the guest and reports whether it came.
func (g *guest) over(wait time.Duration) bool {
	// First without a timer, which could win against what has long happened.
	select {
	case <-g.ended:
		return true
	case <-g.broken:
		return true
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-g.ended:
	case <-g.broken:
	case <-timer.C:
		return false
	}
	return true
}

// finish kills what still runs and returns when nothing comes any more.
func (g *guest) finish(ctx context.Context) error {
	if g.over(0) {
		return nil
	}
	if err := g.send(killAll, nil); err == nil && g.over(g.config.patience.kill) {
		return nil
	}
	g.config.Log.Warn().Stringer("job", g.task.Job).Msg("a container had to be killed by the engine")
	if err := g.engine.remove(context.WithoutCancel(ctx), g.id); err != nil {
		return err
	}
	if !g.over(g.config.patience.kill) {
		return errors.New("the engine does not end the stream of a container it removed")
	}
	return nil
}

// settle reads the counters while there still is a container, and judges.
func (g *guest) settle(ctx context.Context) (backends.Outcome, error) {
	select {
	case <-g.ended:
		usage, err := g.meter.usage(g.ending)
		if err != nil {
			return backends.Outcome{}, g.explain(err)
		}
		if g.suspect() {
			_ = g.conn.Close() // all has arrived, and the first process ends by that
			killed, err := g.meter.killed(ctx)
			if err != nil {
				return backends.Outcome{}, g.explain(err)
			}
			if killed {
				usage.OOMKills = 1
			}
		}
		return g.judge(g.ending, usage), nil
	default:
	}
	// The first process is dead too: only the engine knows why.
	var usage cgroup.Usage
	if g.stopped == nil && !g.spent {
		if err := g.engine.ended(ctx, g.id); err != nil {
			return backends.Outcome{}, g.explain(err)
		}
		state, err := g.engine.state(ctx, g.id)
		switch {
		case err != nil:
			return backends.Outcome{}, g.explain(err)
		case state.OOMKilled:
			usage.OOMKills = 1
		default:
			// No guest can end it. An engine that stops does, or somebody with
			// a right to.
			return backends.Outcome{}, g.explain(fmt.Errorf("the container's first process ended with code %d: %w", state.ExitCode, g.err))
		}
	}
	return g.judge(ending{status: sigkill}, usage), nil
}

// suspect reports whether the kernel may have killed for memory although that
// was not counted. To find out costs the time that the container takes to end.
// A guest that had one process and survived was not killed.
func (g *guest) suspect() bool {
	killed := g.ending.status&0x7f == sigkill && g.stopped == nil && !g.spent
	return !g.meter.exact() && (killed || g.ending.many)
}

// explain adds what the runtime or the first process complained of. The guest
// cannot write there.
func (g *guest) explain(err error) error {
	select {
	case <-g.broken:
		if said := g.in.complaint.String(); said != "" {
			return fmt.Errorf("run guest: %w: %s", err, job.Printable(said, 300))
		}
	default:
	}
	return fmt.Errorf("run guest: %w", err)
}
