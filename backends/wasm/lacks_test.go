package wasm_test

// lacks are what a module cannot do, each with the stories that are told of
// guests which can. That it fails, and how, is TestLacks', by what refused has
// for it; what else such a story is about is told by the tests beside it.
var lacks = map[string][]string{
	"a module cannot start a process": {
		"cpu limit: all processors at once",
		"cpu limit: a fork bomb",
		"cpu limit: the sum over children, each of them below it",
		"the channel ends with the guest, whoever holds it",
		"children that ignore every signal",
		"children are reaped and their output is the guest's",
		"a command left in the background",
		"the guest is over when its main process is, whoever holds its streams",
		"a detached grandchild dies with a guest that ends",
		"a detached grandchild dies with a cancelled guest",
		"a guest that calls itself like its worker is known all the same",
		"one guest's processes are not counted with another's",
		"zombies are the guest's own",
		"process limit: children",
		"memory limit: the sum over processes, each of them below it",
		"memory limit: a child that dies of it, and a guest that survives",
		"files: one that grows all the while",
	},
	"a module has no threads": {
		"process limit: threads",
		"process limit: what fits is not touched",
	},
	"a module has no signals; os.abort ends it, as TestPython tells": {
		"its own SIGXCPU is no cpu limit",
		"its own SIGSYS",
		"its own SIGTERM",
		"its own SIGKILL is no limit",
		"its own SIGSEGV",
		"a guest that stopped itself is still killed",
	},
	"a module makes no system call, and has neither ids nor names in /proc; its process is looked at in every run": {
		"wall: posture",
		"wall: system calls",
		"wall: a guest beside it",
		"posture of a live guest",
		"every system call is as the filter has it",
		"a system call newer than the filter is one that there is not",
		"memory limit: swap is part of it",
	},
	"a module's channel is no descriptor; TestBreach says the same through its functions": {
		"a guest that kills its channel's reader is nobody's hang",
		"half a frame, then death",
	},
	"a module has neither pipes nor epoll sets": {
		"pipes, epoll sets and timers end somewhere",
	},
	"the directories that a module was given are descriptors of it": {
		"no descriptor but the streams and the channel",
	},
}

// lacking are lacks by story.
func lacking() map[string]string {
	by := map[string]string{}
	for why, stories := range lacks {
		for _, story := range stories {
			by[story] = why
		}
	}
	return by
}

// untold is a story that a guest could act out, and that ends in another way.
var untold = map[string]string{"memory limit: files count": "files are bounded by the disk limit alone, and their process by all together"}
