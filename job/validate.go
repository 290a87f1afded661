package job

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// The names that reach subjects, keys and columns. They are checked before
// any of those exists.
var (
	// namePattern is a tenant's or batch's: one subject token.
	namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	// toolPattern is a tool's or namespace's.
	toolPattern    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)
	envPattern     = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)
	wordPattern    = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,62}$`)
	backendPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,30}(\+[a-z0-9][a-z0-9_-]{0,30})?$`)
	imagePattern   = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._/:@-]*$`)
)

// ValidName reports whether s can be a tenant's or a batch's name.
func ValidName(s string) bool { return namePattern.MatchString(s) }

// ValidToolName reports whether s can be a tool's or a namespace's name.
func ValidToolName(s string) bool { return toolPattern.MatchString(s) }

// The variables that steer the loader, the interpreter or a shell, or that the
// sandbox itself sets: by prefix and by name.
var (
	reservedPrefixes = []string{"LD_", "DYLD_", "PYTHON", "AIRLOCK_", "MALLOC_", "GLIBC_", "BASH_"}
	reservedNames    = []string{"GCONV_PATH", "LOCPATH", "NLSPATH", "HOME", "PATH", "TMPDIR", "IFS", "SHELLOPTS", "ENV"}
)

func reservedEnv(name string) bool {
	starts := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	return slices.Contains(reservedNames, name) || slices.ContainsFunc(reservedPrefixes, starts)
}

// Prepare checks a job completely and fills its defaults, its ID included. It
// is idempotent. The error is a *FieldError.
func (j *Job) Prepare(now time.Time) error {
	checks := []func(now time.Time) *FieldError{
		j.checkUnsupported, j.checkIdentity, j.checkInputs, j.checkFiles, j.checkTools, j.checkRequires, j.checkSchedule,
	}
	for _, check := range checks {
		if err := check(now); err != nil {
			return err
		}
	}
	if err := j.Limits.check(); err != nil {
		return err
	}
	j.dropEmpty()
	j.Tenant = cmp.Or(j.Tenant, DefaultTenant)
	j.Priority = cmp.Or(j.Priority, PriorityNormal)
	j.MaxAttempts = cmp.Or(j.MaxAttempts, DefaultMaxAttempts)
	if j.OnRetry == OnRetryReplay {
		j.OnRetry = "" // the default has one form, and so one digest
	}
	j.Requires.Network = j.Network
	j.Requires = j.Requires.Canonical(j.Limits)
	j.Limits = j.Limits.WithDefaults()
	if j.ID.IsZero() {
		j.ID = NewID()
	}
	return nil
}

// dropEmpty makes an empty list the same as an absent one, so that both give
// the same content digest.
func (j *Job) dropEmpty() {
	if len(j.Stdin) == 0 {
		j.Stdin = nil
	}
	if len(j.Args) == 0 {
		j.Args = nil
	}
	if len(j.Env) == 0 {
		j.Env = nil
	}
	if len(j.Files) == 0 {
		j.Files = nil
	}
	if len(j.Tools) == 0 {
		j.Tools = nil
	}
	if len(j.Labels) == 0 {
		j.Labels = nil
	}
	if len(j.Collect) == 0 {
		j.Collect = nil
	}
	if len(j.RetryOn) == 0 {
		j.RetryOn = nil
	}
}

func (j *Job) checkUnsupported(time.Time) *FieldError {
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"expect", len(j.Expect) > 0},
		{"files.blob", slices.ContainsFunc(j.Files, func(f File) bool { return f.Blob != "" })},
	} {
		if field.set {
			return &FieldError{Field: field.name, Reason: "not supported yet: " + field.name}
		}
	}
	return nil
}

func (j *Job) checkIdentity(now time.Time) *FieldError {
	if j.Tenant != "" && !ValidName(j.Tenant) {
		return fieldErrorf("tenant", "want 1 to 64 letters, digits, _ and -")
	}
	if j.Batch != "" && !ValidName(j.Batch) {
		return fieldErrorf("batch", "want 1 to 64 letters, digits, _ and -")
	}
	if len(j.Key) > MaxKey {
		return fieldErrorf("key", "longer than %d bytes", MaxKey)
	}
	if len(j.Labels) > MaxLabels {
		return fieldErrorf("labels", "more than %d", MaxLabels)
	}
	for name, value := range j.Labels {
		if name == "" || len(name) > 64 || len(value) > 256 {
			return fieldErrorf("labels."+Printable(name, 64), "a name has 1 to 64 bytes, a value at most 256")
		}
		if strings.ContainsRune(name+value, 0) {
			return fieldErrorf("labels."+Printable(name, 64), "holds a NUL, which no database column can")
		}
	}
	if strings.ContainsRune(j.Key, 0) {
		return fieldErrorf("key", "holds a NUL, which no database column can")
	}
	if !j.ID.IsZero() {
		if made := j.ID.Time(); made.After(now.Add(5*time.Minute)) || made.Before(now.AddDate(-1, 0, 0)) {
			return fieldErrorf("id", "its time %s is not within the last year", made.Format(time.RFC3339))
		}
	}
	return nil
}

func (j *Job) checkInputs(time.Time) *FieldError {
	switch {
	case j.Code == "":
		return fieldErrorf("code", "required")
	case len(j.Code) > int(MaxCode):
		return fieldErrorf("code", "is %d bytes, the maximum is %s", len(j.Code), MaxCode)
	case len(j.Vars) > int(MaxVars):
		return fieldErrorf("vars", "is %d bytes, the maximum is %s", len(j.Vars), MaxVars)
	case len(j.Vars) > 0 && j.Vars.Kind() != '{':
		return fieldErrorf("vars", "want an object")
	case len(j.Stdin) > int(MaxStdin):
		return fieldErrorf("stdin", "is %d bytes, the maximum is %s", len(j.Stdin), MaxStdin)
	case len(j.Args) > MaxArgs:
		return fieldErrorf("args", "more than %d", MaxArgs)
	case len(j.Env) > MaxEnv:
		return fieldErrorf("env", "more than %d", MaxEnv)
	}
	for i, arg := range j.Args {
		if strings.ContainsRune(arg, 0) {
			return fieldErrorf(index("args", i, ""), "holds a NUL, which no argument can")
		}
	}
	if err := j.checkCollect(); err != nil {
		return err
	}
	return j.checkEnv()
}

func (j *Job) checkEnv() *FieldError {
	for _, name := range slices.Sorted(maps.Keys(j.Env)) {
		field := "env." + Printable(name, 64)
		if !envPattern.MatchString(name) {
			return fieldErrorf(field, "want upper-case letters, digits and _")
		}
		if reservedEnv(name) {
			return fieldErrorf(field, "is reserved: it would steer the interpreter or the sandbox")
		}
		if len(j.Env[name]) > 32<<10 {
			return fieldErrorf(field, "is %d bytes, the maximum is 32KiB", len(j.Env[name]))
		}
		if strings.ContainsRune(j.Env[name], 0) {
			return fieldErrorf(field, "holds a NUL, which no variable can")
		}
	}
	return nil
}

func (j *Job) checkFiles(time.Time) *FieldError {
	if len(j.Files) > MaxFiles {
		return fieldErrorf("files", "more than %d", MaxFiles)
	}
	seen, dirs := map[string]bool{}, map[string]bool{}
	for i, f := range j.Files {
		field := index("files", i, ".path")
		switch {
		case f.Path == "" || len(f.Path) > MaxPath:
			return fieldErrorf(field, "want 1 to 512 bytes")
		case strings.ContainsRune(f.Path, 0) || strings.ContainsRune(f.Path, '\\'):
			return fieldErrorf(field, "holds a NUL or a backslash")
		case !plain(f.Path):
			return fieldErrorf(field, "%q is not a plain path below /workspace", Printable(f.Path, 100))
		case seen[f.Path]:
			return fieldErrorf(field, "%q is there twice", Printable(f.Path, 100))
		case dirs[f.Path]:
			return fieldErrorf(field, "%q is a directory already", Printable(f.Path, 100))
		}
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			if seen[dir] {
				return fieldErrorf(field, "%q is a file already", Printable(dir, 100))
			}
			dirs[dir] = true
		}
		for part := range strings.SplitSeq(f.Path, "/") {
			if len(part) > maxPart {
				return fieldErrorf(field, "a part is longer than 255 bytes")
			}
		}
		seen[f.Path] = true
	}
	return nil
}

// plain reports whether a path leads below where it starts, by names only.
func plain(name string) bool {
	return !path.IsAbs(name) && path.Clean(name) == name && name != "." && name != ".." && !strings.HasPrefix(name, "../")
}

func (j *Job) checkTools(time.Time) *FieldError {
	if len(j.Tools) > MaxGrants {
		return fieldErrorf("tools", "more than %d", MaxGrants)
	}
	for i, g := range j.Tools {
		if !ValidToolName(g.Namespace) {
			return fieldErrorf(index("tools", i, ".namespace"), "want a letter, then at most 63 letters, digits, _ and -")
		}
		if g.Name != AnyTool && !ValidToolName(g.Name) {
			return fieldErrorf(index("tools", i, ".name"), `want a letter, then at most 63 letters, digits, _ and -; or "*"`)
		}
	}
	if j.Namespace != "" && !ValidToolName(j.Namespace) {
		return fieldErrorf("namespace", "want a letter, then at most 63 letters, digits, _ and -")
	}
	return nil
}

// validBackend reports whether b names one backend. A variant is named after
// its backend and what makes it one, such as docker+runsc; two backends joined
// so are a lane's name.
func validBackend(b string) bool {
	_, variant, _ := strings.Cut(b, "+")
	return backendPattern.MatchString(b) && !slices.Contains(plainBackends(), variant)
}

func (j *Job) checkRequires(time.Time) *FieldError {
	r := j.Requires
	if len(r.Backends) > 16 || len(r.Labels) > 16 {
		return fieldErrorf("requires", "more than 16 backends or labels")
	}
	for i, b := range r.Backends {
		if !validBackend(b) {
			return fieldErrorf(index("requires.backends", i, ""), "%q is no backend's name", Printable(b, 64))
		}
	}
	if r.Isolation != "" && !slices.Contains(Isolations(), r.Isolation) {
		return fieldErrorf("requires.isolation", "want one of %v", Isolations())
	}
	for i, limit := range r.Limits {
		if !slices.Contains(KernelLimits(), limit) {
			return fieldErrorf(index("requires.limits", i, ""), "want one of %v", KernelLimits())
		}
	}
	for field, value := range map[string]string{"requires.os": r.OS, "requires.arch": r.Arch} {
		if value != "" && !wordPattern.MatchString(value) {
			return fieldErrorf(field, "%q is not a name such as linux or amd64", Printable(value, 64))
		}
	}
	if r.Image != "" && (len(r.Image) > MaxImage || !imagePattern.MatchString(r.Image)) {
		return fieldErrorf("requires.image", "%q is not an image's name or digest of at most %d bytes", Printable(r.Image, 64), MaxImage)
	}
	for name, value := range r.Labels {
		if !wordPattern.MatchString(name) || len(value) > 128 || strings.ContainsRune(value, 0) {
			return fieldErrorf("requires.labels."+Printable(name, 64), "want a lower-case name and a value of at most 128 bytes")
		}
	}
	return r.checkTemplate()
}

func (j *Job) checkSchedule(now time.Time) *FieldError {
	if j.Priority != "" && !slices.Contains(Priorities(), j.Priority) {
		return fieldErrorf("priority", "want one of %v", Priorities())
	}
	if j.MaxAttempts < 0 || j.MaxAttempts > MaxAttempts {
		return fieldErrorf("max_attempts", "want 1 to %d", MaxAttempts)
	}
	for i, status := range j.RetryOn {
		switch {
		case !status.Retryable():
			return fieldErrorf(index("retry_on", i, ""), "%q is no failure of the guest's own; failures of ours are retried anyway", status)
		case slices.Contains(j.RetryOn[:i], status):
			return fieldErrorf(index("retry_on", i, ""), "%q is there twice", status)
		}
	}
	switch j.OnRetry {
	case "", OnRetryReplay, OnRetryRecall:
	default:
		return fieldErrorf("on_retry", "%q is neither %s nor %s", Printable(string(j.OnRetry), 40), OnRetryReplay, OnRetryRecall)
	}
	if j.NotBefore.After(now.AddDate(1, 0, 0)) {
		return fieldErrorf("not_before", "is more than a year away")
	}
	if !j.Deadline.IsZero() && !j.NotBefore.IsZero() && !j.Deadline.After(j.NotBefore) {
		return fieldErrorf("deadline", "is not after not_before")
	}
	if !j.Deadline.IsZero() && j.Deadline.Year() > now.Year()+10 {
		return fieldErrorf("deadline", "is more than ten years away")
	}
	return nil
}

func index(field string, i int, rest string) string {
	return field + "[" + jsontext.Int(int64(i)).String() + "]" + rest
}
