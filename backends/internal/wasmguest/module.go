package wasmguest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"airlock/backends/internal/memfs"
	"airlock/runner-image/guest"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// pageSize is WebAssembly's.
const pageSize = 64 << 10

// machine is one instance of the module and what belongs to it.
type machine struct {
	order   Order
	ledger  Ledger
	memory  allocator
	program []byte
	module  api.Module
}

// boot makes an instance, which has not run a step yet.
func boot(ctx context.Context, order Order, c *channel) (*machine, error) {
	shared, err := Map(given(LedgerFD, "ledger"), true)
	if err != nil {
		return nil, err
	}
	m := &machine{order: order, ledger: NewLedger(shared)}
	limit := max(order.Memory/pageSize, 1)
	m.memory = allocator{ledger: m.ledger, limit: uint64(limit) * pageSize}
	var dir string
	var code os.FileInfo
	if m.program, dir, code, err = program(order); err != nil {
		return nil, err
	}
	r, err := newRuntime(ctx, dir, uint32(limit))
	if err != nil {
		return nil, err
	}
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return nil, fmt.Errorf("define wasi: %w", err)
	}
	if err := define(ctx, r, c); err != nil {
		return nil, fmt.Errorf("define the channel: %w", err)
	}
	compiled, err := compile(ctx, r, m.program)
	if err != nil {
		return nil, fmt.Errorf("compile the module: %w", err)
	}
	if code != nil {
		if err := CheckKept(order.Code, code); err != nil {
			return nil, err
		}
	}
	settings, err := m.settings()
	if err != nil {
		return nil, err
	}
	m.module, err = r.InstantiateModule(experimental.WithMemoryAllocator(ctx, &m.memory), compiled, settings)
	if err != nil {
		return nil, fmt.Errorf("instantiate the module: %w", err)
	}
	return m, nil
}

// environment is what a guest of any backend has, as far as it means something
// here.
var environment = [][2]string{
	{"HOME", "/workspace"}, {"TMPDIR", "/tmp"}, {"PWD", "/workspace"}, {"LANG", "C.UTF-8"},
}

// settings are the same for the instance whose memory becomes the image and
// for those that start from it: the interpreter remembers its descriptors.
func (m *machine) settings() (wazero.ModuleConfig, error) {
	mounts, err := m.mounts()
	if err != nil {
		return nil, err
	}
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions().WithFSConfig(mounts).
		WithStdin(os.Stdin).WithStdout(os.Stdout).WithStderr(os.Stderr).
		WithSysWalltime().WithSysNanotime().WithNanosleep(func(ns int64) { time.Sleep(time.Duration(ns)) }).
		WithRandSource(rand.Reader).WithArgs("python3")
	for _, v := range environment {
		config = config.WithEnv(v[0], v[1])
	}
	return config, nil
}

// mounts are all that a guest sees of files.
func (m *machine) mounts() (wazero.FSConfig, error) {
	library := memfs.NewReadOnly(1)
	zip, err := Map(given(StdlibFD, "stdlib.zip"), false)
	if err != nil {
		return nil, err
	}
	own := memfs.NewReadOnly(2)
	if err := errors.Join(library.Put("stdlib.zip", zip), putAll(own, guest.Files)); err != nil {
		return nil, err
	}
	writable := func(disk int) *memfs.FS {
		return memfs.New(uint64(3+disk), m.order.Disk, m.order.Files, func(full bool) { m.ledger.Full(disk, full) })
	}
	root := memfs.NewReadOnly(5)
	for _, dir := range []string{"guest", "py", "tmp", "workspace"} {
		if err := root.PutDir(dir); err != nil {
			return nil, err
		}
	}
	config := wazero.NewFSConfig().(sysfs.FSConfig)
	config = config.WithSysFSMount(library, "/py").(sysfs.FSConfig)
	config = config.WithSysFSMount(own, "/guest").(sysfs.FSConfig)
	config = config.WithSysFSMount(writable(0), "/tmp").(sysfs.FSConfig)
	config = config.WithSysFSMount(writable(1), "/workspace").(sysfs.FSConfig)
	return config.WithSysFSMount(root, "/"), nil
}

// putAll copies files into a file system.
func putAll(to *memfs.FS, files fs.FS) error {
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		return to.Put(name, data)
	})
}

// call calls a function without arguments that returns a number.
func (m *machine) call(ctx context.Context, name string) (int32, error) {
	f := m.module.ExportedFunction(name)
	if f == nil {
		return 0, fmt.Errorf("the module has no function %s; build it again with make wasm", name)
	}
	results, err := f.Call(ctx)
	if err != nil || len(results) == 0 {
		return 0, err
	}
	return int32(results[0]), nil
}
