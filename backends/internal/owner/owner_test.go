package owner_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"airlock/backends/internal/owner"
)

func TestLeft(t *testing.T) {
	t.Parallel()
	self, err := owner.This()
	if err != nil {
		t.Fatal(err)
	}
	mine := self.Name("1")
	// A child that has ended has a pid of this namespace that nobody has.
	child := exec.Command(os.Args[0], "-test.run=^$")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(mine, "-")
	dead := []string{parts[0], parts[1], strconv.Itoa(child.ProcessState.Pid()), parts[3], parts[4]}
	foreign := []string{parts[0], "1", dead[2], parts[3], parts[4]}
	for _, tt := range []struct {
		name, of string
		want     bool
	}{
		{"own", mine, false},
		{"of a dead process", strings.Join(dead, "-"), true},
		{"of another pid namespace", strings.Join(foreign, "-"), false},
		{"not ours", "system.slice", false},
		{"not ours with the prefix", "airlock-extra", false},
		{"not a number", "airlock-x-y-z-1", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := self.Left(tt.of); got != tt.want {
				t.Errorf("%s: got %v, want %v", tt.of, got, tt.want)
			}
		})
	}
}
