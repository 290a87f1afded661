package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"airlock/job"
	"airlock/job/jobfile"
)

// batchCmd runs the jobs of a file.
type batchCmd struct {
	Jobs        string       `arg:"" placeholder:"JOBS.jsonl" help:"File with one job a line, or - for standard input."`
	Results     string       `short:"o" placeholder:"FILE" help:"Append the results here. Results that are in it already are not written again."`
	Artifacts   string       `placeholder:"DIR" help:"Write the files that come back below DIR/JOB, over none that is there."`
	Batch       string       `placeholder:"NAME" help:"The batch's name; by default it is made from the path of the file."`
	Defaults    string       `placeholder:"FILE" help:"Job whose fields hold where a line has none."`
	InFlight    int          `placeholder:"N" default:"10000" help:"How many jobs may be submitted and not ended at once."`
	Park        bool         `help:"Queue jobs even if no live worker can run them now."`
	ReportEvery job.Duration `placeholder:"TIME" default:"5s" help:"How often progress is told where stderr is no terminal."`
}

// Help is the long text of submit batch --help.
func (*batchCmd) Help() string {
	return `A line is a job as submit run makes one: {"code": "print(1)", "limits": {"wall": "5s"}, …}. Blank lines are
skipped. A malformed line is reported by number, field and reason, and the others run.

One result a line is written as the jobs end, to -o or to stdout, in which "line" is the number of the job's line.
The summary by status comes at the end: on stdout with -o, else on stderr.

A line without a key gets one made of the batch, its content and how often that content stood before, so that a
second run of the same file re-runs nothing that has ended, resumes the rest, and brings all results. Ctrl-C stops
submitting; what was submitted goes on, and the same command resumes.

With --artifacts the files that a job collects are written before its result, below a folder of the job's id.

--defaults fills objects (limits, requires, env, labels) member by member, and takes all else as a whole.`
}

// Run implements the command.
func (c *batchCmd) Run(ctx context.Context, a *app) error {
	name, err := c.name()
	if err != nil {
		return err
	}
	if c.InFlight < 1 || c.ReportEvery <= 0 {
		return usageError("--in-flight and --report-every: want more than nothing")
	}
	defaults, err := c.defaults()
	if err != nil {
		return err
	}
	input, err := c.open(a)
	if err != nil {
		return usageError("open the jobs: %w", err)
	}
	defer input.Close()
	out, err := c.output(a)
	if err != nil {
		return err
	}
	dir, err := openArtifacts(c.Artifacts)
	if err != nil {
		return errors.Join(err, out.close())
	}
	defer dir.close()
	s, err := a.open(ctx)
	if err != nil {
		return errors.Join(err, out.close())
	}
	defer s.close()
	b := newBatch(s, a, out, jobfile.Parser{Tenant: a.flags.Tenant, Batch: name, Defaults: defaults})
	b.park, b.window, b.files = c.Park, make(chan struct{}, c.InFlight), dir
	b.tally.expect(countJobs(c.Jobs))
	a.talk.say("batch %s", name)
	stop := startProgress(a, c.ReportEvery.Std(), out.w, b.tally)
	err = b.run(ctx, input)
	stop()
	if n := int(b.unwritten.Load()); n > 0 {
		err = errors.Join(err, &unwrittenError{n})
	}
	return c.finish(ctx, a, b.tally.summary(name), errors.Join(err, out.close()))
}

// finish prints the summary and chooses the exit code.
func (c *batchCmd) finish(ctx context.Context, a *app, sum summary, err error) error {
	to := a.stderr
	if c.Results != "" {
		to = a.stdout
	}
	if to != a.stderr || !a.flags.Quiet {
		err = errors.Join(err, a.printSummary(to, sum))
	}
	if ctx.Err() != nil {
		resume := "the same command resumes"
		if c.Jobs == "-" {
			resume = "the same input with --batch " + sum.Batch + " resumes"
		}
		a.talk.fault("interrupted with %d results of %d lines read: %s, `submit cancel %s` gives up", sum.Done, sum.Lines, resume, sum.Batch)
		return exitWith(codeInterrupted)
	}
	if err != nil {
		return err
	}
	return exitWith(sum.code())
}

func (c *batchCmd) open(a *app) (io.ReadCloser, error) {
	if c.Jobs == "-" {
		return io.NopCloser(a.stdin), nil
	}
	return os.Open(c.Jobs)
}

func (c *batchCmd) defaults() ([]byte, error) {
	if c.Defaults == "" {
		return nil, nil
	}
	doc, err := readBounded(c.Defaults, job.MaxSpec)
	if err == nil {
		_, err = job.Decode(doc)
	}
	if err != nil {
		return nil, usageError("--defaults %s: %w", c.Defaults, err)
	}
	return doc, nil
}

// output opens where results go. Appending them to the file of the jobs would
// spoil it.
func (c *batchCmd) output(a *app) (*resultFile, error) {
	if c.Results == "" || c.Results == "-" {
		c.Results = ""
		return &resultFile{w: a.stdout.w}, nil
	}
	jobs, err := os.Stat(c.Jobs)
	if err == nil {
		if results, err := os.Stat(c.Results); err == nil && os.SameFile(jobs, results) {
			return nil, usageError("--results %s is the file of the jobs", c.Results)
		}
	}
	out, err := openResults(c.Results)
	if err != nil {
		return nil, usageError("--results %s: %w", c.Results, err)
	}
	if n := out.known(); n > 0 {
		a.talk.say("%s holds %d results already", c.Results, n)
	}
	return out, nil
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// name is the batch's: given, or made from the absolute path, so that the
// same file is the same batch whatever the directory it is named from.
func (c *batchCmd) name() (string, error) {
	if c.Batch != "" {
		if !job.ValidName(c.Batch) {
			return "", usageError("--batch: want 1 to 64 letters, digits, _ and -")
		}
		return c.Batch, nil
	}
	if c.Jobs == "-" {
		return time.Now().UTC().Format("stdin-20060102-150405-") + job.NewID().String()[28:], nil
	}
	path, err := filepath.Abs(c.Jobs)
	if err != nil {
		return "", fmt.Errorf("find the absolute path: %w", err)
	}
	return nameOf(path), nil
}

func nameOf(path string) string {
	base := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	base = strings.Trim(notInName.ReplaceAllString(base, "-"), "-_")
	sum := sha256.Sum256([]byte(path))
	return strings.TrimLeft(base[:min(len(base), 48)]+"-"+hex.EncodeToString(sum[:4]), "-")
}
