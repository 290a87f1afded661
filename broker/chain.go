package broker

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sort"
	"time"

	"airlock/job"
)

// The hash chain of an attempt's calls. Link n's hash is
//
//	SHA-256(hash of link n-1 ‖ kind ‖ fields)
//
// with every field prefixed by its length as eight bytes, big-endian. The
// first link continues from Genesis. The start of a call is a link over what
// was known then, its end a link over everything; a refused call has only the
// second. Times count in microseconds, which is what the database keeps.

// The kinds of links.
const (
	linkStart = "start"
	linkEnd   = "end"
)

// Genesis is the hash before an attempt's first link.
func Genesis(id job.ID, attempt int) []byte {
	h := sha256.New()
	writePrefixed(h, []byte("airlock audit 1"))
	writePrefixed(h, id[:])
	writeInt(h, int64(attempt))
	return h.Sum(nil)
}

// startHash is the hash of a call's first link after prev.
func startHash(prev []byte, c *job.Call) []byte {
	h := linkHash(prev, linkStart, c)
	return h.Sum(nil)
}

// endHash is the hash of a call's last link after prev.
func endHash(prev []byte, c *job.Call) []byte {
	h := linkHash(prev, linkEnd, c)
	for _, field := range []string{string(c.State), string(c.Answer), c.Code, c.Message, c.Detail, c.Provider} {
		writePrefixed(h, []byte(field))
	}
	writeTime(h, c.Ended)
	if c.Retryable { // absent from what was recorded before there was such a word
		writePrefixed(h, []byte("retryable"))
	}
	return h.Sum(nil)
}

func linkHash(prev []byte, kind string, c *job.Call) hash.Hash {
	h := sha256.New()
	h.Write(prev)
	writePrefixed(h, []byte(kind))
	writePrefixed(h, c.Job[:])
	writeInt(h, int64(c.Attempt))
	writeInt(h, int64(c.Seq))
	for _, field := range []string{c.Namespace, c.Name, string(c.Arguments), c.SchemaDigest} {
		writePrefixed(h, []byte(field))
	}
	writeTime(h, c.Started)
	return h
}

func writePrefixed(w io.Writer, field []byte) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(field)))
	w.Write(length[:])
	w.Write(field)
}

func writeInt(w io.Writer, n int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	writePrefixed(w, b[:])
}

func writeTime(w io.Writer, t time.Time) {
	if t.IsZero() {
		writePrefixed(w, nil)
		return
	}
	writeInt(w, t.UnixMicro())
}

// ErrChain is wrapped by Verify's error.
var ErrChain = errors.New("audit chain is broken")

// Verify recomputes the chain of an attempt from its recorded calls, in any
// order, and returns the head in hex: the report's AuditHead, if nothing was
// lost. The error names the first thing that does not fit: a call or link that
// is missing or there twice, a call of another attempt, or a field that was
// changed.
func Verify(id job.ID, attempt int, calls []job.Call) (head string, err error) {
	links, err := chainLinks(id, attempt, calls)
	if err != nil {
		return "", err
	}
	hash := Genesis(id, attempt)
	for i, l := range links {
		if l.number != i+1 {
			return "", fmt.Errorf("%w: link %d is missing or there twice", ErrChain, i+1)
		}
		if hash = l.next(hash, l.call); string(hash) != string(l.recorded) {
			return "", fmt.Errorf("%w: call %d was changed", ErrChain, l.call.Seq)
		}
	}
	return hex.EncodeToString(hash), nil
}

// link is one recorded link of a chain.
type link struct {
	number   int
	call     *job.Call
	next     func(prev []byte, c *job.Call) []byte
	recorded []byte
}

// chainLinks lists the recorded links by number.
func chainLinks(id job.ID, attempt int, calls []job.Call) ([]link, error) {
	var links []link
	seen := make([]bool, len(calls)+1)
	for i := range calls {
		c := &calls[i]
		switch {
		case c.Job != id || c.Attempt != attempt:
			return nil, fmt.Errorf("%w: call %d is of another attempt", ErrChain, c.Seq)
		case c.Seq < 1 || c.Seq > len(calls) || seen[c.Seq]:
			return nil, fmt.Errorf("%w: call %d is one too many, or one before it is missing", ErrChain, c.Seq)
		}
		seen[c.Seq] = true
		if c.StartLink != 0 {
			links = append(links, link{c.StartLink, c, startHash, c.StartHash})
		}
		if c.EndLink != 0 {
			links = append(links, link{c.EndLink, c, endHash, c.EndHash})
		}
		if c.StartLink == 0 && c.EndLink == 0 {
			return nil, fmt.Errorf("%w: call %d has no link", ErrChain, c.Seq)
		}
	}
	sort.Slice(links, func(i, j int) bool { return links[i].number < links[j].number })
	return links, nil
}
