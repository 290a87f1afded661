package job_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"airlock/job"

	"github.com/google/go-cmp/cmp"
)

// now is when the tests prepare: NewID knows no other clock.
var now = time.Now().UTC()

// refusal is one way to spoil a job that is otherwise well.
type refusal struct {
	name, field, reason string
	spoil               func(j *job.Job)
}

func checkRefusals(t *testing.T, refusals []refusal) {
	t.Helper()
	for _, tt := range refusals {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			j := job.Job{Code: "1"}
			tt.spoil(&j)
			err := j.Prepare(now)
			var field *job.FieldError
			if !errors.As(err, &field) {
				t.Fatalf("got error %v, want a FieldError", err)
			}
			if field.Field != tt.field || !strings.Contains(field.Reason, tt.reason) {
				t.Errorf("got field %q, reason %q; want field %q, reason with %q", field.Field, field.Reason, tt.field, tt.reason)
			}
		})
	}
}

func TestPrepareRefusesUnsupported(t *testing.T) {
	t.Parallel()
	for field, set := range map[string]func(j *job.Job){
		"expect":     func(j *job.Job) { j.Expect = []byte(`{}`) },
		"files.blob": func(j *job.Job) { j.Files = []job.File{{Path: "a", Blob: "sha256:0"}} },
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			j := job.Job{Code: "1"}
			set(&j)
			want := &job.FieldError{Field: field, Reason: "not supported yet: " + field}
			var got *job.FieldError
			if err := j.Prepare(now); !errors.As(err, &got) || *got != *want {
				t.Errorf("got error %v, want %v", err, want)
			}
		})
	}
}

func TestOnRetry(t *testing.T) {
	t.Parallel()
	checkRefusals(t, []refusal{{"unknown", "on_retry", "neither replay nor recall", func(j *job.Job) { j.OnRetry = "again" }}})
	digests := map[job.OnRetry]string{}
	for _, mode := range []job.OnRetry{"", job.OnRetryReplay, job.OnRetryRecall} {
		j := job.Job{Code: "1", OnRetry: mode}
		if err := j.Prepare(now); err != nil {
			t.Fatalf("%q: %v", mode, err)
		}
		var err error
		if digests[mode], err = j.ContentDigest(); err != nil {
			t.Fatal(err)
		}
	}
	if digests[""] != digests[job.OnRetryReplay] || digests[""] == digests[job.OnRetryRecall] {
		t.Errorf("got digests %v, want the default to be replay and recall another", digests)
	}
}

func TestPrepareRefusesRetryOn(t *testing.T) {
	t.Parallel()
	refusals := []refusal{{"twice", "retry_on[1]", "twice", func(j *job.Job) { j.RetryOn = []job.Status{job.StatusTimeout, job.StatusTimeout} }}}
	for _, status := range []job.Status{job.StatusOK, job.StatusCancelled, job.StatusExpired, job.StatusInfraError} {
		refusals = append(refusals, refusal{string(status), "retry_on[0]", "no failure of the guest's own", func(j *job.Job) { j.RetryOn = []job.Status{status} }})
	}
	checkRefusals(t, refusals)
	j := job.Job{Code: "1"}
	for _, status := range job.Statuses() {
		if status.Retryable() {
			j.RetryOn = append(j.RetryOn, status)
		}
	}
	if err := j.Prepare(now); err != nil || len(j.RetryOn) != 11 {
		t.Errorf("got error %v for all %d failures of the guest's own, want none for 11", err, len(j.RetryOn))
	}
}

func TestPrepareRefusesIdentity(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range job.MaxLabels + 1 {
		many[strings.Repeat("l", i+1)] = ""
	}
	var refusals []refusal
	for name, bad := range map[string]string{"dot": "a.b", "wildcard": "*", "blank": "a b", "leading dash": "-a", "line feed": "a\n", "long": strings.Repeat("a", 65), "not ASCII": "ä", "rest": ">"} {
		refusals = append(refusals,
			refusal{"tenant: " + name, "tenant", "letters", func(j *job.Job) { j.Tenant = bad }},
			refusal{"batch: " + name, "batch", "letters", func(j *job.Job) { j.Batch = bad }})
	}
	checkRefusals(t, append(refusals,
		refusal{"long key", "key", "longer than 256", func(j *job.Job) { j.Key = strings.Repeat("k", 257) }},
		refusal{"NUL in the key", "key", "NUL", func(j *job.Job) { j.Key = "a\x00" }},
		refusal{"too many labels", "labels", "more than 64", func(j *job.Job) { j.Labels = many }},
		refusal{"label without a name", "labels.", "1 to 64 bytes", func(j *job.Job) { j.Labels = map[string]string{"": "x"} }},
		refusal{"long label", "labels.a", "at most 256", func(j *job.Job) { j.Labels = map[string]string{"a": strings.Repeat("x", 257)} }},
		refusal{"NUL in a label", "labels.a", "NUL", func(j *job.Job) { j.Labels = map[string]string{"a": "\x00"} }},
		refusal{"NUL in a label's name", `labels.a\x00`, "NUL", func(j *job.Job) { j.Labels = map[string]string{"a\x00": ""} }},
		refusal{"id from the future", "id", "not within the last year", func(j *job.Job) { j.ID = idAt(t, now.Add(time.Hour)) }},
		refusal{"id from the past", "id", "not within the last year", func(j *job.Job) { j.ID = idAt(t, now.AddDate(-2, 0, 0)) }},
	))
}

// idAt makes an ID of a moment.
func idAt(t *testing.T, at time.Time) job.ID {
	t.Helper()
	id := job.NewID()
	ms := at.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	if !id.Time().Equal(at.Truncate(time.Millisecond)) {
		t.Fatalf("got time %v, want %v", id.Time(), at)
	}
	return id
}

func TestPrepareRefusesInputs(t *testing.T) {
	t.Parallel()
	env := func(name, value string) func(j *job.Job) {
		return func(j *job.Job) { j.Env = map[string]string{name: value} }
	}
	manyEnv := map[string]string{}
	for i := range job.MaxEnv + 1 {
		manyEnv["A"+strings.Repeat("B", i)] = ""
	}
	refusals := []refusal{
		{"no code", "code", "required", func(j *job.Job) { j.Code = "" }},
		{"long code", "code", "the maximum is 1MiB", func(j *job.Job) { j.Code = strings.Repeat("x", int(job.MaxCode)+1) }},
		{"vars not an object", "vars", "want an object", func(j *job.Job) { j.Vars = []byte(`[1]`) }},
		{"long vars", "vars", "the maximum is 1MiB", func(j *job.Job) { j.Vars = []byte(`{"x":"` + strings.Repeat("x", int(job.MaxVars)) + `"}`) }},
		{"long stdin", "stdin", "the maximum is 1MiB", func(j *job.Job) { j.Stdin = make([]byte, job.MaxStdin+1) }},
		{"many args", "args", "more than 256", func(j *job.Job) { j.Args = make([]string, job.MaxArgs+1) }},
		{"NUL in an argument", "args[1]", "NUL", func(j *job.Job) { j.Args = []string{"", "a\x00"} }},
		{"many variables", "env", "more than 64", func(j *job.Job) { j.Env = manyEnv }},
		{"lower-case variable", "env.path", "upper-case", env("path", "")},
		{"variable with =", "env.A=B", "upper-case", env("A=B", "")},
		{"variable without a name", "env.", "upper-case", env("", "")},
		{"long variable", "env.A", "the maximum is 32KiB", env("A", strings.Repeat("x", 32<<10+1))},
		{"NUL in a variable", "env.A", "NUL", env("A", "\x00")},
	}
	for _, name := range []string{"LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "PYTHONSTARTUP", "PATH", "HOME", "AIRLOCK_X", "GCONV_PATH", "MALLOC_ARENA_MAX", "BASH_ENV", "IFS", "ENV"} {
		refusals = append(refusals, refusal{"reserved: " + name, "env." + name, "is reserved", env(name, "x")})
	}
	checkRefusals(t, refusals)
}

func TestPrepareRefusesFiles(t *testing.T) {
	t.Parallel()
	paths := func(paths ...string) func(j *job.Job) {
		return func(j *job.Job) {
			for _, p := range paths {
				j.Files = append(j.Files, job.File{Path: p})
			}
		}
	}
	checkRefusals(t, []refusal{
		{"too many", "files", "more than 256", func(j *job.Job) { j.Files = make([]job.File, job.MaxFiles+1) }},
		{"no path", "files[1].path", "1 to 512 bytes", paths("a", "")},
		{"long path", "files[0].path", "1 to 512 bytes", paths(strings.Repeat("a/", 300) + "a")},
		{"long part", "files[0].path", "longer than 255", paths("a/" + strings.Repeat("b", 256))},
		{"absolute", "files[0].path", "not a plain path", paths("/etc/passwd")},
		{"climbing", "files[2].path", "not a plain path", paths("a", "b", "../c")},
		{"climbing inside", "files[0].path", "not a plain path", paths("a/../../c")},
		{"the parent", "files[0].path", "not a plain path", paths("..")},
		{"the directory itself", "files[0].path", "not a plain path", paths(".")},
		{"dot part", "files[0].path", "not a plain path", paths("./a")},
		{"empty part", "files[0].path", "not a plain path", paths("a//b")},
		{"trailing slash", "files[0].path", "not a plain path", paths("a/")},
		{"NUL", "files[0].path", "NUL", paths("a\x00b")},
		{"backslash", "files[0].path", "backslash", paths(`a\..\b`)},
		{"twice", "files[1].path", "there twice", paths("a", "a")},
		{"below a file", "files[1].path", `"a/b" is a file already`, paths("a/b", "a/b/c/d")},
		{"in place of a directory", "files[1].path", `"a" is a directory already`, paths("a/b/c", "a")},
	})
}

func TestPrepareRefusesTools(t *testing.T) {
	t.Parallel()
	refusals := []refusal{
		{"too many", "tools", "more than 256", func(j *job.Job) { j.Tools = make([]job.Grant, job.MaxGrants+1) }},
		{"any namespace", "tools[0].namespace", "want a letter", func(j *job.Job) { j.Tools = []job.Grant{{Namespace: "*", Name: "*"}} }},
	}
	for name, bad := range map[string]string{
		"dot": "a.b", "wildcard": "a*", "rest": ">", "blank": "a ", "line feed": "a\n", "NUL": "a\x00", "digit first": "1a", "dollar": "$SYS",
		"underscore first": "_INBOX", "empty": "", "long": strings.Repeat("a", 65), "look-alike": "аdd",
	} {
		refusals = append(refusals,
			refusal{"name: " + name, "tools[1].name", "want a letter", func(j *job.Job) {
				j.Tools = []job.Grant{{Namespace: "math", Name: "*"}, {Namespace: "math", Name: bad}}
			}},
			refusal{"namespace: " + name, "tools[0].namespace", "want a letter", func(j *job.Job) { j.Tools = []job.Grant{{Namespace: bad, Name: "add"}} }})
		if bad != "" {
			refusals = append(refusals, refusal{"pin: " + name, "namespace", "want a letter", func(j *job.Job) { j.Namespace = bad }})
		}
	}
	checkRefusals(t, refusals)
}

func TestPrepareRefusesRequirements(t *testing.T) {
	t.Parallel()
	checkRefusals(t, []refusal{
		{"backend's name", "requires.backends[1]", "no backend's name", func(j *job.Job) { j.Requires.Backends = []string{"docker", "a.b"} }},
		{"upper case", "requires.backends[0]", "no backend's name", func(j *job.Job) { j.Requires.Backends = []string{"Docker"} }},
		{"joined", "requires.backends[0]", "no backend's name", func(j *job.Job) { j.Requires.Backends = []string{"bubblewrap+docker"} }},
		{"joined thrice", "requires.backends[0]", "no backend's name", func(j *job.Job) { j.Requires.Backends = []string{"docker+a+b"} }},
		{"many", "requires", "more than 16", func(j *job.Job) { j.Requires.Backends = make([]string, 17) }},
		{"level", "requires.isolation", "want one of", func(j *job.Job) { j.Requires.Isolation = "super" }},
		{"limit", "requires.limits[0]", "want one of", func(j *job.Job) { j.Requires.Limits = []job.LimitName{"wall"} }},
		{"os", "requires.os", "is not a name", func(j *job.Job) { j.Requires.OS = "Windows 11" }},
		{"arch", "requires.arch", "is not a name", func(j *job.Job) { j.Requires.Arch = "*" }},
		{"label", "requires.labels.GPU", "lower-case", func(j *job.Job) { j.Requires.Labels = map[string]string{"GPU": "1"} }},
		{"image", "requires.image", "is not an image", func(j *job.Job) { j.Requires.Image = "py\n" }},
		{"image of a flag", "requires.image", "is not an image", func(j *job.Job) { j.Requires.Image = "--privileged" }},
		{"long image", "requires.image", "at most 256", func(j *job.Job) { j.Requires.Image = strings.Repeat("x", job.MaxImage+1) }},
		{"a template named badly", "requires.labels.template.a_b", "lower-case letters, digits and -", func(j *job.Job) { j.Requires.Labels = templates("a_b") }},
		{"a template without a name", "requires.labels.template.", "1 to 32", func(j *job.Job) { j.Requires.Labels = templates("") }},
		{"a long template", "requires.labels.template." + strings.Repeat("a", 33), "1 to 32", func(j *job.Job) { j.Requires.Labels = templates(strings.Repeat("a", 33)) }},
		{"a template that is not", "requires.labels.template.a", `want "true"`, func(j *job.Job) { j.Requires.Labels = map[string]string{"template.a": "yes"} }},
		{"two templates", "requires.labels.template.b", `beside "a"`, func(j *job.Job) { j.Requires.Labels = templates("a", "b") }},
		{"a fresh template", "requires.fresh", "forked", func(j *job.Job) { j.Requires.Fresh, j.Requires.Labels = true, templates("a") }},
		{"NUL in a label", "requires.labels.gpu", "at most 128", func(j *job.Job) { j.Requires.Labels = map[string]string{"gpu": "\x00"} }},
	})
}

// TestPrepareOfContainers: what only some backends have is asked for in the
// requirement, so that no other worker is given the job.
// templates are the labels that ask for these.
func templates(names ...string) map[string]string {
	labels := map[string]string{}
	for _, name := range names {
		labels[job.TemplateLabel+name] = job.TemplateHere
	}
	return labels
}

func TestTemplate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		labels map[string]string
		want   string
	}{
		{nil, ""},
		{map[string]string{"gpu": "true"}, ""},
		{map[string]string{"template": "true"}, ""},
		{map[string]string{"template.data": "true", "gpu": "no"}, "data"},
		{templates("a-1"), "a-1"},
		// What Prepare refuses names no template either.
		{map[string]string{"template.data": "no"}, ""},
		{templates("../etc"), ""},
	} {
		if got := (job.Requirement{Labels: tt.labels}).Template(); got != tt.want {
			t.Errorf("%v: got template %q, want %q", tt.labels, got, tt.want)
		}
	}
	offer := job.Offer{Labels: map[string]string{"zone": "a", "template.b": "true", "template.a": "true", "template.c": "no"}}
	if got := offer.Templates(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got templates %q of %v, want a and b", got, offer.Labels)
	}
	j := job.Job{Code: "1", Requires: job.Requirement{Labels: templates("data")}}
	if err := j.Prepare(now); err != nil || j.Requires.Template() != "data" {
		t.Errorf("got template %q, %v; want data", j.Requires.Template(), err)
	}
}

func TestPrepareOfContainers(t *testing.T) {
	t.Parallel()
	j := job.Job{Code: "1", Network: true, Requires: job.Requirement{
		Backends: []string{"docker+runsc"}, Image: "registry.example:5000/py@sha256:" + strings.Repeat("0", 64),
	}}
	if err := j.Prepare(now); err != nil {
		t.Fatal(err)
	}
	if !j.Requires.Network || j.Requires.Lane() == "docker+runsc" {
		t.Errorf("got requirement %+v in lane %s", j.Requires, j.Requires.Lane())
	}
	forged := job.Job{Code: "1", Requires: job.Requirement{Network: true}}
	if err := forged.Prepare(now); err != nil {
		t.Fatal(err)
	}
	if forged.Requires.Network {
		t.Error("a job that asks for no network requires one")
	}
}

func TestPrepareRefusesSchedule(t *testing.T) {
	t.Parallel()
	checkRefusals(t, []refusal{
		{"priority", "priority", "want one of", func(j *job.Job) { j.Priority = "urgent" }},
		{"negative attempts", "max_attempts", "1 to 20", func(j *job.Job) { j.MaxAttempts = -1 }},
		{"many attempts", "max_attempts", "1 to 20", func(j *job.Job) { j.MaxAttempts = 21 }},
		{"far start", "not_before", "more than a year", func(j *job.Job) { j.NotBefore = now.AddDate(1, 0, 1) }},
		{"deadline before the start", "deadline", "not after not_before", func(j *job.Job) { j.NotBefore, j.Deadline = now.Add(2), now.Add(1) }},
		{"far deadline", "deadline", "ten years", func(j *job.Job) { j.Deadline = now.AddDate(11, 0, 0) }},
	})
}

func TestPrepareFillsDefaults(t *testing.T) {
	t.Parallel()
	j := job.Job{Code: "1", Env: map[string]string{"ENVIRONMENT": "test", "HOMEPAGE": "x"}, Files: []job.File{{Path: "a/b"}, {Path: "a/c"}}}
	if err := j.Prepare(now); err != nil {
		t.Fatal(err)
	}
	if j.ID.IsZero() {
		t.Error("got no id")
	}
	want := job.Job{
		ID: j.ID, Tenant: "default", Code: "1", Env: j.Env, Files: j.Files, Limits: job.DefaultLimits(), Priority: job.PriorityNormal, MaxAttempts: 3,
		Requires: job.Requirement{Isolation: job.IsolationStrong, Limits: job.KernelLimits()},
	}
	if diff := cmp.Diff(want, j); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
	if err := j.Prepare(now); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, j); diff != "" {
		t.Errorf("prepared again (-want +got):\n%s", diff)
	}
}
