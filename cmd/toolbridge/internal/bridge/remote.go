package bridge

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// checkedRemote is the way to a server by HTTP: it adds the headers, follows no
// redirect that would carry them elsewhere, and holds what comes back to
// checkMessage.
type checkedRemote struct {
	header http.Header
	next   http.RoundTripper
}

func newRemote(header http.Header) *http.Client {
	return &http.Client{
		Transport:     &checkedRemote{header, http.DefaultTransport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// RoundTrip implements http.RoundTripper.
func (c *checkedRemote) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range c.header {
		r.Header[name] = values
	}
	answer, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		return checkBody(answer)
	case "text/event-stream":
		answer.Body = newEvents(answer.Body)
	default:
		answer.Body = limited(answer.Body)
	}
	answer.Header.Del("Content-Length")
	answer.ContentLength = -1
	return answer, nil
}

func checkBody(answer *http.Response) (*http.Response, error) {
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxMessage+1))
	if err != nil {
		return nil, fmt.Errorf("read the server's answer: %w", err)
	}
	if len(body) > maxMessage {
		return nil, fmt.Errorf("the server's answer is larger than %d bytes", maxMessage)
	}
	if len(bytes.TrimSpace(body)) > 0 {
		if body, err = checkMessage(body); err != nil {
			return nil, fmt.Errorf("the server's answer: %w", err)
		}
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	answer.ContentLength = int64(len(body))
	answer.Header.Del("Content-Length")
	return answer, nil
}

func limited(body io.ReadCloser) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(body, maxMessage), body}
}

// events reads server-sent events and gives each on once its data is checked.
type events struct {
	in     *bufio.Reader
	closer io.Closer
	ready  []byte
}

func newEvents(in io.ReadCloser) *events {
	return &events{in: bufio.NewReaderSize(in, 64<<10), closer: in}
}

// Read implements io.Reader.
func (e *events) Read(p []byte) (int, error) {
	for len(e.ready) == 0 {
		if err := e.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, e.ready)
	e.ready = e.ready[n:]
	return n, nil
}

// next takes one event, whose end is an empty line.
func (e *events) next() error {
	var head, data bytes.Buffer
	for {
		line, err := e.line(maxMessage - data.Len() - head.Len())
		if err != nil {
			return err // an event that was cut short counts for nothing
		}
		text := strings.TrimRight(line, "\r\n")
		value, isData := strings.CutPrefix(text, "data:")
		switch {
		case text == "":
			return e.pass(head.Bytes(), data.Bytes())
		case isData:
			data.WriteString(strings.TrimPrefix(value, " ") + "\n")
		default:
			head.WriteString(text + "\n")
		}
	}
}

func (e *events) line(room int) (string, error) {
	var line []byte
	for {
		part, err := e.in.ReadSlice('\n')
		if len(line)+len(part) > room {
			return "", fmt.Errorf("the server's event is larger than %d bytes", maxMessage)
		}
		line = append(line, part...)
		if err != bufio.ErrBufferFull {
			return string(line), err
		}
	}
}

func (e *events) pass(head, data []byte) error {
	e.ready = append(e.ready[:0:0], head...)
	if len(bytes.TrimSpace(data)) > 0 {
		body, err := checkMessage(data)
		if err != nil {
			return fmt.Errorf("the server's event: %w", err)
		}
		e.ready = append(append(append(e.ready, "data: "...), body...), '\n')
	}
	e.ready = append(e.ready, '\n')
	return nil
}

// Close implements io.Closer.
func (e *events) Close() error { return e.closer.Close() }
