package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"airlock/job"
)

// maxTalk bounds one message: errors can quote foreign text.
const maxTalk = 8 << 10

// talk is what the program says on stderr: one harmless line a message.
type talk struct {
	quiet bool

	mu   sync.Mutex // guards what follows
	out  io.Writer
	last map[string]time.Time
}

// say is for what is good to know; --quiet turns it off.
func (t *talk) say(format string, args ...any) {
	if !t.quiet {
		t.fault(format, args...)
	}
}

// fault is for what must be known.
func (t *talk) fault(format string, args ...any) {
	line := "submit: " + job.Printable(fmt.Sprintf(format, args...), maxTalk) + "\n"
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = io.WriteString(t.out, line) // nobody is left to be told
}

// seldom is say, but at most once in ten seconds for the same subject.
func (t *talk) seldom(subject, format string, args ...any) {
	const pause = 10 * time.Second
	t.mu.Lock()
	if t.last == nil {
		t.last = map[string]time.Time{}
	}
	due := time.Since(t.last[subject]) >= pause
	if due {
		t.last[subject] = time.Now()
	}
	t.mu.Unlock()
	if due {
		t.say(format, args...)
	}
}

// through sends everything through w until restored, as long as a progress bar
// owns the terminal.
func (t *talk) through(w io.Writer) (restore func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.out
	t.out = w
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.out = before
	}
}

// logger lets what the queue has to say be heard, such as that the connection
// is lost, or back.
func (t *talk) logger() zerolog.Logger {
	if t.quiet {
		return zerolog.Nop()
	}
	w := zerolog.ConsoleWriter{Out: talkWriter{t}, NoColor: true, PartsOrder: []string{zerolog.MessageFieldName}}
	return zerolog.New(w).Level(zerolog.InfoLevel)
}

// talkWriter makes lines of a log into talk.
type talkWriter struct{ *talk }

// Write implements io.Writer.
func (w talkWriter) Write(line []byte) (int, error) {
	n := len(line)
	for n > 0 && line[n-1] == '\n' {
		n--
	}
	w.say("%s", line[:n])
	return len(line), nil
}
