package wasm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"airlock/backends"
	"airlock/backends/internal/guestproc"
	"airlock/backends/internal/wasmguest"
	"airlock/job"

	"github.com/go-json-experiment/json"
)

// ready is what a prepared backend has. It does not change.
type ready struct {
	config Config
	python string
	cache  cache
	// hollow, stdlib, image and code are what every guest's process is given.
	hollow, stdlib, image, code *os.File
	imageSize                   int64
	// compiled is the file of the cache with the code that guests run.
	compiled string
	// walls start a guest's process in namespaces of its own, where they may
	// be had.
	walls syscall.SysProcAttr
	fence guestproc.Fence
	users *users
}

func prepare(ctx context.Context, config Config) (*ready, error) {
	if config.Helper.path == "" {
		return nil, errNoHelper
	}
	found, err := find(config.Python)
	if err != nil {
		return nil, err
	}
	r := &ready{config: config, python: found.python}
	if err := r.open(ctx, found); err != nil {
		return nil, errors.Join(err, r.close())
	}
	r.fence = newFence(config)
	return r, nil
}

func (r *ready) open(ctx context.Context, found artefacts) (err error) {
	if r.users, err = openUsers(r.config); err != nil {
		return err
	}
	var why error
	if r.cache, why, err = openCache(r.config.Cache, found.digest); err != nil {
		return err
	}
	if why != nil {
		r.config.Log.Warn().Err(why).Msg("compiled code is made anew")
	}
	if r.hollow, err = share("hollow", found.hollow); err != nil {
		return err
	}
	if r.stdlib, err = share("stdlib", found.stdlib); err != nil {
		return err
	}
	if r.image, err = newShared("image"); err != nil {
		return err
	}
	if r.code, err = newShared("code"); err != nil {
		return err
	}
	if err := r.makeImage(ctx, found); err != nil {
		return err
	}
	return r.cache.filled()
}

// share puts bytes where processes of guests can map them.
func share(name string, data []byte) (*os.File, error) {
	f, err := newShared(name)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(data); err != nil {
		return nil, errors.Join(fmt.Errorf("share %s: %w", name, err), f.Close())
	}
	return freeze(f)
}

// imageTime bounds how long compiling and starting the interpreter may take,
// which is some seconds on a host with nothing else to do.
const imageTime = 10 * time.Minute

// imageMemory is what an interpreter may use until it has started.
const imageMemory = 256 << 20

// makeImage starts the interpreter in a process of its own, as guests are, and
// keeps its memory. What is compiled for it goes to the cache.
func (r *ready) makeImage(ctx context.Context, found artefacts) error {
	program, err := share("program", found.program)
	if err != nil {
		return err
	}
	defer program.Close()
	err = r.imageIn(ctx, program, namespaces())
	if unavailable(err) {
		r.config.Log.Debug().Err(err).Msg("guests' processes get no namespaces of their own")
		err = r.imageIn(ctx, program, syscall.SysProcAttr{})
	} else {
		r.walls = namespaces()
	}
	if err != nil {
		return fmt.Errorf("start the interpreter once: %w", err)
	}
	info, err := r.image.Stat()
	if err != nil {
		return err
	}
	if r.imageSize = info.Size(); r.imageSize == 0 {
		return errors.New("start the interpreter once: it left no image")
	}
	if r.image, err = freeze(r.image); err != nil {
		return err
	}
	r.code, err = freeze(r.code)
	return err
}

func (r *ready) imageIn(ctx context.Context, program *os.File, walls syscall.SysProcAttr) error {
	ctx, cancel := context.WithTimeout(ctx, imageTime)
	defer cancel()
	ledger, err := newLedger()
	if err != nil {
		return err
	}
	defer ledger.close()
	order, err := newOrder(wasmguest.Order{
		Make: true, Cache: r.cache.dir, Memory: imageMemory, Disk: imageMemory, Files: 1 << 10, Parent: os.Getpid(),
	})
	if err != nil {
		return err
	}
	defer order.close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	cmd := exec.CommandContext(ctx, r.config.Helper.path, wasmguest.Name)
	var told, said guestproc.Head // whatever a foreign interpreter says
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = []string{}, root(cmd.Path), &told, &said
	cmd.SysProcAttr = &walls
	files := []*os.File{null, order.file, program, r.stdlib, r.image, ledger.file, r.code}
	err = guestproc.RunHelper(cmd, files, imageBounds(r.config), func() error { order.give(); return nil })
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // a process that we killed says nothing else
	}
	if err != nil && said.String() == "" {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, job.Printable(said.String(), 300))
	}
	var made wasmguest.Made
	if err := json.Unmarshal([]byte(told.String()), &made, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("read what it has made: %w", err)
	}
	if r.compiled, err = filepath.Rel(r.cache.dir, made.Code); err != nil || !filepath.IsLocal(r.compiled) {
		return errors.Join(err, fmt.Errorf("it has made code at %s, outside its cache", job.Printable(made.Code, 300)))
	}
	return nil
}

// unavailable reports whether a process could not be started with namespaces.
func unavailable(err error) bool {
	var path *os.PathError
	return errors.As(err, &path) && path.Op == "fork/exec"
}

func (r *ready) codeFile() string { return filepath.Join(r.cache.dir, r.compiled) }

func (r *ready) close() error {
	for _, f := range []*os.File{r.hollow, r.stdlib, r.image, r.code} {
		if f != nil {
			_ = f.Close()
		}
	}
	return r.cache.close()
}

func (r *ready) capabilities() backends.Capabilities {
	version := "wazero " + wasmguest.RuntimeVersion()
	caps := backends.Capabilities{
		Offer: job.Offer{
			Backend: Name, Version: version, Isolation: job.IsolationStrong,
			OS: runtime.GOOS, Arch: runtime.GOARCH, Python: r.python,
			// Guests share the layout and the hash seed of one image.
			Forked: true,
			Labels: map[string]string{NoExtensions: "true"},
		},
		Isolated: job.Isolated{
			Level: job.IsolationStrong, Version: version, Kernel: guestproc.Kernel(), Python: r.python,
		},
	}
	r.fence.Describe(&caps)
	return caps
}
