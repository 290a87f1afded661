package standalone_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"airlock/standalone"
)

func startNATS(t *testing.T, cfg standalone.NATSConfig) *standalone.NATS {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n, err := standalone.StartNATS(ctx, cfg)
	if err != nil {
		t.Fatalf("start nats: %v", err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("close nats: %v", err)
		}
	})
	return n
}

// natsStream opens the stream T of the server, making it if need be.
func natsStream(t *testing.T, n *standalone.NATS) (jetstream.JetStream, jetstream.Stream) {
	t.Helper()
	nc, err := nats.Connect(n.URL())
	if err != nil {
		t.Fatalf("connect to %s: %v", n.URL(), err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatalf("open jetstream: %v", err)
	}
	stream, err := js.CreateOrUpdateStream(context.Background(), jetstream.StreamConfig{Name: "T", Subjects: []string{"t"}})
	if err != nil {
		t.Fatalf("make stream: %v", err)
	}
	return js, stream
}

func TestNATSKeepsItsStore(t *testing.T) {
	t.Parallel()
	for _, always := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "not", "there", "yet")
		first := startNATS(t, standalone.NATSConfig{Dir: dir, SyncAlways: always})
		js, _ := natsStream(t, first)
		if _, err := js.Publish(context.Background(), "t", []byte("kept")); err != nil {
			t.Fatalf("publish: %v", err)
		}
		for range 2 {
			if err := first.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		second := startNATS(t, standalone.NATSConfig{Dir: dir, SyncAlways: always})
		_, stream := natsStream(t, second)
		msg, err := stream.GetMsg(context.Background(), 1)
		if err != nil {
			t.Fatalf("read what was published before: %v", err)
		}
		if string(msg.Data) != "kept" {
			t.Errorf("got %q, want %q", msg.Data, "kept")
		}
	}
}

// TestNATSInProcess: a client that is given the server needs no network.
func TestNATSInProcess(t *testing.T) {
	t.Parallel()
	n := startNATS(t, standalone.NATSConfig{Dir: t.TempDir()})
	nc, err := nats.Connect(n.URL(), nats.InProcessServer(n))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if addr := nc.ConnectedAddr(); addr != "pipe" {
		t.Errorf("got a connection to %s, want the pipe", addr)
	}
	sub, err := nc.SubscribeSync("there")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(nc.Publish("there", []byte("x")), nc.Flush()); err != nil {
		t.Fatal(err)
	}
	if _, err := sub.NextMsg(time.Minute); err != nil {
		t.Errorf("message: %v", err)
	}
}

func TestNATSListens(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"", "127.0.0.1:0", "127.0.0.1:-1", "localhost:0"} {
		n := startNATS(t, standalone.NATSConfig{Dir: t.TempDir(), Listen: listen})
		u, err := url.Parse(n.URL())
		if err != nil {
			t.Fatalf("parse %q: %v", n.URL(), err)
		}
		if u.Port() == "0" || u.Port() == "" || u.Port() == "4222" {
			t.Errorf("listen %q: got port %q, want a free one", listen, u.Port())
		}
	}
}

func TestNATSRefusesToStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct{ name, listen, want string }{
		{"all addresses", "0.0.0.0:0", "not a loopback address"},
		{"no host", ":0", "not a loopback address"},
		{"a name", "example.com:0", "not a loopback address"},
		{"no port", "127.0.0.1", "missing port"},
		{"bad port", "127.0.0.1:x", "the port is no number"},
		{"taken port", taken.Addr().String(), "in use"},
	} {
		n, err := standalone.StartNATS(context.Background(), standalone.NATSConfig{Dir: t.TempDir(), Listen: c.listen})
		if err == nil {
			t.Errorf("%s: got no error", c.name)
			_ = n.Close()
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %q, want it to contain %q", c.name, err, c.want)
		}
	}
	if _, err := standalone.StartNATS(context.Background(), standalone.NATSConfig{}); err == nil {
		t.Error("got no error without a directory")
	}
}

func TestNATSIsRemoteOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	n := startNATS(t, standalone.NATSConfig{Dir: t.TempDir(), Listen: "0.0.0.0:0", AllowRemote: true})
	natsStream(t, n)
}

func TestNATSStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(context.Background())
	because := errors.New("because")
	cancel(because)
	if _, err := standalone.StartNATS(ctx, standalone.NATSConfig{Dir: t.TempDir()}); !errors.Is(err, because) {
		t.Errorf("got error %v, want the context's cause", err)
	}
}
