package broker_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/txtar"
)

// The transcripts are read by the guest's tests too. Sections: guest and host
// hold one frame a line, guest raw holds bytes in hex, verdict what came of
// it. What a job grants, what providers offer and what they answer follows
// from the host's frames.

func TestTranscripts(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/wire/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatalf("read transcript: %v", err)
			}
			play(t, archive.Files)
		})
	}
}

func play(t *testing.T, sections []txtar.File) {
	script := readScript(t, sections)
	audit := &brokertest.Audit{}
	b := broker.New(broker.Config{Tools: script, Audit: audit, Parallel: script.parallel})
	guest, host := brokertest.NewSocketGuest(t)
	defer script.stop()
	a := brokertest.Attempt(t, "", func(j *job.Job) { *j = script.job })
	a.Job.Code = script.code // which may be empty here, unlike a submitted job's
	running := brokertest.Serve(t, b, a, host)
	verdict := ""
	for _, section := range sections {
		switch section.Name {
		case "guest":
			for line := range lines(section) {
				guest.Send(line)
			}
		case "guest raw":
			for line := range lines(section) {
				raw, err := hex.DecodeString(strings.ReplaceAll(line, " ", ""))
				if err != nil {
					t.Fatalf("guest raw: %v", err)
				}
				guest.SendRaw(raw)
			}
		case "host":
			for line := range lines(section) {
				compareFrames(t, line, guest.Recv())
				script.replied(line)
			}
		case "verdict":
			verdict = strings.TrimSpace(string(section.Data))
		default:
			t.Fatalf("unknown section %q", section.Name)
		}
	}
	script.stop()
	guest.Close()
	report, err := running.Wait()
	if got := brokertest.Verdict(report, err); !matches(got, verdict) {
		t.Errorf("got verdict %q, want %q", got, verdict)
	}
	if head, err := broker.Verify(a.Job.ID, a.Number, audit.Calls()); err != nil || head != report.AuditHead {
		t.Errorf("Verify: got head %s and error %v, want the report's %s", head, err, report.AuditHead)
	}
}

// matches compares verdicts; one that ends with "…" is a beginning.
func matches(got, want string) bool {
	if beginning, cut := strings.CutSuffix(want, "…"); cut {
		return strings.HasPrefix(got, beginning)
	}
	return got == want
}

func lines(section txtar.File) func(func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.Lines(string(section.Data)) {
			if line = strings.TrimSpace(line); line != "" && !yield(line) {
				return
			}
		}
	}
}

// compareFrames ignores the messages of errors, which are no part of the
// contract.
func compareFrames(t *testing.T, want, got string) {
	t.Helper()
	if diff := brokertest.DiffJSON(withoutMessage(want), withoutMessage(got)); diff != "" {
		t.Fatalf("frame from the worker (-want +got):\n%s", diff)
	}
}

func withoutMessage(frame string) string {
	var reply map[string]jsontext.Value
	var failure map[string]jsontext.Value
	if json.Unmarshal([]byte(frame), &reply) != nil || json.Unmarshal(reply["error"], &failure) != nil || failure == nil {
		return frame
	}
	failure["message"] = jsontext.Value(`""`)
	reply["error"], _ = json.Marshal(failure)
	out, _ := json.Marshal(reply)
	return string(out)
}

// script is a transcript seen from the providers' side. It implements
// broker.Tools.
type script struct {
	job      job.Job
	code     string
	parallel int
	offered  []*broker.Tool // at the start, then at the next list_tools
	known    []*broker.Tool
	lists    [][]*broker.Tool
	calls    []uint64                  // the ids of the calls, by sequence
	answers  map[uint64]scriptedAnswer // by id

	mu      sync.Mutex
	turn    int           // guarded by mu: replies that the guest has had
	changed chan struct{} // guarded by mu: closed at the next turn
	stopped chan struct{}
	once    sync.Once
}

type scriptedAnswer struct {
	turn   int // how many replies come before it
	answer broker.Answer
}

type scriptTool struct {
	Namespace   string         `json:"namespace"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	InputSchema jsontext.Value `json:"input_schema"`
}

type scriptFrame struct {
	ID     uint64         `json:"id"`
	Method string         `json:"method"`
	OK     bool           `json:"ok"`
	Value  jsontext.Value `json:"value"`
	Error  struct {
		Code    broker.Code `json:"code"`
		Message string      `json:"message"`
	} `json:"error"`
	Params struct {
		Code  string            `json:"code"`
		Vars  jsontext.Value    `json:"vars"`
		Args  []string          `json:"args"`
		Env   map[string]string `json:"env"`
		Files []struct {
			Path   string `json:"path"`
			Base64 string `json:"base64"`
		} `json:"files"`
		Collect   []string     `json:"collect"`
		Namespace string       `json:"namespace"`
		Tools     []scriptTool `json:"tools"`
		Limits    struct {
			Result   job.Size `json:"result"`
			Parallel int      `json:"parallel"`
		} `json:"limits"`
	} `json:"params"`
}

func readScript(t *testing.T, sections []txtar.File) *script {
	t.Helper()
	s := &script{answers: map[uint64]scriptedAnswer{}, changed: make(chan struct{}), stopped: make(chan struct{})}
	s.job.Code = "pass"
	listIDs := map[uint64]bool{}
	replies := 0
	for _, section := range sections {
		for line := range lines(section) {
			var f scriptFrame
			switch {
			case section.Name == "guest" && json.Unmarshal([]byte(line), &f) == nil:
				listIDs[f.ID] = f.Method == "list_tools"
				if f.Method == "call_tool" {
					s.calls = append(s.calls, f.ID)
				}
			case section.Name == "host":
				if err := json.Unmarshal([]byte(line), &f); err != nil {
					t.Fatalf("host frame %s: %v", line, err)
				}
				s.takeHost(t, f, listIDs[f.ID], replies)
				if f.Method != "job" {
					replies++
				}
			}
		}
	}
	return s
}

func (s *script) takeHost(t *testing.T, f scriptFrame, listing bool, replies int) {
	switch {
	case f.Method == "job":
		s.takeJob(t, f)
	case listing && f.OK:
		var tools []scriptTool
		if err := json.Unmarshal(f.Value, &tools); err != nil {
			t.Fatalf("list of tools: %v", err)
		}
		list := s.learn(t, tools)
		s.lists = append(s.lists, list)
		for _, tool := range list { // what the job frame did not name is granted with all of its namespace
			if !job.Allows(s.job.Tools, tool.Namespace, tool.Name) {
				s.job.Tools = append(s.job.Tools, job.Grant{Namespace: tool.Namespace, Name: job.AnyTool})
			}
		}
	default:
		s.answers[f.ID] = scriptedAnswer{replies, broker.Answer{Body: f.Value, Code: f.Error.Code, Message: f.Error.Message}}
	}
}

func (s *script) takeJob(t *testing.T, f scriptFrame) {
	p := f.Params
	s.code, s.job.Vars, s.job.Args, s.job.Env, s.job.Namespace = p.Code, p.Vars, p.Args, p.Env, p.Namespace
	s.job.Collect = p.Collect
	s.job.Limits.Result, s.parallel = p.Limits.Result, p.Limits.Parallel
	for _, file := range p.Files {
		content, err := base64.StdEncoding.DecodeString(file.Base64)
		if err != nil {
			t.Fatalf("file %s: %v", file.Path, err)
		}
		s.job.Files = append(s.job.Files, job.File{Path: file.Path, Content: content})
	}
	for _, tool := range s.learn(t, p.Tools) {
		s.job.Tools = append(s.job.Tools, job.Grant{Namespace: tool.Namespace, Name: tool.Name})
		if tool.InputSchema != nil || tool.Description != "" {
			s.offered = append(s.offered, tool)
		}
	}
}

func (s *script) learn(t *testing.T, tools []scriptTool) []*broker.Tool {
	t.Helper()
	var made []*broker.Tool
	for _, e := range tools {
		tool, err := broker.NewTool(broker.ToolSpec{
			Namespace: e.Namespace, Name: e.Name, Description: e.Description, InputSchema: e.InputSchema,
		})
		if err != nil {
			t.Fatalf("tool %s.%s: %v", e.Namespace, e.Name, err)
		}
		made = append(made, tool)
		s.known = append(s.known, tool)
	}
	return made
}

// replied passes the turn to the next reply.
func (s *script) replied(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.Contains(line, `"ok"`) {
		s.turn++
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// await returns at a reply's turn; false means that it never comes.
func (s *script) await(turn int) bool {
	for {
		s.mu.Lock()
		now, changed := s.turn, s.changed
		s.mu.Unlock()
		if now >= turn {
			return true
		}
		select {
		case <-changed:
		case <-s.stopped:
			return false
		}
	}
}

func (s *script) stop() { s.once.Do(func() { close(s.stopped) }) }

func (s *script) List(context.Context, []string) []*broker.Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	offered := s.offered
	if len(s.lists) > 0 {
		s.offered, s.lists = s.lists[0], s.lists[1:]
	}
	return offered
}

func (s *script) Find(_ context.Context, namespace, name string) (*broker.Tool, error) {
	i := slices.IndexFunc(s.known, func(t *broker.Tool) bool { return t.Namespace == namespace && t.Name == name })
	if i < 0 {
		return nil, broker.ErrUnknownTool
	}
	return s.known[i], nil
}

func (s *script) Call(_ *broker.Tool, r broker.Request) (<-chan broker.Answer, func(), error) {
	answers := make(chan broker.Answer, 1)
	go func() {
		scripted, ok := s.answers[s.calls[r.Seq-1]]
		if ok && s.await(scripted.turn) {
			answers <- scripted.answer
		}
	}()
	return answers, func() {}, nil
}

func (s *script) MaxArguments() int { return 1 << 20 }
