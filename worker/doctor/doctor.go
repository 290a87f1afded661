// Package doctor looks for facts of a host that weaken the isolation of guests,
// or that give away what stands around them. It changes nothing and needs no
// privileges; what it cannot see it says it did not check.
//
// A finding is about this host as it is configured. That a host has none does
// not make its kernel free of bugs.
package doctor

import (
	"context"
	"slices"
)

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	// Critical: somebody who should not can take over the host or the pool,
	// or a guest's wall is known to have a hole.
	Critical Severity = "critical"
	// Warning: a wall behind the first is missing, or may be.
	Warning Severity = "warning"
	// Info: good to know, or not checked.
	Info Severity = "info"
)

// Severities lists them, worst first.
func Severities() []Severity { return []Severity{Critical, Warning, Info} }

// Finding is one fact.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	// Seen is what is the matter, Remedy what to do about it. Both may hold
	// text of the host's, such as a version.
	Seen   string `json:"seen"`
	Remedy string `json:"remedy,omitzero"`
}

// Report is what an examination found.
type Report struct {
	// Findings are sorted, the worst first.
	Findings []Finding `json:"findings"`
	// Passed names the checks that found nothing.
	Passed []string `json:"passed"`
}

// Critical reports whether a finding is.
func (r Report) Critical() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == Critical })
}

// check is one row of the table. look finds nothing where all is well; it
// leaves out the name of the check.
type check struct {
	name string
	look func(ctx context.Context, h Host) []Finding
}

// checks are all that this system knows.
func checks() []check {
	return append(systemChecks(),
		check{"runc version", runcVersion},
		check{"containerd version", containerdVersion},
		check{"engine version", engineVersion},
		check{"bubblewrap version", bubblewrapVersion},
		check{"bubblewrap setuid", bubblewrapSetuid},
		check{"engine socket", engineSocket},
		check{"engine tcp", engineTCP},
		check{"engine users", engineUsers},
		check{"engine restart", engineRestart},
		check{"nats", natsServer},
		check{"postgres", postgresServer},
		check{"backends", backendProbes},
	)
}

// Checks names all checks, in order.
func Checks() []string {
	var names []string
	for _, c := range checks() {
		names = append(names, c.name)
	}
	return names
}

// Examine makes every check.
func Examine(ctx context.Context, h Host) Report {
	r := Report{Findings: []Finding{}, Passed: []string{}}
	for _, c := range checks() {
		found := c.look(ctx, h)
		for _, f := range found {
			f.Check = c.name
			r.Findings = append(r.Findings, f)
		}
		if len(found) == 0 {
			r.Passed = append(r.Passed, c.name)
		}
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return slices.Index(Severities(), a.Severity) - slices.Index(Severities(), b.Severity)
	})
	return r
}

func found(severity Severity, seen, remedy string) []Finding {
	return []Finding{{Severity: severity, Seen: seen, Remedy: remedy}}
}

// unchecked is the finding of a check that could not be made.
func unchecked(why string) []Finding { return found(Info, "not checked: "+why, "") }
