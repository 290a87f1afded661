package doctor

import (
	"context"
	"io/fs"
	"strconv"
	"strings"

	"airlock/job"
)

// Host is what there is to look at. Each part may be missing; what needs it is
// not checked then.
type Host struct {
	// Root is the file system from /.
	Root fs.FS
	// UID is the user that workers run as.
	UID int
	// Run runs a program and returns what it printed.
	Run func(ctx context.Context, name string, args ...string) (string, error)
	// Engine is what is known of the Docker Engine.
	Engine *Engine
	// NATS is the URL that workers connect to, as they are given it.
	NATS string
	// Postgres is the same, Database what the server says.
	Postgres string
	Database *Database
	// Backends are the results of their probes.
	Backends []Backend
}

// Engine is a Docker Engine. One that does not answer has an address and an
// Error.
type Engine struct {
	// Address is a URL, TLS that it is talked to with.
	Address string
	TLS     bool
	Error   string

	Version, Containerd, Runc string
	// Rootless: it does not run as root. Remapped: the users of containers
	// are others on the host. LiveRestore: its restart does not end them.
	Rootless, Remapped, LiveRestore bool
}

// Database is a Postgres server as its client sees it. One that does not
// answer has an Error.
type Database struct {
	Error string
	// Listens are the addresses that it listens on, as it is configured.
	Listens string
	TLS     bool
	// Open: it lets the user in without a password.
	Open bool
	// Superuser: the user may do anything.
	Superuser bool
}

// Backend is the result of a probe.
type Backend struct {
	Name      string
	Isolation job.Isolation
	// Reason says why it is not available.
	Reason string
}

// maxFile bounds what is read of one file.
const maxFile = 1 << 20

// read returns the text of a file without blanks around it.
func (h Host) read(path string) (text string, ok bool) {
	if h.Root == nil {
		return "", false
	}
	raw, err := fs.ReadFile(h.Root, strings.TrimPrefix(path, "/"))
	if err != nil || len(raw) > maxFile {
		return "", false
	}
	return strings.TrimSpace(string(raw)), true
}

// number reads a file that holds one.
func (h Host) number(path string) (n int, ok bool) {
	text, ok := h.read(path)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

func (h Host) stat(path string) (fs.FileInfo, bool) {
	if h.Root == nil {
		return nil, false
	}
	info, err := fs.Stat(h.Root, strings.TrimPrefix(path, "/"))
	return info, err == nil
}

func (h Host) exists(path string) bool {
	_, ok := h.stat(path)
	return ok
}

// show makes text of the host's fit for a line.
func show(text string) string { return job.Printable(text, 200) }
