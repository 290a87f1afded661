package wasmguest

import (
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
)

// Order is what the process is told.
type Order struct {
	// Make has it start an interpreter and write its image, instead of
	// running a guest from one.
	Make bool `json:"make"`
	// Cache is the directory of compiled code, and Code the file in it that
	// guests run.
	Cache string `json:"cache"`
	Code  string `json:"code"`
	// Memory bounds the module's, Disk the bytes and Files the number of files
	// of each writable file system.
	Memory int64 `json:"memory"`
	Disk   int64 `json:"disk"`
	Files  int64 `json:"files"`
	// Image is the size of the image.
	Image int64 `json:"image"`
	// User is who the process becomes, or 0 where it stays who it is; Parent
	// is whose end is its own.
	User   int `json:"user"`
	Parent int `json:"parent"`
}

// Made is what a process writes to its standard output that has made an image.
type Made struct {
	// Code is an Order's.
	Code string `json:"code"`
}

// maxOrder bounds what is read.
const maxOrder = 64 << 10

func readOrder(r io.Reader) (Order, error) {
	var order Order
	doc, err := io.ReadAll(io.LimitReader(r, maxOrder))
	if err != nil {
		return order, fmt.Errorf("read order: %w", err)
	}
	if err := json.Unmarshal(doc, &order, json.RejectUnknownMembers(true)); err != nil {
		return order, fmt.Errorf("read order: %w", err)
	}
	return order, nil
}
