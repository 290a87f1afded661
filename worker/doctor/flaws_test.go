package doctor_test

import (
	"strings"
	"testing"

	"airlock/worker/doctor"
)

func TestTheTablesOfFlawsCanBeRead(t *testing.T) {
	t.Parallel()
	for program, table := range doctor.Flaws() {
		for i, row := range table {
			if !row.Sound() {
				t.Errorf("%s, row %d: %+v", program, i, row)
			}
		}
	}
}

func TestVersionsAndFlaws(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ program, version, want string }{
		{"runc", "1.0.0-rc6", "2019-5736 2024-21626 2025-31133 2026-41579"},
		{"runc", "1.1.11", "2024-21626 2025-31133 2026-41579"},
		{"runc", "1.1.12", "2025-31133 2026-41579"}, // its line of releases got no later fix
		{"runc", "1.2.8", "2026-41579"},
		{"runc", "1.3.3", "2026-41579"},
		{"runc", "1.3.6", ""},
		{"runc", "1.4.0-rc.2", "2025-31133 2026-41579"},
		{"runc", "1.4.0-rc.3", "2026-41579"},
		{"runc", "1.4.0", "2026-41579"},
		{"runc", "v1.5.0", ""},
		{"runc", "2.0", ""},
		{"containerd", "1.6.20~ds1", "2024-40635 2024-25621"},
		{"containerd", "1.7.29", ""},
		{"containerd", "2.1.4", "2024-25621"},
		{"containerd", "2.3.0", ""},
		{"engine", "20.10.24+dfsg1", "2024-41110 2026-34040"},
		{"engine", "26.1.5", "2026-34040"},
		{"engine", "29.3.1", ""},
		{"bubblewrap", "0.3.3", ""},
		{"bubblewrap", "0.4.0", "2020-5291"},
		{"bubblewrap", "0.8.0", ""},
		{"kernel", "4.13.9", ""},
		{"kernel", "5.4.100", "2026-31431"},
		{"kernel", "5.10.101", "2022-0847 2026-31431"},
		{"kernel", "5.10.254", ""},
		{"kernel", "6.18.44-fc-v669", ""},
		{"kernel", "7.0.0-rc1", "2026-31431"},
		{"kernel", "7.1", ""},
		{"nats", "2.12.11", "2026-58251"},
		{"nats", "2.12.12", ""},
		{"nats", "2.13.9", "2026-58251"},
		{"nats", "2.15.0", ""},
		{"nats", "new", "not a version"},
		{"nats", "2", "not a version"},
	} {
		got := doctor.Has(tc.program, tc.version)
		for _, id := range strings.Fields(tc.want) {
			if !strings.Contains(strings.Join(got, " "), id) {
				t.Errorf("%s %s: got %v, want %s among them", tc.program, tc.version, got, id)
			}
		}
		if tc.want != "not a version" && len(got) != len(strings.Fields(tc.want)) {
			t.Errorf("%s %s: got %v, want %s", tc.program, tc.version, got, tc.want)
		}
	}
}
