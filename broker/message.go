package broker

import (
	"errors"
	"fmt"
	"strconv"

	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Version is the protocol's version that this package speaks.
const Version = 1

// The bounds of what a guest may put into small fields.
const (
	maxPython    = 64
	maxUnawaited = 100
	maxLeftOut   = 1_000_000
	maxID        = 1<<53 - 1
)

// Method names a request of the guest.
type Method string

// The methods.
const (
	MethodHello     Method = "hello"
	MethodListTools Method = "list_tools"
	MethodCallTool  Method = "call_tool"
	MethodArtifact  Method = "artifact"
	MethodResult    Method = "result"
)

// Message is one frame from a guest: exactly the field that Method names is
// set. ListTools has none.
type Message struct {
	Method Method
	// ID numbers a request; hello and artifact have none.
	ID       uint64
	Hello    *Hello
	Call     *CallTool
	Artifact *job.Piece
	Result   *Result
}

// Hello opens a conversation.
type Hello struct {
	Protocol int
	Python   string
	// Token is nil where none was sent.
	Token *string
}

// CallTool asks for one call. Arguments may be any JSON: what is not an object
// is refused by policy, not by the decoder.
type CallTool struct {
	// Namespace is nil where none was named.
	Namespace *string
	Name      string
	Arguments jsontext.Value
}

// Result closes a conversation: exactly one of Value, Error and TooLarge is
// set.
type Result struct {
	Value     jsontext.Value
	Lossy     bool
	Error     *job.Error
	TooLarge  *int64
	Unawaited []string
	// LeftOut counts the files that were not even named.
	LeftOut int64
}

// DecodeMessage reads a frame's body strictly. Whatever it refuses is a
// breach; the error says why in words that hold nothing unprintable.
func DecodeMessage(body []byte) (*Message, error) {
	if err := job.CheckJSON(body); err != nil {
		return nil, err
	}
	if jsontext.Value(body).Kind() != '{' {
		return nil, errors.New("the frame is not an object")
	}
	var wire struct {
		ID     jsontext.Value `json:"id"`
		Method field[string]  `json:"method"`
		Params jsontext.Value `json:"params"`
	}
	if err := job.DecodeStrict(body, &wire); err != nil {
		return nil, err
	}
	msg := &Message{Method: Method(wire.Method.value)}
	if err := msg.decodeParams(wire.Params); err != nil {
		return nil, err
	}
	if err := msg.decodeID(wire.ID); err != nil {
		return nil, err
	}
	return msg, nil
}

func (m *Message) decodeID(raw jsontext.Value) error {
	if wanted := m.Method != MethodHello && m.Method != MethodArtifact; wanted != (raw != nil) {
		return presence("id", wanted)
	}
	if raw == nil {
		return nil
	}
	id, err := strconv.ParseUint(string(raw), 10, 64)
	if err != nil || id > maxID {
		return errors.New("id: want an integer from 0 to 2^53 - 1")
	}
	m.ID = id
	return nil
}

func (m *Message) decodeParams(params jsontext.Value) (err error) {
	if wanted := m.Method != MethodListTools; m.known() && wanted != (params != nil) {
		return presence("params", wanted)
	}
	switch m.Method {
	case MethodHello:
		m.Hello, err = decodeHello(params)
	case MethodListTools:
	case MethodCallTool:
		m.Call, err = decodeCall(params)
	case MethodArtifact:
		m.Artifact, err = decodeArtifact(params)
	case MethodResult:
		m.Result, err = decodeResult(params)
	case "":
		err = presence("method", true)
	default:
		err = fmt.Errorf("unknown method %q", job.Printable(string(m.Method), 40))
	}
	return err
}

func (m *Message) known() bool {
	switch m.Method {
	case MethodHello, MethodListTools, MethodCallTool, MethodArtifact, MethodResult:
		return true
	}
	return false
}

func decodeHello(params jsontext.Value) (*Hello, error) {
	var wire struct {
		Protocol field[int]    `json:"protocol"`
		Python   field[string] `json:"python"`
		Token    field[string] `json:"token"`
	}
	if err := decodeObject("params", params, &wire); err != nil {
		return nil, err
	}
	switch {
	case !wire.Protocol.set:
		return nil, presence("protocol", true)
	case wire.Protocol.value != Version:
		return nil, fmt.Errorf("protocol %d, want %d", wire.Protocol.value, Version)
	case !wire.Python.set:
		return nil, presence("python", true)
	case len(wire.Python.value) > maxPython:
		return nil, fmt.Errorf("python: longer than %d bytes", maxPython)
	}
	return &Hello{Protocol: wire.Protocol.value, Python: wire.Python.value, Token: wire.Token.pointer()}, nil
}

func decodeCall(params jsontext.Value) (*CallTool, error) {
	var wire struct {
		Namespace field[string]  `json:"namespace"`
		Name      field[string]  `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if err := decodeObject("params", params, &wire); err != nil {
		return nil, err
	}
	if !wire.Name.set {
		return nil, presence("name", true)
	}
	if wire.Arguments == nil {
		return nil, presence("arguments", true)
	}
	return &CallTool{Namespace: wire.Namespace.pointer(), Name: wire.Name.value, Arguments: wire.Arguments}, nil
}

func decodeResult(params jsontext.Value) (*Result, error) {
	var wire struct {
		Value     jsontext.Value  `json:"value"`
		Lossy     field[bool]     `json:"lossy"`
		Error     jsontext.Value  `json:"error"`
		TooLarge  field[int64]    `json:"too_large"`
		Unawaited field[[]string] `json:"unawaited"`
		LeftOut   field[int64]    `json:"left_out"`
	}
	if err := decodeObject("params", params, &wire); err != nil {
		return nil, err
	}
	ends := 0
	for _, set := range []bool{wire.Value != nil, wire.Error != nil, wire.TooLarge.set} {
		if set {
			ends++
		}
	}
	switch {
	case ends != 1:
		return nil, errors.New("want exactly one of value, error and too_large")
	case wire.TooLarge.value < 0:
		return nil, errors.New("too_large: is negative")
	case wire.LeftOut.set && (wire.LeftOut.value < 1 || wire.LeftOut.value > maxLeftOut):
		return nil, fmt.Errorf("left_out: want 1 to %d", maxLeftOut)
	case len(wire.Unawaited.value) > maxUnawaited:
		return nil, fmt.Errorf("unawaited: more than %d names", maxUnawaited)
	}
	result := &Result{
		Value: wire.Value, Lossy: wire.Lossy.value, TooLarge: wire.TooLarge.pointer(),
		Unawaited: wire.Unawaited.value, LeftOut: wire.LeftOut.value,
	}
	if wire.Error == nil {
		return result, nil
	}
	var err error
	result.Error, err = decodeException(wire.Error)
	return result, err
}

func decodeException(raw jsontext.Value) (*job.Error, error) {
	var wire exception
	if err := decodeObject("error", raw, &wire); err != nil {
		return nil, err
	}
	if !wire.Type.set {
		return nil, presence("error.type", true)
	}
	return wire.bounded(), nil
}

// exception is what ended the guest's code, in its own words.
type exception struct {
	Type      field[string] `json:"type"`
	Message   field[string] `json:"message"`
	Traceback field[string] `json:"traceback"`
}

// The bounds of an exception's words. A traceback of ours is a few KiB; a
// message may well hold a diff or a table.
const (
	maxErrorType      = 200
	maxErrorMessage   = 16 << 10
	maxErrorTraceback = 64 << 10
)

// bounded cuts the words and makes them printable: they end up on terminals.
func (e exception) bounded() *job.Error {
	return &job.Error{
		Type:      job.Printable(e.Type.value, maxErrorType),
		Message:   job.PrintableLines(e.Message.value, maxErrorMessage),
		Traceback: job.PrintableLines(e.Traceback.value, maxErrorTraceback),
	}
}

func decodeObject(name string, raw jsontext.Value, into any) error {
	if raw.Kind() != '{' {
		return fmt.Errorf("%s: want an object", name)
	}
	return job.DecodeStrict(raw, into)
}

// field is a member whose absence shows and whose null is refused: a decoder
// left to itself takes null for absent.
type field[T any] struct {
	value T
	set   bool
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (f *field[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == 'n' {
		return errors.New("is null")
	}
	f.set = true
	return json.UnmarshalDecode(dec, &f.value, json.RejectUnknownMembers(true))
}

func (f *field[T]) pointer() *T {
	if !f.set {
		return nil
	}
	return &f.value
}

func presence(name string, wanted bool) error {
	if wanted {
		return fmt.Errorf("%s: missing", name)
	}
	return fmt.Errorf("%s: not part of this frame", name)
}
