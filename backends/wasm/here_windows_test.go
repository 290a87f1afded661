package wasm_test

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"airlock/backends"
	"airlock/backends/wasm"

	"golang.org/x/sys/windows"
)

var getProcessHandleCount = windows.NewLazySystemDLL("kernel32.dll").NewProc("GetProcessHandleCount")

// descriptors is how many handles this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	var n uint32
	if ok, _, err := getProcessHandleCount.Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&n))); ok == 0 {
		t.Fatal(err)
	}
	return int(n)
}

// TestUnheld: a system that takes the limits of a job object and holds none of
// them is refused, and the reason says so.
func TestUnheld(t *testing.T) {
	t.Parallel()
	if !wasm.Wine() {
		t.Skip("a Windows of Microsoft's holds its limits; Wine does not")
	}
	b := wasm.New(wasm.Config{Helper: helper, Python: installed(t, module(converse())), Cache: privateDir(t)})
	defer b.Close()
	_, err := b.Probe(t.Context())
	if !errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), "Wine") {
		t.Errorf("got %v, want ErrUnavailable that names Wine", err)
	}
	_, err = b.Run(t.Context(), backends.Task{})
	if err == nil {
		t.Error("got a guest that ran, want none")
	}
}
