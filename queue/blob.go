package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
)

const (
	// inlineLimit is the largest body that travels in a message.
	inlineLimit = 256 * job.KiB
	// inlineReply is that of an answer, which is not stored.
	inlineReply = 512 * job.KiB
	// maxResult is the largest announced result, and maxReply the largest
	// answer.
	maxResult = 48 * job.MiB
	maxReply  = 64 * job.MiB
	// blobPart is how much of a blob one message carries.
	blobPart = 512 * job.KiB
	maxParts = int(maxReply / blobPart)
)

// errBadBlob means that a blob is not there or is not what its name says, which
// no retry mends.
var errBadBlob = errors.New("blob is missing or damaged")

// shelf is where blobs of one kind lie: the prefix of their subjects. Jobs wait
// there until they have ended, so that a full shelf takes no more of them;
// results and answers make way for newer ones, as their messages do.
type shelf string

const (
	jobShelf    shelf = prefixBlobs
	outputShelf shelf = prefixOutputs
)

func (q *Queue) shelf(on shelf) jetstream.Stream {
	if on == jobShelf {
		return q.blobs
	}
	return q.outputs
}

// pack puts body into msg, or among the tenant's blobs when it exceeds inline.
func (q *Queue) pack(ctx context.Context, on shelf, tenant string, msg *nats.Msg, body []byte, inline job.Size) error {
	if len(body) <= int(inline) {
		msg.Data = body
		return nil
	}
	digest, err := q.putBlob(ctx, on, tenant, body)
	if err != nil {
		return err
	}
	msg.Header.Set(headerBlob, digest)
	return nil
}

// unpack returns the body of a message that pack made, wherever it lies. The
// error wraps errBadBlob when trying again is no use.
func (q *Queue) unpack(ctx context.Context, on shelf, tenant string, header nats.Header, data []byte, limit job.Size) ([]byte, error) {
	digest := header.Get(headerBlob)
	switch {
	case digest == "":
		return data, nil
	case !digestPattern.MatchString(digest):
		return nil, fmt.Errorf("%w: %q is no digest", errBadBlob, job.Printable(digest, 80))
	case len(data) > 0:
		return nil, fmt.Errorf("%w: the message has a body beside the blob", errBadBlob)
	}
	var body []byte
	var err error
	if q.attached {
		body, err = q.askBlob(ctx, tenant, digest, limit) // of a result or an answer
	} else {
		body, err = q.loadBlob(ctx, on, tenant, digest, limit)
	}
	if err == nil && digestOf(body) != digest {
		err = fmt.Errorf("%w: blob %s has another digest", errBadBlob, digest)
	}
	if err != nil {
		return nil, err
	}
	return body, nil
}

// putBlob stores data under its digest. What is there already is written again
// when it is near its end of life; readers see the same content throughout.
func (q *Queue) putBlob(ctx context.Context, on shelf, tenant string, data []byte) (digest string, err error) {
	digest = digestOf(data)
	if q.blobIsFresh(ctx, on, tenant, digest) {
		return digest, nil
	}
	for part, content := range parts(data) {
		subject, err := blobSubject(on, tenant, digest, part)
		if err != nil {
			return "", fmt.Errorf("store blob: %w", err)
		}
		msg := nats.NewMsg(subject)
		msg.Data = content
		msg.Header.Set(headerParts, strconv.Itoa(partsOf(len(data))))
		// The id lasts for the retries of one publish only.
		if err := q.publish(ctx, msg, fmt.Sprintf("%s:%s", nats.NewInbox(), subject)); err != nil {
			return "", fmt.Errorf("store blob: %w", err)
		}
	}
	return digest, nil
}

// blobIsFresh looks at the last part, which is written last. A submitter may
// not look.
func (q *Queue) blobIsFresh(ctx context.Context, on shelf, tenant, digest string) bool {
	if q.attached {
		return false
	}
	first, err := q.loadPart(ctx, on, tenant, digest, 0)
	if err != nil {
		return false
	}
	count, err := strconv.Atoi(first.Header.Get(headerParts))
	if err != nil || count < 1 || count > maxParts {
		return false
	}
	last, err := q.loadPart(ctx, on, tenant, digest, count-1)
	return err == nil && time.Since(first.Time) < blobsTTL/2 && time.Since(last.Time) < blobsTTL/2
}

func partsOf(size int) int { return max(1, (size+int(blobPart)-1)/int(blobPart)) }

// parts cuts data into what messages carry.
func parts(data []byte) [][]byte {
	var cut [][]byte
	for range partsOf(len(data)) {
		size := min(len(data), int(blobPart))
		cut, data = append(cut, data[:size]), data[size:]
	}
	return cut
}

// loadBlob reads a tenant's blob, whose content nobody has compared with its
// digest.
func (q *Queue) loadBlob(ctx context.Context, on shelf, tenant, digest string, limit job.Size) (data []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for part, count := 0, 1; part < count; part++ {
		msg, err := q.loadPart(ctx, on, tenant, digest, part)
		if err != nil {
			return nil, fmt.Errorf("load blob %s: %w", digest, err)
		}
		if part == 0 {
			if count, err = strconv.Atoi(msg.Header.Get(headerParts)); err != nil || count < 1 || count > maxParts {
				return nil, fmt.Errorf("load blob %s: %w: it has no number of parts", digest, errBadBlob)
			}
		}
		if data = append(data, msg.Data...); len(data) > int(limit) {
			return nil, fmt.Errorf("%w: blob %s exceeds %s", errBadBlob, digest, limit)
		}
	}
	return data, nil
}

// dropBlob frees the room of a job that has ended. Its digest is of the job's id
// too, so that no other job has the blob.
func (q *Queue) dropBlob(ctx context.Context, tenant, digest string) error {
	if digest == "" {
		return nil
	}
	subject, err := blobSubject(jobShelf, tenant, digest, 0)
	if err != nil {
		return fmt.Errorf("drop blob: %w", err)
	}
	all := strings.TrimSuffix(subject, "0") + "*"
	err = q.once(ctx, func(ctx context.Context) error { return q.blobs.Purge(ctx, jetstream.WithPurgeSubject(all)) })
	if err != nil {
		return fmt.Errorf("drop blob %s: %w", digest, err)
	}
	return nil
}

func (q *Queue) loadPart(ctx context.Context, on shelf, tenant, digest string, part int) (*jetstream.RawStreamMsg, error) {
	subject, err := blobSubject(on, tenant, digest, part)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBadBlob, err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	msg, err := q.shelf(on).GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, fmt.Errorf("%w: part %d is not there", errBadBlob, part)
	}
	return msg, err
}

// pause waits unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
