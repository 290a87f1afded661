package doctor

import (
	"context"
	"io/fs"
	"strings"
)

const processors = "sys/devices/system/cpu"

// processorFlaws: what the kernel knows of them, and does about them.
func processorFlaws(_ context.Context, h Host) []Finding {
	if h.Root == nil {
		return unchecked("there is no file system to look at")
	}
	files, err := fs.ReadDir(h.Root, processors+"/vulnerabilities")
	if err != nil {
		return unchecked("the kernel does not list them")
	}
	var all []Finding
	for _, file := range files {
		state, _ := h.read(processors + "/vulnerabilities/" + file.Name())
		switch {
		case strings.HasPrefix(state, "Vulnerable"):
			all = append(all, found(Warning, show(file.Name()+": "+state),
				"update the microcode and the kernel, and do not boot with mitigations=off")...)
		case strings.HasPrefix(state, "Unknown"):
			all = append(all, found(Info, show(file.Name()+": "+state), "ask the provider of the virtual machine")...)
		case strings.Contains(state, "SMT vulnerable"):
			all = append(all, found(Warning, show(file.Name()+": "+state), "echo off > /"+processors+"/smt/control, or boot with nosmt")...)
		}
	}
	return all
}

// hyperThreads: two guests on one core see each other's timing.
func hyperThreads(_ context.Context, h Host) []Finding {
	if on, ok := h.number(processors + "/smt/active"); !ok || on == 0 {
		return nil
	}
	return found(Info, "guests may run on the two threads of one core, and time each other",
		"boot with nosmt where guests of tenants that must not learn of each other share the host")
}
