package queue

import (
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// recentKept is how many ended jobs are remembered at least, some seconds' worth.
const recentKept = 16_384

// recent are the messages of JOBS that were acknowledged here lately. Their
// jobs are in the database, to their end and on its disk: the recorder need
// not bring them there. The zero value is ready.
type recent struct {
	mu sync.Mutex
	// newer and older hold keys; guarded by mu.
	newer, older map[string]bool
}

// recentKey names a message of JOBS, "" if it cannot be named. The number is
// the server's, but begins anew with a stream that was lost; the id is the
// submitter's, who could give another's.
func recentKey(sequence, id string) string {
	if sequence == "" || id == "" {
		return ""
	}
	return sequence + " " + id
}

// originKey is recentKey for the message of JOBS that one of QUEUED is a copy
// of. The server writes the sequence behind what the submitter may have written.
func originKey(copied *message) string {
	header := copied.Headers()
	sequences := header.Values(jetstream.SequenceHeader)
	if len(sequences) == 0 {
		return ""
	}
	return recentKey(sequences[len(sequences)-1], header.Get(jetstream.MsgIDHeader))
}

func (r *recent) note(key string) {
	if key == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.newer == nil || len(r.newer) >= recentKept {
		r.older, r.newer = r.newer, make(map[string]bool)
	}
	r.newer[key] = true
}

// has reports whether the message was acknowledged here.
func (r *recent) has(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return key != "" && (r.newer[key] || r.older[key])
}
