package job

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// FieldError says which field of a job is wrong and why. Decode, Prepare and
// everything that refuses a job for its content return it.
type FieldError struct {
	// Field is the path, such as limits.wall or files[2].path; empty when
	// the whole document is meant.
	Field  string
	Reason string
}

// Error implements error.
func (e *FieldError) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return e.Field + ": " + e.Reason
}

func fieldErrorf(field, format string, args ...any) *FieldError {
	return &FieldError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// The bounds of any JSON that comes from outside.
const (
	// MaxDepth is how deep objects and arrays may nest.
	MaxDepth = 64
	// MaxNumber is how many characters a number may have, and MaxExponent
	// how large its exponent may be: 1e131071 is eight bytes here and
	// 131,072 characters in a database.
	MaxNumber   = 4400
	MaxExponent = 400
)

// Decode reads one job strictly: unknown fields, duplicate keys, NaN, invalid
// UTF-8, lone surrogates, numbers out of range, more than one document, and
// more than MaxSpec bytes are refused with the field's path. It neither checks
// the content nor fills defaults; Prepare does.
func Decode(data []byte) (*Job, error) {
	if len(data) > int(MaxSpec) {
		return nil, fieldErrorf("", "the job is %d bytes, the maximum is %s", len(data), MaxSpec)
	}
	if err := CheckJSON(data); err != nil {
		return nil, err
	}
	var j Job
	if err := DecodeStrict(data, &j); err != nil {
		return nil, err
	}
	return &j, nil
}

// DecodeStrict decodes data that CheckJSON accepted, refusing unknown fields.
// Its error is a *FieldError. The options may say how types are decoded.
func DecodeStrict(data []byte, into any, options ...json.Options) error {
	err := json.Unmarshal(data, into, append(options, json.RejectUnknownMembers(true))...)
	if err == nil {
		return nil
	}
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return syntaxError(err)
	}
	field := fieldPath(semantic.JSONPointer)
	if errors.Is(err, json.ErrUnknownName) {
		return fieldErrorf(field, "unknown field")
	}
	reason := "wrong type"
	if semantic.Err != nil {
		reason = semantic.Err.Error()
	} else if semantic.JSONKind != 0 {
		reason = "is " + kindName(semantic.JSONKind) + ", want " + wanted(semantic.GoType)
	}
	return &FieldError{Field: field, Reason: Printable(reason, 300)}
}

// CheckJSON reports whether data is one JSON document that every part of
// Airlock can carry: valid UTF-8 without lone surrogates, no duplicate keys,
// nested at most MaxDepth deep, numbers within MaxNumber and MaxExponent.
// Its error is a *FieldError.
func CheckJSON(data []byte) error {
	if !utf8.Valid(data) {
		return fieldErrorf("", "invalid UTF-8 at byte %d", invalidAt(data))
	}
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	for {
		tok, err := dec.ReadToken()
		if errors.Is(err, io.EOF) {
			return fieldErrorf("", "not JSON: ends too early at byte %d", len(data))
		}
		if err != nil {
			return syntaxError(err)
		}
		if dec.StackDepth() > MaxDepth {
			return fieldErrorf(fieldPath(dec.StackPointer()), "nested deeper than %d", MaxDepth)
		}
		if tok.Kind() == '0' {
			if err := checkNumber(tok.String()); err != "" {
				return fieldErrorf(fieldPath(dec.StackPointer()), "%s", err)
			}
		}
		if dec.StackDepth() == 0 {
			break
		}
	}
	if rest := bytes.TrimLeft(data[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return fieldErrorf("", "more than one JSON document")
	}
	return nil
}

func checkNumber(text string) string {
	if len(text) > MaxNumber {
		return fmt.Sprintf("number of %d characters, the maximum is %d", len(text), MaxNumber)
	}
	at := strings.IndexAny(text, "eE")
	if at < 0 {
		return ""
	}
	digits := strings.TrimLeft(strings.TrimLeft(text[at+1:], "+-"), "0")
	if len(digits) > 3 || (len(digits) == 3 && digits > fmt.Sprint(MaxExponent)) {
		return fmt.Sprintf("exponent beyond %d", MaxExponent)
	}
	return ""
}

func syntaxError(err error) *FieldError {
	var syntactic *jsontext.SyntacticError
	if !errors.As(err, &syntactic) {
		return &FieldError{Reason: Printable(err.Error(), 300)}
	}
	reason := "not JSON"
	if syntactic.Err != nil {
		reason = "not JSON: " + syntactic.Err.Error()
	}
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		reason = "duplicate key"
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		reason = "not JSON: ends too early"
	}
	return fieldErrorf(fieldPath(syntactic.JSONPointer), "%s at byte %d", Printable(reason, 200), syntactic.ByteOffset)
}

// fieldPath turns a JSON pointer into the form people write: files[2].path.
func fieldPath(pointer jsontext.Pointer) string {
	var path strings.Builder
	for token := range pointer.Tokens() {
		switch {
		case isIndex(token) && path.Len() > 0:
			path.WriteString("[" + token + "]")
		case path.Len() > 0:
			path.WriteString("." + Printable(token, 80))
		default:
			path.WriteString(Printable(token, 80))
		}
	}
	return path.String()
}

func isIndex(token string) bool {
	return token != "" && len(token) < 10 && strings.Trim(token, "0123456789") == ""
}

func kindName(kind jsontext.Kind) string {
	switch kind {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "this"
}

func invalidAt(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(data)
}
