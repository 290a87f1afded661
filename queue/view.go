package queue

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"airlock/job"
)

const (
	watchAgain = 250 * time.Millisecond
	// watchEvery is when a watch is begun anew though it seems to work: one on
	// a bucket that was deleted and made again stays silent for ever.
	watchEvery = 2 * time.Minute
	stopWait   = 2 * time.Second
)

// view is a bucket's content, kept up to date by a watch, so that looking at
// it costs no round trip. Entries that do not decode are logged and left out.
type view[T any] struct {
	kv     jetstream.KeyValue
	log    zerolog.Logger
	decode func(key string, value []byte) (T, error)
	// onPut, if set, is called for every entry of the content when a watch
	// begins and for each that comes later, by the goroutine that runs run.
	onPut func(key string, value T)
	// synced is closed when the content is whole for the first time.
	synced chan struct{}

	// mu guards what follows.
	mu      sync.RWMutex
	entries map[string]T
	// listeners are told of each change: a channel with room for one.
	listeners map[chan struct{}]bool
}

func newView[T any](kv jetstream.KeyValue, log zerolog.Logger, decode func(string, []byte) (T, error)) *view[T] {
	return &view[T]{
		kv: kv, decode: decode, synced: make(chan struct{}),
		log:     log.With().Str("bucket", kv.Bucket()).Logger(),
		entries: map[string]T{}, listeners: map[chan struct{}]bool{},
	}
}

// run watches until ctx ends, beginning anew whenever the watch breaks.
func (v *view[T]) run(ctx context.Context) {
	for ctx.Err() == nil {
		watcher, err := v.kv.WatchAll(ctx)
		if err != nil {
			v.log.Debug().Err(err).Msg("watch could not start")
		} else {
			v.follow(ctx, watcher)
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchAgain):
		}
	}
}

// follow applies a watch's updates. Those before the first nil are the whole
// content and replace what was known.
func (v *view[T]) follow(ctx context.Context, watcher jetstream.KeyWatcher) {
	defer stopWatcher(watcher)
	anew := time.NewTimer(watchEvery)
	defer anew.Stop()
	fresh := map[string]T{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-anew.C:
			return
		case entry, ok := <-watcher.Updates():
			switch {
			case !ok:
				return
			case fresh == nil:
				v.mu.Lock()
				v.apply(v.entries, entry)
				v.mu.Unlock()
				v.tell()
			case entry == nil:
				v.replace(fresh)
				fresh = nil
			default:
				v.apply(fresh, entry)
			}
		}
	}
}

func (v *view[T]) replace(fresh map[string]T) {
	v.mu.Lock()
	v.entries = fresh
	v.mu.Unlock()
	select {
	case <-v.synced:
	default:
		close(v.synced)
	}
	v.tell()
}

func (v *view[T]) apply(entries map[string]T, entry jetstream.KeyValueEntry) {
	if entry == nil {
		return
	}
	if entry.Operation() != jetstream.KeyValuePut {
		delete(entries, entry.Key())
		return
	}
	value, err := v.decode(entry.Key(), entry.Value())
	if err != nil {
		v.log.Warn().Err(err).Str("key", job.Printable(entry.Key(), 200)).Msg("entry is not readable and was ignored")
		return
	}
	entries[entry.Key()] = value
	if v.onPut != nil {
		v.onPut(entry.Key(), value)
	}
}

// stopWatcher ends a watch. It drains it, since the library blocks, holding
// its lock, on an update that nobody takes.
func stopWatcher(watcher jetstream.KeyWatcher) {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = watcher.Stop() // only says that it had stopped already
	}()
	limit := time.After(stopWait)
	for {
		select {
		case _, ok := <-watcher.Updates():
			if !ok {
				<-stopped
				return
			}
		case <-limit:
			return
		}
	}
}

func (v *view[T]) tell() {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for listener := range v.listeners {
		select {
		case listener <- struct{}{}:
		default:
		}
	}
}

// listen returns a channel that has a value after each change, and what ends
// it. Changes may be merged.
func (v *view[T]) listen() (changed <-chan struct{}, stop func()) {
	listener := make(chan struct{}, 1)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.listeners[listener] = true
	return listener, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.listeners, listener)
	}
}

func (v *view[T]) lookup(key string) (T, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	value, ok := v.entries[key]
	return value, ok
}

func (v *view[T]) all() map[string]T {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return maps.Clone(v.entries)
}

func (v *view[T]) some(ok func(T) bool) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, value := range v.entries {
		if ok(value) {
			return true
		}
	}
	return false
}

func (v *view[T]) size() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.entries)
}

// put notes an entry that the caller has just written, ahead of the watch.
func (v *view[T]) put(key string, value T) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.entries[key] = value
}
