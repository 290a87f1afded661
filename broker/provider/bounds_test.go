package provider_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"airlock/broker/provider"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
)

// A tool's own bounds hold, and hold up no other tool's calls.
func TestMaxParallelOfATool(t *testing.T) {
	t.Parallel()
	var open, most atomic.Int32
	release := make(chan struct{})
	unblock := sync.OnceFunc(func() { close(release) })
	defer unblock()
	ns := provider.Namespace{Name: "n", Tools: []provider.Tool{
		{Name: "narrow", MaxParallel: 2, Handler: func(context.Context, provider.Call) (any, error) {
			now := open.Add(1)
			defer open.Add(-1)
			for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
			}
			<-release
			return 1, nil
		}},
		{Name: "wide", Handler: func(context.Context, provider.Call) (any, error) { return 2, nil }},
	}}
	ns.Parallel = 3
	nc, _ := serve(t, ns)
	var done sync.WaitGroup
	for range 20 {
		done.Go(func() { ask(t, nc, "tools.n.narrow", `{}`) })
	}
	eventually(t, "two run", func() bool { return open.Load() == 2 })
	if body, _ := ask(t, nc, "tools.n.wide", `{}`); body != "2" {
		t.Errorf("got %s of the other tool, want 2", body)
	}
	unblock()
	done.Wait()
	if most.Load() > 2 {
		t.Errorf("got %d at once, want at most 2", most.Load())
	}
}

// Calls beyond the rate wait, and are given up at their deadline without
// having begun.
func TestMaxRateOfATool(t *testing.T) {
	t.Parallel()
	var ran atomic.Int32
	ns := tool("t", func(context.Context, provider.Call) (any, error) { ran.Add(1); return 1, nil })
	ns.Tools[0].MaxRate = 0.001 // one, and the next in a quarter of an hour
	nc, _ := serve(t, ns)
	codes := map[string]int{}
	for range 3 {
		msg := &nats.Msg{Subject: "tools.n.t", Data: []byte(`{}`), Header: nats.Header{
			provider.HeaderDeadline: {time.Now().Add(time.Minute).UTC().Format(time.RFC3339Nano)},
		}}
		answer, err := nc.RequestMsg(msg, time.Minute)
		if err != nil {
			t.Fatalf("request: %v", err)
		}
		codes[answer.Header.Get(provider.HeaderErrorCode)]++
	}
	if ran.Load() != 1 || codes[""] != 1 || codes[provider.CodeDeadline] != 2 {
		t.Errorf("got %d handlers run and codes %v, want one, and two calls given up", ran.Load(), codes)
	}
}

// A call that waits for its turn when the drain's time is up fails so that the
// guest may make it again.
func TestWhatADrainDoesNotReach(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 1)
	ns := tool("t", func(ctx context.Context, _ provider.Call) (any, error) {
		began <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	ns.Parallel, ns.Drain = 1, time.Millisecond
	nc, stop := serve(t, ns)
	inbox := nc.NewInbox()
	answers, err := nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	for range 2 {
		if err := nc.PublishRequest("tools.n.t", inbox, []byte(`{}`)); err != nil {
			t.Fatalf("publish: %v", err)
		}
	}
	<-began
	if err := stop(); err != nil {
		t.Errorf("Serve: got error %v, want none", err)
	}
	seen := map[string]string{}
	for range 2 {
		answer, err := answers.NextMsg(time.Minute)
		if err != nil {
			t.Fatalf("next answer: %v", err)
		}
		seen[answer.Header.Get(provider.HeaderErrorCode)] = answer.Header.Get(provider.HeaderRetryable)
	}
	if word, ok := seen[provider.CodeUnavailable]; !ok || word != "true" {
		t.Errorf("got codes and whether to retry %v, want one unavailable and retryable", seen)
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	ns := tool("t", func(context.Context, provider.Call) (any, error) { return 1, nil })
	ns.Tools[0].Description, ns.Tools[0].ReadOnly = "Does.", true
	ns.Tools[0].MaxParallel, ns.Tools[0].MaxRate = 7, 2.5
	nc, _ := serve(t, ns)
	answer, err := nc.Request("$SRV.INFO.n", nil, time.Minute)
	if err != nil {
		t.Fatalf("request: %v", err)
	}
	var info struct {
		Endpoints []struct {
			Metadata map[string]string `json:"metadata"`
		} `json:"endpoints"`
	}
	if err := json.Unmarshal(answer.Data, &info); err != nil {
		t.Fatalf("decode: %v", err)
	}
	for key, want := range map[string]string{
		provider.MetadataDescription: "Does.", provider.MetadataReadOnly: "true", provider.MetadataIdempotent: "false",
		provider.MetadataMaxParallel: "7", provider.MetadataMaxRate: "2.5",
	} {
		if got := info.Endpoints[0].Metadata[key]; got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	ns := tool("t", func(_ context.Context, call provider.Call) (any, error) { return call.Arguments, nil })
	ns.MaxArguments, ns.MaxAnswer = 100, 50
	nc, _ := serve(t, ns)
	for size, want := range map[int]string{10: "", 60: provider.CodeTooLarge, 150: provider.CodeBadArguments} {
		if _, code := ask(t, nc, "tools.n.t", `{"x":"`+strings.Repeat("x", size)+`"}`); code != want {
			t.Errorf("%s bytes: got code %q, want %q", strconv.Itoa(size), code, want)
		}
	}
}

func TestFuncWantsAStruct(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("got no panic, want one")
		}
	}()
	provider.Func("t", "", func(context.Context, int) (int, error) { return 1, nil })
}
