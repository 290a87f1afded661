package gateway

import (
	"net/http"
	"time"
)

// answerPiece is how much of an answer is written at once.
const answerPiece = 64 << 10

// patientWriter gives a client so long to take each piece of its answer. One
// that takes none would otherwise hold its handler, with all that the answer is
// made of, for as long as it likes.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	wait    time.Duration
}

func newPatientWriter(w http.ResponseWriter, wait time.Duration) *patientWriter {
	return &patientWriter{w, http.NewResponseController(w), wait}
}

// Unwrap is for http.ResponseController.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// begin sets the deadline of what is written next. It stays when the answer is
// complete, for what the server has yet to send of it; the next answer on the
// connection begins with its own.
func (w *patientWriter) begin() {
	// A writer in a test may have no deadlines; a server's has.
	_ = w.control.SetWriteDeadline(time.Now().Add(w.wait))
}

// WriteHeader implements http.ResponseWriter.
func (w *patientWriter) WriteHeader(status int) {
	w.begin()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *patientWriter) Write(p []byte) (n int, err error) {
	for first := true; err == nil && (first || n < len(p)); first = false {
		w.begin()
		var written int
		written, err = w.ResponseWriter.Write(p[n:min(len(p), n+answerPiece)])
		n += written
	}
	return n, err
}
