package job

import (
	"crypto/sha256"
	"encoding/hex"

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
	content := *j
	content.ID, content.Key, content.Tenant, content.Batch = ID{}, "", "", ""
	doc, err := content.Encode()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:]), nil
}
