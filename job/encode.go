package job

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
)

// Encode writes the job as canonical JSON: the same job gives the same bytes.
func (j *Job) Encode() ([]byte, error) {
	return json.Marshal(j, json.Deterministic(true))
}

// ContentDigest is the hex SHA-256 of everything that decides what would run,
// which is all but the id, key, tenant and batch. Two jobs with the same key
// and digest are the same job; with another digest they are a conflict.
func (j *Job) ContentDigest() (string, error) {
	doc, err := j.Encode()
	if err != nil {
		return "", err
	}
	sum, err := j.DigestEncoded(doc)
	return hex.EncodeToString(sum[:]), err
}

// name is the head of a job's encoding, which is not of its content. Job has
// these fields first, and in this order.
type name struct {
	ID     ID     `json:"id,omitzero"`
	Key    string `json:"key,omitzero"`
	Tenant string `json:"tenant,omitzero"`
	Batch  string `json:"batch,omitzero"`
}

// DigestEncoded is ContentDigest, in bytes, for who has the job's encoding
// already: doc must be what Encode gave.
func (j *Job) DigestEncoded(doc []byte) (sum [sha256.Size]byte, err error) {
	head, err := json.Marshal(name{ID: j.ID, Key: j.Key, Tenant: j.Tenant, Batch: j.Batch})
	if err != nil {
		return sum, fmt.Errorf("digest job: %w", err)
	}
	if len(head) == len("{}") {
		return sha256.Sum256(doc), nil
	}
	// The code is always there, so that something follows the head.
	content, ok := bytes.CutPrefix(doc, head[:len(head)-1])
	if !ok || len(content) == 0 || content[0] != ',' {
		return sum, errors.New("digest job: the document is not the job's encoding")
	}
	digest := sha256.New()
	digest.Write([]byte("{"))
	digest.Write(content[1:])
	digest.Sum(sum[:0])
	return sum, nil
}
