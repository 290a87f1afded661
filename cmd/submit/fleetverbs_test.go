package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"airlock/job"
	"airlock/queue"
)

func notFound(what string) error { return &queue.RemoteError{Code: remoteNotFound, Message: what} }

func (f *fleet) verbs() map[string]queue.Answer {
	return map[string]queue.Answer{
		"status":   f.aboutJob(func(id job.ID) (any, error) { return found(f.records, id) }),
		"result":   f.aboutJob(func(id job.ID) (any, error) { return found(f.results, id) }),
		"requeue":  f.aboutJob(f.requeue),
		"artifact": f.artifact,
		"calls":    f.aboutJob(f.calls),
		"batch":    f.batch,
		"results":  f.batchResults,
		"history":  f.history,
		"dead":     f.dead,
		"cancel":   f.cancel,

		"tools": f.tools, "approvals": f.approvals,
	}
}

func found[T any](m map[job.ID]*T, id job.ID) (any, error) {
	if v := m[id]; v != nil {
		return *v, nil
	}
	return nil, notFound("no such job")
}

func (f *fleet) aboutJob(answer func(job.ID) (any, error)) queue.Answer {
	return func(_ context.Context, _ string, request []byte) (any, error) {
		var req idRequest
		if err := job.DecodeStrict(request, &req); err != nil {
			return nil, err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		return answer(req.ID)
	}
}

func (f *fleet) requeue(id job.ID) (any, error) {
	record := f.records[id]
	if record == nil {
		return nil, notFound("no such job")
	}
	if record.State != job.StateDead {
		return nil, &queue.RemoteError{Code: remoteConflict, Message: "the job is " + string(record.State) + ", not dead"}
	}
	return map[string]int{"generation": record.Generation + 1}, nil
}

func (f *fleet) calls(id job.ID) (any, error) {
	if f.records[id] == nil {
		return nil, notFound("no such job")
	}
	started := time.Now()
	return map[string][]job.Call{"calls": {
		{Job: id, Attempt: 1, Seq: 1, Namespace: "math", Name: "add", Arguments: jsontext.Value(`{"a":1,"b":2}`), State: job.CallOK,
			Answer: jsontext.Value(`{"sum":3}`), Started: started, Ended: started.Add(time.Millisecond)},
		{Job: id, Attempt: 1, Seq: 2, Namespace: "math", Name: "evil\x1b[31m", State: job.CallRefused, Code: "not_granted", Message: "no grant", Started: started},
	}}, nil
}

func (f *fleet) sorted() []*job.Record {
	all := make([]*job.Record, 0, len(f.records))
	for _, r := range f.records {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *job.Record) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	return all
}

func (f *fleet) batch(_ context.Context, tenant string, request []byte) (any, error) {
	var req batchRequest
	if err := job.DecodeStrict(request, &req); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := job.Summary{Batch: req.Batch, States: map[job.State]int{}, Statuses: map[job.Status]int{}}
	for _, r := range f.records {
		if r.Batch == req.Batch && r.Tenant == tenant {
			sum.Total++
			sum.States[r.State]++
			if r.State.Ended() {
				sum.Statuses[r.Status]++
			}
		}
	}
	if sum.Total == 0 {
		return nil, notFound("no such batch")
	}
	return sum, nil
}

func (f *fleet) batchResults(_ context.Context, tenant string, request []byte) (any, error) {
	var req resultsRequest
	if err := job.DecodeStrict(request, &req); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	page := []*job.Result{}
	for _, r := range f.sorted() {
		if r.Batch == req.Batch && r.Tenant == tenant && r.ID.String() > req.After.String() && f.results[r.ID] != nil && len(page) < req.Limit {
			page = append(page, f.results[r.ID])
		}
	}
	return map[string]any{"results": page}, nil
}

func (f *fleet) history(_ context.Context, tenant string, request []byte) (any, error) {
	var filter job.Filter
	if err := job.DecodeStrict(request, &filter); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	page := []*job.Record{}
	for _, r := range slices.Backward(f.sorted()) {
		switch {
		case r.Tenant != tenant, filter.Batch != "" && r.Batch != filter.Batch, filter.Status != "" && r.Status != filter.Status:
		case r.Submitted.Before(filter.Since), !filter.Before.IsZero() && r.ID.String() >= filter.Before.String():
		case len(page) < filter.Limit:
			page = append(page, r)
		}
	}
	return map[string]any{"jobs": page}, nil
}

func (f *fleet) dead(_ context.Context, tenant string, request []byte) (any, error) {
	var req struct {
		Limit int `json:"limit"`
	}
	if err := job.DecodeStrict(request, &req); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	page := []*job.Record{}
	for _, r := range f.sorted() {
		if r.State == job.StateDead && r.Tenant == tenant && len(page) < req.Limit {
			page = append(page, r)
		}
	}
	return map[string]any{"jobs": page}, nil
}

func (f *fleet) cancel(_ context.Context, tenant string, request []byte) (any, error) {
	var req struct {
		ID    job.ID `json:"id,omitzero"`
		Batch string `json:"batch,omitzero"`
	}
	if err := job.DecodeStrict(request, &req); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var met job.Cancelled
	for id, r := range f.records {
		if r.Tenant != tenant || (id != req.ID && (req.Batch == "" || r.Batch != req.Batch)) {
			continue
		}
		if r.State.Ended() {
			met.Already++
			continue
		}
		met.Running++
		f.stop(id)
	}
	if met == (job.Cancelled{}) {
		return nil, notFound("nothing to cancel")
	}
	return met, nil
}
