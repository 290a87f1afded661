package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestRetain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		given string
		want  time.Duration
		err   string
	}{
		{"90d", 90 * 24 * time.Hour, ""},
		{"1d", 24 * time.Hour, ""},
		{"36h30m", 36*time.Hour + 30*time.Minute, ""},
		{"23h59m", 0, "give 1d or more"},
		{"0", 0, "give 1d or more"},
		{"0d", 0, "give 1d or more"},
		{"-90d", 0, "no number of days"},
		{"1.5d", 0, "no number of days"},
		{"99999999999999999999d", 0, "no number of days"},
		{"200000d", 0, "no number of days"},
		{"d", 0, "no number of days"},
		{"forever", 0, "such as 90d"},
	} {
		t.Run(tc.given, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			cfg, code, done := parse([]string{"--standalone", "--retain=" + tc.given}, &out, &errs)
			if tc.err != "" {
				if !done || code != exitUsage || !strings.Contains(errs.String(), tc.err) || !strings.Contains(errs.String(), "--retain") {
					t.Errorf("got code %d, said %q; want %d and %q", code, errs.String(), exitUsage, tc.err)
				}
				return
			}
			if done || time.Duration(cfg.Retain) != tc.want {
				t.Errorf("got %s (code %d, %s), want %s", time.Duration(cfg.Retain), code, errs.String(), tc.want)
			}
		})
	}
	cfg, _, _ := parse([]string{"--standalone"}, &bytes.Buffer{}, &bytes.Buffer{})
	if cfg.Retain != 0 {
		t.Errorf("by default got %s, want all kept", time.Duration(cfg.Retain))
	}
}
