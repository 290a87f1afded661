package main

import "testing"

// TestSpares: few guests of wasm stand ready where another backend comes first.
func TestSpares(t *testing.T) {
	t.Parallel()
	cfg := &config{Slots: 16, Parked: -1}
	for _, tt := range []struct {
		name  string
		place int
		want  int
	}{
		{"wasm", 0, 16},
		{"wasm", 1, fewSpares},
		{"bubblewrap", 1, 16},
	} {
		if got := cfg.spares(tt.place, tt.name); got != tt.want {
			t.Errorf("%s at place %d: got %d spares, want %d", tt.name, tt.place, got, tt.want)
		}
	}
	if got := (&config{Slots: 16, Parked: 1}).spares(1, "wasm"); got != 1 {
		t.Errorf("got %d spares of wasm with --parked 1, want 1", got)
	}
}
