package broker_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"airlock/broker"

	"github.com/nats-io/nats.go"
)

const pythonProviders = "../examples/providers"

func python(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if found, err := exec.LookPath(name); err == nil {
			return found
		}
	}
	if required := "," + os.Getenv("AIRLOCK_REQUIRE") + ","; strings.Contains(required, ",nats,") {
		t.Fatal("no python3 found, which AIRLOCK_REQUIRE=nats needs for the provider in Python")
	}
	t.Skip("no python3 found")
	return ""
}

// The contract needs no SDK: a provider of the standard library's is found,
// called, fails with its own code, and passes for healthy.
func TestRawProviderInPython(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 0)
	var said strings.Builder
	cmd := exec.CommandContext(t.Context(), python(t), filepath.Join(pythonProviders, "raw_provider.py"), n.server.Addr().String())
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the provider: %v", err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() // it has been told nothing that would end it
		cmd.Wait()
		if t.Failed() {
			t.Logf("the provider said:\n%s", said.String())
		}
	})
	n.await(t, "text", "reverse")
	if tool, err := n.Find(t.Context(), "text", "reverse"); err != nil || tool.Description != "Reverses a text." || !tool.Idempotent || !tool.ReadOnly {
		t.Errorf("got tool %+v and error %v, want it as it describes itself", tool, err)
	}
	for _, subject := range []string{"$SRV.PING", "$SRV.PING.text", "$SRV.PING.text.raw-python-1"} {
		if _, err := n.nc.Request(subject, nil, time.Minute); err != nil {
			t.Errorf("%s: got error %v, want an answer", subject, err)
		}
	}
	b := n.serve(t, "text.*", broker.Config{})
	b.Hello()
	b.Call(1, "text.reverse", `{"text":"ab \u0000é"}`)
	b.Expect(`{"id":1,"ok":true,"value":"é\u0000 ba"}`)
	b.Call(2, "text.reverse", `{"text":""}`)
	b.Expect(`{"id":2,"ok":false,"error":{"code":"provider_error","message":"empty: nothing to reverse"}}`)
	b.Call(3, "text.reverse", `{"text":7}`)
	b.ExpectCode(3, broker.CodeBadArguments)
	b.end(t)
	if p := b.audit.Calls()[0].Provider; p != "raw-python-1" {
		t.Errorf("got provider %q recorded, want raw-python-1", p)
	}
	late := &nats.Msg{Subject: "tools.text.reverse", Data: []byte(`{"text":"x"}`), Header: nats.Header{"Airlock-Deadline": {"2000-01-01T00:00:00Z"}}}
	answer, err := n.nc.RequestMsg(late, time.Minute)
	if err != nil || answer.Header.Get("Nats-Service-Error-Code") != "deadline_exceeded" {
		t.Errorf("got %v and error %v, want the deadline exceeded", answer, err)
	}
}

// The examples are Python that every supported version reads; the one with
// nats-py is run where that is installed, which is not here.
func TestPythonProvidersCompile(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob(filepath.Join(pythonProviders, "*.py"))
	if err != nil || len(names) < 2 {
		t.Fatalf("got %v and error %v, want the examples", names, err)
	}
	check := "import ast, sys\nfor name in sys.argv[1:]: ast.parse(open(name).read(), name, feature_version=(3, 10))"
	if out, err := exec.CommandContext(t.Context(), python(t), append([]string{"-c", check}, names...)...).CombinedOutput(); err != nil {
		t.Errorf("got %v, want Python:\n%s", err, out)
	}
}
