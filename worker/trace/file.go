package trace

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	// DefaultMaxBytes is where a trace stops by default: some 150,000 jobs,
	// and about as much as a browser opens.
	DefaultMaxBytes = 256 << 20
	// flushAt and flushEvery bound what is lost when the worker is killed.
	flushAt    = 64 << 10
	flushEvery = time.Second
)

// Config is what a File needs besides its path.
type Config struct {
	// Process is the name over all tracks.
	Process string
	// MaxBytes is how large the file may become; DefaultMaxBytes if zero.
	// Then it is closed, the log says so, and the worker goes on without.
	MaxBytes int64
	Log      zerolog.Logger
}

// File is a trace being written. Its methods may be called from several
// goroutines at once. A nil File writes nothing.
//
// What reaches the disk is always whole events, so that only the closing
// bracket is missing where the worker was killed, which readers bear.
type File struct {
	cfg   Config
	slots tracks
	tails tracks
	stop  chan struct{}
	over  chan struct{}

	mu      sync.Mutex
	file    *os.File // guarded by mu, as all below; nil once it is closed
	pending buffer
	written int64
}

const tail = "\n]\n"

// Create begins a trace in a new file at path, or in the place of an old one.
func Create(path string, cfg Config) (*File, error) {
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, DefaultMaxBytes)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create trace (give another path): %w", err)
	}
	f := &File{cfg: cfg, file: file, stop: make(chan struct{}), over: make(chan struct{})}
	f.pending.began = time.Now()
	f.pending.name("process_name", cfg.Process, 0)
	// The first event has no comma before it.
	f.pending.text[0] = '['
	go f.flushNowAndThen()
	return f, nil
}

// Close ends the array and the file. Spans that end later are lost. It may be
// called twice.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	select {
	case <-f.stop:
	default:
		close(f.stop)
	}
	err := f.close()
	f.mu.Unlock()
	<-f.over
	return err
}

func (f *File) flushNowAndThen() {
	defer close(f.over)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-f.stop:
			return
		case <-tick.C:
			f.mu.Lock()
			f.flush()
			f.mu.Unlock()
		}
	}
}

// write adds events, unless the file is closed or has no room for them: then it
// is closed.
func (f *File) write(add func(*buffer)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return
	}
	before, named, ending := len(f.pending.text), f.pending.named, f.pending.ending
	add(&f.pending)
	if f.written+int64(len(f.pending.text)+len(tail)) > f.cfg.MaxBytes {
		f.pending.text, f.pending.named, f.pending.ending = f.pending.text[:before], named, ending
		f.cfg.Log.Warn().Int64("bytes", f.cfg.MaxBytes).Msg("trace is full and was closed; the worker goes on without")
		if err := f.close(); err != nil {
			f.cfg.Log.Warn().Err(err).Msg("trace not closed")
		}
		return
	}
	if len(f.pending.text) >= flushAt {
		f.flush()
	}
}

// flush writes what is pending; mu is held. After an error nothing is written
// any more: half an event may be in the file.
func (f *File) flush() {
	if f.file == nil || len(f.pending.text) == 0 {
		return
	}
	n, err := f.file.Write(f.pending.text)
	f.written += int64(n)
	f.pending.text = f.pending.text[:0]
	if err != nil {
		f.cfg.Log.Warn().Err(err).Msg("trace not written, the worker goes on without")
		_ = f.file.Close()
		f.file = nil
	}
}

// close ends the array; mu is held.
func (f *File) close() error {
	if f.file == nil {
		return nil
	}
	f.pending.text = append(f.pending.text, tail...)
	f.flush()
	if f.file == nil {
		return errors.New("close trace: it could not be written to its end")
	}
	err := f.file.Close()
	f.file = nil
	if err != nil {
		return fmt.Errorf("close trace: %w", err)
	}
	return nil
}
