package brokertest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"airlock/broker"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// patience is how long a guest waits for a frame that must come, on a machine
// that may be busy with other tests.
const patience = 3 * time.Minute

// Guest is the guest's end of a channel. Its methods fail the test when the
// channel does not do what is asked; they are for one goroutine.
type Guest struct {
	t    testing.TB
	Conn net.Conn
}

// NewGuest makes a channel in memory and returns both ends.
func NewGuest(t testing.TB) (*Guest, io.ReadWriteCloser) {
	t.Helper()
	guest, host := net.Pipe()
	return wrap(t, guest, host)
}

// NewSocketGuest makes a channel of Unix sockets, which buffer, and returns
// both ends.
func NewSocketGuest(t testing.TB) (*Guest, io.ReadWriteCloser) {
	t.Helper()
	dir, err := os.MkdirTemp("", "bt") // t.TempDir may exceed what a socket's path holds
	if err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	defer os.RemoveAll(dir)
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	defer listener.Close()
	guest, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	host, err := listener.Accept()
	if err != nil {
		t.Fatalf("accept: %v", err)
	}
	return wrap(t, guest, host)
}

func wrap(t testing.TB, guest, host net.Conn) (*Guest, io.ReadWriteCloser) {
	t.Cleanup(func() {
		guest.Close()
		host.Close()
	})
	return &Guest{t: t, Conn: guest}, host
}

// Send sends a frame. The other end may have stopped reading; that is no
// failure of the test.
func (g *Guest) Send(body string) {
	g.t.Helper()
	frame, err := broker.AppendFrame(nil, []byte(body))
	if err != nil {
		g.t.Fatalf("frame: %v", err)
	}
	g.SendRaw(frame)
}

// SendRaw sends bytes as they are.
func (g *Guest) SendRaw(raw []byte) {
	g.t.Helper()
	g.Conn.SetWriteDeadline(time.Now().Add(patience))
	if _, err := g.Conn.Write(raw); errors.Is(err, os.ErrDeadlineExceeded) {
		g.t.Fatalf("the worker reads nothing")
	}
}

// Recv returns the next frame's body.
func (g *Guest) Recv() string {
	g.t.Helper()
	body, err := g.TryRecv()
	if err != nil {
		g.t.Fatalf("read frame: %v", err)
	}
	return body
}

// TryRecv is Recv for a channel that may have ended.
func (g *Guest) TryRecv() (string, error) {
	g.Conn.SetReadDeadline(time.Now().Add(patience))
	body, err := broker.ReadFrame(g.Conn)
	return string(body), err
}

// Expect receives a frame and compares it as JSON.
func (g *Guest) Expect(want string) {
	g.t.Helper()
	got := g.Recv()
	if diff := DiffJSON(want, got); diff != "" {
		g.t.Fatalf("frame from the worker (-want +got):\n%s", diff)
	}
}

// ExpectCode receives a reply to id and wants this error code.
func (g *Guest) ExpectCode(id int, code broker.Code) {
	g.t.Helper()
	got := g.Recv()
	want := fmt.Sprintf(`{"id":%d,"ok":false,"error":{"code":%q,`, id, string(code))
	if !strings.HasPrefix(got, want) {
		g.t.Fatalf("got frame %s, want %s…", got, want)
	}
}

// Hello opens the conversation and returns the job frame.
func (g *Guest) Hello() string {
	g.t.Helper()
	g.Send(`{"method":"hello","params":{"protocol":1,"python":"3.11.2"}}`)
	return g.Recv()
}

// Call sends a call of a tool such as math.add.
func (g *Guest) Call(id int, tool, arguments string) {
	g.t.Helper()
	namespace, name, _ := strings.Cut(tool, ".")
	g.Send(fmt.Sprintf(`{"id":%d,"method":"call_tool","params":{"namespace":%q,"name":%q,"arguments":%s}}`,
		id, namespace, name, arguments))
}

// Finish gives a result, takes its acknowledgement and closes the channel.
func (g *Guest) Finish(id int, value string) {
	g.t.Helper()
	g.Send(fmt.Sprintf(`{"id":%d,"method":"result","params":{"value":%s}}`, id, value))
	g.Expect(fmt.Sprintf(`{"id":%d,"ok":true}`, id))
	g.Close()
}

// Close ends the guest's side.
func (g *Guest) Close() { g.Conn.Close() }

// DiffJSON compares two documents regardless of the order of members and of
// white space. Numbers are compared as written.
func DiffJSON(want, got string) string {
	w, g := jsontext.Value(want), jsontext.Value(got)
	for _, v := range []*jsontext.Value{&w, &g} {
		if err := v.Format(jsontext.ReorderRawObjects(true), jsontext.CanonicalizeRawInts(false),
			jsontext.CanonicalizeRawFloats(false), jsontext.Multiline(true)); err != nil {
			return fmt.Sprintf("%v in %s", err, *v)
		}
	}
	return cmp.Diff(string(w), string(g))
}
