// Package interpreter finds a Python for guests that are processes of this
// host, and lays out the guest's own code for it.
package interpreter

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"airlock/job"

	"github.com/go-json-experiment/json"
)

// Interpreter is a usable Python and what it needs.
type Interpreter struct {
	// Path is the real path of the program.
	Path    string
	Version string
	// Libraries are the directories of the standard library, Packages those
	// of installed packages that exist.
	Libraries, Packages []string
	// Mapped are the files of shared libraries and of the loader.
	Mapped []string
	// Zones is the directory of time zones, or "".
	Zones string
}

// Flags start an interpreter that looks at no environment, no user's and no
// site's configuration, and writes no bytecode.
func Flags() []string { return []string{"-I", "-S", "-B"} }

// oldest is the oldest minor version of Python 3 that the guest's code takes.
const oldest = 10

// candidates is where a Python is looked for when none is configured.
func candidates() []string {
	paths := []string{"/usr/bin/python3", "/usr/local/bin/python3"}
	if found, err := exec.LookPath("python3"); err == nil {
		paths = append(paths, found)
	}
	return paths
}

// Find returns the configured Python, or with "" the first that is usable by
// processes with these attributes, which may be nil. Its error says of each
// one why it is not.
func Find(ctx context.Context, configured string, attr *syscall.SysProcAttr) (Interpreter, error) {
	paths := []string{configured}
	if configured == "" {
		paths = candidates()
	}
	var errs []error
	for _, path := range paths {
		found, err := ask(ctx, path, attr)
		if err == nil {
			return found, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", path, err))
	}
	return Interpreter{}, fmt.Errorf("no usable Python: %w; install Python 3.%d or later where every user may read it, "+
		"for example with apt-get install python3", errors.Join(errs...), oldest)
}

//go:embed ask.py
var question string

// askTime bounds how long an interpreter may take to tell of itself.
const askTime = 30 * time.Second

// ask has the interpreter tell of itself, with an environment of nothing.
func ask(ctx context.Context, path string, attr *syscall.SysProcAttr) (Interpreter, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, append(Flags(), "-c", question)...)
	var stderr bytes.Buffer
	cmd.Env, cmd.Dir, cmd.SysProcAttr, cmd.Stderr = []string{"LC_ALL=C.UTF-8"}, "/", attr, &stderr
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return Interpreter{}, fmt.Errorf("%w %s", err, job.Printable(lastLine(stderr.String()), 200))
	}
	var told struct {
		Version    string   `json:"version"`
		Executable string   `json:"executable"`
		Libraries  []string `json:"libraries"`
		Packages   []string `json:"packages"`
		Mapped     []string `json:"mapped"`
		Zones      []string `json:"zones"`
	}
	if err := json.Unmarshal(out, &told); err != nil {
		return Interpreter{}, fmt.Errorf("read what it told of itself: %w", err)
	}
	if err := checkVersion(told.Version); err != nil {
		return Interpreter{}, err
	}
	found := Interpreter{
		Path: told.Executable, Version: told.Version, Mapped: told.Mapped,
		Libraries: existing(told.Libraries), Packages: existing(told.Packages),
	}
	if zones := existing(told.Zones); len(zones) > 0 {
		found.Zones = zones[0]
	}
	return found, nil
}

func checkVersion(version string) error {
	parts := strings.Split(version, ".")
	if len(parts) == 3 && parts[0] == "3" {
		if minor, err := strconv.Atoi(parts[1]); err == nil && minor >= oldest {
			return nil
		}
	}
	return fmt.Errorf("version is %s, want 3.%d or later", job.Printable(version, 20), oldest)
}

// existing keeps the directories that are there.
func existing(paths []string) []string {
	var dirs []string
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.IsDir() && filepath.IsAbs(path) {
			dirs = append(dirs, path)
		}
	}
	return dirs
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
