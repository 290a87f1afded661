package interpreter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"airlock/backends/internal/owner"
	"airlock/runner-image/guest"
)

// compileTime bounds how long the guest's code may take to compile.
const compileTime = time.Minute

// Stage writes the guest's code into a directory of its own that everybody can
// read and only we can write, with bytecode compiled ahead so that no guest
// spends time on it, and returns the directory. Directories that dead workers
// left beside it are removed.
func Stage(ctx context.Context, python Interpreter) (string, error) {
	dir, err := TempDir("guest")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, compileTime)
	defer cancel()
	err = guest.Install(dir)
	if err == nil {
		err = guest.Compile(ctx, dir, python.Path)
	}
	if err == nil {
		err = publish(dir)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

// publish makes everything readable, whatever our umask is.
func publish(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return os.Chmod(path, 0o755)
		}
		return os.Chmod(path, 0o644)
	})
}

// TempDir makes a temporary directory whose name tells a later worker that it
// may remove it when we are dead, and removes such of dead workers.
func TempDir(what string) (string, error) {
	self, err := owner.This()
	if err != nil {
		return "", fmt.Errorf("make temporary directory: %w", err)
	}
	sweep(self)
	dir, err := os.MkdirTemp("", self.Name(what)+".*")
	if err != nil {
		return "", fmt.Errorf("make temporary directory: %w", err)
	}
	return dir, nil
}

// sweep removes the directories of dead workers of our own user.
func sweep(self owner.Owner) {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return
	}
	for _, entry := range entries {
		if entry.IsDir() && self.Left(entry.Name()) && ours(entry) {
			_ = os.RemoveAll(filepath.Join(os.TempDir(), entry.Name()))
		}
	}
}
