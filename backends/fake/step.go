package fake

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"airlock/backends"
	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Step is a guest's life as data. Its parts happen in the order of the
// fields; the zero value says hello, returns null and exits with 0.
type Step struct {
	// Fail makes Run return an error that wraps ErrScripted and holds this
	// text, as a backend does that lost its guest.
	Fail string `json:"fail,omitzero"`
	// Mute makes a guest that never says a word: it sleeps and ends.
	Mute bool `json:"mute,omitzero"`
	// Junk is written to the channel after hello, as it stands.
	Junk job.Bytes `json:"junk,omitzero"`

	Stdout job.Bytes    `json:"stdout,omitzero"`
	Stderr job.Bytes    `json:"stderr,omitzero"`
	Sleep  job.Duration `json:"sleep,omitzero"`
	// Calls are made one after the other, or at once where Parallel is set.
	Calls    []Call `json:"calls,omitzero"`
	Parallel bool   `json:"parallel,omitzero"`

	// Value is returned; where it is absent and there were calls, the list
	// of their answers is, each a value or {"code": …, "message": …}.
	Value jsontext.Value `json:"value,omitzero"`
	// Error is raised instead.
	Error *job.Error `json:"error,omitzero"`
	// NoResult ends the guest without a result, as os._exit does. A Cause
	// other than exited implies it.
	NoResult bool `json:"no_result,omitzero"`

	// Cause is one of the names of backends.Cause; "" means exited.
	Cause    string `json:"cause,omitzero"`
	ExitCode int    `json:"exit_code,omitzero"`
	Signal   string `json:"signal,omitzero"`

	OOMKills      int          `json:"oom_kills,omitzero"`
	ProcessesFull int          `json:"processes_full,omitzero"`
	DiskFull      bool         `json:"disk_full,omitzero"`
	CPU           job.Duration `json:"cpu,omitzero"`
	PeakMemory    job.Size     `json:"peak_memory,omitzero"`
}

// Play is the script of a guest that lives as the step says.
func Play(step Step) Script {
	return func(ctx context.Context, g *Guest) (backends.Outcome, error) {
		if !step.Mute && step.Fail == "" {
			if _, err := g.Hello(); err != nil {
				return lost(), nil
			}
		}
		return step.play(ctx, g)
	}
}

// Directed is the script that takes its step from the job's code, where that
// is a directive, and else plays the zero Step. A directive that does not
// parse is raised as an exception, so that its author sees why.
func Directed(ctx context.Context, g *Guest) (backends.Outcome, error) {
	code, err := g.Hello()
	if err != nil {
		return lost(), nil
	}
	step, err := directive(code)
	if err != nil {
		step = Step{Error: &job.Error{Type: "DirectiveError", Message: err.Error()}}
	}
	return step.play(ctx, g)
}

func directive(code string) (Step, error) {
	var doc struct {
		Fake Step `json:"fake"`
	}
	if !strings.HasPrefix(strings.TrimSpace(code), `{"fake"`) {
		return doc.Fake, nil
	}
	if err := job.CheckJSON([]byte(code)); err != nil {
		return doc.Fake, err
	}
	if err := job.DecodeStrict([]byte(code), &doc); err != nil {
		return doc.Fake, err
	}
	_, err := doc.Fake.outcome()
	return doc.Fake, err
}

// lost is the end of an interpreter whose channel broke.
func lost() backends.Outcome { return backends.Outcome{Cause: backends.Exited, ExitCode: 1} }

func (s Step) play(ctx context.Context, g *Guest) (backends.Outcome, error) {
	if s.Fail != "" {
		return backends.Outcome{}, fmt.Errorf("%w: %s", ErrScripted, s.Fail)
	}
	end, err := s.outcome()
	if err != nil {
		return end, fmt.Errorf("%w: %w", ErrScripted, err)
	}
	_, _ = g.Task.Stdout.Write(s.Stdout)
	_, _ = g.Task.Stderr.Write(s.Stderr)
	g.Sleep(ctx, s.Sleep.Std())
	if s.Mute {
		return end, nil
	}
	if err := s.converse(g, end.Cause); err != nil {
		return lost(), nil
	}
	return end, nil
}

// converse holds the guest's part of the conversation after hello. Its error
// means that the channel broke.
func (s Step) converse(g *Guest, cause backends.Cause) error {
	if len(s.Junk) > 0 {
		if _, err := g.Write(s.Junk); err != nil {
			return err
		}
	}
	answers, err := s.call(g)
	if err != nil {
		return err
	}
	switch {
	case s.NoResult || cause != backends.Exited:
		return nil
	case s.Error != nil:
		return g.Raise(*s.Error)
	case s.Value != nil:
		return g.Return(s.Value)
	case len(answers) > 0:
		return g.Return(listed(answers))
	}
	return g.Return(jsontext.Value("null"))
}

func (s Step) call(g *Guest) ([]Answer, error) {
	if s.Parallel {
		return g.Calls(s.Calls)
	}
	var answers []Answer
	for _, c := range s.Calls {
		one, err := g.Calls([]Call{c})
		if err != nil {
			return nil, err
		}
		answers = append(answers, one...)
	}
	return answers, nil
}

func listed(answers []Answer) jsontext.Value {
	items := make([]any, len(answers))
	for i, a := range answers {
		items[i] = a.Value
		if a.Code != "" {
			items[i] = map[string]string{"code": a.Code, "message": a.Message}
		}
	}
	doc, err := json.Marshal(items, json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("answers do not encode: %v", err)) // they were decoded strictly
	}
	return doc
}

func (s Step) outcome() (backends.Outcome, error) {
	cause, err := parseCause(cmp.Or(s.Cause, backends.Exited.String()))
	return backends.Outcome{
		Cause: cause, ExitCode: s.ExitCode, Signal: s.Signal,
		OOMKills: s.OOMKills, ProcessesFull: s.ProcessesFull, DiskFull: s.DiskFull,
		CPU: s.CPU.Std(), PeakMemory: s.PeakMemory,
	}, err
}

func parseCause(name string) (backends.Cause, error) {
	for cause := backends.Exited; cause <= backends.Violated; cause++ {
		if cause.String() == name {
			return cause, nil
		}
	}
	return 0, fmt.Errorf("cause %q is none of those a guest can end by", job.Printable(name, 40))
}
