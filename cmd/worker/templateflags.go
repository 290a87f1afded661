package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"airlock/job"
)

// templateFlags say what the forkserver backend forks guests from.
type templateFlags struct {
	Template        []string `sep:";" help:"Interpreter with modules imported ahead, from which the guests of jobs that require the label template.NAME=true are forked; may be given again. Its modules run with a template's rights before any wall of a guest's stands: name only what you trust." placeholder:"NAME=MODULE,…;…"`
	TenantTemplates bool     `help:"Fork no two tenants' guests from one interpreter. Each tenant costs the memory of its own."`
}

const (
	maxTemplates = 16
	maxModules   = 64
)

// modulePattern is a module's name as import takes it, ASCII only.
var modulePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}(\.[A-Za-z_][A-Za-z0-9_]{0,63}){0,7}$`)

// templates are the modules of each template by its name.
func (f templateFlags) templates() (map[string][]string, error) {
	if len(f.Template) > maxTemplates {
		return nil, fmt.Errorf("--template: more than %d; each is an interpreter that stays", maxTemplates)
	}
	all := map[string][]string{}
	for _, entry := range f.Template {
		name, list, ok := strings.Cut(strings.TrimSpace(entry), "=")
		modules := strings.Split(list, ",")
		switch {
		case !ok:
			return nil, fmt.Errorf("--template: %q is not NAME=MODULE,…", job.Printable(entry, 64))
		case !job.ValidTemplate(name):
			return nil, fmt.Errorf("--template: %q is no name of 1 to 32 lower-case letters, digits and -", job.Printable(name, 64))
		case all[name] != nil:
			return nil, fmt.Errorf("--template: %s is given twice; list its modules with commas between", name)
		case len(modules) > maxModules:
			return nil, fmt.Errorf("--template: %s has more than %d modules", name, maxModules)
		}
		for _, module := range modules {
			if !modulePattern.MatchString(module) {
				return nil, fmt.Errorf("--template: %q of %s is no module's name", job.Printable(module, 64), name)
			}
			if !slices.Contains(all[name], module) { // in the order given: imports have effects
				all[name] = append(all[name], module)
			}
		}
	}
	return all, nil
}
