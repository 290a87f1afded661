// Package secret lets a flag that holds a password name a file instead, so
// that the password is in neither the command line nor the environment.
package secret

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// Prefix marks the path of a file: file:/run/secrets/worker_nats.
const Prefix = "file:"

// maxSize is far above any URL.
const maxSize = 64 << 10

// Read returns value itself, or what the file that it names holds, without the
// white space around it. The error never holds what the file does.
func Read(value string) (string, error) {
	path, named := strings.CutPrefix(value, Prefix)
	if !named {
		return value, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	text := strings.TrimSpace(string(raw))
	if text == "" || len(raw) > maxSize {
		return "", fmt.Errorf("read secret: %s has %d bytes, want one value of 1 to %d", path, len(raw), maxSize)
	}
	return text, nil
}
