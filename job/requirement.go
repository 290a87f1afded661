package job

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// Isolation is how strong a backend's wall is.
type Isolation string

// The levels, weakest first.
const (
	// IsolationNone: same user, for development only.
	IsolationNone    Isolation = "none"
	IsolationPartial Isolation = "partial"
	IsolationStrong  Isolation = "strong"
	IsolationVM      Isolation = "vm"
)

// Isolations lists the levels, weakest first.
func Isolations() []Isolation {
	return []Isolation{IsolationNone, IsolationPartial, IsolationStrong, IsolationVM}
}

// AtLeast reports whether i is as strong as want. A level that is unknown
// satisfies nothing and is satisfied by nothing.
func (i Isolation) AtLeast(want Isolation) bool {
	least := slices.Index(Isolations(), want)
	return least >= 0 && slices.Index(Isolations(), i) >= least
}

// Requirement is what a job asks of the backend and host that run it.
type Requirement struct {
	// Backends names the acceptable ones; none means any.
	Backends []string `json:"backends,omitzero"`
	// Isolation is the least acceptable level; the default is strong.
	Isolation Isolation `json:"isolation,omitzero"`
	OS        string    `json:"os,omitzero"`
	Arch      string    `json:"arch,omitzero"`
	// Image is one that the backend has, as its offer names it: by the
	// operator's name for it, or by its digest.
	Image string `json:"image,omitzero"`
	// Network is Job.Network; Prepare sets it.
	Network bool `json:"network,omitzero"`
	// Fresh asks for an interpreter that was started for the job, not forked
	// from a warm one.
	Fresh bool `json:"fresh,omitzero"`
	// Labels must all be present on the host with these values. One that
	// starts with TemplateLabel asks for a template.
	Labels map[string]string `json:"labels,omitzero"`
	// Limits are those the backend must enforce. Canonical derives them, so
	// that a submitter need not write them and cannot weaken them.
	Limits []LimitName `json:"limits,omitzero"`
}

// Offer is what one backend of one host can do.
type Offer struct {
	Backend   string      `json:"backend"`
	Version   string      `json:"version,omitzero"`
	Isolation Isolation   `json:"isolation"`
	OS        string      `json:"os"`
	Arch      string      `json:"arch"`
	Python    string      `json:"python,omitzero"`
	Limits    []LimitName `json:"limits,omitzero"`
	// Images are all names of the images that a job may ask for.
	Images []string `json:"images,omitzero"`
	// Network says that the operator allows guests a network.
	Network bool `json:"network,omitzero"`
	// Forked says that guests are forked from a warm interpreter: they share
	// its address layout and what it has imported.
	Forked bool `json:"forked,omitzero"`
	// Labels are the host's, and the templates that the backend has.
	Labels map[string]string `json:"labels,omitzero"`
}

// Canonical is the one form of a requirement in which order, duplicates and
// defaults no longer matter. limits are the job's as written, before defaults.
//
// Behind a wall every limit must hold, also those a job takes by default,
// since an unbounded guest is a failed wall. At isolation none, which a job
// has to ask for, only the limits that it names must.
func (r Requirement) Canonical(limits Limits) Requirement {
	r.Isolation = cmp.Or(r.Isolation, IsolationStrong)
	r.Backends = slices.Compact(slices.Sorted(slices.Values(r.Backends)))
	r.Labels = maps.Clone(r.Labels)
	if len(r.Labels) == 0 {
		r.Labels = nil
	}
	r.Limits = r.mustHold(limits)
	return r
}

// mustHold is never nil: an empty list says that no limit must hold. Limits
// without a gap have had their defaults filled, so that what is named in them
// no longer says what the submitter named.
func (r Requirement) mustHold(limits Limits) []LimitName {
	if r.Isolation != IsolationNone {
		return KernelLimits()
	}
	named := slices.Clone(r.Limits)
	if r.Limits == nil || limits != limits.WithDefaults() {
		named = append(named, limits.Named()...)
	}
	slices.Sort(named)
	return append([]LimitName{}, slices.Compact(named)...)
}

// plainBackends are those whose lanes are named after them. A name of which
// nothing is known could be that of another lane, such as "any" or a digest.
func plainBackends() []string {
	return []string{"appcontainer", "bubblewrap", "docker", "fake", "forkserver", "local", "seatbelt", "wasm"}
}

// anyLane is the requirement of a job that asks for nothing.
var anyLane = Requirement{}.Canonical(Limits{})

// Lane names a canonical requirement: "any" for the default, the known backends
// joined by "+" where nothing else is asked, else ten characters of a digest.
// The name is a subject token and a consumer's name.
func (r Requirement) Lane() string {
	if r.plain() {
		if len(r.Backends) == 0 {
			return "any"
		}
		unknown := func(b string) bool { return !slices.Contains(plainBackends(), b) }
		name := strings.Join(r.Backends, "+")
		if len(name) <= 48 && !slices.ContainsFunc(r.Backends, unknown) {
			return name
		}
	}
	sum := sha256.Sum256(r.document())
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:10])
}

// plain reports whether nothing but backends is asked beyond the default.
func (r Requirement) plain() bool {
	return r.Isolation == anyLane.Isolation && r.OS == "" && r.Arch == "" && r.Image == "" && !r.Network && !r.Fresh &&
		len(r.Labels) == 0 && slices.Equal(r.Limits, anyLane.Limits)
}

// document is the canonical JSON of a canonical requirement.
func (r Requirement) document() []byte {
	doc, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("a requirement does not encode: %v", err)) // strings and lists of strings always do
	}
	return doc
}

// Unmet says in one phrase why the offer does not satisfy the canonical
// requirement, or "" when it does.
func (r Requirement) Unmet(o Offer) string {
	if len(r.Backends) > 0 && !slices.Contains(r.Backends, o.Backend) {
		return fmt.Sprintf("backend is %s, want %s", o.Backend, strings.Join(r.Backends, " or "))
	}
	if !o.Isolation.AtLeast(r.Isolation) {
		return fmt.Sprintf("isolation is %s, want at least %s", o.Isolation, r.Isolation)
	}
	if r.OS != "" && r.OS != o.OS {
		return fmt.Sprintf("os is %s, want %s", o.OS, r.OS)
	}
	if r.Arch != "" && r.Arch != o.Arch {
		return fmt.Sprintf("arch is %s, want %s", o.Arch, r.Arch)
	}
	if r.Image != "" && !slices.Contains(o.Images, r.Image) {
		return fmt.Sprintf("image %s is not there", Printable(r.Image, 100))
	}
	if r.Network && !o.Network {
		return "guests get no network"
	}
	if r.Fresh && o.Forked {
		return "interpreter is forked, want a fresh one"
	}
	for _, key := range slices.Sorted(maps.Keys(r.Labels)) {
		if have, ok := o.Labels[key]; !ok || have != r.Labels[key] {
			return fmt.Sprintf("label %s is %q, want %q", key, have, r.Labels[key])
		}
	}
	for _, limit := range r.Limits {
		if !slices.Contains(o.Limits, limit) {
			return fmt.Sprintf("cannot enforce the %s limit", limit)
		}
	}
	return ""
}
