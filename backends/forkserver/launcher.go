package forkserver

import "os"

// Launcher is the leave to start this program again as a launcher. Its zero
// value has none: a program that does not call Main would not know what it was
// started for.
type Launcher struct{ path string }

// launcherName is what a launcher finds as its program's name.
const launcherName = "airlock-launcher"

// Main is the first thing that a program's main does, or a test's TestMain. In
// a process that was started as a launcher it does not return.
func Main() Launcher {
	if len(os.Args) > 0 && os.Args[0] == launcherName {
		os.Exit(launch())
	}
	return Launcher{path: self}
}
