package gateway

import (
	"context"
	"net/http"
	"time"

	"airlock/job"
	"airlock/queue"
)

// Workers are the live ones.
type Workers struct {
	Workers []queue.Presence `json:"workers"`
}

// Lanes are those of the queue.
type Lanes struct {
	Lanes []queue.Lane `json:"lanes"`
}

func (g *Gateway) getWorkers(w http.ResponseWriter, r *request) error {
	workers, err := g.cfg.Queue.Workers(r.Context())
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, Workers{workers})
}

func (g *Gateway) getLanes(w http.ResponseWriter, r *request) error {
	lanes, err := g.cfg.Queue.Lanes(r.Context())
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, Lanes{lanes})
}

func (g *Gateway) getDead(w http.ResponseWriter, r *request) error {
	limit, err := queryLimit(r, 100)
	if err != nil {
		return err
	}
	dead, err := g.cfg.Store.Dead(r.Context(), r.who.tenant, limit)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, Records{dead})
}

// Health says whether the gateway can do its work.
type Health struct {
	Ready bool `json:"ready"`
	// Problems are what stands in its way, by part.
	Problems map[string]string `json:"problems,omitempty"`
}

// readyTime bounds a look at one part.
const readyTime = 2 * time.Second

func (g *Gateway) healthz(w http.ResponseWriter, _ *request) error {
	return answer(w, http.StatusOK, Health{Ready: true})
}

// readyz asks NATS and Postgres.
func (g *Gateway) readyz(w http.ResponseWriter, r *request) error {
	h := Health{Problems: map[string]string{}}
	for part, look := range map[string]func(context.Context) error{
		"nats":     g.cfg.Queue.Ping,
		"postgres": g.cfg.Store.Ping,
	} {
		ctx, cancel := context.WithTimeout(r.Context(), readyTime)
		if err := look(ctx); err != nil {
			h.Problems[part] = job.Printable(problemOf(err).Detail, 300)
		}
		cancel()
	}
	if h.Ready = len(h.Problems) == 0; !h.Ready {
		return answer(w, http.StatusServiceUnavailable, h)
	}
	return answer(w, http.StatusOK, h)
}
