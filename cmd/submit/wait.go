package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"sync"
	"time"

	"airlock/job"
	"airlock/queue"
)

// waitCmd waits for a batch.
type waitCmd struct {
	Batch       string       `arg:"" help:"The batch's name."`
	Results     string       `short:"o" placeholder:"FILE" help:"Write the results here in the end, one a line; - is stdout."`
	Artifacts   string       `placeholder:"DIR" help:"Write the files that came back below DIR/JOB in the end, over none that is there."`
	ReportEvery job.Duration `placeholder:"TIME" default:"5s" help:"How often progress is told where stderr is no terminal."`
}

// Help is the long text of submit wait --help.
func (*waitCmd) Help() string {
	return `It counts the jobs that have been submitted so far; a submit batch that still goes on may add more.
The exit code is 0 if every job is ok.`
}

// Run implements the command.
func (c *waitCmd) Run(ctx context.Context, a *app) error {
	if !job.ValidName(c.Batch) {
		return usageError("%q is no batch's name", c.Batch)
	}
	if c.ReportEvery <= 0 {
		return usageError("--report-every: want more than nothing")
	}
	dir, err := openArtifacts(c.Artifacts)
	if err != nil {
		return err
	}
	defer dir.close()
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	w := &waiting{started: time.Now()}
	stop := startProgress(a, c.ReportEvery.Std(), a.stdout.w, w)
	sum, err := s.waitFor(ctx, c.Batch, w)
	stop()
	if err != nil {
		return err
	}
	unwritten, err := c.write(ctx, a, s, dir)
	if err != nil {
		return err
	}
	to := a.stdout
	if c.Results == "-" {
		to = a.stderr
	}
	if err := a.printBatch(to, sum); err != nil {
		return err
	}
	if unwritten > 0 {
		return &unwrittenError{unwritten}
	}
	if sum.Statuses[job.StatusOK] < sum.Total {
		return exitWith(codeFailed)
	}
	return nil
}

// waitFor asks until all jobs have ended. A batch of this moment may not be in
// the database yet, so that "not found" counts only when it stays so.
func (s *session) waitFor(ctx context.Context, batch string, w *waiting) (job.Summary, error) {
	between := 100 * time.Millisecond
	for {
		var sum job.Summary
		err := s.ask(ctx, "batch", batchRequest{batch}, &sum)
		var remote *queue.RemoteError
		lost := err != nil && !errors.As(err, &remote)
		switch {
		case err == nil:
			sum.Batch = batch
			w.set(sum)
			if sum.Total > 0 && sum.States[job.StateFinished]+sum.States[job.StateDead] == sum.Total {
				return sum, nil
			}
		case lost || remote.Code == queue.CodeUnavailable:
			s.talk.seldom("wait", "waiting: %v", err)
		case remote.Code != remoteNotFound || time.Since(w.started) > settle:
			return sum, err
		}
		if !pause(ctx, between) {
			return sum, ctx.Err()
		}
		between = min(between*3/2, 2*time.Second)
	}
}

// write writes what the batch gave, and counts the files that it could not
// write.
func (c *waitCmd) write(ctx context.Context, a *app, s *session, dir *artifactDir) (unwritten int, err error) {
	if c.Results == "" && dir == nil {
		return 0, nil
	}
	to, err := c.output(a)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, to.close()) }()
	request := resultsRequest{Batch: c.Batch, Limit: 200}
	for {
		page, err := s.resultsPage(ctx, &request)
		if err != nil || len(page) == 0 {
			return unwritten, err
		}
		for i := range page {
			if err := to.document(&page[i]); err != nil {
				return unwritten, err
			}
			err := s.bring(ctx, dir, &page[i], page[i].Job.String())
			if unwritten, err = addUnwritten(unwritten, err); err != nil {
				return unwritten, err
			}
		}
	}
}

// waitOutput is where results go: a file, stdout, or nowhere.
type waitOutput struct {
	output
	file *os.File
}

func (c *waitCmd) output(a *app) (waitOutput, error) {
	switch c.Results {
	case "":
		return waitOutput{output: output{w: io.Discard}}, nil
	case "-":
		return waitOutput{output: a.stdout}, nil
	}
	file, err := os.Create(c.Results)
	return waitOutput{output{w: file}, file}, err
}

func (o waitOutput) close() error {
	if o.file == nil {
		return nil
	}
	return o.file.Close()
}

// resultsPage gets the next results and moves the request on. Large ones come
// in smaller pages.
func (s *session) resultsPage(ctx context.Context, request *resultsRequest) ([]job.Result, error) {
	var page struct {
		Results []job.Result `json:"results"`
	}
	err := s.ask(ctx, "results", request, &page)
	var remote *queue.RemoteError
	if errors.As(err, &remote) && remote.Code == queue.CodeTooLarge && request.Limit > 1 {
		request.Limit /= 2
		return s.resultsPage(ctx, request)
	}
	if n := len(page.Results); n > 0 {
		request.After = page.Results[n-1].Job
	}
	return page.Results, err
}

type resultsRequest struct {
	Batch string `json:"batch"`
	After job.ID `json:"after,omitzero"`
	Limit int    `json:"limit"`
}

// waiting is the progress of a batch as the workers report it.
type waiting struct {
	mu      sync.Mutex // guards sum and first
	sum     job.Summary
	first   int
	started time.Time
}

func (w *waiting) set(sum job.Summary) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sum.Total == 0 {
		w.first = sum.States[job.StateFinished] + sum.States[job.StateDead]
	}
	w.sum = sum
}

// snapshot implements progressing.
func (w *waiting) snapshot() snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	done := w.sum.States[job.StateFinished] + w.sum.States[job.StateDead]
	return snapshot{
		done: done, total: w.sum.Total, fresh: done - w.first,
		statuses: maps.Clone(w.sum.Statuses), elapsed: time.Since(w.started),
	}
}

func (a *app) printBatch(to output, sum job.Summary) error {
	if a.flags.JSON {
		return to.document(sum)
	}
	g := newGrid()
	for _, status := range job.Statuses() {
		addCount(g, string(status), sum.Statuses[status])
	}
	g.add("jobs", sum.Total)
	return to.text(g.Render() + fmt.Sprintf("\nbatch %s\n", sum.Batch))
}
