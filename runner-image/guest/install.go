package guest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
)

// Install writes Files below dir, which is created. It refuses to overwrite.
func Install(dir string) error {
	if err := os.CopyFS(dir, Files); err != nil {
		return fmt.Errorf("install the guest's files: %w", err)
	}
	return nil
}

// Compile lets the given interpreter compile what Install wrote below dir.
// Guests start without as well, but 9 ms later: they may not write bytecode
// themselves, and starting one takes 7 ms otherwise. The bytecode is used
// whatever the files' times say, so it must be made anew when they change, and
// only interpreters of the same version find it.
func Compile(ctx context.Context, dir, python string) error {
	cmd := exec.CommandContext(ctx, python, "-I", "-S", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", dir)
	cmd.Env = []string{} // PYTHONDONTWRITEBYTECODE and its like are not for the guest
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("compile the guest's files: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
