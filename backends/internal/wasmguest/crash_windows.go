package wasmguest

import "golang.org/x/sys/windows"

// crash is the exit code of a native program that did the same.
func crash(abort bool) int {
	code := windows.STATUS_ACCESS_VIOLATION
	if abort {
		code = windows.STATUS_STACK_BUFFER_OVERRUN // as C's abort has it
	}
	return int(int32(code))
}
