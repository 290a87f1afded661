package backendtest

// brokerRows are about the channel and about results that lie. The broker and
// the worker prove most of them without a wall, since what they do does not
// depend on one.
func brokerRows() []Group {
	const transcripts = "broker.TestTranscripts"
	return []Group{
		{"BK", "The channel", []Row{
			tested("BK1", "announces a frame above the cap", "broker.TestBK1LengthIsRefusedBeforeTheBody").also(transcripts),
			tested("BK2", "sends empty frames, and half frames", transcripts, "broker.TestReadFrameErrors"),
			acted("BK3", "sends noise, or what is no object, or bytes after it").also(transcripts),
			tested("BK4", "nests deep", "broker.TestBK4Nesting"),
			tested("BK6", "sends NaN and Infinity", transcripts),
			tested("BK7", "sends huge numbers", "broker.TestBK7Numbers"),
			tested("BK9", "sends unknown fields, wrong types, and leaves fields out", transcripts),
			tested("BK10", "sends huge keys and strings", "broker.TestBK10HugeFrames"),
			tested("BK12", "sends frames that look like the host's", transcripts),
			tested("BK13", "sends unknown methods, or known ones at the wrong time", transcripts),
			tested("BK14", "says no hello, a false one, or two", "broker.TestBK14Token", "broker.TestNoHello", transcripts),
			tested("BK15", "uses another job's token", "broker.TestBK14Token"),
			moot("BK17", "replays an earlier conversation", "the channel is a pair of descriptors of its own: nothing is captured from another and no token opens it"),
			tested("BK18", "states tenant, job, budget or deadline", "broker.TestBK18AuthorityInFrames"),
			tested("BK19", "names another namespace than it is pinned to", "broker.TestBK19PinnedNamespace"),
			tested("BK20", "names tools that look like those it may call", "broker.TestBK20NearMisses"),
			tested("BK21", "names tools by dots, wildcards, line ends, NUL, inboxes", "broker.TestSubjectsAndHeaders"),
			tested("BK23", "puts line ends and headers into arguments", "broker.TestSubjectsAndHeaders"),
			tested("BK24", "guesses message ids and reply subjects", "broker.TestForgedAndSecondAnswersAreDropped"),
			tested("BK25", "breaks a tool's schema", "broker.TestBK25Arguments"),
			tested("BK26", "calls after its result", "broker.TestBK26CallsAfterTheResult"),
			tested("BK28", "calls more often than it may, one by one and at once", "broker.TestBK28Ceiling"),
			tested("BK29", "floods with lists, hellos and unknown frames", "broker.TestBK29EveryFrameCostsBudget"),
			tested("BK30", "calls ten thousand times at once", "broker.TestBK30ParallelCallsAreBounded"),
			acted("BK32", "never reads what it asked for").also("broker.TestBK32GuestThatDoesNotRead"),
			tested("BK34", "calls tools that answer too much, too deep or with no JSON", "broker.TestBK34Answers"),
			tested("BK35", "sends too much in small frames", "broker.TestBK35Bytes"),
			tested("BK36", "provokes failures that hold secrets", "broker.TestSeedFailingToolCountsAndItsSecretsStay"),
			tested("BK37", "cancels or reads another's call", "broker.TestBK37CallsOfOthers"),
			tested("BK38", "runs while its grants change", "broker.TestBK38GrantsAreASnapshot"),
			tested("BK39", "uses a tool as a proxy", "broker.TestBK39ToolsLearnTheTenantFromTheWorker"),
			tested("BK40", "redirects a tool's answer", "broker.TestForgedAndSecondAnswersAreDropped"),
			tested("BK42", "sends what no one thought of", "broker.FuzzFrame", "broker.FuzzSession", "job.FuzzCollection"),
		}},
		{"SP", "Results that lie", []Row{
			acted("SP1", "prints results and markers on stdout and stderr"),
			acted("SP2", "writes frames of its own to the channel").also(transcripts),
			acted("SP3", "exits with 0 before it has a result").also("broker.TestSP3LeavingWithoutAResult"),
			acted("SP5", "patches json, builtins, imports and the proxies of tools"),
			acted("SP6", "sets trace functions, audit hooks and exit handlers"),
			tested("SP8", "raises exceptions with endless or forged text", "broker.TestSP8ErrorsAreBounded"),
			acted("SP9", "exits with 137 or 124, or kills itself, to look like a limit").also("worker.TestEachEndHasOneStatus"),
			tested("SP10", "reports times, memory and counts of its own", "broker.TestSP10CountsAreTheHosts"),
			moot("SP12", "looks for the token that speaks for it", "there is none: whoever holds the guest's descriptor is the guest"),
			tested("SP13", "has a tool registered under a builtin's name", "broker.TestSP13ReservedNames"),
			moot("SP15", "has code run before the wall stands", "a job has one piece of code, which arrives through the channel of a guest behind its wall"),
			tested("SP16", "claims to be well although its calls failed", "broker.TestCallRecord", "integration.TestWhatAJobLeavesInPostgres"),
		}},
	}
}
