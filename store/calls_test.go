package store_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"airlock/job"
)

func callOf(a *job.Attempt, seq int) job.Call {
	return job.Call{
		Job: a.Job.ID, Attempt: a.Number, Seq: seq, Namespace: "math", Name: "add", Arguments: jsontext.Value(`{"a":1}`),
		State: job.CallStarted, Started: time.Now().UTC().Truncate(time.Microsecond), SchemaDigest: "s",
		StartLink: 2*seq - 1, StartHash: bytes.Repeat([]byte{byte(seq)}, 32),
	}
}

func endOf(c job.Call, state job.CallState) job.Call {
	c.State, c.Ended = state, c.Started.Add(time.Millisecond)
	c.EndLink, c.EndHash = 2*c.Seq, bytes.Repeat([]byte{byte(100 + c.Seq)}, 32)
	switch state {
	case job.CallOK, job.CallReplayed:
		c.Answer, c.Provider = jsontext.Value(`{"sum":3}`), "p1"
	default:
		c.Code, c.Message, c.Detail = "denied", "no", "why"
	}
	return c
}

func (f *fixture) started(a *job.Attempt, c job.Call) {
	f.t.Helper()
	if err := f.CallStarted(f.t.Context(), a, c); err != nil {
		f.t.Fatalf("call started: %v", err)
	}
}

func (f *fixture) ended(a *job.Attempt, c job.Call) {
	f.t.Helper()
	if err := f.CallEnded(f.t.Context(), a, c); err != nil {
		f.t.Fatalf("call ended as %s: %v", c.State, err)
	}
}

func TestCallsAreKeptWhole(t *testing.T) {
	t.Parallel()
	f := open(t)
	a := f.claim(newJob(t), 1, "w")
	var all []job.Call
	for i, state := range []job.CallState{job.CallOK, job.CallFailed, job.CallCancelled, job.CallLate, job.CallRefused, job.CallReplayed} {
		c := callOf(a, i+1)
		if state == job.CallRefused || state == job.CallReplayed {
			c.StartLink, c.StartHash = 0, nil
		} else {
			f.started(a, c)
			f.started(a, c) // delivered twice
		}
		end := endOf(c, state)
		f.ended(a, end)
		f.ended(a, end)
		all = append(all, end)
	}
	open := callOf(a, len(all)+1)
	f.started(a, open)
	got, err := f.Calls(t.Context(), "acme", a.Job.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "calls", got, append(all, open))
	if _, err := f.Calls(t.Context(), "other", a.Job.ID); err == nil {
		t.Error("calls for another tenant: got no error")
	}
	want(t, "sums", value[int](f, `SELECT sum((answer_json ->> 'sum')::int) FROM tool_call_history`), 6)
}

func TestCallsAreFenced(t *testing.T) {
	t.Parallel()
	f := open(t)
	j := newJob(t)
	zombie := f.claim(j, 1, "zombie")
	open, given := callOf(zombie, 1), callOf(zombie, 2)
	f.started(zombie, open)
	f.started(zombie, given)
	f.loseLease(j.ID)
	holder := f.claim(j, 1, "holder")
	theirs := callOf(holder, 1)
	f.started(holder, theirs)

	for _, test := range []struct {
		name string
		err  error
		want error
	}{
		{"start", f.CallStarted(t.Context(), zombie, callOf(zombie, 3)), job.ErrFenced},
		{"refusal", f.CallEnded(t.Context(), zombie, endOf(callOf(zombie, 3), job.CallRefused)), job.ErrFenced},
		{"ok of an open call", f.CallEnded(t.Context(), zombie, endOf(open, job.CallOK)), job.ErrFenced},
		{"cancel of an open call", f.CallEnded(t.Context(), zombie, endOf(given, job.CallCancelled)), nil},
		{"late answer to it", f.CallEnded(t.Context(), zombie, endOf(given, job.CallLate)), nil},
		{"late answer to an unknown call", f.CallEnded(t.Context(), zombie, endOf(callOf(zombie, 9), job.CallLate)), job.ErrFenced},
	} {
		if !errors.Is(test.err, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, test.err, test.want)
		}
	}

	f.finish(holder, resultOf(holder, job.StatusOK))
	wantError(t, "start after the end", f.CallStarted(t.Context(), holder, callOf(holder, 2)), job.ErrFenced)
	wantError(t, "end after the end", f.CallEnded(t.Context(), holder, endOf(theirs, job.CallOK)), job.ErrFenced)
	wantError(t, "late after the end", f.CallEnded(t.Context(), holder, endOf(theirs, job.CallLate)), job.ErrFenced)
	states := map[string]string{}
	calls, err := f.Calls(t.Context(), "acme", j.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		states[strings.Repeat("i", c.Attempt)+string(rune('0'+c.Seq))] = string(c.State)
	}
	want(t, "states", states, map[string]string{"i1": "started", "i2": "late", "ii1": "started"})
}

func TestCallOrderIsChecked(t *testing.T) {
	t.Parallel()
	f := open(t)
	a := f.claim(newJob(t), 1, "w")
	c := callOf(a, 1)
	if err := f.CallEnded(t.Context(), a, endOf(c, job.CallOK)); err == nil || errors.Is(err, job.ErrFenced) {
		t.Errorf("end without a start: got %v, want an error that is not the fence", err)
	}
	f.started(a, c)
	f.ended(a, endOf(c, job.CallOK))
	if err := f.CallEnded(t.Context(), a, endOf(c, job.CallFailed)); err == nil {
		t.Error("second end of another kind: got no error")
	}
	other := c
	other.StartHash = bytes.Repeat([]byte{9}, 32)
	if err := f.CallStarted(t.Context(), a, other); err == nil {
		t.Error("second call with the same number: got no error")
	}
}

// hostile are bytes that some column type or encoding refuses.
var hostile = []struct{ name, text string }{
	{"NUL", "a\x00b"},
	{"invalid UTF-8", "a\xff\xfeb"},
	{"half a character", "a\xe2\x98"},
	{"lone surrogate as UTF-8", "a\xed\xa0\x80b"},
	{"controls", "a\x1b[31m\x7f\r\n"},
	{"beyond the BMP", "a\U0001F9E8\uFFFE"},
	{"copy markers", "\\N\t\\.\n{}\"'$1%s"},
}

// hostileJSON are documents that jsonb refuses or changes.
var hostileJSON = []struct{ name, text string }{
	{"escaped NUL", `{"a":"x\u0000y"}`},
	{"escaped NUL as a key", `{"\u0000":1}`},
	{"escaped backslash before u0000", `{"a":"x\\u0000y"}`},
	{"lone surrogate", `{"a":"\ud800"}`},
	{"halves in the wrong order", `{"a":"\udc00\ud800"}`},
	{"huge exponent", `{"a":1e999999}`},
	{"huge but fine", `{"a":1e400}`},
	{"tiny exponent", `{"a":1e-20000}`},
	{"integer of 4,000 digits", `{"a":` + strings.Repeat("9", 4000) + `}`},
	{"integer of 140,000 digits", `{"a":` + strings.Repeat("9", 140_000) + `}`},
	{"NaN", `{"a":NaN}`},
	{"duplicate keys", `{"a":1,"a":2}`},
	{"deeply nested", strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)},
	{"not JSON", `{"a":`},
	{"raw NUL", "{\"a\":\"\x00\"}"},
	{"invalid UTF-8", "{\"a\":\"\xff\"}"},
	{"tagged NaN", `{"a":{"$float":"nan"}}`},
}

// TestHostileBytesReachEveryColumn gives each hostile text to every field that
// a guest, a provider or a host may fill, and reads it back.
func TestHostileBytesReachEveryColumn(t *testing.T) {
	t.Parallel()
	f := open(t)
	for _, h := range hostile {
		t.Run(h.name, func(t *testing.T) {
			text := h.text
			a := f.claim(newJob(t, func(j *job.Job) {
				j.Labels = map[string]string{"l": strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")}
			}), 1, "worker "+text)
			a.Worker = "worker " + text
			c := callOf(a, 1)
			c.Namespace, c.Name, c.SchemaDigest = text, text, text
			f.started(a, c)
			end := endOf(c, job.CallFailed)
			end.Code, end.Message, end.Detail, end.Provider = text, text, text, text
			f.ended(a, end)
			r := resultOf(a, job.StatusGuestError)
			r.Stdout, r.Stderr = job.Bytes(text), job.Bytes(text)
			r.Error = &job.Error{Type: text, Message: text, Traceback: text}
			r.Signal, r.AuditHead, r.Verdict = text, text, text
			r.Events = []job.Event{{Kind: text, Note: text}}
			r.Isolation = job.Isolated{Kernel: text, Limits: map[job.LimitName]string{job.LimitName(text): text}}
			f.finish(a, r)

			got, err := f.Result(t.Context(), "acme", a.Job.ID)
			if err != nil {
				t.Fatal(err)
			}
			want(t, "stdout", string(got.Stdout), text)
			want(t, "stderr", string(got.Stderr), text)
			want(t, "error", got.Error, r.Error)
			want(t, "events", len(got.Events), 1)
			calls, err := f.Calls(t.Context(), "acme", a.Job.ID)
			if err != nil {
				t.Fatal(err)
			}
			want(t, "message", calls[0].Message, text)
			want(t, "detail", calls[0].Detail, text)
			f.readViews(a.Job.ID)
		})
	}
}

func TestHostileJSONIsNeverLost(t *testing.T) {
	t.Parallel()
	f := open(t)
	for _, h := range hostileJSON {
		t.Run(h.name, func(t *testing.T) {
			a := f.claim(newJob(t), 1, "w")
			ok, refused := callOf(a, 1), callOf(a, 2)
			ok.Arguments, refused.Arguments = jsontext.Value(h.text), jsontext.Value(h.text)
			f.started(a, ok)
			end := endOf(ok, job.CallOK)
			end.Answer = jsontext.Value(h.text)
			f.ended(a, end)
			f.ended(a, endOf(refused, job.CallRefused))
			r := resultOf(a, job.StatusOK)
			r.Value = jsontext.Value(h.text)
			f.finish(a, r)

			got, err := f.Result(t.Context(), "acme", a.Job.ID)
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Value) != h.text {
				t.Error("value: got other bytes than were stored")
			}
			calls, err := f.Calls(t.Context(), "acme", a.Job.ID)
			if err != nil {
				t.Fatal(err)
			}
			for _, have := range []jsontext.Value{calls[0].Arguments, calls[0].Answer, calls[1].Arguments} {
				if string(have) != h.text {
					t.Error("call: got other bytes than were stored")
				}
			}
			f.readViews(a.Job.ID)
		})
	}
	// The copies for querying exist where they can.
	for _, name := range []string{"value_json"} {
		got := value[int](f, `SELECT count(*) FROM attempts WHERE `+name+` IS NOT NULL`)
		want(t, name+" that exist", got, 4)
	}
}

// readViews asks what an analyst would ask.
func (f *fixture) readViews(id job.ID) {
	f.t.Helper()
	for view, rows := range map[string]int{"job_results": 1, "job_attempts": 1, "tool_call_history": -1} {
		got := value[int](f, `SELECT count(v::text) FROM `+view+` v WHERE job = $1`, [16]byte(id))
		if rows >= 0 && got != rows {
			f.t.Errorf("rows of %s: got %d, want %d", view, got, rows)
		}
	}
}

// TestServerThatRefusesJSON stands for a jsonb that takes less than we think:
// the bytes are stored all the same.
func TestServerThatRefusesJSON(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec(`CREATE FUNCTION refuse_json() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'untranslatable_character'; END $$`)
	f.exec(`CREATE TRIGGER a BEFORE UPDATE ON attempts FOR EACH ROW WHEN (NEW.value_json IS NOT NULL) EXECUTE FUNCTION refuse_json()`)
	f.exec(`CREATE TRIGGER a BEFORE INSERT OR UPDATE ON tool_calls FOR EACH ROW
		WHEN (NEW.arguments_json IS NOT NULL OR NEW.answer_json IS NOT NULL) EXECUTE FUNCTION refuse_json()`)
	a := f.claim(newJob(t), 1, "w")
	c := callOf(a, 1)
	f.started(a, c)
	f.ended(a, endOf(c, job.CallOK))
	f.finish(a, resultOf(a, job.StatusOK))
	r, err := f.Result(t.Context(), "acme", a.Job.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "value", string(r.Value), "42")
	calls, err := f.Calls(t.Context(), "acme", a.Job.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "answer", string(calls[0].Answer), `{"sum":3}`)
}
