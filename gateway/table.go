package gateway

import (
	"net/http"
	"slices"

	"airlock/job"
	"airlock/store"
)

const (
	get    = http.MethodGet
	post   = http.MethodPost
	remove = http.MethodDelete
)

// The problems that most routes share.
var (
	usual      = []Code{CodeUnauthorized, CodeForbidden, CodeRateLimited, CodeUnavailable}
	ofBodies   = append([]Code{CodeBadRequest, CodeTooLarge, CodeMediaType}, usual...)
	ofJobs     = append([]Code{CodeInvalidJob, CodeUnplaceable, CodeOverQuota, CodeQueueFull}, ofBodies...)
	ofOne      = append([]Code{CodeNotFound}, usual...)
	ofListings = append([]Code{CodeBadRequest}, usual...)
)

var (
	pathJob   = param{"path", "id", "The job's id.", "string"}
	pathName  = param{"path", "id", "The batch's name.", "string"}
	parkParam = param{"query", "park", "Take what no live worker can run: it waits for one.", "boolean"}
	limitHere = param{"query", "limit", "At most so many, up to 1,000.", "integer"}
)

func doc(of any, text string) content { return content{media: mediaJSON, of: of, text: text} }

// table is what the gateway serves.
func (g *Gateway) table() []route {
	return slices.Concat(g.submitRoutes(), g.jobRoutes(), g.batchRoutes(), g.fleetRoutes(), []route{g.mcpRoute()}, g.selfRoutes())
}

// submitRoutes run code, and submit and list jobs.
func (g *Gateway) submitRoutes() []route {
	return []route{
		{method: post, path: "/execute", scope: store.ScopeSubmit, name: "execute", summary: "Run code now and say what came of it",
			text:     "For programs that were written for a sandboxed tool executor. What is run is a job of the batch execute, with no tools; its id is not told.",
			in:       &content{media: mediaJSON, of: Execution{}, example: `{"code": "print(2 + 2)", "timeout_seconds": 3, "memory_limit_mb": 64, "cpu_limit": 0.5, "allow_network": false}`},
			out:      map[int]content{200: doc(Executed{}, "What came of it.")},
			problems: ofJobs, serve: g.execute},

		{method: post, path: "/v1/jobs", scope: store.ScopeSubmit, name: "submitJobs", summary: "Submit a job, or an array of them",
			text: "Of an array all jobs are checked before any is taken. Without wait the answer comes as soon as the queue has stored them. " +
				"Each job may have a field callback, an object with url and secret, besides its own: " + callbackText,
			params: []param{
				{"query", "wait", "How long to wait for the results, such as 10s; at most 5m. The answer is 202 when that was too short.", "string"},
				parkParam,
				{"query", "cancel_on_disconnect", "Cancel the job if the client leaves while it waits.", "boolean"},
				{"header", "Idempotency-Key", "The job's key: the same key with the same content is the same job.", "string"},
			},
			in:       &content{media: mediaJSON, of: JobRequest{}, example: `{"code": "return x ** 2", "vars": {"x": 12}, "labels": {"suite": "smoke"}}`},
			out:      map[int]content{200: doc(Receipt{}, "It has ended; of an array, all have (see Receipts)."), 202: doc(Receipt{}, "It is in the queue. Of an array the answer is Receipts.")},
			problems: append([]Code{CodeConflict}, ofJobs...), serve: g.postJobs},
		{method: get, path: "/v1/jobs", scope: store.ScopeRead, name: "listJobs", summary: "List jobs, newest first",
			params: []param{
				{"query", "batch", "Only those of this batch.", "string"},
				{"query", "status", "Only those that ended so.", "string"},
				{"query", "since", "Only those submitted since, as RFC 3339 has it.", "string"},
				{"query", "before", "Only those older than the job with this id: the next page.", "string"},
				limitHere,
			},
			out: map[int]content{200: doc(Records{}, "The jobs.")}, problems: ofListings, serve: g.getJobs},
	}
}

// jobRoutes are about one job.
func (g *Gateway) jobRoutes() []route {
	return []route{
		{method: get, path: "/v1/jobs/{id}", scope: store.ScopeRead, name: "getJob", summary: "Where a job stands, and its result",
			text:   "With wait the answer comes when the job has ended, or as it stands when that was too short.",
			params: []param{pathJob, {"query", "wait", "How long to wait for the end, such as 10s; at most 5m.", "string"}},
			out:    map[int]content{200: doc(View{}, "The job.")}, problems: append([]Code{CodeBadRequest}, ofOne...), serve: g.getJob},
		{method: get, path: "/v1/jobs/{id}/calls", scope: store.ScopeRead, name: "listCalls", summary: "The tool calls of a job",
			params: []param{pathJob}, out: map[int]content{200: doc(Calls{}, "The calls of all attempts, in order.")}, problems: ofOne, serve: g.getCalls},
		{method: get, path: "/v1/jobs/{id}/events", scope: store.ScopeRead, name: "followJob", summary: "Follow a job as it happens", text: jobEventsText,
			params: []param{pathJob, lastEvent, lastEventQuery}, out: outEvents, problems: append([]Code{CodeBadRequest}, ofOne...), serve: g.followJob},
		{method: get, path: "/v1/jobs/{id}/artifacts/{path...}", scope: store.ScopeRead, name: "getArtifact", summary: "A file that a guest brought back",
			text:   "Byte for byte, to be saved and not shown: it is the guest's. The job's record lists its files.",
			params: []param{pathJob, {"path", "path", "The file's path below /workspace.", "string"}},
			out:    map[int]content{200: {media: mediaBytes, of: []byte{}, text: "The content."}}, problems: ofOne, serve: g.getArtifact},
		{method: remove, path: "/v1/jobs/{id}", scope: store.ScopeCancel, name: "cancelJob", summary: "Cancel a job",
			text:   "What has ended stays as it is. It may be asked again.",
			params: []param{pathJob},
			out: map[int]content{200: doc(job.Cancelled{}, "It ended at once, or had ended before."),
				202: doc(job.Cancelled{}, "It is running, and its worker has been told.")},
			problems: ofOne, serve: g.deleteJob},
		{method: post, path: "/v1/jobs/{id}/requeue", scope: store.ScopeAdmin, name: "requeueJob", summary: "Give a dead job another round of attempts",
			params: []param{pathJob}, out: map[int]content{202: doc(Requeued{}, "It is in the queue again.")},
			problems: append([]Code{CodeConflict}, ofOne...), serve: g.requeueJob},
	}
}

// batchRoutes are about batches.
func (g *Gateway) batchRoutes() []route {
	return []route{
		{method: post, path: "/v1/batches", scope: store.ScopeSubmit, name: "submitBatch", summary: "Submit jobs that stand one a line",
			text: "Any number of them. A line that is wrong is told with its number and costs the others nothing. Sending the same lines for the same batch again submits nothing twice. " +
				"With callback, " + callbackText,
			params: []param{
				{"query", "name", "The batch's name; one is made if there is none.", "string"},
				parkParam,
				{"query", "callback", "An URL that is told when all jobs of the batch have ended.", "string"},
				{"header", headerSecret, "What its deliveries are signed with.", "string"},
			},
			in:       &content{media: mediaNDJSON, of: job.Job{}, example: "{\"code\": \"return 1\"}\n{\"code\": \"return 2\"}\n"},
			out:      map[int]content{202: doc(BatchReceipt{}, "What became of the lines.")},
			problems: append([]Code{CodeOverQuota, CodeQueueFull}, ofBodies...), serve: g.postBatch},
		{method: get, path: "/v1/batches/{id}", scope: store.ScopeRead, name: "getBatch", summary: "How many jobs of a batch stand where",
			params: []param{pathName}, out: map[int]content{200: doc(job.Summary{}, "The counts.")}, problems: ofOne, serve: g.getBatch},
		{method: get, path: "/v1/batches/{id}/results", scope: store.ScopeRead, name: "listResults", summary: "The results of a batch, one a line",
			text:   "In the order of the jobs' ids. The header Link names the next page, which there may be though this one has fewer results than its limit: it ends early where results are large.",
			params: []param{pathName, {"query", "after", "Only those after the job with this id.", "string"}, limitHere},
			out:    map[int]content{200: {media: mediaNDJSON, of: job.Result{}, text: "The results so far."}},

			problems: append([]Code{CodeBadRequest}, ofOne...), serve: g.getResults},
		{method: get, path: "/v1/batches/{id}/events", scope: store.ScopeRead, name: "followBatch", summary: "Follow a batch as its jobs end", text: batchEventsText,
			params: []param{pathName, lastEvent, lastEventQuery}, out: outEvents, problems: append([]Code{CodeBadRequest}, ofOne...), serve: g.followBatch},
		{method: remove, path: "/v1/batches/{id}", scope: store.ScopeCancel, name: "cancelBatch", summary: "Cancel all jobs of a batch",
			params: []param{pathName}, out: map[int]content{202: doc(job.Cancelled{}, "What was met.")}, problems: ofOne, serve: g.deleteBatch},
	}
}

// fleetRoutes tell of callbacks, and of what the pool is and has.
func (g *Gateway) fleetRoutes() []route {
	return []route{
		{method: get, path: "/v1/callbacks", scope: store.ScopeRead, name: "listCallbacks", summary: "The callbacks, and how they went",
			text:   "Newest first, with each try. What was delivered or given up is kept for a week.",
			params: []param{limitHere}, out: map[int]content{200: doc(Callbacks{}, "The callbacks.")}, problems: ofListings, serve: g.getCallbacks},

		{method: get, path: "/v1/workers", scope: store.ScopeRead, name: "listWorkers", summary: "The live workers and what they offer",
			out: map[int]content{200: doc(Workers{}, "The workers.")}, problems: usual, serve: g.getWorkers},
		{method: get, path: "/v1/lanes", scope: store.ScopeRead, name: "listLanes", summary: "The queue's lanes and what waits in them",
			out: map[int]content{200: doc(Lanes{}, "The lanes.")}, problems: usual, serve: g.getLanes},
		{method: get, path: "/v1/tools", scope: store.ScopeRead, name: "listTools", summary: "The tools that jobs may be granted",
			text:   "As a worker knows them now, but for those that the operator's rules deny to the tenant.",
			params: []param{{"query", "namespace", "Only those of this namespace.", "string"}, {"query", "schemas", "With the schemas of what goes in and comes out.", "boolean"}},
			out:    map[int]content{200: doc(job.ToolList{}, "The tools.")}, problems: ofListings, serve: g.getTools},
		{method: get, path: "/v1/dead", scope: store.ScopeRead, name: "listDead", summary: "The jobs that Airlock gave up on",
			params: []param{limitHere}, out: map[int]content{200: doc(Records{}, "The jobs, newest first.")}, problems: ofListings, serve: g.getDead},
	}
}

// selfRoutes tell of the gateway itself.
func (g *Gateway) selfRoutes() []route {
	return []route{
		{method: get, path: "/metrics", scope: store.ScopeRead, name: "metrics", summary: "What Prometheus scrapes",
			text: "metrics/METRICS.md lists them. They tell of the whole pool, and name no tenant, batch or job.",
			out:  map[int]content{200: {media: mediaText, of: "", text: "The metrics."}}, problems: usual, serve: g.getMetrics},
		{method: get, path: "/healthz", name: "health", summary: "Whether the process answers",
			out: map[int]content{200: doc(Health{}, "It does.")}, serve: g.healthz},
		{method: get, path: "/readyz", name: "ready", summary: "Whether NATS and Postgres answer",
			out: map[int]content{200: doc(Health{}, "They do."), 503: doc(Health{}, "One does not.")}, serve: g.readyz},
	}
}
