package job

import (
	"encoding/base64"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bytes are arbitrary bytes. In JSON they are a plain string where they are
// valid UTF-8, and {"base64": "…"} where they are not, so that nothing a guest
// printed is ever changed.
type Bytes []byte

// MarshalJSON implements json.Marshaler.
func (b Bytes) MarshalJSON() ([]byte, error) {
	if utf8.Valid(b) {
		return jsontext.AppendQuote(nil, b)
	}
	text := base64.StdEncoding.EncodeToString(b)
	return append(append([]byte(`{"base64":"`), text...), `"}`...), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *Bytes) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		text, err := jsontext.AppendUnquote(nil, raw)
		if err != nil {
			return err
		}
		*b = text
		return nil
	}
	var boxed struct {
		Base64 *string `json:"base64"`
	}
	if err := json.Unmarshal(raw, &boxed, json.RejectUnknownMembers(true)); err != nil {
		return errors.New(`want a string or {"base64": "…"}`)
	}
	if boxed.Base64 == nil {
		return errors.New(`want a string or {"base64": "…"}`)
	}
	data, err := base64.StdEncoding.Strict().DecodeString(*boxed.Base64)
	if err != nil {
		return fmt.Errorf("base64: %w", err)
	}
	*b = data
	return nil
}
