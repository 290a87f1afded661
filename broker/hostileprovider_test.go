package broker_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// hostile announces tools of namespace bad by hand, and answers their calls
// as each says.
func (n *network) hostile(t *testing.T, tools map[string]func(nc *nats.Conn, m *nats.Msg)) *nats.Conn {
	t.Helper()
	nc := brokertest.Connect(t, n.server)
	var endpoints []string
	for name, answer := range tools {
		endpoints = append(endpoints, fmt.Sprintf(`{"subject":"tools.bad.%s"}`, name))
		if _, err := nc.Subscribe("tools.bad."+name, func(m *nats.Msg) { answer(nc, m) }); err != nil {
			t.Fatalf("subscribe: %v", err)
		}
	}
	info := `{"id":"x","endpoints":[` + strings.Join(endpoints, ",") + `]}`
	if _, err := nc.Subscribe("$SRV.INFO", func(m *nats.Msg) { m.Respond([]byte(info)) }); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	for name := range tools {
		n.await(t, "bad", name)
	}
	return nc
}

// Whatever a provider does over the wire, the guest gets one reply to each
// call, the job its result, and the audit is whole.
func TestHostileProviders(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 9<<20)
	body := func(text string) func(*nats.Conn, *nats.Msg) {
		return func(_ *nats.Conn, m *nats.Msg) { m.Respond([]byte(text)) }
	}
	n.hostile(t, map[string]func(*nats.Conn, *nats.Msg){
		"nul":    body(`{"a\u0000b":"\u0000"}`),
		"binary": body("\x00\xff\xfe"),
		"rawnul": body("\"\x00\""),
		"nan":    body(`NaN`),
		"huge":   body(`1e999`),
		"digits": body(strings.Repeat("9", 5000)),
		"twice":  body(`{"a":1,"a":2}`),
		"flood":  func(nc *nats.Conn, m *nats.Msg) { flood(nc, m, 20_000) },
		"stalls": func(*nats.Conn, *nats.Msg) {},
		"headers": func(nc *nats.Conn, m *nats.Msg) {
			respond(nc, m, map[string]string{"Airlock-Provider": strings.Repeat("x", 1<<16)})
		},
		"status": func(nc *nats.Conn, m *nats.Msg) { respond(nc, m, map[string]string{"Status": "503"}) },
		"text":   body(`three`),
		"deep":   body(strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000)),
		"doubled": func(_ *nats.Conn, m *nats.Msg) {
			m.Respond([]byte(`"first"`))
			m.Respond([]byte(`"second"`))
		},
		"large": body(`"` + strings.Repeat("x", broker.MaxAnswer) + `"`),
	})
	b := n.serve(t, "bad.*", rules(t, `{"tenant": "*", "namespace": "bad", "name": "stalls", "timeout": "1s"}`, all(`"timeout": "5m"`)))
	b.Hello()
	for tool, want := range map[string]string{
		"nul": `"value":{"a\u0000b":"\u0000"}`, "binary": `"code":"bad_answer"`, "rawnul": `"code":"bad_answer"`, "nan": `"code":"bad_answer"`,
		"huge": `"code":"bad_answer"`, "digits": `"code":"bad_answer"`, "twice": `"code":"bad_answer"`, "flood": `"value":0`,
		"stalls": `"code":"timeout"`, "headers": `"value":1`, "status": `"value":1`,
		"text": `"code":"bad_answer"`, "deep": `"code":"bad_answer"`, "doubled": `"value":"first"`, "large": `"code":"too_large"`,
	} {
		b.Call(1, "bad."+tool, `{}`)
		if got := b.Recv(); !strings.Contains(got, want) {
			t.Errorf("%s: got %.200s, want %s", tool, got, want)
		}
	}
	if report := b.end(t); !report.Done || report.ToolCalls != 15 {
		t.Errorf("got done %v and %d calls, want the result and 15", report.Done, report.ToolCalls)
	}
	for _, call := range b.audit.Calls() {
		if call.State == job.CallStarted || strings.Contains(call.Provider, "x") {
			t.Errorf("%s: got state %s of provider %.20s, want its end", call.Name, call.State, call.Provider)
		}
	}
}

func flood(nc *nats.Conn, m *nats.Msg, count int) {
	for i := range count {
		nc.Publish(m.Reply, fmt.Append(nil, i))
	}
}

func respond(nc *nats.Conn, m *nats.Msg, headers map[string]string) {
	msg := &nats.Msg{Subject: m.Reply, Data: []byte("1"), Header: nats.Header{}}
	for name, value := range headers {
		msg.Header.Set(name, value)
	}
	nc.PublishMsg(msg)
}

// An answer that comes after the call's time is nobody's: not that of the next
// call either, and the audit does not say that it was in time.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 0)
	late := make(chan *nats.Msg, 1)
	n.hostile(t, map[string]func(*nats.Conn, *nats.Msg){
		"late": func(_ *nats.Conn, m *nats.Msg) { late <- m },
		"next": func(nc *nats.Conn, m *nats.Msg) {
			nc.Publish((<-late).Reply, []byte(`"late"`))
			m.Respond([]byte(`"in time"`))
		},
	})
	b := n.serve(t, "bad.*", rules(t, `{"tenant": "*", "namespace": "bad", "name": "late", "timeout": "100ms"}`, all(`"timeout": "5m"`)))
	b.Hello()
	b.Call(1, "bad.late", `{}`)
	b.ExpectCode(1, broker.CodeTimeout)
	b.Call(2, "bad.next", `{}`)
	b.Expect(`{"id":2,"ok":true,"value":"in time"}`)
	if report := b.end(t); !report.Done || report.ToolCalls != 2 {
		t.Errorf("got done %v and %d calls, want the result and 2", report.Done, report.ToolCalls)
	}
	calls := b.audit.Calls()
	if late := calls[0].State == job.CallLate || calls[0].State == job.CallFailed; !late || calls[1].State != job.CallOK {
		t.Errorf("got states %s and %s, want the first late or failed and the second ok", calls[0].State, calls[1].State)
	}
}

// A provider that answers one call at the address of another: each guest gets
// one answer to each, and what comes for a call that is over goes nowhere.
func TestAnswerForAnotherCall(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 0)
	var mu sync.Mutex
	var first *nats.Msg
	n.hostile(t, map[string]func(*nats.Conn, *nats.Msg){"swap": func(nc *nats.Conn, m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = m
			return
		}
		nc.Publish(first.Reply, []byte(`"one"`))
		nc.Publish(first.Reply, []byte(`"two"`))
		nc.Publish(m.Reply, []byte(`"three"`))
		first = nil
	}})
	b := n.serve(t, "bad.swap", broker.Config{})
	b.Hello()
	b.Call(1, "bad.swap", `{}`)
	b.Call(2, "bad.swap", `{}`)
	got := b.Recv() + b.Recv()
	for _, value := range []string{`"one"`, `"three"`} {
		if strings.Count(got, value) != 1 || strings.Contains(got, "two") {
			t.Errorf("got %s, want the first answer to each call", got)
		}
	}
	b.end(t)
}

func TestProviderDiesMidCall(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 0)
	closed := make(chan struct{})
	n.hostile(t, map[string]func(*nats.Conn, *nats.Msg){
		"dies": func(nc *nats.Conn, _ *nats.Msg) { nc.Close(); close(closed) },
		"next": func(*nats.Conn, *nats.Msg) {},
	})
	b := n.serve(t, "bad.*", rules(t, `{"tenant": "*", "namespace": "bad", "name": "dies", "timeout": "1s"}`, all(`"timeout": "5m"`)))
	b.Hello()
	b.Call(1, "bad.dies", `{}`)
	b.ExpectCode(1, broker.CodeTimeout)
	<-closed
	eventually(t, "the server has noticed", func() bool { return n.server.NumClients() == 1 })
	b.Call(2, "bad.next", `{}`)
	b.ExpectCode(2, broker.CodeNoProvider)
	if report := b.end(t); !report.Done {
		t.Errorf("got no result, want one")
	}
	calls := b.audit.Calls()
	if calls[0].State != job.CallFailed || calls[1].State != job.CallFailed {
		t.Errorf("got states %s and %s, want both failed", calls[0].State, calls[1].State)
	}
}

// Five thousand odd announcements hide no good tool, and each is refused with
// a reason, once.
func TestOddTools(t *testing.T) {
	t.Parallel()
	const odd = 5000
	server := brokertest.NATS(t, 8<<20)
	var log lockedBuffer
	catalogue := broker.NewCatalogue(brokertest.Connect(t, server), broker.CatalogueConfig{
		Log: zerolog.New(&log), Refresh: time.Hour, OnDemand: 1,
	})
	background(t, catalogue.Run)
	type endpoint struct {
		Subject  string            `json:"subject"`
		Metadata map[string]string `json:"metadata"`
	}
	endpoints := []endpoint{{Subject: "tools.good.tool"}}
	shapes := []string{
		"tools.n.%d", "tools.n._%d", "tools.n.a.%d", "tools.n%d", "tools.n.a%d*", "tools..a%d", "tools.n.a%d ", "tools.n.a%d\r\nX: y",
		"tools.n.é%d", "tools.n.a%d\x00", "tools.n.a%d;DROP", "tools.n.__a%d__", "tools.$SRV.a%d", "tools.n.a%d\u202e", "tools.n.a%d>",
		"tools.n.a%d" + strings.Repeat("x", 64),
	}
	for i := range odd {
		endpoints = append(endpoints, endpoint{Subject: fmt.Sprintf(shapes[i%len(shapes)], i)})
	}
	info, err := json.Marshal(map[string]any{"id": "x", "endpoints": endpoints})
	if err != nil {
		t.Fatal(err)
	}
	nc := brokertest.Connect(t, server)
	if _, err := nc.Subscribe("$SRV.INFO", func(m *nats.Msg) { m.Respond(info) }); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	eventually(t, "the good tool is found", func() bool {
		_, err := catalogue.Find(t.Context(), "good", "tool")
		return err == nil
	})
	catalogue.Find(t.Context(), "no", "such") // asks again, and logs nothing again
	if tools := catalogue.Tools(t.Context()); len(tools) != 1 {
		t.Errorf("got %d tools, want the good one", len(tools))
	}
	refused := catalogue.Refused()
	for _, no := range refused {
		if no.Reason == "" || no.Providers != 1 || no.Subject != job.Printable(no.Subject, 300) || !strings.HasPrefix(no.Subject, "tools.") {
			t.Errorf("got refusal %+v, want a printable subject and a reason", no)
		}
	}
	if len(refused) != odd {
		t.Errorf("got %d refusals, want %d", len(refused), odd)
	}
	// Whoever announces much must not write the worker's log.
	if told := bytes.Count(log.Bytes(), []byte("tool refused")); told != 20 || !bytes.Contains(log.Bytes(), fmt.Appendf(nil, `"count":%d`, odd-told)) {
		t.Errorf("got %d lines about refusals, want 20 and the number of the others:\n%.3000s", told, log.Bytes())
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.buf.Bytes())
}
