//go:build !linux

package wasm_test

func actAsWorker() {}
