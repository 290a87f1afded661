package queue_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"airlock/queue"
)

const generatedMark = "<!-- generated -->\n"

// With AIRLOCK_UPDATE=1 it writes the document instead.
func TestPermissionsAreDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("PERMISSIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	before, got, _ := strings.Cut(string(doc), generatedMark)
	want := documented(t)
	if os.Getenv("AIRLOCK_UPDATE") != "" {
		must(t, os.WriteFile("PERMISSIONS.md", []byte(before+generatedMark+want), 0o644))
		return
	}
	if got != want {
		t.Errorf("PERMISSIONS.md is not what the code allows; run this test with AIRLOCK_UPDATE=1. Want:\n%s", want)
	}
}

func documented(t *testing.T) string {
	var b strings.Builder
	for _, u := range []queue.User{
		{Role: queue.RoleWorker}, {Role: queue.RoleSubmitter, Of: "TENANT"}, {Role: queue.RoleProvider, Of: "NAMESPACE"},
		{Role: queue.RoleApprover, Of: "TENANT"}, {Role: queue.RoleAnalyst, Of: "TENANT"}, {Role: queue.RoleGateway}, {Role: queue.RoleAdmin},
	} {
		p, err := u.Permissions()
		must(t, err)
		fmt.Fprintf(&b, "\n## %s\n\n```\n", u.Name())
		for _, subject := range p.Publish {
			fmt.Fprintf(&b, "publish    %s\n", subject)
		}
		for _, subject := range p.Subscribe {
			fmt.Fprintf(&b, "subscribe  %s\n", subject)
		}
		b.WriteString("```\n")
	}
	return b.String()
}
