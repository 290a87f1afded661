package forkserver_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/forkserver"
	"airlock/job"
)

func TestSlotsAreReplacedByCount(t *testing.T) {
	t.Parallel()
	b, _ := open(t, forkserver.Config{MaxGuests: 3}) // the probe was the first
	var served []int
	for range 8 {
		r := guest{code: forever}.start(t, b)
		served = append(served, treeOf(t, b).slots()...)
		r.cancel()
		if _, err := r.end(); err != nil {
			t.Fatal(err)
		}
	}
	if runs := lengths(served); fmt.Sprint(runs) != "[2 3 3]" {
		t.Errorf("got slots %v, as many in a row %v, want 2 after the probe's and then 3", served, runs)
	}
	closesClean(t, b)
}

// lengths are those of the runs of equal numbers.
func lengths(all []int) []int {
	var runs []int
	for n, x := range all {
		if n == 0 || all[n-1] != x {
			runs = append(runs, 0)
		}
		runs[len(runs)-1]++
	}
	return runs
}

// TestReplacedByAge: what is too old gets no guest more, and what runs there
// goes on to its own end.
func TestReplacedByAge(t *testing.T) {
	t.Parallel()
	b, _ := open(t, forkserver.Config{MaxAge: 8 * time.Second})
	r := guest{code: forever}.start(t, b)
	old := treeOf(t, b)
	slot := old.slots()[0]
	var other tree
	until(t, "another template is there", func() bool {
		works(t, b)
		for _, launcher := range b.Launchers() {
			if launcher != old.launcher {
				other = treeAt(t, launcher)
				return true
			}
		}
		return false
	})
	if len(old.guests()) != 1 {
		t.Error("the guest of the old template is gone")
	}
	until(t, "only the guest's slot is left of the old template", func() bool {
		works(t, b)
		return slices.Equal(old.slots(), []int{slot})
	})
	if other.launcher == 0 {
		t.Error("there is no other template")
	}
	r.cancel()
	if s, err := r.end(); err != nil || s.outcome.Cause != backends.Killed {
		t.Errorf("got %+v, error %v for the guest of the old template, want killed by its cancellation", s.outcome, err)
	}
	if alive(old.launcher) || alive(old.template) {
		t.Error("the old template outlives its last guest")
	}
	closesClean(t, b)
}

// TestOldTemplateGoesOn: one is not given up before another is there.
func TestOldTemplateGoesOn(t *testing.T) {
	temp := publicDir(t)
	t.Setenv("TMPDIR", temp)
	b, _ := open(t, forkserver.Config{MaxAge: 8 * time.Second})
	old := treeOf(t, b)
	stages, err := filepath.Glob(temp + "/*")
	if err != nil || len(stages) != 1 {
		t.Fatalf("got %v, %v, want the guests' code", stages, err)
	}
	if err := os.Rename(stages[0], stages[0]+".away"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(11 * time.Second); time.Now().Before(deadline); {
		works(t, b)
	}
	if now := b.Launchers(); !slices.Equal(now, []int{old.launcher}) {
		t.Errorf("got launchers %v, want only %d, since no other can be started", now, old.launcher)
	}
	if err := os.Rename(stages[0]+".away", stages[0]); err != nil {
		t.Fatal(err)
	}
	closesClean(t, b)
}

// TestTenantsShareNoSlot: nor, where that is asked for, a template.
func TestTenantsShareNoSlot(t *testing.T) {
	t.Parallel()
	for _, apart := range []bool{false, true} {
		b, _ := open(t, forkserver.Config{TenantTemplates: apart})
		type place struct{ slot, launcher int }
		at := map[string][]place{}
		for n := range 8 {
			tenant := []string{"ada", "bob"}[n%2]
			before := slotsOf(t, b)
			r := guest{code: forever, tenant: tenant}.start(t, b)
			for launcher, guests := range guestsOf(t, b) {
				for slot := range guests {
					at[tenant] = append(at[tenant], place{slot, launcher})
				}
			}
			r.cancel()
			if _, err := r.end(); err != nil {
				t.Fatal(err)
			}
			if n >= 2 && fmt.Sprint(before) != fmt.Sprint(slotsOf(t, b)) {
				t.Errorf("got slots %v, then %v, want each tenant's used again", before, slotsOf(t, b))
			}
		}
		for _, a := range at["ada"] {
			for _, b := range at["bob"] {
				if a.slot == b.slot || apart && a.launcher == b.launcher {
					t.Errorf("both tenants had %+v and %+v, templates apart %v", a, b, apart)
				}
			}
		}
		if len(at["ada"]) != 4 || len(at["bob"]) != 4 {
			t.Errorf("got %v, want each guest seen", at)
		}
		closesClean(t, b)
	}
}

func slotsOf(t *testing.T, b *forkserver.Backend) (all []int) {
	for _, launcher := range b.Launchers() {
		all = append(all, treeAt(t, launcher).slots()...)
	}
	slices.Sort(all)
	return all
}

// guestsOf has each guest by its slot, by its launcher.
func guestsOf(t *testing.T, b *forkserver.Backend) map[int]map[int]int {
	found := map[int]map[int]int{}
	for _, launcher := range b.Launchers() {
		found[launcher] = map[int]int{}
		for _, slot := range treeAt(t, launcher).slots() {
			for _, child := range childrenOf(slot) {
				found[launcher][slot] = child
			}
		}
	}
	return found
}

// TestTemplatesAreBounded: tenants come and go, and what is kept for them does
// not grow with them.
func TestTemplatesAreBounded(t *testing.T) {
	t.Parallel()
	b, _ := open(t, forkserver.Config{TenantTemplates: true})
	most := 0
	for n := range 20 {
		s := guest{code: "return 1", tenant: fmt.Sprint("tenant", n)}.run(t, b)
		if s.value != "1" {
			t.Fatalf("got %+v", s)
		}
		most = max(most, len(b.Launchers()))
	}
	// 16, and the one that comes before the oldest goes.
	if most < 10 || most > 17 {
		t.Errorf("got up to %d templates, want at most 17", most)
	}
	closesClean(t, b)
}

// TestUnknownTemplate: a name that the backend does not have is no reason to
// run the job elsewhere, and one whose modules cannot be had is not offered.
func TestUnknownTemplate(t *testing.T) {
	t.Parallel()
	b, caps := open(t, forkserver.Config{Templates: map[string][]string{
		"good": {"decimal"}, "absent": {"no_such_module_there"},
	}})
	if got := fmt.Sprint(caps.Labels); got != fmt.Sprintf("map[%sgood:%s]", job.TemplateLabel, job.TemplateHere) {
		t.Errorf("got labels %s, want only the good one", got)
	}
	if _, err := (guest{code: "return 1", template: "other"}).try(t.Context(), b); !errors.Is(err, backends.ErrUnenforceable) {
		t.Errorf("got error %v, want ErrUnenforceable", err)
	}
	_, err := guest{code: "return 1", template: "absent"}.try(t.Context(), b)
	if err == nil || !strings.Contains(err.Error(), "no_such_module_there") {
		t.Errorf("got error %v, want one that names the module", err)
	}
	s := guest{code: "import sys\nreturn 'decimal' in sys.modules", template: "good"}.run(t, b)
	if s.value != "true" {
		t.Errorf("got %q; %s", s.value, s.fault)
	}
	if s := ran(t, b, "import sys\nreturn 'decimal' in sys.modules", job.Limits{}); s.value != "false" {
		t.Errorf("got %q from the template without a name; %s", s.value, s.fault)
	}
	closesClean(t, b)
}

// TestCloseEndsGuests: with whatever runs.
func TestCloseEndsGuests(t *testing.T) {
	t.Parallel()
	b, _ := open(t, forkserver.Config{})
	r := guest{code: "import os, time\nfor _ in range(3):\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(600)\n" + forever}.start(t, b)
	closesClean(t, b)
	if s, err := r.end(); err != nil || s.outcome.Cause != backends.Killed {
		t.Errorf("got %+v, error %v for the guest that ran, want killed", s.outcome, err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
	if _, err := (guest{code: "return 1"}).try(t.Context(), b); !errors.Is(err, backends.ErrClosed) {
		t.Errorf("got error %v from run after close, want ErrClosed", err)
	}
	if _, err := b.Probe(t.Context()); !errors.Is(err, backends.ErrUnavailable) {
		t.Errorf("got error %v from probe after close, want ErrUnavailable", err)
	}
}
