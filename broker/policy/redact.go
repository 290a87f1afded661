package policy

import (
	"bytes"
	"strings"

	"airlock/job"

	"github.com/go-json-experiment/json/jsontext"
)

// Redacted stands for a value that is not kept.
const Redacted = "[redacted]"

// Kept is a document as the audit keeps it: the values of the rule's fields
// replaced. Where nothing is to be replaced it is doc itself.
//
// A field is a member of an object, at any depth, whatever the case of its
// name; and what follows its name in an array, which is how PROTOCOL.md writes
// a dict that JSON cannot hold. Texts are not looked into. A document that
// cannot be read is replaced whole.
func (r *Rule) Kept(doc jsontext.Value) jsontext.Value {
	if r == nil || len(r.Redact) == 0 || len(doc) == 0 {
		return doc
	}
	var out bytes.Buffer
	w := redaction{names: r.Redact, dec: jsontext.NewDecoder(bytes.NewReader(doc)), enc: jsontext.NewEncoder(&out, jsontext.PreserveRawStrings(true))}
	if err := w.value(); err != nil {
		return jsontext.Value(`"` + Redacted + `"`)
	}
	if !w.found {
		return doc
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// redaction is one document on its way from dec to enc.
type redaction struct {
	names []string
	dec   *jsontext.Decoder
	enc   *jsontext.Encoder
	found bool
}

// value copies one value; numbers and texts stay as they are written.
func (w *redaction) value() error {
	switch w.dec.PeekKind() {
	case '{':
		return w.object()
	case '[':
		return w.array()
	}
	raw, err := w.dec.ReadValue()
	if err != nil {
		return err
	}
	return w.enc.WriteValue(raw)
}

func (w *redaction) object() error {
	if err := w.token(); err != nil { // {
		return err
	}
	for w.dec.PeekKind() == '"' {
		name, err := w.dec.ReadToken()
		if err != nil {
			return err
		}
		hide := w.named(name.String())
		if err := w.enc.WriteToken(jsontext.String(name.String())); err != nil {
			return err
		}
		if err := w.member(hide); err != nil {
			return err
		}
	}
	return w.token() // }
}

func (w *redaction) array() error {
	if err := w.token(); err != nil { // [
		return err
	}
	hide := false
	for first := true; w.dec.PeekKind() != ']'; first = false {
		if first && w.dec.PeekKind() == '"' {
			name, err := w.dec.ReadToken()
			if err != nil {
				return err
			}
			hide = w.named(name.String())
			if err := w.enc.WriteToken(jsontext.String(name.String())); err != nil {
				return err
			}
			continue
		}
		if err := w.member(hide); err != nil {
			return err
		}
	}
	return w.token() // ]
}

// member copies a value, or what stands for it.
func (w *redaction) member(hide bool) error {
	if !hide {
		return w.value()
	}
	w.found = true
	if err := w.dec.SkipValue(); err != nil {
		return err
	}
	return w.enc.WriteToken(jsontext.String(Redacted))
}

func (w *redaction) token() error {
	token, err := w.dec.ReadToken()
	if err != nil {
		return err
	}
	return w.enc.WriteToken(token)
}

func (w *redaction) named(name string) bool {
	for _, hidden := range w.names {
		if strings.EqualFold(hidden, name) {
			return true
		}
	}
	return false
}

// KeptText is a failure's text as the audit keeps it, where it may quote what a
// guest or a provider said: nothing of it, if the rule hides any field.
func (r *Rule) KeptText(text string) string {
	if r == nil || len(r.Redact) == 0 || text == "" {
		return text
	}
	return Redacted
}

// maxShownError bounds what a log tells of a broken file.
const maxShownError = 500

func shown(err error) string { return job.Printable(err.Error(), maxShownError) }
