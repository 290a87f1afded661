//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// hangups are the signals that ask for the policy to be read again.
func hangups() (again <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	return signals, func() { signal.Stop(signals) }
}
