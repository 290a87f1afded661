package main

import (
	"bytes"
	"net"
	"strings"
	"testing"
)

// TestHTTPTakesAFreePortOnlyOfWhoGaveNone: a port that somebody chose is not
// exchanged for another in silence, or at all.
func TestHTTPTakesAFreePortOnlyOfWhoGaveNone(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", httpAddress)
	if err == nil { // else it is taken by somebody else
		defer taken.Close()
	}
	var said bytes.Buffer
	l, err := (&httpFlags{ListenHttp: httpAuto}).listen(&said)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if l.Addr().String() == httpAddress || !strings.Contains(said.String(), httpAddress+" is taken: HTTP is at "+l.URL) {
		t.Errorf("got %s and %q, want a free port and a word about it", l.URL, said.String())
	}
	again, err := (&httpFlags{ListenHttp: l.Addr().String()}).listen(&said)
	if err == nil || !strings.Contains(err.Error(), "give --listen-http another address") {
		t.Errorf("got %v, %v for a port that is taken, want an error that says what to try", again, err)
	}
	if none, err := (&httpFlags{}).listen(&said); none != nil || err != nil {
		t.Errorf("got %v, %v for no address, want nothing", none, err)
	}
}
