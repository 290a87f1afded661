package backendtest

// resourceRows are about using up, staying, and what is brought back.
func resourceRows() []Group {
	return []Group{
		{"RX", "Using up", []Row{
			acted("RX1", "holds more memory than it may, in one process, by and by, in many"),
			acted("RX3", "pushes memory out to swap"),
			acted("RX4", "fills tmpfs and /dev/shm, which count as its memory"),
			acted("RX5", "reserves huge mappings"),
			acted("RX7", "forks without end"),
			acted("RX8", "starts threads without end"),
			acted("RX9", "opens descriptors without end"),
			acted("RX10", "spins on all processors"),
			tested("RX12", "writes to stdout without end", "worker.TestAFloodOfOutputEndsTheGuest", "worker.TestOutputIsKeptToItsLimitAndCounted"),
			acted("RX13", "writes 10 MB without a newline"),
			acted("RX14", "floods stderr while stdout is idle, and the other way round"),
			acted("RX16", "makes a sparse file of terabytes"),
			acted("RX18", "uses up pipes, epoll sets, timers, watches"),
			acted("RX19", "saturates the disk"),
			tested("RX20", "fills the container engine's log", "backends/docker.TestBenchmark"),
			acted("RX21", "leaves zombies"),
			moot("RX22", "crashes again and again, to fill logs", "a job is a few lines of the log, whatever it does, and is not run again for its own failure"),
			tested("RX23", "grows a WASM memory to its maximum", "backends/wasm.TestEnds", "backends/wasm.TestPython"),
			tested("RX24", "loops in WASM without a host call", "backends/wasm.TestEnds", "backends/wasm.TestKilled"),
			acted("RX25", "is source text nested or sized beyond reason").also("job.TestPrepareRefusesInputs"),
		}},
		{"TO", "Staying", []Row{
			acted("TO1", "loops or sleeps for ever").also("integration.TestKnownWeaknesses"),
			acted("TO3", "forks twice, detaches, and lets the parent exit"),
			acted("TO4", "has a grandchild hold its streams and its channel open"),
			acted("TO6", "moves to another control group, or changes its limits"),
			acted("TO7", "sets the clock"),
			tested("TO9", "leaves a call running at its end", "broker.TestResultEndsOpenCalls", "broker.TestTimeoutThenLateAnswer"),
			tested("TO10", "keeps threads and exit handlers alive after its result", "broker.TestLingerIsBounded"),
			tested("TO11", "runs while its worker is killed", "backends/bubblewrap.TestWorkerKilled", "backends/forkserver.TestWorkerKilled", "backends/docker.TestWorkersKilled"),
			acted("TO12", "handles the signal of the processor time's limit"),
		}},
		{"OF", "Files that are brought back", []Row{
			acted("OF1", "names an absolute or climbing link as output").also("runner-image/guest.TestPython"),
			acted("OF2", "makes the parent directory of an output a link"),
			acted("OF4", "makes an output a hard link to another's file"),
			acted("OF5", "makes an output a FIFO"),
			acted("OF7", "changes an output while it is read").also("runner-image/guest.TestPython"),
			acted("OF8", "names outputs by newlines, escapes, invalid UTF-8 or 255 bytes").also("cmd/submit.TestArtifactsAreWrittenNowhereElse"),
			acted("OF10", "sets modes, owners and attributes of outputs").also("cmd/submit.TestArtifacts"),
			moot("OF11", "writes HTML that is opened in a browser", "nothing of Airlock shows a file: submit writes its bytes, to a directory that its user named"),
			acted("OF12", "writes pickles that somebody loads"),
			tested("OF13", "has prepared a link where the host writes inputs", "job.TestPrepareRefusesFiles"),
			acted("OF14", "speaks of outputs itself: of paths that climb, of others, of too much").also("broker.TestTranscripts", "broker.TestArtifactsBeyondTheRoom", "job.TestCollectionRefuses", "store.TestLargeArtifacts"),
		}},
	}
}
