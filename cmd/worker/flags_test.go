package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func TestEachFlagHasHelpAndATwin(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	if _, code, done := parse([]string{"--help"}, &out, &errs); !done || code != exitOK {
		t.Fatalf("--help: code %d, done %v; %s", code, done, errs.String())
	}
	parser, err := kong.New(&config{}, kong.DefaultEnvars("AIRLOCK"))
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range parser.Model.Flags {
		if flag.Name == "help" {
			continue
		}
		twin := "AIRLOCK_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		if flag.Help == "" || len(flag.Envs) != 1 || flag.Envs[0] != twin {
			t.Errorf("--%s: help %q, twins %v; want help and %s", flag.Name, flag.Help, flag.Envs, twin)
		}
		if !strings.Contains(out.String(), "--"+flag.Name) {
			t.Errorf("--help lacks --%s", flag.Name)
		}
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
