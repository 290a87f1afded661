package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"airlock/backends/all"
)

func TestEachFlagHasHelpAndATwin(t *testing.T) {
	t.Parallel()
	t.Run("worker", func(t *testing.T) {
		t.Parallel()
		var out, errs bytes.Buffer
		if _, code, done := parse([]string{"--help"}, &out, &errs); !done || code != exitOK {
			t.Fatalf("--help: code %d, done %v; %s", code, done, errs.String())
		}
		checkFlags(t, &config{}, out.String())
		for _, c := range commands(all.Self{}) {
			if !strings.Contains(out.String(), "worker "+c.name) || !strings.Contains(flat(out.String()), flat(c.help)) {
				t.Errorf("--help lacks the command %s or its help %q:\n%s", c.name, c.help, out.String())
			}
		}
	})
	for _, c := range commands(all.Self{}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			if code := run(t.Context(), all.Self{}, []string{c.name, "--help"}, &out, &errs); code != exitOK {
				t.Fatalf("--help: code %d; %s", code, errs.String())
			}
			if c.help == "" || !strings.Contains(flat(out.String()), flat(c.help)) {
				t.Errorf("--help lacks %q:\n%s", c.help, out.String())
			}
			if flags := checkFlags(t, c.knobs(), out.String()); !slices.Contains(flags, "json") {
				t.Errorf("got flags %v, want --json among them", flags)
			}
		})
	}
}

func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

// checkFlags checks the flags of a struct against its help and returns their
// names.
func checkFlags(t *testing.T, knobs any, help string) (names []string) {
	t.Helper()
	parser, err := kong.New(knobs, kong.DefaultEnvars("AIRLOCK"))
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range parser.Model.Flags {
		if flag.Name == "help" {
			continue
		}
		names = append(names, flag.Name)
		twin := "AIRLOCK_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		if flag.Help == "" || len(flag.Envs) != 1 || flag.Envs[0] != twin {
			t.Errorf("--%s: help %q, twins %v; want help and %s", flag.Name, flag.Help, flag.Envs, twin)
		}
		if !strings.Contains(help, "--"+flag.Name) || !strings.Contains(flat(help), strings.TrimSuffix(flat(flag.Help), ".")) {
			t.Errorf("--help lacks --%s or its text", flag.Name)
		}
	}
	return names
}

// TestATwinMeansTheSameEverywhere: the variables are the worker's and its
// commands' at once.
func TestATwinMeansTheSameEverywhere(t *testing.T) {
	t.Parallel()
	types := map[string]reflect.Type{}
	flags := []any{&config{}}
	for _, c := range commands(all.Self{}) {
		flags = append(flags, c.knobs())
	}
	for _, knobs := range flags {
		parser, err := kong.New(knobs, kong.DefaultEnvars("AIRLOCK"))
		if err != nil {
			t.Fatal(err)
		}
		for _, flag := range parser.Model.Flags {
			if other, ok := types[flag.Name]; ok && other != flag.Target.Type() {
				t.Errorf("--%s is a %s in %T and a %s elsewhere", flag.Name, flag.Target.Type(), knobs, other)
			}
			types[flag.Name] = flag.Target.Type()
		}
	}
}

func TestCommandsRefuseWrongUsage(t *testing.T) {
	t.Parallel()
	for _, c := range commands(all.Self{}) {
		var out, errs bytes.Buffer
		code := run(t.Context(), all.Self{}, []string{c.name, "--bogus"}, &out, &errs)
		if code != exitUsage || !strings.Contains(errs.String(), "worker "+c.name+" --help") || out.Len() > 0 {
			t.Errorf("%s: code %d, said %q, printed %q; want %d and where help is", c.name, code, errs.String(), out.String(), exitUsage)
		}
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), all.Self{}, []string{"no-such-command"}, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), "no-such-command") {
		t.Errorf("unknown command: code %d, said %q; want %d and its name", code, errs.String(), exitUsage)
	}
}

func TestFlagsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"nothing", nil, "--standalone"},
		{"half a pool", []string{"--nats", "nats://x"}, "--postgres"},
		{"both ways", []string{"--standalone", "--nats", "nats://x"}, "leave --nats"},
		{"slots", []string{"--standalone", "--slots", "-1"}, "--slots"},
		{"parked", []string{"--standalone", "--parked", "-2"}, "--parked"},
		{"an even cluster", []string{"--nats", "nats://x", "--postgres", "postgres://x", "--nats-replicas", "2"}, "--nats-replicas"},
		{"a cluster of itself", []string{"--standalone", "--nats-replicas", "3"}, "--nats-replicas"},
		{"maxima that are no JSON", []string{"--standalone", "--max-limits", "{"}, "--max-limits"},
		{"maxima of nothing known", []string{"--standalone", "--max-limits", `{"memmory": 1}`}, "memmory"},
		{"a label without a name", []string{"--standalone", "--labels", "=x"}, "--labels"},
		{"a label that claims a template", []string{"--standalone", "--labels", "template.data=true"}, "claims a template"},
		{"a template without modules", []string{"--standalone", "--template", "data"}, "is not NAME=MODULE"},
		{"a template of nothing", []string{"--standalone", "--template", "data="}, "no module's name"},
		{"a template without a name", []string{"--standalone", "--template", "=numpy"}, "is no name"},
		{"a template's bad name", []string{"--standalone", "--template", "Data=numpy"}, "is no name"},
		{"a module that is none", []string{"--standalone", "--template", "data=os;import"}, "NAME=MODULE"},
		{"a module that is code", []string{"--standalone", "--template", "data=os.system()"}, "no module's name"},
		{"a relative module", []string{"--standalone", "--template", "data=.x"}, "no module's name"},
		{"a template twice", []string{"--standalone", "--template", "data=numpy", "--template", "data=json"}, "given twice"},
		{"a policy that is not there", []string{"--standalone", "--policy", filepath.Join(t.TempDir(), "none.json")}, "none.json"},
		{"a policy that is wrong", []string{"--standalone", "--policy", writtenPolicy(t, `{"rules": [{"tenant": "a.b", "namespace": "*", "name": "*", "calls": 1, "rate": {}}]}`)}, "rules[0]."},
		{"an unknown flag", []string{"--bogus"}, "bogus"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			_, code, done := parse(tc.args, &out, &errs)
			if !done || code != exitUsage || !strings.Contains(errs.String(), tc.want) {
				t.Errorf("code %d, done %v, said %q; want %d and %q", code, done, errs.String(), exitUsage, tc.want)
			}
			if out.Len() > 0 {
				t.Errorf("stdout: %q", out.String())
			}
		})
	}
}

func writtenPolicy(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaultsAndMaxima(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	cfg, _, done := parse([]string{"--standalone", "--slots", "3", "--max-limits", `{"memory": "1GiB"}`}, &out, &errs)
	if done {
		t.Fatal(errs.String())
	}
	if cfg.Slots != 3 || cfg.parked() != 3 || cfg.max.Memory != 1<<30 {
		t.Errorf("got slots %d, parked %d, memory %d; want 3, 3, 1 GiB", cfg.Slots, cfg.parked(), cfg.max.Memory)
	}
}

func TestTemplateFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--template", "data=numpy,pandas,numpy", "--template", "xml-2=xml.etree.ElementTree"},
		{"--template", "data=numpy,pandas;xml-2=xml.etree.ElementTree"},
	} {
		var out, errs bytes.Buffer
		cfg, _, done := parse(append([]string{"--standalone", "--tenant-templates"}, args...), &out, &errs)
		if done {
			t.Fatal(errs.String())
		}
		want := map[string][]string{"data": {"numpy", "pandas"}, "xml-2": {"xml.etree.ElementTree"}}
		if diff := cmp.Diff(want, cfg.warm); diff != "" || !cfg.TenantTemplates {
			t.Errorf("%v: tenant templates %v, templates (-want +got):\n%s", args, cfg.TenantTemplates, diff)
		}
	}
}
