package bridge_test

import (
	"io"
	"strings"
	"testing"

	"airlock/cmd/toolbridge/internal/bridge"
	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func TestCheckMessage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"a request", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"method":"ping"}`},
		{"an error", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`},
		{"a call's result", `{"id":1,"result":{"content":[{"type":"text"}],"structuredContent":{"n":12345678901234567890}}}`,
			`{"id":1,"result":{"content":[],"_meta":{"airlock/result":"{\"content\":[{\"type\":\"text\"}],\"structuredContent\":{\"n\":12345678901234567890}}"}}}`},
		{"tools", `{"id":1,"result":{"tools":[{"name":"a"}],"nextCursor":"c"}}`,
			`{"id":1,"result":{"tools":[],"nextCursor":"c","_meta":{"airlock/result":"{\"tools\":[{\"name\":\"a\"}],\"nextCursor\":\"c\"}"}}}`},
		{"the server's own word for ours", `{"id":1,"result":{"_meta":{"airlock/result":"{}"}}}`,
			`{"id":1,"result":{"_meta":{"airlock/result":"{\"_meta\":{\"airlock/result\":\"{}\"}}"}}}`},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, ""},
		{"twice the same", `{"id":1,"id":2}`, ""},
		{"not JSON", `Listening on port 80`, ""},
		{"NaN", `{"id":1,"result":{"content":NaN}}`, ""},
		{"too deep", `{"result":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := bridge.CheckMessage([]byte(tc.in))
			if (err != nil) != (tc.want == "") {
				t.Fatalf("got error %v, want one: %v", err, tc.want == "")
			}
			if tc.want != "" && canonical(t, got) != canonical(t, []byte(tc.want)) {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func canonical(t *testing.T, raw []byte) string {
	t.Helper()
	value := jsontext.Value(raw).Clone()
	if err := value.Canonicalize(); err != nil {
		t.Fatal(err)
	}
	return string(value)
}

// What is too long is passed over, and does not take the rest with it.
func TestLines(t *testing.T) {
	t.Parallel()
	long := `{"x":"` + strings.Repeat("x", bridge.MaxMessage) + `"}`
	got, err := io.ReadAll(bridge.NewLines(strings.NewReader("\n{\"a\":1}\r\n" + long + "\nnoise\n{\"b\":2}\n" + `{"cut":`)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("{\"a\":1}\n{\"b\":2}\n", string(got)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"one", "id: 1\nevent: message\ndata: {\"a\":1}\n\n", "id: 1\nevent: message\ndata: {\"a\":1}\n\n"},
		{"data in parts", "data: {\"a\":\r\ndata: 1}\r\n\r\n", "data: {\"a\":1}\n\n"},
		{"a comment and no data", ": hello\n\nid: 2\ndata:\n\n", ": hello\n\nid: 2\n\n"},
		{"cut short", "data: {}\n", ""},
		{"not JSON", "data: hello\n\n", "error"},
		{"too large", "data: \"" + strings.Repeat("x", bridge.MaxMessage) + "\"\n\n", "error"},
		{"too large a name", strings.Repeat("x", bridge.MaxMessage+1), "error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := io.ReadAll(bridge.NewEvents(strings.NewReader(tc.in)))
			if err != nil {
				got = []byte("error")
			}
			if string(got) != tc.want {
				t.Errorf("got %q (%v), want %q", got, err, tc.want)
			}
		})
	}
}

// Whatever comes, what the SDK sees is strict JSON, and the text of a result is
// the server's own.
func FuzzCheckMessage(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"a":1e400}}}`))
	f.Add([]byte(`{"result":{"tools":[{}],"_meta":{"airlock/result":1}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		seen, err := bridge.CheckMessage(raw)
		if err != nil {
			return
		}
		if err := job.CheckJSON(seen); err != nil {
			t.Fatalf("got %s: %v", seen, err)
		}
		var before struct {
			Result jsontext.Value `json:"result"`
		}
		var after struct {
			Result struct {
				Meta map[string]string `json:"_meta"`
			} `json:"result"`
		}
		if err := json.Unmarshal(raw, &before); err != nil {
			t.Fatal(err)
		}
		if before.Result.Kind() != '{' {
			return
		}
		if err := json.Unmarshal(seen, &after); err != nil {
			t.Fatal(err)
		}
		if got := after.Result.Meta[bridge.RawKey]; got != string(before.Result) {
			t.Errorf("got text %s, want %s", got, before.Result)
		}
	})
}
