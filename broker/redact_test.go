package broker_test

import (
	"fmt"
	"strings"
	"testing"

	"airlock/broker"
	"airlock/broker/brokertest"
)

// What a rule redacts is nowhere in the audit, on whichever way it may come
// there, while provider and guest see it.
func TestRedaction(t *testing.T) {
	t.Parallel()
	const secret = "SECRET-4711"
	answers := map[string]*broker.Answer{
		"ok":       brokertest.Body(`{"token": {"value": "` + secret + `"}, "sum": 3}`),
		"declined": {Code: broker.CodeProviderError, Message: "declined: the pin " + secret + " is wrong", Detail: "pin " + secret},
		"strange":  {Code: broker.CodeProviderError, Message: secret + " is wrong", Detail: secret},
		"broken":   {Body: []byte(`{"token": "` + secret)},
		"timeout":  {Code: broker.CodeTimeout, Message: "late: " + secret, Detail: secret},
		"large":    {Code: broker.CodeTooLarge, Message: "large: " + secret, Detail: secret},
	}
	tools := &brokertest.Tools{}
	for name, answer := range answers {
		tools.Add(t, "n."+name, `{"type": "object", "properties": {"pin": {"type": "string", "maxLength": 11}, "card": {"enum": ["a"]}}}`,
			func(broker.Request) *broker.Answer { return answer })
	}
	tools.Add(t, "other.t", "", func(broker.Request) *broker.Answer { return brokertest.Body("1") })
	cfg := rules(t, `{"tenant": "*", "namespace": "n", "name": "*", "redact": ["pin", "token", "card"], "cache": "1m",
		"arguments": {"properties": {"pin": {"minLength": 3}, "token": {"const": 1}}}}`, `{"tenant": "*", "namespace": "other", "name": "t"}`)
	b := begin(t, setup{tools: tools, grants: "n.* typo.*", cfg: cfg})
	b.Hello()
	arguments := `{"pin": "` + secret + `", "a": 1}`
	for id, c := range []struct {
		tool, arguments string
		code            broker.Code
	}{
		{"n.ok", arguments, ""},
		{"n.declined", arguments, broker.CodeProviderError},
		{"n.strange", arguments, broker.CodeProviderError},
		{"n.broken", arguments, broker.CodeBadAnswer},
		{"n.timeout", arguments, broker.CodeTimeout},
		{"n.large", arguments, broker.CodeTooLarge},
		{"n.ok", `{"pin": "` + secret + `-and-longer"}`, broker.CodeBadArguments},
		{"n.ok", `{"card": "` + secret + `"}`, broker.CodeBadArguments},
		{"n.ok", `{"token": "` + secret + `"}`, broker.CodeDenied},
		{"n.missing", arguments, broker.CodeUnknownTool},
		{"n.bad name", arguments, broker.CodeBadName},
		{"other.t", `{"pin": "x"}`, broker.CodeNotGranted}, // its rule redacts nothing
		{"typo.ok", arguments, broker.CodeDenied},
		{"none.ok", arguments, broker.CodeNotGranted},
	} {
		b.Call(id, c.tool, c.arguments)
		if c.code != "" {
			b.ExpectCode(id, c.code)
			continue
		}
		if reply := b.Recv(); !strings.Contains(reply, secret) {
			t.Errorf("%s: the guest got %s, want the real value", c.tool, reply)
		}
	}
	b.Send(`{"id":50,"method":"result","params":{"value":1}}`)
	b.Recv()
	b.Call(51, "n.ok", arguments)
	b.ExpectCode(51, broker.CodeFinished)
	b.Close()
	report, err := b.Wait()
	if err != nil {
		t.Fatalf("Serve: %v", err)
	}
	b.verify(t, report)
	for _, r := range tools.Requests() {
		if string(r.Arguments) != arguments {
			t.Errorf("the provider got %s, want %s", r.Arguments, arguments)
		}
	}
	calls := b.audit.Calls()
	for _, c := range calls {
		if kept := fmt.Sprintf("%+v %s %s", c, c.Arguments, c.Answer); strings.Contains(kept, secret) {
			t.Errorf("%s.%s: the audit keeps %s", c.Namespace, c.Name, kept)
		}
	}
	if got := string(calls[0].Arguments) + string(calls[0].Answer); got != `{"pin":"[redacted]","a":1}{"token":"[redacted]","sum":3}` {
		t.Errorf("got %s, want the rest of it kept", got)
	}
	if got := calls[1].Message; got != "declined: [redacted]" {
		t.Errorf("got message %q, want the provider's code kept", got)
	}
	if got := string(calls[11].Arguments); got != `{"pin": "x"}` {
		t.Errorf("got %s, want what another rule says kept", got)
	}
}

// An answer that comes too late is redacted too.
func TestRedactionOfALateAnswer(t *testing.T) {
	t.Parallel()
	const secret = "SECRET-4711"
	tools, release := &brokertest.Tools{}, make(chan struct{})
	for name, body := range map[string]string{"n.good": `{"pin":"` + secret + `"}`, "n.bad": `{"pin":"` + secret} {
		tools.Add(t, name, "", func(broker.Request) *broker.Answer {
			<-release
			return brokertest.Body(body)
		})
	}
	b := begin(t, setup{tools: tools, grants: "n.*", cfg: rules(t, all(`"redact": ["pin"], "timeout": "10ms"`))})
	b.Hello()
	for id, tool := range []string{"n.good", "n.bad"} {
		b.Call(id, tool, `{}`)
		b.ExpectCode(id, broker.CodeTimeout)
	}
	close(release)
	b.end(t)
	for _, c := range b.audit.Calls() {
		if c.State != "late" || strings.Contains(fmt.Sprintf("%+v %s", c, c.Answer), secret) {
			t.Errorf("got %+v, answer %s; want it late and without the value", c, c.Answer)
		}
	}
}
