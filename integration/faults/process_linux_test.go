//go:build linux

package faults_test

import "syscall"

// dieWithParent leaves nothing behind when the test itself is killed.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
