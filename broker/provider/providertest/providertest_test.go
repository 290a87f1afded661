package providertest_test

import (
	"bytes"
	"context"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"airlock/broker/provider"
	"airlock/broker/provider/providertest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

type parcel struct {
	Data []byte         `json:"data,omitzero"`
	At   time.Time      `json:"at,omitzero"`
	N    big.Int        `json:"n,omitzero"`
	F    float64        `json:"f,omitzero"`
	Any  jsontext.Value `json:"any,omitzero"`
}

func mirror(_ context.Context, in parcel) (parcel, error) { return in, nil }

func one(tool provider.Tool) provider.Namespace {
	return provider.Namespace{Name: "n", Tools: []provider.Tool{tool}}
}

// What a guest's worker sends for these values comes back as it went.
func TestValuesCrossBothWays(t *testing.T) {
	t.Parallel()
	p := providertest.New(t, one(provider.Func("mirror", "", mirror)))
	nines := strings.Repeat("9", 4000)
	for _, same := range []string{
		`{"data":{"$airlock":"bytes","base64":"AP8="}}`,
		`{"data":{"$airlock":"bytes","base64":""}}`,
		`{"at":{"$airlock":"datetime","iso":"2026-01-02T03:04:05.000006+02:00"}}`,
		`{"n":9007199254740993}`,
		`{"n":-` + nines + `}`,
		`{"n":{"$airlock":"int","hex":"` + strings.Repeat("f", 4000) + `"}}`,
		`{"f":0.1}`, `{"f":5e-324}`, `{"f":1.7976931348623157e308}`,
		`{"any":{"$airlock":"set","items":[1,"\u0000"]}}`,
	} {
		var want, got any
		answer := p.Answer("mirror", same)
		if answer.Code != "" {
			t.Errorf("%.80s: got error %s: %s %s, want none", same, answer.Code, answer.Message, answer.Detail)
			continue
		}
		w, g := jsontext.Value(same), answer.Body
		if strings.Contains(same, `"f"`) {
			want, got = float(t, w), float(t, g)
		} else {
			if err := errors.Join(w.Canonicalize(jsontext.CanonicalizeRawInts(false)), g.Canonicalize(jsontext.CanonicalizeRawInts(false))); err != nil {
				t.Fatal(err)
			}
			want, got = string(w), string(g)
		}
		if want != got {
			t.Errorf("%.80s: got %.200s, want it as it went", same, got)
		}
	}
}

func float(t *testing.T, raw jsontext.Value) string {
	t.Helper()
	if err := raw.Canonicalize(); err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestPlainFormsAreTaken(t *testing.T) {
	t.Parallel()
	seen := make(chan parcel, 1)
	p := providertest.New(t, one(provider.Func("keep", "", func(_ context.Context, in parcel) (bool, error) {
		seen <- in
		return true, nil
	})))
	providertest.Call[bool](p, "keep", `{"data":"aGk=","at":"2026-01-02T03:04:05.123456789Z"}`)
	got := <-seen
	if !bytes.Equal(got.Data, []byte("hi")) || !got.At.Equal(time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC)) {
		t.Errorf("got %q and %s, want hi and the time", got.Data, got.At)
	}
}

func TestValuesThatAreRefused(t *testing.T) {
	t.Parallel()
	p := providertest.New(t, one(provider.Func("mirror", "", mirror)))
	for _, arguments := range []string{
		`{"at":{"$airlock":"datetime","iso":"2026-01-02T03:04:05"}}`, // no zone: whose?
		`{"at":{"$airlock":"date","iso":"2026-01-02"}}`,
		`{"at":"yesterday"}`,
		`{"data":{"$airlock":"bytes","base64":"!"}}`,
		`{"data":{"$airlock":"bytes","base64":"aGk=","x":1}}`,
		`{"data":[104]}`,
		`{"n":1.5}`, `{"n":"1"}`,
		`{"n":{"$airlock":"int","hex":"xyz"}}`,
		`{"f":{"$airlock":"float","value":"nan"}}`,
		`{"other":1}`, `[]`, `null`, ``, `{"n":1,"n":2}`, `{"f":NaN}`,
		"{\"any\":\"\xff\"}", `{"any":"\ud800"}`, `{"any":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`,
	} {
		p.WantCode(provider.CodeBadArguments, "mirror", arguments)
	}
}

func TestAnswersThatAreRefused(t *testing.T) {
	t.Parallel()
	var out any
	tool := provider.Tool{
		Name: "t", OutputSchema: jsontext.Value(`{"type":["object","string"],"required":["x"]}`),
		Handler: func(context.Context, provider.Call) (any, error) { return out, nil },
	}
	ns := one(tool)
	ns.MaxAnswer = 1000
	p := providertest.New(t, ns)
	out = map[string]int{"x": 1}
	providertest.Call[map[string]int](p, "t", `{}`)
	for name, tt := range map[string]struct {
		out  any
		code string
	}{
		"against the schema": {map[string]int{"y": 1}, provider.CodeInternal},
		"another type":       {7, provider.CodeInternal},
		"no JSON":            {jsontext.Value(`{"x":NaN}`), provider.CodeInternal},
		"nothing":            {jsontext.Value(nil), provider.CodeInternal},
		"no encoding":        {func() {}, provider.CodeInternal},
		"large":              {strings.Repeat("x", 1000), provider.CodeTooLarge},
	} {
		out = tt.out
		if answer := p.WantCode(tt.code, "t", `{}`); answer.Body != nil {
			t.Errorf("%s: got body %s, want none", name, answer.Body)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	var err error
	p := providertest.New(t, one(provider.Func("t", "", func(context.Context, struct{}) (int, error) {
		if err == nil {
			panic("hunter2")
		}
		return 0, err
	})))
	for _, tt := range []struct {
		name          string
		err           error
		code, message string
		retryable     bool
	}{
		{"told", provider.Errorf("not_found", "no city %q", "x"), "not_found", `no city "x"`, false},
		{"retryable", provider.Retryable(provider.Errorf("busy", "later")), "busy", "later", true},
		{"secret", errors.New("hunter2"), "internal", "", false},
		{"secret and retryable", provider.Retryable(errors.New("hunter2")), "internal", "", true},
		{"panic", nil, "internal", "", false},
		{"reserved", provider.Errorf("not_granted", "hunter2"), "internal", "", false},
		{"reserved by us", provider.Errorf("cancelled", "hunter2"), "internal", "", false},
		{"no code", provider.Errorf("a b", "hunter2"), "internal", "", false},
		{"empty code", provider.Errorf("", "hunter2"), "internal", "", false},
	} {
		err = tt.err
		answer := p.WantCode(tt.code, "t", `{}`)
		if answer.Message != tt.message || answer.Retryable != tt.retryable {
			t.Errorf("%s: got message %q, retryable %v, want %q, %v", tt.name, answer.Message, answer.Retryable, tt.message, tt.retryable)
		}
		if answer.Detail == "" {
			t.Errorf("%s: got no detail, want one for operators", tt.name)
		}
	}
}

func TestContextKnowsTheCall(t *testing.T) {
	t.Parallel()
	p := providertest.New(t, one(provider.Func("who", "", func(ctx context.Context, _ struct{}) ([]string, error) {
		call := provider.CallOf(ctx)
		deadline, ok := ctx.Deadline()
		if !ok || !deadline.Equal(call.Deadline) {
			t.Errorf("got deadline %s of the context, want %s", deadline, call.Deadline)
		}
		return []string{call.Tenant, call.Job, call.ID, call.IdempotencyKey, call.TraceParent, call.Namespace, call.Tool}, nil
	})))
	got := providertest.Call[[]string](p, "who", `{}`, func(c *provider.Call) {
		c.Tenant, c.Job, c.ID, c.IdempotencyKey, c.TraceParent = "a", "j", "j.1.2", "k", "00-1"
	})
	if diff := cmp.Diff([]string{"a", "j", "j.1.2", "k", "00-1", "n", "who"}, got); diff != "" {
		t.Errorf("what the context says (-want +got):\n%s", diff)
	}
	if call := provider.CallOf(t.Context()); call.Tenant != "" {
		t.Errorf("got tenant %q of a context without a call, want none", call.Tenant)
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	began := false
	p := providertest.New(t, one(provider.Func("slow", "", func(ctx context.Context, _ struct{}) (int, error) {
		began = true
		<-ctx.Done()
		return 0, ctx.Err()
	})))
	past := func(c *provider.Call) { c.Deadline = time.Now().Add(-time.Second) }
	if p.WantCode(provider.CodeDeadline, "slow", `{}`, past); began {
		t.Error("got a call handled after its deadline, want none")
	}
	p.WantCode(provider.CodeDeadline, "slow", `{}`, func(c *provider.Call) { c.Deadline = time.Now().Add(10 * time.Millisecond) })
}

func TestCancel(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 2)
	p := providertest.New(t, one(provider.Func("slow", "", func(ctx context.Context, _ struct{}) (int, error) {
		began <- struct{}{}
		<-ctx.Done()
		return 0, context.Cause(ctx)
	})))
	named := func(id string) func(*provider.Call) { return func(c *provider.Call) { c.ID = id } }
	done := make(chan provider.Answer)
	go func() { done <- p.Answer("slow", `{}`, named("a.1.1")) }()
	<-began
	p.Cancel("another")
	p.Cancel("a.1.1")
	if answer := <-done; answer.Code != provider.CodeCancelled {
		t.Errorf("got %+v, want the call cancelled", answer)
	}
	p.Cancel("a.1.2")
	p.WantCode(provider.CodeCancelled, "slow", `{}`, named("a.1.2"))
	if len(began) != 0 {
		t.Error("got a call handled that was cancelled before it began, want none")
	}
}

func TestFenceIsOptional(t *testing.T) {
	t.Parallel()
	type in struct {
		X int `json:"x"`
	}
	ns := one(provider.Func("t", "", func(_ context.Context, in in) (int, error) { return in.X, nil }))
	providertest.New(t, ns).WantCode(provider.CodeBadArguments, "t", `{}`)
	ns.TrustWorkers = true
	if got := providertest.Call[int](providertest.New(t, ns), "t", `{}`); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
}
