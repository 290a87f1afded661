package integration_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDeployDocument: what DEPLOY.md names is there: targets of make, files of
// the repository, flags and verbs of the commands. Blocks marked sh are run on
// this kind of host by these tests or by those of what they start; console
// ones are for other hosts.
func TestDeployDocument(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../DEPLOY.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	if lines := strings.Count(text, "\n"); lines > 300 {
		t.Errorf("DEPLOY.md has %d lines, want at most 300", lines)
	}
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	each := func(pattern string, check func(found string)) {
		t.Helper()
		all := regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1)
		if len(all) == 0 {
			t.Errorf("DEPLOY.md has nothing like %s", pattern)
		}
		for _, m := range all {
			check(m[1])
		}
	}
	each("(?m)(?:`|^|^CGO_ENABLED=0 )make ([a-z0-9-]+)", func(target string) {
		if !strings.Contains(string(makefile), "\n"+target+":") {
			t.Errorf("DEPLOY.md names make %s, which the Makefile lacks", target)
		}
	})
	each("(?:^|[^/])\\b((?:dev|integration|runner-image|backends|migrations)/[A-Za-z0-9_./-]*[A-Za-z0-9])", func(file string) {
		if _, err := os.Stat("../" + file); err != nil {
			t.Errorf("DEPLOY.md names %s: %v", file, err)
		}
	})
	help := helpOf(t, "worker") + helpOf(t, "submit", "run") + helpOf(t, "submit", "approve") + helpOf(t, "gateway", "serve") + helpOf(t, "worker", "nats-config")
	each("`(--[a-z-]+)", func(flag string) {
		if !strings.Contains(help, flag) {
			t.Errorf("DEPLOY.md names %s, which no command knows", flag)
		}
	})
	each("bin/submit ([a-z]+)", func(verb string) { helpOf(t, "submit", verb) })
	each("[`/]worker ([a-z]+[a-z-]*)[` ]", func(verb string) {
		if !strings.Contains(help, "worker "+verb+" ") {
			t.Errorf("DEPLOY.md names worker %s, which it does not know", verb)
		}
	})
	knownTwins(t, "DEPLOY.md", strings.NewReplacer("AIRLOCK_RUNNER_IMAGE", "", "AIRLOCK_RUNNER_BASE", "").Replace(text))
}
