package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"airlock/job"
)

// example is one entry of examples/demo.json.
type example struct {
	Name string         `json:"name"`
	File string         `json:"file"`
	Job  jsontext.Value `json:"job"`
	Want want           `json:"want"`

	code string
}

// want is how an example should end; absent fields are not checked.
type want struct {
	Status      job.Status     `json:"status"`
	Value       jsontext.Value `json:"value"`
	ErrorType   string         `json:"error_type"`
	Traceback   string         `json:"traceback"`
	ToolCalls   int            `json:"tool_calls"`
	Stdout      string         `json:"stdout"`
	StdoutBytes int64          `json:"stdout_bytes"`
	StdoutKept  int            `json:"stdout_kept"`
}

func readExamples(dir string) ([]example, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "demo.json"))
	if err != nil {
		return nil, err
	}
	var examples []example
	if err := json.Unmarshal(raw, &examples, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("demo.json: %w", err)
	}
	for i := range examples {
		code, err := os.ReadFile(filepath.Join(dir, examples[i].File))
		if err != nil {
			return nil, err
		}
		examples[i].code = string(code)
	}
	return examples, nil
}

// submit writes the examples as a batch file, has bin/submit run it, and
// returns the results in the order of the examples.
func submit(ctx context.Context, env []string, dir string, examples []example) ([]*job.Result, error) {
	var lines bytes.Buffer
	ids := map[job.ID]int{}
	for i, e := range examples {
		var j job.Job
		if len(e.Job) > 0 {
			if err := json.Unmarshal(e.Job, &j); err != nil {
				return nil, fmt.Errorf("%s: %w", e.Name, err)
			}
		}
		j.ID, j.Code = job.NewID(), e.code
		ids[j.ID] = i
		line, err := j.Encode()
		if err != nil {
			return nil, err
		}
		lines.Write(append(line, '\n'))
	}
	path := filepath.Join(dir, "demo.jsonl")
	if err := os.WriteFile(path, lines.Bytes(), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "bin/submit", "batch", path)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var failed *exec.ExitError
	// Exit code 1 says that some jobs failed, which is what they are for.
	if err != nil && !(errors.As(err, &failed) && failed.ExitCode() == 1) {
		return nil, fmt.Errorf("submit: %w", err)
	}
	return readResults(out, ids)
}

func readResults(out []byte, ids map[job.ID]int) ([]*job.Result, error) {
	results := make([]*job.Result, len(ids))
	scanner := bufio.NewScanner(bytes.NewReader(out))
	scanner.Buffer(nil, 32<<20)
	for scanner.Scan() {
		var r job.Result
		if err := json.Unmarshal(scanner.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("a result line: %w", err)
		}
		if i, ok := ids[r.Job]; ok {
			results[i] = &r
		}
	}
	for i, r := range results {
		if r == nil {
			return nil, fmt.Errorf("no result for job %d", i+1)
		}
	}
	return results, scanner.Err()
}

// unmet says how a result differs from what is wanted, or "".
func (w want) unmet(r *job.Result) string {
	var wrong []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	check(r.Status == w.Status, "status is not %s", w.Status)
	check(len(w.Value) == 0 || equalJSON(r.Value, w.Value), "value is not %s", w.Value)
	check(w.ErrorType == "" || r.Error != nil && r.Error.Type == w.ErrorType, "error is not %s", w.ErrorType)
	check(w.Traceback == "" || r.Error != nil && strings.Contains(r.Error.Traceback, w.Traceback), "traceback lacks %q", w.Traceback)
	check(w.ToolCalls == 0 || r.ToolCalls == w.ToolCalls, "want %d calls", w.ToolCalls)
	check(w.Stdout == "" || string(r.Stdout) == w.Stdout, "stdout is not %q", w.Stdout)
	check(w.StdoutBytes == 0 || r.StdoutBytes == w.StdoutBytes, "want %d bytes counted", w.StdoutBytes)
	check(w.StdoutKept == 0 || len(r.Stdout) == w.StdoutKept && r.StdoutTruncated, "want %d bytes kept", w.StdoutKept)
	return strings.Join(wrong, "; ")
}

func equalJSON(a, b jsontext.Value) bool {
	a, b = a.Clone(), b.Clone()
	return a.Canonicalize(jsontext.CanonicalizeRawInts(false)) == nil &&
		b.Canonicalize(jsontext.CanonicalizeRawInts(false)) == nil && string(a) == string(b)
}
