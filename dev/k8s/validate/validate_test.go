package validate

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

func TestManifests(t *testing.T) {
	t.Parallel()
	all := mustLoad(t, os.DirFS(".."))
	if got := len(workloads(all)); got != 3 {
		t.Errorf("got %d workloads, want NATS, Postgres and the worker", got)
	}
	for _, broken := range check(all) {
		t.Error(broken)
	}
}

// TestSeccompProfile: the profile that nodes get has the name that the worker
// asks for.
func TestSeccompProfile(t *testing.T) {
	t.Parallel()
	for _, w := range workloads(mustLoad(t, os.DirFS(".."))) {
		profile := w.pod.SecurityContext.SeccompProfile.LocalhostProfile
		if profile == nil {
			continue
		}
		if _, err := os.Stat("../seccomp-" + *profile); err != nil {
			t.Errorf("%s: %v", w, err)
		}
	}
}

// TestRules: each rule finds what breaks it, in the manifests as they are but
// for one change.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, file, old, new, want string }{
		{"unknown field", "10-nats.yaml", "serviceName:", "serviceNam:", `unknown field "serviceNam"`},
		{"field twice", "10-nats.yaml", "  replicas: 3", "  replicas: 3\n  replicas: 3", "already"},
		{"wrong type", "10-nats.yaml", "replicas: 3", "replicas: three", "cannot unmarshal"},
		{"unknown kind", "10-nats.yaml", "kind: StatefulSet", "kind: StatefullSet", "not known here"},
		{"privileged", "30-worker.yaml", "\n            procMount: Unmasked", "\n            privileged: true", "is privileged"},
		{"escalation", "10-nats.yaml", "allowPrivilegeEscalation: false", "privileged: false", "may gain privileges"},
		{"writable root", "10-nats.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "may write its root"},
		{"capability", "30-worker.yaml", `"SYS_PTRACE"]`, `"SYS_ADMIN"]`, "has capability SYS_ADMIN"},
		{"capabilities kept", "10-nats.yaml", `drop: ["ALL"]`, `drop: ["KILL"]`, "keeps capabilities"},
		{"root of the node", "30-worker.yaml", "\n      hostUsers: false", "\n      hostUsers: true", "may be the node's root"},
		{"proc of the node", "30-worker.yaml", "\n      hostUsers: false", "\n      hostUsers: true", "sees all of the node's /proc"},
		{"host path", "30-worker.yaml", "emptyDir:\n            sizeLimit: 256Mi", "hostPath:\n            path: /tmp", "mounts tmp from the node"},
		{"host network", "30-worker.yaml", "\n      hostUsers: false", "\n      hostUsers: false\n      hostNetwork: true", "shares a namespace"},
		{"seccomp", "30-worker.yaml", "type: Localhost\n          localhostProfile: airlock-worker.json", "type: Unconfined", "no seccomp profile"},
		{"token", "20-postgres.yaml", "      automountServiceAccountToken: false\n      enable", "      enable", "service account's token"},
		{"account", "20-postgres.yaml", "serviceAccountName: postgres", "serviceAccountName: other", "not in the set"},
		{"no limit", "10-nats.yaml", "              cpu: \"2\"\n", "", "limit of cpu"},
		{"limit below request", "20-postgres.yaml", "              memory: 2Gi", "              memory: 1Mi", "crossed"},
		{"no readiness", "20-postgres.yaml", "readinessProbe:", "livenessProbe:", ""},
		{"mount", "30-worker.yaml", "- name: ca\n              mountPath", "- name: cas\n              mountPath", "mounts cas"},
		{"open namespace", "40-network.yaml", `policyTypes: ["Ingress", "Egress"]`, `policyTypes: ["Ingress"]`, "not closed by default"},
		{"policy for nobody", "40-network.yaml", "podSelector:\n    matchLabels:\n      app: postgres", "podSelector:\n    matchLabels:\n      app: postgre", "not in the set"},
		{"service for nobody", "10-nats.yaml", "  selector:\n    app: nats", "  selector:\n    app: nat", "finds no pods"},
		{"namespace", "20-postgres.yaml", "  name: postgres\n  namespace: airlock\n", "  name: postgres\n", "wants a namespace"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := broken(t, tt.file, tt.old, tt.new)
			if got == "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want a complaint with %q", got, tt.want)
			}
		})
	}
}

// broken is what is found wrong with the manifests after one change.
func broken(t *testing.T, file, old, changed string) string {
	t.Helper()
	manifests := fstest.MapFS{}
	names, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name.Name(), ".yaml") {
			continue
		}
		raw, err := os.ReadFile("../" + name.Name())
		if err != nil {
			t.Fatal(err)
		}
		if name.Name() == file {
			text := strings.Replace(string(raw), old, changed, 1)
			if text == string(raw) {
				t.Fatalf("%s does not have %q: this test proves nothing", file, old)
			}
			raw = []byte(text)
		}
		manifests[name.Name()] = &fstest.MapFile{Data: raw}
	}
	all, err := load(manifests)
	if err != nil {
		return err.Error()
	}
	return strings.Join(check(all), "\n")
}
