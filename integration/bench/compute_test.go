package main

import (
	"strings"
	"testing"
	"time"
)

// TestCompared: the start of an interpreter is in neither, and the program
// that loses most is what is judged.
func TestCompared(t *testing.T) {
	t.Parallel()
	all := []program{{name: "nothing"}, {name: "loops"}, {name: "json"}}
	ms := func(times ...int) (out []time.Duration) {
		for _, n := range times {
			out = append(out, time.Duration(n)*time.Millisecond)
		}
		return out
	}
	got, err := compared(all, ms(80, 480, 880), ms(20, 120, 120))
	if err != nil || got.ID != computed || got.Value != 8 || got.Detail != "loops 4, json 8" {
		t.Errorf("got %+v, %v, want 8 times at worst, of loops 4, json 8", got, err)
	}
	if _, err := compared(all, ms(80, 480, 80), ms(20, 120, 120)); err == nil || !strings.Contains(err.Error(), "json") {
		t.Errorf("got error %v of a program that took nothing, want one that names it", err)
	}
	for value, want := range map[float64]string{7.9: "yes", 8.1: "NO"} {
		r := &report{Trials: []trial{{ID: computed, Value: value}}}
		r.judge()
		for _, v := range r.Goals {
			if strings.HasPrefix(v.What, "CPU-bound") && v.Met != want {
				t.Errorf("got %+v for %v times, want %s", v, value, want)
			}
		}
	}
}
