package provider

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"time"

	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// What a guest calls int, bytes and datetime are big.Int, []byte and time.Time
// here, in both directions: JSON has no word for the last two and no room for
// some of the first, so that they travel in the forms of PROTOCOL.md, "Values".

const (
	// maxDigits is how many digits an integer has at most as a JSON number.
	maxDigits = 4000
	// pythonTime is a time as every supported Python reads it, which knows
	// microseconds.
	pythonTime = "2006-01-02T15:04:05.000000-07:00"
)

// tagged is the form of a value that JSON has no word for.
type tagged struct {
	Airlock string  `json:"$airlock"`
	Base64  *string `json:"base64,omitzero"`
	ISO     *string `json:"iso,omitzero"`
	Hex     *string `json:"hex,omitzero"`
}

var decoding = json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFromFunc(decodeTime), json.UnmarshalFromFunc(decodeBytes), json.UnmarshalFromFunc(decodeInt),
))

var encoding = json.WithMarshalers(json.JoinMarshalers(
	json.MarshalToFunc(encodeTime), json.MarshalToFunc(encodeBytes), json.MarshalToFunc(encodeInt),
))

// readTagged reads a value that may be in a tagged form, whose text is found
// by part.
func readTagged(dec *jsontext.Decoder, tag string, part func(tagged) *string) (plain jsontext.Value, text *string, err error) {
	raw, err := dec.ReadValue()
	if err != nil {
		return nil, nil, err
	}
	if raw.Kind() != '{' {
		return raw, nil, nil
	}
	var form tagged
	if err := job.DecodeStrict(raw, &form); err != nil {
		return nil, nil, err
	}
	if text = part(form); form.Airlock != tag || text == nil {
		return nil, nil, fmt.Errorf("is no %s", tag)
	}
	return nil, text, nil
}

func decodeTime(dec *jsontext.Decoder, t *time.Time) error {
	raw, text, err := readTagged(dec, "datetime", func(form tagged) *string { return form.ISO })
	if err != nil {
		return err
	}
	if text == nil {
		text = new(string)
		if err := json.Unmarshal(raw, text); err != nil {
			return errors.New("is no datetime")
		}
	}
	if *t, err = time.Parse(time.RFC3339Nano, *text); err != nil {
		return errors.New("is no datetime with a time zone, such as datetime.now(timezone.utc)")
	}
	return nil
}

func encodeTime(enc *jsontext.Encoder, t time.Time) error {
	iso := t.Format(pythonTime)
	return json.MarshalEncode(enc, tagged{Airlock: "datetime", ISO: &iso})
}

func decodeBytes(dec *jsontext.Decoder, b *[]byte) error {
	raw, text, err := readTagged(dec, "bytes", func(form tagged) *string { return form.Base64 })
	if err != nil {
		return err
	}
	if text == nil {
		text = new(string)
		if err := json.Unmarshal(raw, text); err != nil {
			return errors.New("is neither bytes nor base64")
		}
	}
	*b, err = base64.StdEncoding.AppendDecode([]byte{}, []byte(*text))
	return err
}

func encodeBytes(enc *jsontext.Encoder, b []byte) error {
	text := base64.StdEncoding.EncodeToString(b)
	return json.MarshalEncode(enc, tagged{Airlock: "bytes", Base64: &text})
}

func decodeInt(dec *jsontext.Decoder, n *big.Int) error {
	raw, text, err := readTagged(dec, "int", func(form tagged) *string { return form.Hex })
	if err != nil {
		return err
	}
	digits, base := string(raw), 10
	if text != nil {
		digits, base = *text, 16
	}
	if _, ok := n.SetString(digits, base); !ok {
		return errors.New("is no integer")
	}
	return nil
}

func encodeInt(enc *jsontext.Encoder, n *big.Int) error {
	if n == nil {
		return enc.WriteToken(jsontext.Null)
	}
	text := n.String()
	if len(strings.TrimPrefix(text, "-")) <= maxDigits {
		return enc.WriteValue(jsontext.Value(text))
	}
	hex := n.Text(16)
	return json.MarshalEncode(enc, tagged{Airlock: "int", Hex: &hex})
}

// form is the schema of a tagged form.
func form(tag, part string) *jsonschema.Schema {
	name := any(tag)
	return &jsonschema.Schema{
		Type:                 "object",
		Properties:           map[string]*jsonschema.Schema{"$airlock": {Const: &name}, part: {Type: "string"}},
		Required:             []string{"$airlock", part},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
}

func either(plain, tagged *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{plain, tagged}}
}

// taken and given are the schemas of types as arguments and in answers. The
// zero schema takes anything.
func taken() map[reflect.Type]*jsonschema.Schema {
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[jsontext.Value](): {},
		reflect.TypeFor[big.Int]():        either(&jsonschema.Schema{Type: "integer"}, form("int", "hex")),
		reflect.TypeFor[time.Time]():      either(&jsonschema.Schema{Type: "string", Format: "date-time"}, form("datetime", "iso")),
		reflect.TypeFor[[]byte]():         either(&jsonschema.Schema{Type: "string", ContentEncoding: "base64"}, form("bytes", "base64")),
	}
}

func given() map[reflect.Type]*jsonschema.Schema {
	all := taken()
	all[reflect.TypeFor[time.Time]()] = form("datetime", "iso")
	all[reflect.TypeFor[[]byte]()] = form("bytes", "base64")
	return all
}
