package wasm_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/runner-image/guest"

	"github.com/go-json-experiment/json"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

const (
	// What wait of airlockmod.c returns when there is no frame.
	timedOut, closed = -1, -2
	// The longest that a test may take.
	patience = 2 * time.Minute
	// The unit in which memory grows.
	page = 65536
)

// built is where make wasm leaves its files.
func built(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", "bin", "wasm"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "python.wasm")); err == nil {
		return dir
	}
	if required := "," + os.Getenv("AIRLOCK_REQUIRE") + ","; strings.Contains(required, ",wasm,") {
		t.Fatal("no bin/wasm/python.wasm, which AIRLOCK_REQUIRE=wasm needs: run make wasm")
	}
	t.Skip("no bin/wasm/python.wasm: run make wasm")
	return ""
}

// compiled is the folder in which wazero keeps what it compiled python.wasm to,
// which takes seconds, and image what airlock_init made.
var (
	compiled string
	image    struct {
		sync.Mutex
		memory []byte
	}
)

func TestMain(m *testing.M) {
	var err error
	if compiled, err = os.MkdirTemp("", "airlock-wasm-*"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(compiled)
	os.Exit(code)
}

// machine is one instance, its host's side played by a test. It mounts folders
// of the host, which no backend may do.
type machine struct {
	module    api.Module
	workspace string
	out, err  bytes.Buffer
	// said are the frames that the guest sent.
	said []map[string]any
	// answer returns the frames to send in return, which may come late.
	answer func(frame map[string]any) []reply
	queue  []reply
	hungUp bool
	next   []byte
}

// reply is a frame for the guest and when it is there.
type reply struct {
	body string
	at   time.Time
}

// started returns a machine that is ready for its job: a copy of the image,
// which the first test makes.
func started(t *testing.T) *machine {
	t.Helper()
	image.Lock()
	defer image.Unlock()
	if image.memory == nil {
		m := loaded(t, "_initialize")
		if got := m.call(t, "airlock_init"); got != 0 {
			t.Fatalf("got %d from airlock_init, want 0: %s", got, m.err.String())
		}
		memory, _ := m.module.Memory().Read(0, m.module.Memory().Size())
		image.memory = bytes.Clone(memory)
	}
	m := loaded(t)
	memory := m.module.Memory()
	memory.Grow((uint32(len(image.memory)) - memory.Size()) / page)
	if !memory.Write(0, image.memory) {
		t.Fatalf("got no room for %d bytes, want it", len(image.memory))
	}
	return m
}

// loaded returns a machine in which nothing has run but the functions named.
func loaded(t *testing.T, first ...string) *machine {
	t.Helper()
	dir := built(t)
	cache, err := wazero.NewCompilationCacheWithDir(compiled)
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{workspace: t.TempDir()}
	ctx := t.Context()
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(cache).WithMemoryLimitPages(4096))
	t.Cleanup(func() {
		runtime.Close(context.WithoutCancel(ctx))
		cache.Close(context.WithoutCancel(ctx))
	})
	wasi_snapshot_preview1.MustInstantiate(ctx, runtime)
	m.offer(t, runtime)
	code, err := os.ReadFile(filepath.Join(dir, "python.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	package_ := filepath.Join(t.TempDir(), "guest")
	if err := guest.Install(package_); err != nil {
		t.Fatal(err)
	}
	mounts := wazero.NewFSConfig().WithReadOnlyDirMount(dir, "/py").WithReadOnlyDirMount(package_, "/guest").
		WithDirMount(t.TempDir(), "/tmp").WithDirMount(m.workspace, "/workspace")
	config := wazero.NewModuleConfig().WithStartFunctions(first...).WithFSConfig(mounts).WithStdout(&m.out).WithStderr(&m.err).
		WithSysWalltime().WithSysNanotime().WithSysNanosleep().WithRandSource(rand.Reader)
	if m.module, err = runtime.InstantiateWithConfig(ctx, code, config); err != nil {
		t.Fatal(err)
	}
	return m
}

// offer gives the guest the functions of airlockmod.c.
func (m *machine) offer(t *testing.T, runtime wazero.Runtime) {
	t.Helper()
	host := runtime.NewHostModuleBuilder("airlock")
	host.NewFunctionBuilder().WithFunc(m.send).Export("send")
	host.NewFunctionBuilder().WithFunc(m.wait).Export("wait")
	host.NewFunctionBuilder().WithFunc(m.take).Export("take")
	if _, err := host.Instantiate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) send(_ context.Context, module api.Module, at, length uint32) int32 {
	body, ok := module.Memory().Read(at, length)
	var frame map[string]any
	if !ok || m.hungUp || json.Unmarshal(body, &frame) != nil {
		return -1
	}
	m.said = append(m.said, frame)
	m.queue = append(m.queue, m.answer(frame)...)
	return 0
}

// wait takes the reply that is there first.
func (m *machine) wait(ctx context.Context, _ api.Module, microseconds int64) int32 {
	if m.next != nil {
		return int32(len(m.next))
	}
	if len(m.queue) == 0 && (m.hungUp || microseconds < 0) {
		return closed // nobody would ever answer
	}
	deadline := time.Now().Add(time.Duration(microseconds) * time.Microsecond)
	first := -1
	for i, each := range m.queue {
		if (microseconds < 0 || !each.at.After(deadline)) && (first < 0 || each.at.Before(m.queue[first].at)) {
			first = i
		}
	}
	if first < 0 {
		pause(ctx, time.Until(deadline))
		return timedOut
	}
	pause(ctx, time.Until(m.queue[first].at))
	m.next = []byte(m.queue[first].body)
	m.queue = append(m.queue[:first], m.queue[first+1:]...)
	return int32(len(m.next))
}

func (m *machine) take(_ context.Context, module api.Module, at, length uint32) int32 {
	if int(length) != len(m.next) || !module.Memory().Write(at, m.next) {
		return -1
	}
	m.next = nil
	return int32(length)
}

func pause(ctx context.Context, duration time.Duration) {
	select {
	case <-time.After(duration):
	case <-ctx.Done():
	}
}

// call calls an export and returns its code, or that of a program that exited.
func (m *machine) call(t *testing.T, name string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	results, err := m.module.ExportedFunction(name).Call(ctx)
	var exit *sys.ExitError
	if errors.As(err, &exit) {
		return int(exit.ExitCode())
	}
	if err != nil {
		t.Fatalf("got %v from %s, want it to return: %s", err, name, m.err.String())
	}
	return int(int32(results[0]))
}

// run has the guest run a job with these parameters beside its code and
// returns the exit code and the result, which is nil if there was none. Calls
// of the tool echo get their arguments back after the seconds they name.
func (m *machine) run(t *testing.T, code, more string) (exit int, result map[string]any) {
	t.Helper()
	source, err := json.Marshal(code)
	if err != nil {
		t.Fatal(err)
	}
	m.answer = func(frame map[string]any) []reply {
		switch frame["method"] {
		case "hello":
			return []reply{{body: fmt.Sprintf(`{"method":"job","params":{"code":%s%s}}`, source, more)}}
		case "result":
			result = frame["params"].(map[string]any)
			return []reply{{body: fmt.Sprintf(`{"id":%v,"ok":true}`, frame["id"])}}
		case "call_tool":
			return []reply{echo(t, frame)}
		}
		return nil
	}
	exit = m.call(t, "airlock_run")
	return exit, result
}

func echo(t *testing.T, frame map[string]any) reply {
	t.Helper()
	arguments := frame["params"].(map[string]any)["arguments"].(map[string]any)
	value, err := json.Marshal(arguments["value"])
	if err != nil {
		t.Fatal(err)
	}
	seconds, _ := arguments["seconds"].(float64)
	return reply{fmt.Sprintf(`{"id":%v,"ok":true,"value":%s}`, frame["id"], value), time.Now().Add(time.Duration(seconds * float64(time.Second)))}
}
