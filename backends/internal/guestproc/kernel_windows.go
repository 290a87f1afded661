package guestproc

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// Kernel is the release of the system's kernel.
func Kernel() string {
	v := windows.RtlGetVersion()
	return fmt.Sprintf("%d.%d.%d", v.MajorVersion, v.MinorVersion, v.BuildNumber)
}
