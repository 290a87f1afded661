// Package memfs is the file system of a guest that is a WebAssembly module: it
// lives in the memory of the guest's own process, so that no name of it ever
// leads to a file of the host, and ends with it.
//
// A writable one has a quota of bytes and one of files. Bytes are counted by
// blocks, as a tmpfs counts them, holes are free, and what was removed counts
// until the last descriptor of it is closed. Beyond a quota, writing fails
// with EIO: the interface of wazero knows no ENOSPC. There are no links of
// either kind.
//
// None of it may be used by two goroutines at once; a module has only one.
package memfs

import "errors"

// ErrName is returned by Put for a name that is none.
var ErrName = errors.New("not a plain relative path")
