package store

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"airlock/job"
)

// textColumn makes host-made text fit a text column, which takes neither NUL
// nor invalid UTF-8. What guests write goes to bytea columns instead.
func textColumn(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", `\x00`)
}

// optionalText is NULL for "".
func optionalText(s string) any {
	if s == "" {
		return nil
	}
	return textColumn(s)
}

// optionalBytes is NULL for nothing.
func optionalBytes[T ~[]byte | ~string](b T) any {
	if len(b) == 0 {
		return nil
	}
	return []byte(b)
}

// optionalTime is NULL for the zero time.
func optionalTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// jsonbColumn is the document as jsonb takes it, or NULL where it does not:
// what job.CheckJSON refuses (lone surrogates, duplicate keys, numbers beyond
// numeric) and any escaped NUL. The bytes themselves are kept elsewhere.
func jsonbColumn(doc []byte) any {
	if len(doc) == 0 || job.CheckJSON(doc) != nil || escapesNUL(doc) {
		return nil
	}
	return string(doc)
}

// escapesNUL reports whether a valid document has \u0000 in a string. A
// backslash that is itself escaped does not start an escape.
func escapesNUL(doc []byte) bool {
	for {
		at := bytes.IndexByte(doc, '\\')
		if at < 0 || at+1 >= len(doc) {
			return false
		}
		if bytes.HasPrefix(doc[at:], []byte(`\u0000`)) {
			return true
		}
		doc = doc[at+2:]
	}
}

// encodeLossy writes host-made facts; invalid UTF-8 in them becomes U+FFFD
// rather than an error, because facts must never cost a result.
func encodeLossy(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

// facts are the parts of a result that only its reader needs.
type facts struct {
	Events    []job.Event    `json:"events,omitzero"`
	Isolation job.Isolated   `json:"isolation,omitzero"`
	Artifacts []job.Artifact `json:"artifacts,omitzero"`
	Verdict   string         `json:"verdict,omitzero"`
	Policy    string         `json:"policy,omitzero"`
}

// resultRow fills resultShape; plain leaves out the jsonb copies.
func resultRow(r *job.Result, plain bool) ([]any, error) {
	usage, err := encodeLossy(r.Usage)
	if err != nil {
		return nil, fmt.Errorf("encode usage: %w", err)
	}
	rest, err := encodeLossy(facts{Events: r.Events, Isolation: r.Isolation, Artifacts: r.Artifacts, Verdict: r.Verdict, Policy: r.Policy})
	if err != nil {
		return nil, fmt.Errorf("encode facts: %w", err)
	}
	valueJSON, restJSON := jsonbColumn(r.Value), jsonbColumn(rest)
	if plain {
		valueJSON, restJSON = nil, nil
	}
	guestError := r.Error
	if guestError == nil {
		guestError = &job.Error{}
	}
	var exitCode any
	if r.ExitCode != nil {
		exitCode = int64(*r.ExitCode)
	}
	return []any{
		string(r.Status), optionalBytes(r.Value), valueJSON, r.Lossy,
		optionalBytes(guestError.Type), optionalBytes(guestError.Message), optionalBytes(guestError.Traceback),
		optionalBytes(r.Stdout), r.StdoutBytes, r.StdoutTruncated,
		optionalBytes(r.Stderr), r.StderrBytes, r.StderrTruncated,
		exitCode, optionalText(r.Signal), r.ToolCalls, string(usage), rest, restJSON, optionalText(r.AuditHead),
	}, nil
}

// specRow is a job as the columns of jobs hold it.
type specRow struct {
	spec      []byte
	digest    []byte
	keyDigest []byte // nil without a key
	labels    string
	lane      string
}

// newSpecRow takes the job's encoding as Encode gave it.
func newSpecRow(j *job.Job, spec []byte) (specRow, error) {
	digest, err := j.DigestEncoded(spec)
	if err != nil {
		return specRow{}, err
	}
	row := specRow{spec: spec, digest: digest[:], lane: j.Requires.Lane(), labels: "{}"}
	if j.Key != "" {
		sum := sha256.Sum256([]byte(j.Key))
		row.keyDigest = sum[:]
	}
	if len(j.Labels) > 0 {
		doc, err := encodeLossy(j.Labels)
		if err != nil {
			return specRow{}, fmt.Errorf("encode labels: %w", err)
		}
		if text, ok := jsonbColumn(doc).(string); ok {
			row.labels = text
		}
	}
	return row, nil
}

// jobRow fills jobShape. A job without a time of queueing was queued when its
// id was made.
func jobRow(j *job.Job, row specRow, queued time.Time, generation int) []any {
	if queued.IsZero() {
		queued = j.ID.Time()
	}
	return []any{
		[16]byte(j.ID), j.Tenant, optionalText(j.Batch), optionalBytes(j.Key), optionalBytes(row.keyDigest), row.labels, row.spec,
		row.digest, row.lane, string(j.Priority), j.MaxAttempts, optionalTime(j.NotBefore),
		optionalTime(j.Deadline), queued, generation,
	}
}
