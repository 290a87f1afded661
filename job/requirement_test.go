package job_test

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// laneName is one subject token that can name a consumer.
var laneName = regexp.MustCompile(`^[a-z0-9][a-z0-9+_-]{1,47}$`)

func TestLaneNames(t *testing.T) {
	t.Parallel()
	type req = job.Requirement
	for _, tt := range []struct {
		name   string
		req    req
		limits job.Limits
		want   string
	}{
		{"nothing asked", req{}, job.Limits{}, "any"},
		{"the default asked for", req{Isolation: job.IsolationStrong, Labels: map[string]string{}, Backends: []string{}}, job.Limits{}, "any"},
		{"limits do not matter behind a wall", req{Limits: []job.LimitName{job.LimitCPU}}, job.Limits{Memory: 1}, "any"},
		{"one backend", req{Backends: []string{"docker"}}, job.Limits{}, "docker"},
		{"two backends", req{Backends: []string{"docker", "bubblewrap", "docker"}}, job.Limits{}, "bubblewrap+docker"},
		{"a backend named like the default lane", req{Backends: []string{"any"}}, job.Limits{}, "afjrlnkulh"},
		{"a backend named like another lane", req{Backends: []string{"znw3funesf"}}, job.Limits{}, "kbtw7yydqd"},
		{"an unknown backend", req{Backends: []string{"docker-runsc"}}, job.Limits{}, "lkwqy2dl2c"},
		{"vm", req{Isolation: job.IsolationVM}, job.Limits{}, "znw3funesf"},
		{"none", req{Isolation: job.IsolationNone, Backends: []string{"local"}}, job.Limits{}, "knnfhluc2o"},
		{"none, with a limit", req{Isolation: job.IsolationNone, Backends: []string{"local"}}, job.Limits{CPU: 1}, "wfwjre4axd"},
		{"os and arch", req{OS: "linux", Arch: "arm64"}, job.Limits{}, "etnl6wjodt"},
		{"fresh", req{Fresh: true}, job.Limits{}, "y4rc5dxawt"},
		{"fresh, of one backend", req{Fresh: true, Backends: []string{"docker"}}, job.Limits{}, "5vngs5sexk"},
		{"a template", req{Labels: map[string]string{"template.data": "true"}}, job.Limits{}, "ksv2jnq3s2"},
		{"labels", req{Labels: map[string]string{"gpu": "yes", "zone": "a"}}, job.Limits{}, "ssprm36khj"},
	} {
		if got := tt.req.Canonical(tt.limits).Lane(); got != tt.want {
			t.Errorf("%s: got lane %q, want %q", tt.name, got, tt.want)
		}
	}
}

// drawRequirement makes one as a submitter might write it.
func drawRequirement(t *rapid.T) job.Requirement {
	some := func(label string, from ...string) []string {
		return rapid.SliceOfN(rapid.SampledFrom(from), 0, 4).Draw(t, label)
	}
	r := job.Requirement{
		Backends:  some("backends", "docker", "bubblewrap", "fake", "any", "x"),
		Isolation: rapid.SampledFrom(append(job.Isolations(), "")).Draw(t, "isolation"),
		OS:        rapid.SampledFrom([]string{"", "linux"}).Draw(t, "os"),
		Fresh:     rapid.Bool().Draw(t, "fresh"),
		Labels:    rapid.MapOfN(rapid.SampledFrom([]string{"a", "b"}), rapid.SampledFrom([]string{"", "1"}), 0, 2).Draw(t, "labels"),
	}
	for _, limit := range some("limits", "cpu", "memory", "disk") {
		r.Limits = append(r.Limits, job.LimitName(limit))
	}
	return r
}

func drawLimits(t *rapid.T) job.Limits {
	return job.Limits{CPU: job.Duration(rapid.IntRange(0, 1).Draw(t, "cpu")), Memory: job.Size(rapid.IntRange(0, 1).Draw(t, "memory"))}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, limits := drawRequirement(t), drawLimits(t)
		before := fmt.Sprintf("%#v", r)
		got := r.Canonical(limits)
		if after := fmt.Sprintf("%#v", r); after != before {
			t.Fatalf("the requirement was changed:\n%s\n%s", before, after)
		}
		if diff := cmp.Diff(got, got.Canonical(limits.WithDefaults())); diff != "" {
			t.Fatalf("again, with the limits filled (-first +second):\n%s", diff)
		}
		shuffled := r
		shuffled.Backends = append(slices.Clone(r.Backends), r.Backends...)
		slices.Reverse(shuffled.Backends)
		shuffled.Limits = slices.Clone(r.Limits)
		slices.Reverse(shuffled.Limits)
		shuffled.Labels = maps.Clone(r.Labels)
		if lane := shuffled.Canonical(limits).Lane(); lane != got.Lane() {
			t.Fatalf("order and duplicates change the lane from %s to %s", got.Lane(), lane)
		}
		if !laneName.MatchString(got.Lane()) {
			t.Fatalf("got lane %q, which is no subject token", got.Lane())
		}
		for _, limit := range limits.Named() {
			if !slices.Contains(got.Limits, limit) {
				t.Fatalf("the %s limit that the job names need not hold: %v", limit, got.Limits)
			}
		}
		overWire(t, got)
	})
}

// overWire wants the lane to be the same for who reads the requirement.
func overWire(t *rapid.T, r job.Requirement) {
	doc, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back job.Requirement
	if err := json.Unmarshal(doc, &back); err != nil {
		t.Fatal(err)
	}
	if back.Lane() != r.Lane() {
		t.Fatalf("lane %s became %s by %s", r.Lane(), back.Lane(), doc)
	}
}

// TestLanesDiffer: two requirements that some offer tells apart have two
// names.
func TestLanesDiffer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawRequirement(t).Canonical(job.Limits{}), drawRequirement(t).Canonical(job.Limits{})
		if same := cmp.Equal(a, b); same != (a.Lane() == b.Lane()) {
			t.Fatalf("lanes %s and %s of requirements that are equal: %v\n%+v\n%+v", a.Lane(), b.Lane(), same, a, b)
		}
	})
}

func TestUnmet(t *testing.T) {
	t.Parallel()
	offer := job.Offer{
		Backend: "bubblewrap", Isolation: job.IsolationStrong, OS: "linux", Arch: "amd64",
		Limits: []job.LimitName{"cpu", "disk", "memory"}, Images: []string{"py@sha256:1"}, Labels: map[string]string{"gpu": "no"},
	}
	type req = job.Requirement
	for _, tt := range []struct {
		req  req
		want string
	}{
		{req{}, ""},
		{req{Backends: []string{"docker", "bubblewrap"}, Isolation: job.IsolationPartial, OS: "linux", Arch: "amd64"}, ""},
		{req{Backends: []string{"docker", "wasm"}}, "backend is bubblewrap, want docker or wasm"},
		{req{Isolation: job.IsolationVM}, "isolation is strong, want at least vm"},
		{req{Isolation: "super"}, "isolation is strong, want at least super"},
		{req{OS: "darwin"}, "os is linux, want darwin"},
		{req{Arch: "arm64"}, "arch is amd64, want arm64"},
		{req{Image: "py@sha256:2"}, "image py@sha256:2 is not there"},
		{req{Image: "py@sha256:1"}, ""},
		{req{Network: true}, "guests get no network"},
		{req{Fresh: true}, ""},
		{req{Labels: map[string]string{"gpu": "yes"}}, `label gpu is "no", want "yes"`},
		{req{Labels: map[string]string{"zone": ""}}, `label zone is "", want ""`},
		{req{Limits: []job.LimitName{"cpu"}}, ""},
		{req{Limits: []job.LimitName{"cpu", "processes"}}, "cannot enforce the processes limit"},
	} {
		if tt.req.Isolation == "" {
			tt.req.Isolation = job.IsolationNone
		}
		if got := tt.req.Unmet(offer); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.req, got, tt.want)
		}
	}
}

func TestAForkedInterpreterIsNotFresh(t *testing.T) {
	t.Parallel()
	forked := job.Offer{Backend: "forkserver", Isolation: job.IsolationStrong, Limits: job.KernelLimits(), Forked: true}
	for fresh, want := range map[bool]string{false: "", true: "interpreter is forked, want a fresh one"} {
		if got := (job.Requirement{Fresh: fresh}).Canonical(job.Limits{}).Unmet(forked); got != want {
			t.Errorf("fresh %v: got %q, want %q", fresh, got, want)
		}
	}
}

// TestDefaultJobNeedsAWall: a backend without isolation, or one that cannot
// hold every limit, is never good enough for a job that asks for nothing.
func TestDefaultJobNeedsAWall(t *testing.T) {
	t.Parallel()
	anything := job.Requirement{}.Canonical(job.Limits{})
	for _, level := range []job.Isolation{"", job.IsolationNone, job.IsolationPartial, "unheard-of"} {
		if anything.Unmet(job.Offer{Isolation: level, Limits: job.KernelLimits()}) == "" {
			t.Errorf("level %q satisfies a job that asks for nothing", level)
		}
	}
	for _, limit := range job.KernelLimits() {
		rest := slices.DeleteFunc(job.KernelLimits(), func(l job.LimitName) bool { return l == limit })
		why := anything.Unmet(job.Offer{Isolation: job.IsolationStrong, Limits: rest})
		if !strings.Contains(why, string(limit)) {
			t.Errorf("without the %s limit: got %q, want it refused for that", limit, why)
		}
	}
}

func TestAtLeast(t *testing.T) {
	t.Parallel()
	levels := job.Isolations()
	for i, have := range levels {
		for j, want := range levels {
			if got := have.AtLeast(want); got != (i >= j) {
				t.Errorf("%s at least %s: got %v", have, want, got)
			}
		}
		if have.AtLeast("unheard-of") || job.Isolation("unheard-of").AtLeast(have) {
			t.Errorf("an unknown level compares with %s", have)
		}
	}
}

func TestAllows(t *testing.T) {
	t.Parallel()
	grants := []job.Grant{{Namespace: "math", Name: "add"}, {Namespace: "text", Name: job.AnyTool}}
	for _, tt := range []struct {
		namespace, name string
		want            bool
	}{
		{"math", "add", true}, {"math", "div", false}, {"math", "Add", false}, {"text", "x", true}, {"tex", "t.x", false},
		{"", "add", false}, {"math.add", "", false}, {"*", "add", false}, {"math", "*", false},
	} {
		if got := job.Allows(grants, tt.namespace, tt.name); got != tt.want {
			t.Errorf("%s and %s: got %v, want %v", tt.namespace, tt.name, got, tt.want)
		}
	}
	if job.Allows(nil, "math", "add") {
		t.Error("no grants allow a tool")
	}
}

// TestEachFieldOfARequirementNamesALane fails for a new field that Lane does
// not look at.
func TestEachFieldOfARequirementNamesALane(t *testing.T) {
	t.Parallel()
	usual := job.Requirement{}.Canonical(job.Limits{})
	others := job.Requirement{
		Backends: []string{"docker"}, Isolation: job.IsolationVM, OS: "plan9", Arch: "mips", Image: "x", Network: true, Fresh: true,
		Labels: map[string]string{"a": "b"}, Limits: []job.LimitName{job.LimitCPU},
	}
	for i := range reflect.TypeFor[job.Requirement]().NumField() {
		r := usual
		reflect.ValueOf(&r).Elem().Field(i).Set(reflect.ValueOf(others).Field(i))
		if got := r.Lane(); got == usual.Lane() {
			t.Errorf("%s: got lane %s, that of a job which asks for nothing", reflect.TypeFor[job.Requirement]().Field(i).Name, got)
		}
	}
}
