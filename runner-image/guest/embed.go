// Package guest holds the Python that runs inside every sandbox.
//
// A backend puts the files into a directory of their own with Install, compiles
// them once for its interpreter with Compile, makes the directory visible to
// guests read-only, and starts each guest as
//
//	python -I -S -B <directory>/main.py
//
// with
//
//   - descriptor 3 as the guest's end of the channel that broker/PROTOCOL.md
//     describes, a stream that can be read and written;
//   - the guest's workspace as current directory, empty and writable: the
//     job's files are written there, and it is first on sys.path;
//   - stdin at EOF or holding the job's input, stdout and stderr as pipes. What
//     is printed is written at once, so both are complete up to a kill;
//   - any environment, since the guest reads nothing from it but what Python
//     itself does.
//
// The guest says hello at once and then waits for its job, so it can be
// started ahead of it. It exits with 0 after a value, with 1 after an
// exception, with the program's own code after sys.exit, in which case there is
// no result, and with ExitNoWorker when the conversation failed. The files that
// a job collects are sent before the result, after a value or an exception.
// Whatever it says or does is the word of the user's code: it guards nothing.
package guest

import "embed"

// Files are the Python files, and nothing else: main.py, first.py
// for containers, template.py for guests that are forked, and their package.
//
//go:embed main.py first.py template.py airlock_guest/*.py airlock_guest/forks/*.py
var Files embed.FS

// Template is the name in Files of what is started to fork guests from.
const Template = "template.py"

// Main is the name in Files of the file to start.
const Main = "main.py"

// ExitNoWorker is how a guest exits that cannot read its job or deliver its
// result. User code may exit with it as well.
const ExitNoWorker = 70
