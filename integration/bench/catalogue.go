package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"airlock/broker/provider"
	"airlock/job"
	"airlock/queue"
)

// A catalogue of many tools: so many namespaces with so many tools each, since
// what one service announces is one message.
const (
	namespaces   = 50
	toolsInEach  = 100
	allTools     = namespaces * toolsInEach
	catalogueMax = time.Minute
)

// listing has a guest ask for its tools, and says how many it has and how many
// milliseconds that took.
func listing() job.Job {
	j := job.Job{Code: "from time import perf_counter as now\nbegan = now()\nall = await list_tools()\nreturn [len(all), (now() - began) * 1000]"}
	for i := range namespaces {
		j.Tools = append(j.Tools, job.Grant{Namespace: namespace(i), Name: job.AnyTool})
	}
	return j
}

func namespace(i int) string { return fmt.Sprintf("bench%d", i) }

// catalogue measures how long it takes to list five thousand tools, for who
// looks after them and for a guest.
func (b *bencher) catalogue(ctx context.Context, x backend) []func(*pool) error {
	asked := series{id: "tools/list", name: "submit tools of 5,000 tools", count: b.n(50)}
	listed := series{id: "tools/list-guest", name: x.name + ", list_tools of 5,000 tools in a guest", job: listing(), count: b.n(20), inFlight: 1}
	if !b.wants(asked.id) && !b.wants(listed.id) {
		return nil
	}
	return []func(*pool) error{func(p *pool) error {
		serving, stop := context.WithCancel(ctx)
		group, serving := errgroup.WithContext(serving)
		defer func() { stop(); _ = group.Wait() }() // it ends as it was told to
		nc, err := queue.Connect(ctx, p.url, "bench tools", zerolog.Nop())
		if err != nil {
			return err
		}
		defer nc.Close()
		for i := range namespaces {
			group.Go(func() error { return provider.Serve(serving, nc, manyTools(namespace(i))) })
		}
		f, err := p.askTools(ctx, asked)
		if err != nil {
			return err
		}
		b.report.add(f.row().within())
		return p.listTools(ctx, b, listed)
	}}
}

func manyTools(namespace string) provider.Namespace {
	n := provider.Namespace{Name: namespace}
	for i := range toolsInEach {
		n.Tools = append(n.Tools, provider.Func(fmt.Sprintf("tool%d", i), "Adds two numbers, one of many tools.",
			func(_ context.Context, in struct {
				A float64 `json:"a"`
				B float64 `json:"b"`
			}) (float64, error) {
				return in.A + in.B, nil
			}))
	}
	return n
}

// askTools asks as submit tools does, from when all tools are known.
func (p *pool) askTools(ctx context.Context, s series) (*figure, error) {
	var answer struct {
		Tools []struct {
			Namespace string `json:"namespace"`
		} `json:"tools"`
	}
	ask := func() error {
		answer.Tools = nil
		return p.queue.Ask(ctx, job.DefaultTenant, "tools", struct{}{}, &answer)
	}
	for until := time.Now().Add(catalogueMax); len(answer.Tools) < allTools; {
		if err := ask(); err != nil {
			return nil, err
		}
		if time.Now().After(until) {
			return nil, fmt.Errorf("%d tools are known, want %d", len(answer.Tools), allTools)
		}
	}
	f := newFigure(s)
	for range s.count {
		began := time.Now()
		if err := ask(); err != nil {
			return nil, err
		}
		f.add(time.Since(began), 0, 0)
	}
	return f, nil
}

// listTools has guests list all tools, one after the other.
func (p *pool) listTools(ctx context.Context, b *bencher, s series) error {
	all := newFigure(s)
	s.each = func(r *job.Result) error {
		var said [2]float64
		if err := json.Unmarshal(r.Value, &said); err != nil {
			return fmt.Errorf("read what the list took: %w", err)
		}
		if said[0] != allTools {
			return fmt.Errorf("a guest was told of %v tools, want %d", said[0], allTools)
		}
		all.add(time.Duration(said[1]*float64(time.Millisecond)), 0, 0)
		return nil
	}
	if _, err := p.run(ctx, s); err != nil {
		return err
	}
	b.report.add(all.row().within())
	return nil
}
