package job_test

import (
	"strings"
	"testing"
	"time"

	"airlock/job"
)

func TestID(t *testing.T) {
	t.Parallel()
	before := time.Now().Truncate(time.Millisecond)
	id := job.NewID()
	if made := id.Time(); made.Before(before) || made.After(time.Now()) {
		t.Errorf("got time %v, want now", made)
	}
	back, err := job.ParseID(id.String())
	if err != nil || back != id {
		t.Errorf("got %v and error %v, want %v", back, err, id)
	}
	if id.IsZero() || !(job.ID{}).IsZero() {
		t.Error("IsZero is wrong")
	}
	if next := job.NewID(); next.String() <= id.String() {
		t.Errorf("got %s after %s, want ids in order", next, id)
	}
}

func TestParseIDRefuses(t *testing.T) {
	t.Parallel()
	good := job.NewID().String()
	for name, text := range map[string]string{
		"empty": "", "braces": "{" + good + "}", "urn": "urn:uuid:" + good, "no dashes": strings.ReplaceAll(good, "-", ""),
		"version 4": "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "nil": "00000000-0000-0000-0000-000000000000",
		"not hex": "g" + good[1:], "line feed": good[:35] + "\n", "escape": "\x1b" + good[1:], "long": good + good,
	} {
		_, err := job.ParseID(text)
		if err == nil {
			t.Errorf("%s: got it accepted", name)
			continue
		}
		if strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%s: got message %q, which is not printable", name, err)
		}
	}
}
