package wasmguest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/tetratelabs/wazero/sys"
)

// Main is the whole life of the process; it returns its exit code.
func Main() int {
	from := given(OrderFD, "order")
	if from == nil {
		fmt.Fprintln(os.Stderr, "airlock: only a worker starts this")
		return ExitBroken
	}
	order, err := readOrder(from)
	_ = from.Close()
	if err == nil && order.Make {
		err = makeImage(context.Background(), order)
	} else if err == nil {
		return runGuest(context.Background(), order)
	}
	return broken(err)
}

func broken(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "airlock: %v\n", err)
	return ExitBroken
}

// runGuest runs one guest from the image.
func runGuest(ctx context.Context, order Order) int {
	// One guest, then gone: collecting is worth its pauses only where the
	// guest has its host hold much.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(ownMemory + 2*order.Disk)
	m, err := start(ctx, order)
	if err != nil {
		return broken(err)
	}
	code, err := m.call(ctx, "airlock_run")
	return end(code, err)
}

// ownMemory is what the process itself may use before it collects.
const ownMemory = 96 << 20

// start makes an instance whose interpreter has started, and confines it.
func start(ctx context.Context, order Order) (*machine, error) {
	conn, err := openChannel()
	if err != nil {
		return nil, err
	}
	m, err := boot(ctx, order, &channel{conn: conn})
	if err != nil {
		return nil, err
	}
	if err := m.load(); err != nil {
		return nil, err
	}
	if err := useShared(given(CodeFD, "code")); err != nil {
		return nil, err
	}
	forgetStart()
	return m, confine(order)
}

// load gives the instance the image's memory.
func (m *machine) load() error {
	now := int64(m.module.Memory().Size())
	if more := (m.order.Image - now) / pageSize; more > 0 {
		if _, ok := m.module.Memory().Grow(uint32(more)); !ok {
			return fmt.Errorf("the interpreter alone needs %d bytes of memory", m.order.Image)
		}
	}
	if m.memory.last == nil {
		return errors.New("the module has no memory")
	}
	return m.memory.last.replace(given(ImageFD, "image"), m.order.Image)
}

// end is how the process ends after its guest.
func end(code int32, err error) int {
	var exit *sys.ExitError
	switch {
	case err == nil:
		return int(code) & 0xff
	case errors.As(err, &exit):
		return int(exit.ExitCode()) & 0xff
	}
	// A trap; the first line says which, the others where.
	first, _, _ := strings.Cut(err.Error(), "\n")
	fmt.Fprintf(os.Stderr, "airlock: the interpreter crashed: %s\n", first)
	return crash(strings.Contains(first, "unreachable"))
}

// makeImage starts an interpreter and writes its memory.
func makeImage(ctx context.Context, order Order) error {
	m, err := boot(ctx, order, nil)
	if err != nil {
		return err
	}
	stack := m.module.ExportedGlobal("__stack_pointer")
	if stack == nil {
		return errors.New("the module does not show its stack; build it again with make wasm")
	}
	before := stack.Get()
	if _, err := m.call(ctx, "_initialize"); err != nil {
		return fmt.Errorf("start the interpreter: %w", err)
	}
	code, err := m.call(ctx, "airlock_init")
	switch {
	case err != nil:
		return fmt.Errorf("start the interpreter: %w", err)
	case code != 0:
		return fmt.Errorf("start the interpreter: airlock_init returned %d", code)
	case stack.Get() != before:
		return errors.New("start the interpreter: its stack is not empty afterwards")
	}
	all, _ := m.module.Memory().Read(0, m.module.Memory().Size())
	if _, err := given(ImageFD, "image").Write(all); err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	made := Made{}
	if made.Code, err = compileGuests(ctx, order, m.program); err != nil {
		return err
	}
	if err := shareCode(given(CodeFD, "code"), made.Code); err != nil {
		return err
	}
	return json.MarshalWrite(os.Stdout, made)
}
