package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"airlock/queue"
	"airlock/queue/natstest"
	"airlock/store/storetest"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		body   string
		code   int
		says   string
	}{
		"ready":        {200, `{"ready": true}`, exitOK, "is ready"},
		"not ready":    {503, `{"ready": false, "problems": {"nats": "away"}}`, exitInternal, "nats: away"},
		"another":      {200, `<html>`, exitInternal, "is no gateway"},
		"hostile text": {503, `{"ready": false, "problems": {"nats": "\u001b[31m"}}`, exitInternal, `\x1b[31m`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/readyz" {
					t.Errorf("asked for %s, want /readyz", r.URL.Path)
				}
				w.WriteHeader(tc.status)
				_, _ = w.Write([]byte(tc.body))
			}))
			defer s.Close()
			var out, errs bytes.Buffer
			for _, args := range [][]string{{"health", "--url", s.URL}, {"health", "--listen-http", strings.TrimPrefix(s.URL, "http://")}} {
				if code := run(t.Context(), args, &out, &errs); code != tc.code || !strings.Contains(out.String()+errs.String(), tc.says) {
					t.Errorf("%v: got code %d, %s %s, want %d and %q", args, code, &out, &errs, tc.code, tc.says)
				}
			}
		})
	}
}

func TestWhereAGatewayIs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ url, listen, cert, want string }{
		{"", "127.0.0.1:8080", "", "http://127.0.0.1:8080"},
		{"", ":8080", "", "http://127.0.0.1:8080"},
		{"", "0.0.0.0:1", "x", "https://127.0.0.1:1"},
		{"", "[::]:1", "", "http://127.0.0.1:1"},
		{"https://gw", ":1", "", "https://gw"},
		{"gw:1", ":1", "", ""},
	} {
		c := healthCmd{URL: tc.url, serving: serving{ListenHttp: tc.listen, TlsCert: tc.cert}}
		at, err := c.where()
		if got := ""; err == nil {
			if got = at.String(); got != tc.want {
				t.Errorf("%+v: got %s", tc, got)
			}
		} else if tc.want != "" {
			t.Errorf("%+v: got error %v", tc, err)
		}
	}
}

// lockedBuffer is read while the command prints.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.String()
}

// TestAGatewayServesMetricsBeside: at an address of their own, without a token.
func TestAGatewayServesMetricsBeside(t *testing.T) {
	t.Parallel()
	srv, postgres := natstest.Start(t), storetest.URL(t)
	q, err := queue.Open(t.Context(), srv.ConnectAs(string(queue.RoleWorker)), queue.Config{Log: zerolog.Nop(), MemoryStorage: true})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	ctx, stop := context.WithCancel(context.Background())
	var out, errs lockedBuffer
	over := make(chan int, 1)
	go func() {
		over <- run(ctx, []string{"--nats", srv.URLOf("gateway"), "--postgres", postgres, "--listen-http", "127.0.0.1:0", "--listen-metrics", "127.0.0.1:0"}, &out, &errs)
	}()
	for until := time.Now().Add(time.Minute); !strings.Contains(out.text(), "ready\n"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("not ready: %s %s", out.text(), errs.text())
		}
	}
	_, rest, _ := strings.Cut(out.text(), "metrics ")
	at, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	resp, err := http.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	_, _ = body.ReadFrom(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.Contains(body.String(), `airlock_build_info{program="gateway"`) {
		t.Errorf("%s: got %d %s", at, resp.StatusCode, body.String())
	}
	stop()
	if code := <-over; code != exitOK {
		t.Errorf("got code %d: %s", code, errs.text())
	}
}
