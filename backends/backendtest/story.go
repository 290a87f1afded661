package backendtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"os"
	"slices"
	"strconv"
	"testing"

	"airlock/backends"
	"airlock/backends/internal/frame"
	"airlock/job"

	"github.com/go-json-experiment/json"
)

// story is one guest and what must be observed of it.
type story struct {
	name string
	// rows are the IDs of what it acts out, apart by spaces; those of its
	// attacks are theirs.
	rows string
	// code is the guest's program.
	code  string
	stdin []byte
	args  []string
	env   map[string]string
	// collect are the globs of the files to bring back.
	collect []string
	// limits replace the defaults where they are not zero; those named in
	// enforce must hold, and the story is skipped where the backend does not
	// offer them.
	limits  job.Limits
	enforce []job.LimitName
	// arrange prepares the host: canaries, variables for the guest, tools.
	arrange func(s *stage)
	// serve replaces the usual conversation.
	serve func(s *stage, ctx context.Context, channel io.ReadWriteCloser) error
	// stillborn guests may end before there is anyone to serve.
	stillborn bool
	// blind says why a story is not told where there is no wall.
	blind string
	// hostile guests are followed by a benign one, which must be well.
	hostile bool
	// attacks makes the story one about walls: the guest returns what became
	// of each.
	attacks []attack
	check   check
	// act replaces the single run where a story is about something else.
	act func(t *testing.T, s *suite)
}

// check is what must be observed.
type check func(t *testing.T, g *seen)

// stage is the host's side of one run.
type stage struct {
	*testing.T
	suite *suite
	// marker is what a guest calls itself, so that the host can find its
	// processes.
	marker string
	job    job.ID
	// vars become the guest's globals, tools the functions it may call.
	vars  map[string]any
	tools map[string]tool
	// cancel ends the run, as a worker does.
	cancel context.CancelCauseFunc
	stdout *stream
	host   *host
	// after holds what is to be looked at when the run is over.
	after []func()
}

// tool is what a guest may call while it runs. Its answer is encoded as JSON.
type tool func(arguments []byte) any

// seen is all that was observed of a guest.
type seen struct {
	outcome        backends.Outcome
	stdout, stderr []byte
	host           *host
	coarse, plain  bool
}

func (s *suite) tell(t *testing.T, st story) {
	if why := s.Except[st.name]; why != "" {
		s.recordUntold(st, Skipped, why)
		t.Skip(why)
	}
	if why := s.Lacks[st.name]; why != "" {
		s.recordUntold(st, Lacking, why)
		t.Skip(why)
	}
	if st.blind != "" && !s.walled() {
		s.record(st.rows, st.name, Blind, st.blind)
		t.Skip(st.blind)
	}
	for _, limit := range st.enforce {
		if !slices.Contains(s.caps.Limits, limit) {
			s.recordUntold(st, Skipped, "the "+string(limit)+" limit is not enforced, and not offered")
			t.Skipf("%s does not enforce the %s limit here", s.Name, limit)
		}
	}
	t.Cleanup(func() { s.recordStory(st, !t.Failed()) })
	if st.act != nil {
		st.act(t, s)
		return
	}
	g := s.run(t, st)
	if len(st.attacks) > 0 {
		s.judge(t, st, g)
	}
	if st.check != nil {
		st.check(t, g)
	}
	if st.hostile {
		s.benign(t)
	}
}

// benign runs a guest that does nothing wrong, and fails unless it is well.
func (s *suite) benign(t *testing.T) {
	t.Helper()
	g := s.run(t, story{code: "print('well')\nreturn 7"})
	all(exited(0), stdout("well\n"), value("7"))(t, g)
}

// run runs the story's guest to its end and looks for what it left.
func (s *suite) run(t *testing.T, st story) *seen {
	t.Helper()
	return s.runOn(t, s.backend, st)
}

func (s *suite) runOn(t *testing.T, b backends.Backend, st story) *seen {
	t.Helper()
	ctx, stop := context.WithTimeoutCause(t.Context(), patience, errPatience)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	sg := newStage(t, s, st, cancel)
	stderr := &stream{}
	task := sg.task(st, stderr)
	outcome, err := b.Run(ctx, task)
	sg.stdout.end()
	stderr.end()
	if err != nil {
		t.Errorf("run: %v", err)
	}
	if cause := context.Cause(ctx); cause == errPatience {
		t.Errorf("the guest had to be killed after %v; stdout %q, stderr %q", patience, sg.stdout.head(), stderr.head())
	}
	if n := sg.host.served.Load(); n != 1 && !st.stillborn {
		t.Errorf("Serve was called %d times, want once", n)
	}
	for _, look := range sg.after {
		look()
	}
	s.checkLeftovers(t, sg)
	sg.stdout.check(t, "stdout")
	stderr.check(t, "stderr")
	return &seen{outcome: outcome, stdout: sg.stdout.bytes(), stderr: stderr.bytes(), host: sg.host, coarse: s.Coarse != "", plain: s.Plain != ""}
}

func newStage(t *testing.T, s *suite, st story, cancel context.CancelCauseFunc) *stage {
	sg := &stage{
		T: t, suite: s, marker: newMarker(), job: job.NewID(), cancel: cancel,
		vars: map[string]any{}, tools: map[string]tool{}, stdout: &stream{first: make(chan struct{})},
	}
	sg.vars["MARKER"], sg.vars["SLOWNESS"] = sg.marker, slowness()
	sg.vars["CONTROL"] = !s.walled()
	if st.arrange != nil {
		st.arrange(sg)
	}
	vars, err := json.Marshal(sg.vars, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	sg.host = &host{tools: sg.tools, job: frame.JobParams{
		Code: st.code, Vars: vars, Args: st.args, Env: st.env, Collect: st.collect,
		Limits: frame.Limits{Result: int64(job.MiB), Frame: frame.Max, Parallel: 64},
	}}
	if len(st.collect) > 0 {
		sg.host.job.Limits.Artifacts = int64(job.MaxArtifactBytes)
		sg.host.collection = job.NewCollection(st.collect, job.MaxArtifactBytes)
	}
	return sg
}

func (sg *stage) task(st story, stderr *stream) backends.Task {
	limits := st.limits.WithDefaults()
	limits.CPU *= job.Duration(slowness())
	return backends.Task{
		Job: sg.job, Attempt: 1, Limits: limits, Enforce: st.enforce, Stdin: st.stdin,
		Stdout: sg.stdout, Stderr: stderr,
		Serve: func(ctx context.Context, channel io.ReadWriteCloser) error {
			sg.host.served.Add(1)
			if st.serve != nil {
				return st.serve(sg, ctx, channel)
			}
			return sg.host.serve(ctx, channel)
		},
	}
}

// slowness is how many times slower than a real machine this one is, by
// AIRLOCK_TEST_SLOWNESS: an emulated one takes a second of processor time to
// start an interpreter. Limits of it are longer there.
func slowness() int {
	if n, err := strconv.Atoi(os.Getenv("AIRLOCK_TEST_SLOWNESS")); err == nil && n > 1 {
		return n
	}
	return 1
}

// newMarker makes a name of 15 bytes, which is what a Linux process can have.
func newMarker() string {
	var raw [7]byte
	_, _ = rand.Read(raw[:])
	return "a" + hex.EncodeToString(raw[:])
}
