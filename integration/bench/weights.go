package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"airlock/job"
)

// weight is what an idle Airlock, or one guest, holds of memory.
type weight struct {
	ID   string  `json:"id"`
	Name string  `json:"name"`
	MiB  float64 `json:"mib"`
	// Kind is RSS or PSS, where PSS shares out what several processes map, or
	// own: the pages that nobody else maps.
	Kind string `json:"kind"`
}

// guests is how many are weighed at once.
const guests = 4

// asleep keeps a guest active while it is weighed.
var asleep = job.Job{Code: "import time\ntime.sleep(6)"}

// memory weighs the idle parts, and guests that are parked and at work.
func (b *bencher) memory(ctx context.Context) error {
	for i, x := range b.backends {
		id := "memory/" + x.name
		if !b.wants(id) || b.quick && i > 0 {
			continue
		}
		if err := b.weigh(ctx, x, i == 0); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
	}
	return nil
}

// weigh compares a pool that keeps no guests with itself at work, and with one
// that has some parked.
func (b *bencher) weigh(ctx context.Context, x backend, idleToo bool) error {
	var empty, active memory
	var parked split
	var spare memory
	args := []string{"--backends", x.name, "--slots", strconv.Itoa(guests), "--parked"}
	err := b.measure(ctx, append(args, "0"), nil, func(p *pool) error {
		if _, err := p.run(ctx, series{name: "warm-up", job: plain, count: x.warm, inFlight: 1}); err != nil {
			return err
		}
		var err error
		if empty, err = settled(ctx, p, x, 0); err != nil {
			return err
		}
		if idleToo {
			b.weighIdle(p)
		}
		active, err = atWork(ctx, p, x, empty.processes+guests)
		return err
	})
	if err != nil {
		return err
	}
	err = b.measure(ctx, append(args, strconv.Itoa(guests)), nil, func(p *pool) (err error) {
		if spare, err = settled(ctx, p, x, empty.processes+guests); err != nil || x.ownProcess {
			return err
		}
		pids, err := sandboxes(ctx, p, x)
		if err == nil {
			parked, err = splitPages(pids)
		}
		return err
	})
	if err != nil {
		return err
	}
	add := func(what, name, kind string, mib float64) {
		b.report.Weights = append(b.report.Weights, weight{"memory/" + x.name + "/" + what, x.name + ", " + name, mib, kind})
	}
	add("base", "all that it keeps without guests", "PSS", empty.pss)
	if x.ownProcess {
		// Nothing but guests came since it was empty.
		n := float64(spare.processes - empty.processes)
		add("parked", "each spare guest, its process", "RSS", (spare.rss-empty.rss)/n)
		add("parked-pss", "each spare guest, its share of what is mapped by several", "PSS", (spare.pss-empty.pss)/n)
	} else {
		add("parked", "each parked guest, its own processes", "own", parked.guest)
	}
	if parked.slot > 0 {
		add("slot", "each slot with a parked guest, the slot's process", "own", parked.slot)
	}
	add("active", "each active guest (sleeping, print) with its slot", "PSS", (active.pss-empty.pss)/guests)
	return nil
}

func (b *bencher) weighIdle(p *pool) {
	if m, ok := held(p.pid()); ok {
		b.report.Weights = append(b.report.Weights, weight{"memory/worker", "worker, idle, without guests, NATS embedded", m.rss, "RSS"})
	}
	if m, ok := held(p.postgres()...); ok {
		b.report.Weights = append(b.report.Weights, weight{"memory/postgres", "Postgres, all its processes", m.pss, "PSS"})
	}
}

// looks and lookEvery bound how long guests are given to start.
const (
	looks     = 80
	lookEvery = 200 * time.Millisecond
	sameLooks = 5
)

// settled weighs the sandboxes once there are as many processes at least, and
// a second of looks found the same ones.
func settled(ctx context.Context, p *pool, x backend, least int) (memory, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var before []int
	same := 0
	for range looks {
		now, err := sandboxes(ctx, p, x)
		if err != nil {
			return memory{}, err
		}
		if same++; !slices.Equal(now, before) || len(now) < least {
			before, same = now, 0
		}
		if same >= sameLooks {
			return weighAll(now)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return memory{}, ctx.Err()
		}
	}
	return memory{}, fmt.Errorf("wait for %d processes of sandboxes to settle: there are %d after %s", least, len(before), looks*lookEvery)
}

func weighAll(pids []int) (memory, error) {
	m, ok := held(pids...)
	if !ok {
		return m, errors.New("read the memory of the sandboxes: run this as the user that they have, or as root")
	}
	m.processes = len(pids)
	return m, nil
}

// atWork weighs the sandboxes while all slots have a sleeping guest.
func atWork(ctx context.Context, p *pool, x backend, least int) (m memory, err error) {
	var group errgroup.Group
	group.Go(func() error {
		_, err := p.run(ctx, series{name: "sleeping guests", job: asleep, count: guests, inFlight: guests})
		return err
	})
	group.Go(func() (err error) {
		m, err = settled(ctx, p, x, least)
		return err
	})
	return m, group.Wait()
}

// sandboxes are the processes of the guests and of what keeps them.
func sandboxes(ctx context.Context, p *pool, x backend) (pids []int, err error) {
	all := processes()
	roots := []int{p.pid()}
	if strings.HasPrefix(x.name, "docker") {
		if roots, err = containers(ctx, p.pid()); err != nil {
			return nil, err
		}
	}
	for _, root := range roots {
		if root != p.pid() {
			pids = append(pids, root)
		}
		for _, q := range below(all, root) {
			if !isPostgres(q) {
				pids = append(pids, q.pid)
			}
		}
	}
	slices.Sort(pids)
	return pids, nil
}

// containers are the shims of a worker's containers, which the engine starts.
// The third part of a container's owner is the worker's pid.
func containers(ctx context.Context, worker int) (pids []int, err error) {
	out, err := exec.CommandContext(ctx, "docker", "ps", "--format", `{{.ID}} {{.Label "airlock.owner"}}`).Output()
	if err != nil {
		return nil, fmt.Errorf("list the containers: %w", err)
	}
	all := processes()
	for line := range strings.Lines(string(out)) {
		id, owner, _ := strings.Cut(strings.TrimSpace(line), " ")
		if parts := strings.Split(owner, "-"); len(parts) < 3 || parts[2] != strconv.Itoa(worker) {
			continue
		}
		out, err := exec.CommandContext(ctx, "docker", "inspect", "--format", "{{.State.Pid}}", id).Output()
		if err != nil {
			continue // it ended meanwhile
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
		if p, ok := all[pid]; err == nil && ok {
			pids = append(pids, p.parent)
		}
	}
	return pids, nil
}
