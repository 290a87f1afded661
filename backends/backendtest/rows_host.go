package backendtest

// hostRows are about what the host does with a guest's bytes, and about hosts
// and operators.
func hostRows() []Group {
	return []Group{
		{"HP", "Guest bytes on the host", []Row{
			tested("HP1", "prints what looks like lines of the log", "job.TestPrintableIsSafe", "job.TestPrintable"),
			tested("HP3", "names things by characters that turn or hide text", "job.TestPrintableIsSafe", "cmd/submit.TestTerminalSeesNothingThatItWouldObey"),
			moot("HP4", "puts HTML into output, names and errors", "nothing is shown as HTML yet"),
			moot("HP6", "puts formulas into cells", "nothing is written as CSV yet"),
			tested("HP8", "prints very wide text", "job.TestPrintable"),
			moot("HP9", "puts template syntax into what is mailed", "nothing renders a guest's text again"),
			moot("HP10", "makes up names without end, to fill metrics", "there are no metrics yet"),
			moot("HP11", "speaks to a language model that reads its result", "a result is data in fields of its own; who shows it to a model quotes it"),
			moot("HP12", "names artefacts to climb out of an archive", "no archives are written"),
			tested("HP13", "prints separators of lines that JSON allows", "cmd/submit.FuzzEscapeJSON"),
		}},
		{"CP", "Operators and hosts", []Row{
			tested("CP1", "meets a host that lacks what a wall needs", "backends/bubblewrap.TestUnavailable", "backends/forkserver.TestUnavailable", "backends/forkserver.TestUnprivileged", "backends/docker.TestUnavailable"),
			tested("CP2", "meets a worker that offers no wall", "backends/all.TestLocalIsRefused", "integration.TestNoIsolationHasToBeAskedFor"),
			tested("CP4", "chooses image, directory, mounts or runtime", "job.TestPrepareRefusesRequirements", "job.TestPrepareOfContainers"),
			tested("CP5", "is given an image by a tag that moved", "backends/docker.TestBenchmark"),
			tested("CP7", "meets an engine that listens on TCP", "worker/doctor.TestSickHosts"),
			tested("CP8", "meets NATS or Postgres with default passwords", "worker/doctor.TestSickHosts"),
			tested("CP9", "uses one role's credential for another's work", "queue.TestEachRoleIsRefusedWhatIsNotItsOwn"),
			moot("CP10", "is put into a shell's command", "no shell is ever started: arguments are lists"),
			moot("CP11", "changes the operator's policy", "there is no such file in reach: a guest can write only to file systems that are made for it"),
		}},
	}
}
