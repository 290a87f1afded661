package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"airlock/job"
)

// jobFlags are the parts of a job that the command line can give.
type jobFlags struct {
	inputFlags    `group:"Inputs"`
	grantFlags    `group:"Tools"`
	limitFlags    `group:"Limits (zero means the default)"`
	requireFlags  `group:"Where it may run"`
	scheduleFlags `group:"When and for whom"`
}

type inputFlags struct {
	Vars    string   `placeholder:"JSON|@FILE" help:"Object whose members are globals before the code runs."`
	Stdin   string   `placeholder:"FILE|-" help:"What the guest reads from its standard input; without it that is empty."`
	Env     []string `sep:"none" placeholder:"NAME=VALUE" help:"Environment variable of the guest; may be given again."`
	File    []string `sep:"none" placeholder:"PATH[=NAME]" help:"File to put under /workspace, as NAME or its own base name; may be given again."`
	Collect []string `sep:"none" placeholder:"GLOB" help:"Files below /workspace to bring back when the code has ended, such as out/**; may be given again."`
}

type grantFlags struct {
	Tools     []string `placeholder:"NS.NAME" help:"Tools the code may call, with commas; NS.* allows a whole namespace. Without it there are none."`
	Namespace string   `placeholder:"NS" help:"Pin every call to one namespace."`
}

type limitFlags struct {
	Wall      job.Duration `placeholder:"TIME" help:"Guest's own time; it pauses while a tool call is open. Default 30s."`
	CPU       job.Duration `name:"cpu" placeholder:"TIME" help:"Processor time. Default 15s."`
	Memory    job.Size     `placeholder:"SIZE" help:"Memory of all its processes. Default 256MiB."`
	Output    job.Size     `placeholder:"SIZE" help:"How much of each of stdout and stderr is kept. Default 64KiB."`
	Processes int          `placeholder:"N" help:"Processes and threads at once. Default 64."`
	Disk      job.Size     `placeholder:"SIZE" help:"What each writable file system holds. Default 64MiB."`
	ToolCalls int          `placeholder:"N" help:"Tool calls. Default 100."`
	ToolTime  job.Duration `placeholder:"TIME" help:"Sum of the time in tool calls. Default 60s."`
	Result    job.Size     `placeholder:"SIZE" help:"Size of the value. Default 1MiB."`
}

type requireFlags struct {
	Backend      []string      `placeholder:"NAME" help:"Acceptable backends, with commas; any without it."`
	Isolation    job.Isolation `placeholder:"LEVEL" help:"Least acceptable wall: none, partial, strong (the default) or vm."`
	OS           string        `name:"os" placeholder:"NAME" help:"Operating system of the host, such as linux."`
	Arch         string        `placeholder:"NAME" help:"Processor of the host, such as amd64."`
	Image        string        `placeholder:"NAME" help:"Image of the guest, by a worker's name for it or by digest; see 'submit workers'."`
	Network      bool          `help:"Give the guest a network, where a worker's operator allows it."`
	Fresh        bool          `help:"Start an interpreter for the job, rather than fork it from a warm one."`
	RequireLabel []string      `sep:"none" placeholder:"NAME=VALUE" help:"Label that the host must have, such as template.data=true for the template data; may be given again."`
}

type scheduleFlags struct {
	Priority    job.Priority `placeholder:"LEVEL" help:"high, normal (the default) or low."`
	Key         string       `placeholder:"TEXT" help:"Idempotency key: a second job with this key and the same content is the same job, and gives its result."`
	Batch       string       `placeholder:"NAME" help:"Set the job belongs to."`
	Label       []string     `sep:"none" placeholder:"NAME=VALUE" help:"Label for the history; may be given again."`
	NotBefore   moment       `placeholder:"TIME" help:"Earliest start: RFC 3339, or a span from now such as 10m."`
	Deadline    moment       `placeholder:"TIME" help:"Give up after: RFC 3339, or a span from now such as 2h."`
	MaxAttempts int          `placeholder:"N" help:"Tries when the failure is Airlock's, or one that --retry-on names. Default 3."`
	RetryOn     []job.Status `placeholder:"STATUS" help:"Failures of the code itself to try again after, with commas, such as timeout,guest_error. Without it they are the result."`
	OnRetry     job.OnRetry  `placeholder:"HOW" help:"What a later try does about tool calls of earlier ones: replay (the default) is given their recorded answers, recall makes them again."`
}

// moment is a time in the future as the command line gives it.
type moment struct{ time.Time }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *moment) UnmarshalText(text []byte) error {
	if at, err := time.Parse(time.RFC3339, string(text)); err == nil {
		m.Time = at
		return nil
	}
	span, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is neither a time such as 2030-01-31T12:00:00Z nor a span such as 10m", text)
	}
	m.Time = time.Now().Add(span).Truncate(time.Millisecond)
	return nil
}

// job is the job that the flags describe, checked and complete.
func (f *jobFlags) job(a *app, code string) (*job.Job, error) {
	j := &job.Job{
		Tenant: a.flags.Tenant, Code: code, Args: a.guestArgs,
		Namespace: f.Namespace, Limits: job.Limits(f.limitFlags),
		Key: f.Key, Batch: f.Batch, Priority: f.Priority, MaxAttempts: f.MaxAttempts, RetryOn: f.RetryOn, OnRetry: f.OnRetry,
		NotBefore: f.NotBefore.Time, Deadline: f.Deadline.Time,
	}
	for _, fill := range []func(*app, *job.Job) error{f.inputs, f.grants, f.requirement, f.labels} {
		if err := fill(a, j); err != nil {
			return nil, err
		}
	}
	return complete(j)
}

// complete checks the job as the workers will: the flags hold arbitrary bytes,
// which only its encoded form shows.
func complete(j *job.Job) (*job.Job, error) {
	doc, err := j.Encode()
	if err != nil {
		return nil, usageError("the job does not fit JSON: %v", err)
	}
	checked, err := job.Decode(doc)
	if err != nil {
		return nil, err
	}
	return checked, checked.Prepare(time.Now())
}

func (f *inputFlags) inputs(a *app, j *job.Job) error {
	vars, err := f.vars()
	if err != nil {
		return err
	}
	j.Vars, j.Collect = vars, f.Collect
	if f.Stdin != "" {
		if j.Stdin, err = a.readInput(f.Stdin, job.MaxStdin); err != nil {
			return usageError("--stdin: %w", err)
		}
	}
	if j.Env, err = pairs("--env", f.Env); err != nil {
		return err
	}
	for _, spec := range f.File {
		file, err := readFile(spec)
		if err != nil {
			return usageError("--file: %w", err)
		}
		j.Files = append(j.Files, file)
	}
	return nil
}

func (f *inputFlags) vars() ([]byte, error) {
	if f.Vars == "" {
		return nil, nil
	}
	doc := []byte(f.Vars)
	if path, isFile := strings.CutPrefix(f.Vars, "@"); isFile {
		var err error
		if doc, err = readBounded(path, job.MaxVars); err != nil {
			return nil, usageError("--vars: %w", err)
		}
	}
	if err := job.CheckJSON(doc); err != nil {
		return nil, usageError("--vars: %w", err)
	}
	return doc, nil
}

// readFile reads one --file: a path, and perhaps the name it gets.
func readFile(spec string) (job.File, error) {
	path, name := spec, filepath.Base(spec)
	if at := strings.LastIndexByte(spec, '='); at >= 0 {
		path, name = spec[:at], spec[at+1:]
	}
	content, err := readBounded(path, job.MaxSpec)
	return job.File{Path: name, Content: content}, err
}

func (f *grantFlags) grants(_ *app, j *job.Job) error {
	for _, tool := range f.Tools {
		namespace, name, ok := strings.Cut(strings.TrimSpace(tool), ".")
		if !ok {
			return usageError("--tools: %q is not NAMESPACE.NAME or NAMESPACE.*", tool)
		}
		j.Tools = append(j.Tools, job.Grant{Namespace: namespace, Name: name})
	}
	return nil
}

func (f *requireFlags) requirement(_ *app, j *job.Job) error {
	labels, err := pairs("--require-label", f.RequireLabel)
	j.Requires = job.Requirement{Backends: f.Backend, Isolation: f.Isolation, OS: f.OS, Arch: f.Arch, Image: f.Image, Fresh: f.Fresh, Labels: labels}
	j.Network = f.Network
	return err
}

func (f *scheduleFlags) labels(_ *app, j *job.Job) (err error) {
	j.Labels, err = pairs("--label", f.Label)
	return err
}

// pairs reads NAME=VALUE entries.
func pairs(flag string, entries []string) (map[string]string, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	out := map[string]string{}
	for _, entry := range entries {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			return nil, usageError("%s: %q is not NAME=VALUE", flag, entry)
		}
		if _, twice := out[name]; twice {
			return nil, usageError("%s: %s is given twice", flag, name)
		}
		out[name] = value
	}
	return out, nil
}

// readInput reads a file, or standard input for "-".
func (a *app) readInput(path string, limit job.Size) ([]byte, error) {
	if path == "-" {
		return readAtMost(a.stdin, limit)
	}
	return readBounded(path, limit)
}

func readBounded(path string, limit job.Size) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAtMost(f, limit)
}

func readAtMost(r io.Reader, limit job.Size) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > int(limit) {
		return nil, fmt.Errorf("is larger than the maximum of %s", limit)
	}
	return data, nil
}
