package wasmguest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
)

// guestsDir is the part of the cache for the module that guests run: its
// compiled code lies there under the name of the hollow one's.
const guestsDir = "guests"

// Filling begins the names of directories beside those of the programs whose
// content is not yet what it will be.
const Filling = ".filling-"

// compilers is how many goroutines compile a module that is not in the cache.
const compilers = 4

// program is the module to run, the directory of its compiled code, and for a
// guest that code's file, without which it is refused: to compile Python is not
// for a process under a job's limits.
func program(order Order) (module []byte, dir string, code os.FileInfo, err error) {
	module, err = Map(given(ProgramFD, "program"), false)
	if err != nil || order.Make {
		return module, order.Cache, nil, err
	}
	if code, err = os.Stat(order.Code); err != nil {
		return nil, "", nil, fmt.Errorf("%w: %w", errLostCode, err)
	}
	return module, filepath.Join(order.Cache, guestsDir), code, nil
}

var errLostCode = errors.New("compiled code was lost while a guest started")

// CheckKept refuses what became of a hollow module if its code's file is no
// longer the one that was there before. Somebody removed or damaged it
// meanwhile, so that the hollow module itself was compiled and written in its
// place: that is removed, and the worker makes the real one anew. What is as
// large as the code was is code that another worker has made anew, and stays.
func CheckKept(file string, before os.FileInfo) error {
	now, err := os.Stat(file)
	if err == nil && now.Size() == before.Size() {
		if os.SameFile(before, now) && now.ModTime().Equal(before.ModTime()) {
			return nil
		}
		return errLostCode
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove compiled code: %w", err)
	}
	return errLostCode
}

func newRuntime(ctx context.Context, cacheDir string, memoryPages uint32) (wazero.Runtime, error) {
	cache, err := wazero.NewCompilationCacheWithDir(cacheDir)
	if err != nil {
		return nil, fmt.Errorf("open compile cache: %w", err)
	}
	config := wazero.NewRuntimeConfigCompiler().WithCompilationCache(cache).WithDebugInfoEnabled(false).
		WithMemoryLimitPages(memoryPages)
	return wazero.NewRuntimeWithConfig(ctx, config), nil
}

func compile(ctx context.Context, r wazero.Runtime, module []byte) (wazero.CompiledModule, error) {
	return r.CompileModule(experimental.WithCompilationWorkers(ctx, compilers), module)
}

// compileGuests puts the code of the module that guests run into the cache,
// where it is found by the module that stands for it, and returns its file.
func compileGuests(ctx context.Context, order Order, program []byte) (string, error) {
	clone, err := Strip(program)
	if err != nil {
		return "", err
	}
	hollow, err := Hollow(clone)
	if err != nil {
		return "", err
	}
	// Not in the program's own directory, which another worker may be looking
	// through: what it does not know there it takes for damage.
	scratch, err := os.MkdirTemp(filepath.Dir(order.Cache), Filling)
	if err != nil {
		return "", fmt.Errorf("compile the module for guests: %w", err)
	}
	defer RemoveTree(scratch)
	// Only the cache knows the name, which depends on the processor as well.
	named, err := compileIn(ctx, filepath.Join(scratch, "hollow"), hollow)
	if err != nil {
		return "", fmt.Errorf("compile the hollow module: %w", err)
	}
	within, err := filepath.Rel(filepath.Join(scratch, "hollow"), named)
	if err != nil {
		return "", err
	}
	file := filepath.Join(order.Cache, guestsDir, within)
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	code, err := compileIn(ctx, filepath.Join(scratch, "clone"), clone)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err == nil {
		err = os.Rename(code, file)
	}
	if err != nil {
		return "", fmt.Errorf("compile the module without its data: %w", err)
	}
	return file, nil
}

// compileIn compiles into an empty directory and returns the file that it
// holds then.
func compileIn(ctx context.Context, dir string, module []byte) (string, error) {
	const pages = 1 << 16 // code does not depend on it
	r, err := newRuntime(ctx, dir, pages)
	if err != nil {
		return "", err
	}
	defer r.Close(ctx)
	if _, err := compile(ctx, r, module); err != nil {
		return "", err
	}
	return onlyFile(dir)
}

// onlyFile is the file that a directory of compiled code holds, which lies in
// a directory for wazero's version.
func onlyFile(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("the cache holds %d files, want one", len(files))
	}
	if err != nil {
		return "", err
	}
	return files[0], nil
}
