package integration_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readme are the fenced blocks of README.md, by language.
func readme(t *testing.T) map[string][]string {
	t.Helper()
	raw, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string][]string{}
	for _, m := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```").FindAllStringSubmatch(string(raw), -1) {
		blocks[m[1]] = append(blocks[m[1]], m[2])
	}
	return blocks
}

// answers are the worker's commands that start none, with what may keep them
// from exit code 0 on a host that is as hosts are.
var answers = map[string]string{
	"bin/worker --list-backends": "",
	"bin/worker images":          "worker images: ask the engine",
	"bin/worker doctor":          " critical\n",
}

// runnable are how the other commands begin that a reader can run at once.
var runnable = []string{"bin/submit", "curl", "PYTHONPATH"}

// TestReadmeCommands runs every submit, curl and Python command of the README,
// and the answers, against a real Airlock; those that start a worker are what
// all other tests do.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	env := standaloneEnv(t)
	dir := t.TempDir()
	blocks := readme(t)
	if len(blocks["json"]) == 0 || len(blocks["sh"]) == 0 {
		t.Fatal("README.md has no commands or no job")
	}
	if err := os.WriteFile(filepath.Join(dir, "jobs.jsonl"), []byte(blocks["json"][0]), 0o600); err != nil {
		t.Fatal(err)
	}
	clients, err := filepath.Abs("../clients")
	if err != nil {
		t.Fatal(err)
	}
	id := runJob(t, "await add(a=1, b=2)", "--tools", "math.add").Job
	ran := 0
	for line := range strings.Lines(strings.Join(blocks["sh"], "")) {
		line = strings.TrimSpace(line)
		excuse, answer := answers[line]
		if !answer && !slices.ContainsFunc(runnable, func(start string) bool { return strings.HasPrefix(line, start) }) {
			continue
		}
		line = strings.NewReplacer("bin/", filepath.Dir(binary(t, "submit"))+"/", "JOB", id.String(), "clients/", clients+"/").Replace(line)
		cmd := exec.Command("bash", "-c", line)
		cmd.Dir = dir
		cmd.Env = os.Environ()
		for name, value := range env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		out, err := cmd.CombinedOutput()
		if err != nil && (excuse == "" || !strings.Contains(string(out), excuse)) {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
		if strings.Contains(line, "/execute") && !executed.Match(out) {
			t.Errorf("%s: got %s, want %s", line, out, executed)
		}
		ran++
	}
	if ran < 9+len(answers) {
		t.Errorf("ran %d commands of the README, want all of them", ran)
	}
}

// executed is the shape of the sample's answer.
var executed = regexp.MustCompile(`^\{"status":"success","stdout":"4\\n","stderr":"","exit_code":0,"execution_time_ms":[0-9.]+,"memory_used_mb":[0-9.]+\}\n$`)

// TestReadmeTargets finds each make target that the README names.
func TestReadmeTargets(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("`?make ([a-z-]+)").FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(string(raw), "\n"+m[1]+":") {
			t.Errorf("README.md names make %s, which the Makefile lacks", m[1])
		}
	}
}
