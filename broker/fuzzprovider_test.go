package broker_test

import (
	"testing"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/broker/provider"
	"airlock/job"

	"github.com/nats-io/nats.go"
)

// FuzzAnswer lets a provider answer anything, in body and headers: the guest
// gets one strict reply, and the audit verifies.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{`1`, ``, `NaN`, `{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"", `[[[[`, `1 2`, `1e999`} {
		f.Add([]byte(body), "", "", "")
		f.Add([]byte(body), "bad\r\ncode", "what\x1b[2J", "for\x00you")
	}
	f.Add([]byte(nil), provider.CodeTooLarge, "", "")
	f.Add([]byte(nil), "not_found", "secret", "nothing by that name")
	f.Fuzz(func(t *testing.T, body []byte, code, detail, public string) {
		msg := &nats.Msg{Data: body, Header: nats.Header{}}
		for name, value := range map[string]string{
			provider.HeaderErrorCode: code, provider.HeaderError: detail, provider.HeaderMessage: public, provider.HeaderProvider: public,
		} {
			if value != "" {
				msg.Header.Set(name, value)
			}
		}
		answer := broker.ReadAnswer(msg)
		tools := &brokertest.Tools{}
		tools.Add(t, "odd.tool", "", func(broker.Request) *broker.Answer { return &answer })
		b := begin(t, setup{tools: tools, grants: "odd.*"})
		b.Hello()
		b.Call(1, "odd.tool", `{}`)
		reply := b.Recv()
		if err := job.CheckJSON([]byte(reply)); err != nil {
			t.Fatalf("got reply %q: %v", reply, err)
		}
		b.end(t)
	})
}

// FuzzAnnouncement lets a service announce anything: what is taken is a tool
// with names that can stand in a subject, and schemas that arguments can be
// held against.
func FuzzAnnouncement(f *testing.F) {
	f.Add([]byte(`{"id":"x","endpoints":[{"subject":"tools.math.add","metadata":{"description":"adds","input_schema":"{\"type\":\"object\"}"}}]}`))
	f.Add([]byte(`{"endpoints":[{"subject":"tools.*.>"},{"subject":"tools.a.b.c"},{"subject":"tools.__import__.x"},{"subject":"$SRV.PING"}]}`))
	f.Add([]byte(`{"endpoints":[{"subject":"tools.a.b","metadata":{"input_schema":"{\"$ref\":\"#\"}"}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, tool := range broker.ReadAnnouncement(data) {
			if subject := job.ToolSubject(tool.Namespace, tool.Name); job.Printable(subject, 1<<10) != subject || !job.ValidName(tool.Name) {
				t.Fatalf("took the tool %q", subject)
			}
			if err := tool.CheckArguments([]byte(`{"a":1}`)); err != nil && job.Printable(err.Error(), 1<<20) != err.Error() {
				t.Fatalf("got error %q, want printable text", err)
			}
		}
	})
}
