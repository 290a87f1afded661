package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jedib0t/go-pretty/v6/table"
	"golang.org/x/sync/errgroup"

	"airlock/job"
	"airlock/queue"
)

const (
	// perRequest is how many jobs one request of the load holds.
	perRequest = 100
	// requests and fewerRequests are those whose memory is compared.
	requests      = 2000
	fewerRequests = 200
	// httpClients send the requests of the load.
	httpClients = 8
)

// web is a gateway in a process of its own.
type web struct {
	*worker
	url    string
	client *http.Client
}

// startWeb starts a gateway beside the pool.
func (b *bencher) startWeb(ctx context.Context, p *pool) (*web, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(b.bin, "gateway"), "--listen-http", "127.0.0.1:0", "--tenant-rate", "100000", "--log-level", "error")
	w, said, err := startProcess(cmd, p.env)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	_, url, _ := strings.Cut(said, "http ")
	url, _, _ = strings.Cut(strings.TrimSpace(url), "\n")
	return &web{w, url, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: httpClients * 2}}}, nil
}

// post sends a document and decodes the answer.
func (w *web) post(ctx context.Context, path string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("POST %s: %d %s", path, resp.StatusCode, job.Printable(string(answer), 500))
	}
	return json.Unmarshal(answer, into)
}

// http measures the gateway: what it adds to a submission, code that is run for
// an answer, and whether it keeps anything of many jobs.
func (b *bencher) http(ctx context.Context) error {
	err := errors.Join(b.httpOwn(ctx), b.httpExecute(ctx), b.httpStreams(ctx))
	for _, n := range []int{fewerRequests, requests} {
		id := httpLoad(n)
		if !b.wants(id) || n == requests && b.quick {
			continue
		}
		err = errors.Join(err, b.withWeb(ctx, []string{"--backends", "fake", "--tenant-quota", "10000000"}, func(p *pool, w *web) error {
			l, err := b.postMany(ctx, w, b.n(n))
			l.ID, l.NATS = id, peak(p.pid())
			b.report.Loads = append(b.report.Loads, l)
			return err
		}))
	}
	return err
}

// httpLoad is the ID of a load of so many requests, at scale 1.
func httpLoad(requests int) string { return fmt.Sprintf("http/%d", requests*perRequest) }

// withWeb does something with a pool and a gateway beside it.
func (b *bencher) withWeb(ctx context.Context, args []string, do func(*pool, *web) error) error {
	p, err := startPool(ctx, b.bin, args...)
	if err != nil {
		return err
	}
	defer p.stop()
	w, err := b.startWeb(ctx, p)
	if err != nil {
		return err
	}
	defer w.stop()
	defer w.client.CloseIdleConnections()
	return do(p, w)
}

// httpOwn submits over NATS and over HTTP by turns. The difference of each pair
// is what the gateway costs. The jobs wait, so that none runs meanwhile.
func (b *bencher) httpOwn(ctx context.Context) error {
	direct := series{id: "http/submit/direct", name: "submission alone, over NATS"}
	over := series{id: "http/submit/gateway", name: "submission alone, POST /v1/jobs"}
	own := series{id: "http/own", name: "what the gateway adds to a submission"}
	if !b.takes(own) {
		return nil
	}
	return b.withWeb(ctx, []string{"--backends", "fake"}, func(p *pool, w *web) error {
		var figures [3]*figure
		for i, s := range []series{direct, over, own} {
			figures[i] = newFigure(s)
		}
		warm, count := 100, b.n(2000)
		for i := range warm + count {
			if i == warm {
				for _, f := range figures {
					f.began = time.Now()
				}
			}
			a, c, err := submitBoth(ctx, p, w)
			if err != nil {
				return err
			}
			if i >= warm {
				for k, took := range []time.Duration{a, c, c - a} {
					figures[k].add(took, 0, 0)
				}
			}
		}
		for _, f := range figures {
			b.report.add(f.row().within())
		}
		return nil
	})
}

// submitBoth submits a job over NATS, and one like it over HTTP.
func submitBoth(ctx context.Context, p *pool, w *web) (direct, over time.Duration, err error) {
	one := waiting
	if err := one.Prepare(time.Now()); err != nil {
		return 0, 0, err
	}
	body, err := json.Marshal(waiting)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if _, err = p.queue.Submit(ctx, &one, queue.SubmitOptions{Park: true}); err != nil {
		return 0, 0, err
	}
	direct = time.Since(began)
	began = time.Now()
	var receipt struct {
		ID job.ID `json:"id"`
	}
	err = w.post(ctx, "/v1/jobs?park=true", body, &receipt)
	over = time.Since(began)
	if err == nil && receipt.ID.IsZero() {
		err = errors.New("POST /v1/jobs: the answer names no job")
	}
	return direct, over, err
}

// httpExecute has code run by POST /execute, in guests of the fastest backend.
func (b *bencher) httpExecute(ctx context.Context) error {
	if len(b.backends) == 0 {
		return nil
	}
	x := b.backends[0]
	idle := series{id: "http/execute/idle", name: "POST /execute, " + x.name + ", print, one after the other", inFlight: 1, lasting: b.long(5 * time.Second)}
	busy := series{id: "http/execute/2slots", name: "POST /execute, " + x.name + ", print, 2 slots, 16 in flight", inFlight: 16, lasting: b.long(x.lasting)}
	if !b.takes(idle) && !b.takes(busy) {
		return nil
	}
	return b.withWeb(ctx, []string{"--backends", x.name, "--slots", "2"}, func(p *pool, w *web) error {
		if _, err := p.executeAll(ctx, w, series{count: x.warm, inFlight: 1}); err != nil {
			return err
		}
		for _, s := range []series{idle, busy} {
			if !b.takes(s) {
				continue
			}
			f, err := p.executeAll(ctx, w, s)
			if err != nil {
				return err
			}
			b.report.add(f.row())
		}
		return nil
	})
}

func (p *pool) executeAll(ctx context.Context, w *web, s series) (*figure, error) {
	before := spentBy(p.pid())
	f := newFigure(s)
	var issued atomic.Int64
	more := func() bool {
		if s.lasting > 0 {
			return time.Since(f.began) < s.lasting
		}
		return issued.Add(1) <= int64(s.count)
	}
	group, ctx := errgroup.WithContext(ctx)
	for range s.inFlight {
		group.Go(func() error {
			for more() {
				began := time.Now()
				var got struct {
					Status string `json:"status"`
					Stdout string `json:"stdout"`
				}
				if err := w.post(ctx, "/execute", []byte(`{"code": "print(1)"}`), &got); err != nil {
					return err
				}
				if got.Status != "success" || got.Stdout != "1\n" {
					return fmt.Errorf("POST /execute: got %+v, want 1 printed", got)
				}
				f.add(time.Since(began), 0, 0)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	f.spent = spentBy(p.pid()).since(before)
	return f, nil
}

// postMany sends so many requests of a hundred jobs each, which wait.
func (b *bencher) postMany(ctx context.Context, w *web, count int) (load, error) {
	l := load{Jobs: count * perRequest}
	one, err := json.Marshal(waiting)
	if err != nil {
		return l, err
	}
	body := []byte("[" + strings.Repeat(string(one)+",", perRequest-1) + string(one) + "]")
	var issued, taken atomic.Int64
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for range httpClients {
		group.Go(func() error {
			for issued.Add(1) <= int64(count) {
				var got struct {
					Jobs []struct {
						Problem map[string]any `json:"problem"`
					} `json:"jobs"`
				}
				if err := w.post(ctx, "/v1/jobs?park=true", body, &got); err != nil {
					return err
				}
				for _, receipt := range got.Jobs {
					if receipt.Problem != nil {
						return fmt.Errorf("a job was not taken: %v", receipt.Problem)
					}
					taken.Add(1)
				}
			}
			return nil
		})
	}
	err = group.Wait()
	l.Lost = l.Jobs - int(taken.Load())
	l.SubmitRate, l.Rate, l.Gateway = perSecond(l.Jobs, time.Since(began)), perSecond(l.Jobs, time.Since(began)), peak(w.pid())
	return l, err
}

func (r *report) httpTable() section {
	s := section{
		title: "How the gateway's cost grows with jobs", note: fmt.Sprintf("POST /v1/jobs of %d jobs each by %d clients; the jobs wait. The most memory that each held, the gateway alone in its process.", perRequest, httpClients),
		head: table.Row{"jobs", "lost", "submitted/s", "gateway MiB", "NATS MiB"},
	}
	for _, l := range r.loads("http") {
		s.rows = append(s.rows, table.Row{l.Jobs, l.Lost, number(l.SubmitRate), number(l.Gateway), number(l.NATS)})
	}
	return s
}

// flatGateway judges whether ten times the jobs take the gateway the same
// memory.
func (r *report) flatGateway() verdict {
	v := verdict{What: "2,000 POST /v1/jobs of 100: nothing lost, memory of the gateway flat", Measured: "not measured here"}
	v.Goal = fmt.Sprintf("≤ %.1f times that of %d", flatTolerance, fewerRequests)
	all := map[string]load{}
	for _, l := range r.loads("http") {
		all[l.ID] = l
	}
	small, large := all[httpLoad(fewerRequests)], all[httpLoad(requests)]
	if small.Gateway == 0 || large.Gateway == 0 {
		return v
	}
	times := large.Gateway / small.Gateway
	v.Measured = fmt.Sprintf("%d lost, %s times", small.Lost+large.Lost, short(times))
	v.Met = yes(small.Lost+large.Lost == 0 && times <= flatTolerance)
	return v
}
