package doctor

import (
	"context"
	"strings"
)

// kernelVersion: distributions name the version that they started from, and
// tell elsewhere which one they are at.
func kernelVersion(_ context.Context, h Host) []Finding {
	text, ok := h.kernel()
	if !ok {
		return unchecked("the kernel's version cannot be read")
	}
	return flawsOf("the kernel", text, kernelFlaws)
}

func (h Host) kernel() (string, bool) {
	// Ubuntu 5.15.0-91.101-generic 5.15.131
	if text, ok := h.read("proc/version_signature"); ok {
		f := strings.Fields(text)
		if len(f) == 3 {
			return f[2] + "-ubuntu", true
		}
	}
	// … #1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01)
	if text, ok := h.read("proc/version"); ok {
		if _, after, ok := strings.Cut(text, " Debian "); ok {
			if f := strings.Fields(after); len(f) > 0 {
				return f[0] + "-deb", true
			}
		}
	}
	return h.read("proc/sys/kernel/osrelease")
}
