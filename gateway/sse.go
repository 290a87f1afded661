package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
)

// beatEvery is how often a stream shows that it lives.
const beatEvery = 15 * time.Second

// eventStream writes server-sent events. After an error it does nothing more.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buf     bytes.Buffer
	err     error
}

// openStream begins the answer.
func (g *Gateway) openStream(w http.ResponseWriter) *eventStream {
	h := w.Header()
	h.Set("Content-Type", mediaEvents)
	h.Set("X-Accel-Buffering", "no") // of proxies
	w.WriteHeader(http.StatusOK)
	s := &eventStream{w: w, control: http.NewResponseController(w)}
	s.comment("airlock")
	return s
}

// errNotOneLine cannot be: JSON that we encode is one line.
var errNotOneLine = errors.New("event is not one line")

// event adds one, whose data are JSON on a line of its own, so that nothing in
// it can be taken for another event. Without an id it cannot be resumed from.
func (s *eventStream) event(id string, name eventName, data any) {
	if s.err != nil {
		return
	}
	body, err := json.Marshal(data, json.Deterministic(true))
	if err == nil && bytes.ContainsAny(body, "\r\n") {
		err = errNotOneLine
	}
	if err != nil {
		s.err = fmt.Errorf("encode event %s: %w", name, err)
		return
	}
	if id != "" {
		fmt.Fprintf(&s.buf, "id: %s\n", id)
	}
	fmt.Fprintf(&s.buf, "event: %s\ndata: %s\n\n", name, body)
	if s.buf.Len() >= answerPiece {
		s.flush()
	}
}

// comment sends a line that is no event.
func (s *eventStream) comment(format string, args ...any) {
	fmt.Fprintf(&s.buf, ": "+format+"\n\n", args...)
	s.flush()
}

// flush sends what there is. A client that does not take it in time is gone.
func (s *eventStream) flush() {
	if s.err != nil || s.buf.Len() == 0 {
		return
	}
	_, s.err = s.w.Write(s.buf.Bytes())
	s.buf.Reset()
	if s.err == nil {
		s.err = s.control.Flush()
	}
}

// resumeFrom is the id of the last event that the client has, "" if none.
func resumeFrom(r *request) string {
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		return id
	}
	return r.URL.Query().Get("last_event_id")
}
