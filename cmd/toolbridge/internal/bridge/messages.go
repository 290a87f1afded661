package bridge

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"
)

const (
	// maxMessage bounds one message of a server: twice what an answer may
	// have, for base64 and escapes.
	maxMessage = 16 << 20
	// rawKey is where a result carries its own text past the SDK, which
	// would make floats of its integers and lose the order of its schemas.
	rawKey = "airlock/result"
)

// errNoMessage says that a line or an event is not JSON-RPC.
var errNoMessage = errors.New("not a JSON object")

// checkMessage reads one message strictly and returns what the SDK is to see
// of it. In a result that is its text under rawKey, without the parts that we
// read ourselves: the SDK would also make headers of arguments if it knew the
// schemas.
func checkMessage(body []byte) ([]byte, error) {
	if err := job.CheckJSON(body); err != nil {
		return nil, err
	}
	if jsontext.Value(body).Kind() != '{' {
		return nil, errNoMessage
	}
	var message map[string]jsontext.Value
	if err := json.Unmarshal(body, &message); err != nil {
		return nil, err
	}
	if result := message["result"]; result.Kind() == '{' {
		seen, err := carryRaw(result)
		if err != nil {
			return nil, err
		}
		message["result"] = seen
	}
	return json.Marshal(message)
}

func carryRaw(result jsontext.Value) (jsontext.Value, error) {
	var parts map[string]jsontext.Value
	if err := json.Unmarshal(result, &parts); err != nil {
		return nil, err
	}
	for _, part := range []string{"content", "tools"} {
		if parts[part] != nil {
			parts[part] = jsontext.Value("[]")
		}
	}
	if parts["structuredContent"] != nil {
		delete(parts, "structuredContent")
		parts["content"] = jsontext.Value("[]")
	}
	meta, err := json.Marshal(map[string]string{rawKey: string(result)})
	if err != nil {
		return nil, err
	}
	parts["_meta"] = meta
	return json.Marshal(parts)
}

// lines reads a server's messages, one a line. What is none is left out: many
// servers print where they should not.
type lines struct {
	in     *bufio.Reader
	closer io.Closer
	log    zerolog.Logger
	ready  []byte
}

func newLines(in io.ReadCloser, log zerolog.Logger) *lines {
	return &lines{in: bufio.NewReaderSize(in, 64<<10), closer: in, log: log}
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.ready) == 0 {
		line, err := l.next()
		if err != nil {
			return 0, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		body, err := checkMessage(line)
		if err != nil {
			l.log.Warn().Str("why", job.Printable(err.Error(), 200)).Str("said", job.Printable(string(line[:min(len(line), 200)]), 200)).Msg("server says what is no message")
			continue
		}
		l.ready = append(body, '\n')
	}
	n := copy(p, l.ready)
	l.ready = l.ready[n:]
	return n, nil
}

// next returns one line, or nothing of a line that is too long.
func (l *lines) next() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := l.in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxMessage; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if long {
			l.log.Warn().Int("max", maxMessage).Msg("message too long")
		}
		return line, err
	}
}

// Close implements io.Closer.
func (l *lines) Close() error { return l.closer.Close() }
