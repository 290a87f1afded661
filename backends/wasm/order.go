package wasm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"airlock/backends/internal/wasmguest"

	"github.com/go-json-experiment/json"
)

// order is what a guest's process is told, and waits for before it does
// anything.
type order struct {
	doc []byte
	// file is the end of a pipe that the process reads, to the other.
	file, to *os.File
}

func newOrder(what wasmguest.Order) (o *order, err error) {
	o = &order{}
	if o.doc, err = json.Marshal(what, json.Deterministic(true)); err != nil {
		return nil, err
	}
	if o.file, o.to, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("make order: %w", err)
	}
	return o, nil
}

// give gives the order. A process that ended before has said why by its end.
func (o *order) give() {
	_, _ = o.to.Write(o.doc) // a pipe holds more than an order
	_ = o.to.Close()
}

// close frees both ends; a process that waits reads no order then, and ends.
func (o *order) close() { _ = errors.Join(o.file.Close(), o.to.Close()) }

// root is the directory that a process starts in: the one above all.
func root(program string) string {
	return filepath.VolumeName(program) + string(filepath.Separator)
}
