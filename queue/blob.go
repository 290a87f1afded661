package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
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

	blobTries = 3
	blobAgain = 100 * time.Millisecond
)

// errBadBlob means that a blob is not there or is not what its name says, which
// no retry mends.
var errBadBlob = errors.New("blob is missing or damaged")

// pack puts body into msg, or into the blob store when it exceeds inline.
func (q *Queue) pack(ctx context.Context, msg *nats.Msg, body []byte, inline job.Size) error {
	if len(body) <= int(inline) {
		msg.Data = body
		return nil
	}
	digest, err := q.putBlob(ctx, body)
	if err != nil {
		return err
	}
	msg.Header.Set(headerBlob, digest)
	return nil
}

// unpack returns the body of a message that pack made, wherever it lies. The
// error wraps errBadBlob when trying again is no use.
func (q *Queue) unpack(ctx context.Context, header nats.Header, data []byte, limit job.Size) ([]byte, error) {
	digest := header.Get(headerBlob)
	switch {
	case digest == "":
		return data, nil
	case !digestPattern.MatchString(digest):
		return nil, fmt.Errorf("%w: %q is no digest", errBadBlob, job.Printable(digest, 80))
	case len(data) > 0:
		return nil, fmt.Errorf("%w: the message has a body beside the blob", errBadBlob)
	}
	return q.loadBlob(ctx, digest, limit)
}

// putBlob stores data under its digest. What is there already is written again
// when it is near its end of life.
func (q *Queue) putBlob(ctx context.Context, data []byte) (digest string, err error) {
	digest = digestOf(data)
	if info, err := q.blobs.GetInfo(ctx, digest); err == nil && time.Since(info.ModTime) < blobsTTL/2 {
		return digest, nil
	}
	if _, err := q.blobs.PutBytes(ctx, digest, data); err != nil {
		return "", fmt.Errorf("store blob: %w", err)
	}
	return digest, nil
}

// loadBlob tries a few times: a blob that is being written again loses its old
// pieces under the reader.
func (q *Queue) loadBlob(ctx context.Context, digest string, limit job.Size) (data []byte, err error) {
	for range blobTries {
		if data, err = q.loadBlobOnce(ctx, digest, limit); err == nil || !errors.Is(err, errBadBlob) {
			return data, err
		}
		if pause(ctx, blobAgain) != nil {
			return nil, err
		}
	}
	return nil, err
}

func (q *Queue) loadBlobOnce(ctx context.Context, digest string, limit job.Size) (data []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	object, err := q.blobs.Get(ctx, digest)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, fmt.Errorf("load blob %s: %w: %w", digest, errBadBlob, err)
	}
	if err != nil {
		return nil, fmt.Errorf("load blob %s: %w", digest, err)
	}
	defer func() { err = errors.Join(err, object.Close()) }()
	data, err = io.ReadAll(io.LimitReader(object, int64(limit)+1))
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("load blob %s: %w", digest, context.Cause(ctx))
	case err != nil && !errors.Is(err, jetstream.ErrDigestMismatch):
		return nil, fmt.Errorf("load blob %s: %w", digest, err)
	case len(data) > int(limit):
		return nil, fmt.Errorf("%w: blob %s exceeds %s", errBadBlob, digest, limit)
	case digestOf(data) != digest:
		return nil, fmt.Errorf("%w: blob %s has another digest", errBadBlob, digest)
	}
	return data, nil
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
