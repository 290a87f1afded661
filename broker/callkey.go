package broker

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"

	"airlock/job"

	"github.com/go-json-experiment/json/jsontext"
)

// callKeys mints the idempotency keys of one attempt: a digest of the job, the
// tool, the arguments, and how many equal calls came before. A later attempt
// that makes the same calls mints the same keys, also when calls in parallel
// leave in another order; two equal calls on purpose have two keys.
type callKeys struct {
	id job.ID

	mu   sync.Mutex
	seen map[[sha256.Size]byte]int // guarded by mu
}

func newCallKeys(id job.ID) *callKeys {
	return &callKeys{id: id, seen: map[[sha256.Size]byte]int{}}
}

func (k *callKeys) next(namespace, name string, arguments jsontext.Value) string {
	h := sha256.New()
	writePrefixed(h, k.id[:])
	writePrefixed(h, []byte(namespace))
	writePrefixed(h, []byte(name))
	writePrefixed(h, arguments)
	var call [sha256.Size]byte
	h.Sum(call[:0])

	k.mu.Lock()
	k.seen[call]++
	ordinal := k.seen[call]
	k.mu.Unlock()
	writeInt(h, int64(ordinal))
	return hex.EncodeToString(h.Sum(nil))
}

// abridged is what the audit keeps of the arguments of a refused call: all, or
// their size and digest.
func abridged(arguments jsontext.Value) jsontext.Value {
	return Abridge(arguments, maxRefusedArguments)
}

// Abridge returns the document, or its size and digest if it is larger than
// max bytes.
func Abridge(arguments jsontext.Value, max int) jsontext.Value {
	if len(arguments) <= max {
		return arguments
	}
	sum := sha256.Sum256(arguments)
	return jsontext.Value(fmt.Sprintf(`{"$airlock":"omitted","bytes":%d,"sha256":"%x"}`, len(arguments), sum))
}
