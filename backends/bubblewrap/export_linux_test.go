package bubblewrap

import "airlock/backends/internal/interpreter"

// What this host cannot show is tested apart.

// Hint says what to do about what bwrap said.
var Hint = hint

// Layout gives bwrap's options for an interpreter.
func Layout(python interpreter.Interpreter, stage string) ([]string, error) {
	return layout(python, stage, nil)
}
