package doctor

import (
	"context"
	"io/fs"
	"strings"
)

// versionOf asks a program, unless the engine has told. There is nothing to
// check where neither is there.
func (h Host) versionOf(ctx context.Context, told, program string) (text string, ok bool) {
	if told != "" {
		return told, true
	}
	if h.Run == nil {
		return "", false
	}
	out, err := h.Run(ctx, program, "--version")
	if err != nil {
		return "", false
	}
	// runc version 1.1.5+ds1, containerd github.com/… 1.6.20 …, bubblewrap 0.8.0
	for _, word := range strings.Fields(strings.SplitN(out, "\n", 2)[0]) {
		if _, ok := parseVersion(word); ok {
			return word, true
		}
	}
	return "", false
}

func (h Host) engine() Engine {
	if h.Engine == nil {
		return Engine{}
	}
	return *h.Engine
}

func runcVersion(ctx context.Context, h Host) []Finding {
	text, ok := h.versionOf(ctx, h.engine().Runc, "runc")
	if !ok {
		return nil
	}
	return flawsOf("runc", text, runcFlaws)
}

func containerdVersion(ctx context.Context, h Host) []Finding {
	text, ok := h.versionOf(ctx, h.engine().Containerd, "containerd")
	if !ok {
		return nil
	}
	return flawsOf("containerd", text, containerdFlaws)
}

func engineVersion(_ context.Context, h Host) []Finding {
	if h.engine().Version == "" {
		return nil
	}
	return flawsOf("Docker Engine", h.engine().Version, engineFlaws)
}

func bubblewrapVersion(ctx context.Context, h Host) []Finding {
	text, ok := h.versionOf(ctx, "", "bwrap")
	if !ok {
		return nil
	}
	return flawsOf("bubblewrap", text, bubblewrapFlaws)
}

// bubblewrapSetuid: every hole in a program that is root for its users is one
// to root, and nothing here needs it to be.
func bubblewrapSetuid(_ context.Context, h Host) []Finding {
	for _, path := range []string{"usr/bin/bwrap", "usr/local/bin/bwrap"} {
		if info, ok := h.stat(path); ok && info.Mode()&fs.ModeSetuid != 0 {
			return found(Warning, "/"+path+" is setuid: its flaws are ways to become root", "chmod u-s /"+path+", where the kernel allows user namespaces to users")
		}
	}
	return nil
}
