//go:build !linux

package forkserver_test

// actAsWorker does nothing where there is no backend.
func actAsWorker() {}
