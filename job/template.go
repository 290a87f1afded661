package job

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A template is a warm interpreter with modules of the operator's choice, from
// which guests are forked. A worker advertises each that it has as the label
// TemplateLabel+name with the value TemplateHere, and a job requires that label.
const (
	TemplateLabel = "template."
	TemplateHere  = "true"
)

var templatePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// ValidTemplate reports whether s can be a template's name.
func ValidTemplate(s string) bool { return templatePattern.MatchString(s) }

// Template is the name of the template that the requirement asks for, or "".
// A job that passed Prepare asks for one at most.
func (r Requirement) Template() string {
	for _, label := range slices.Sorted(maps.Keys(r.Labels)) {
		name, ok := strings.CutPrefix(label, TemplateLabel)
		if ok && r.Labels[label] == TemplateHere && ValidTemplate(name) {
			return name
		}
	}
	return ""
}

// Templates are the names of those that the offer has, sorted.
func (o Offer) Templates() []string {
	var names []string
	for _, label := range slices.Sorted(maps.Keys(o.Labels)) {
		name, ok := strings.CutPrefix(label, TemplateLabel)
		if ok && o.Labels[label] == TemplateHere {
			names = append(names, name)
		}
	}
	return names
}

// checkTemplate refuses what no worker can have.
func (r Requirement) checkTemplate() *FieldError {
	asked := ""
	for _, label := range slices.Sorted(maps.Keys(r.Labels)) {
		name, ok := strings.CutPrefix(label, TemplateLabel)
		field := "requires.labels." + Printable(label, 64)
		switch {
		case !ok:
			continue
		case !ValidTemplate(name):
			return fieldErrorf(field, "want a template's name of 1 to 32 lower-case letters, digits and -")
		case r.Labels[label] != TemplateHere:
			return fieldErrorf(field, "want %q, as each template is advertised", TemplateHere)
		case asked != "":
			return fieldErrorf(field, "is a second template beside %q, want one", asked)
		case r.Fresh:
			return fieldErrorf("requires.fresh", "a template's guests are forked, and never fresh")
		}
		asked = name
	}
	return nil
}
