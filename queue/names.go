package queue

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"airlock/job"
)

// Every name that Airlock uses in NATS is made here and nowhere else.
const (
	streamJobs    = "JOBS"
	streamQueued  = "QUEUED"
	streamResults = "RESULTS"

	bucketLanes   = "LANES"
	bucketWorkers = "WORKERS"
	bucketCancels = "CANCELS"
	bucketKeys    = "KEYS"

	streamBlobs   = "BLOBS"
	streamOutputs = "OUTPUTS"

	recorderName = "recorder"
	controlGroup = "control"
	fleetGroup   = "fleet"
	decideGroup  = "approval"

	prefixJobs    = "jobs"
	prefixQueued  = "queued"
	prefixBell    = "bell"
	prefixResults = "results"
	prefixControl = "control"
	prefixFleet   = "fleet"
	prefixBlobs   = "blobs"
	prefixOutputs = "outputs"

	// prefixEvents is of news that nobody keeps.
	prefixEvents = "events"

	prefixApproval = "approval"
	prefixDecided  = "decided"

	// inboxPrefix begins every inbox: the usual _INBOX.<random>, and the
	// _INBOX.<user>.<random> of who logs in under a name.
	inboxPrefix = "_INBOX"
)

// The headers of our messages; nobody else's are read.
const (
	headerGeneration = "Airlock-Generation"
	headerBlob       = "Airlock-Blob"
	headerParts      = "Airlock-Parts"
	// headerTrace is the submitter's trace, as the W3C has it.
	headerTrace = "traceparent"
)

// noBatch stands in a subject for the batch of a job that has none. It is no
// valid batch's name.
const noBatch = "_"

var (
	lanePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_+-]{0,63}$`)
	verbPattern = regexp.MustCompile(`^[a-z][a-z_]{0,31}$`)
	// userPattern is a login's that can begin an inbox: a role, and a name.
	userPattern   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)
	digestPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// place is where a job lies in JOBS.
type place struct {
	lane     string
	priority job.Priority
	tenant   string
}

func placeOf(j *job.Job) (place, error) {
	p := place{lane: j.Requires.Lane(), priority: j.Priority, tenant: j.Tenant}
	return p, p.check()
}

// check is what stands between foreign strings and subjects.
func (p place) check() error {
	switch {
	case !lanePattern.MatchString(p.lane):
		return fmt.Errorf("lane %q is no subject token", job.Printable(p.lane, 80))
	case !slices.Contains(job.Priorities(), p.priority):
		return fmt.Errorf("unknown priority %q", job.Printable(string(p.priority), 40))
	case !job.ValidName(p.tenant):
		return fmt.Errorf("tenant %q is no valid name", job.Printable(p.tenant, 80))
	}
	return nil
}

// subject is the place's in JOBS. The place must have passed check.
func (p place) subject() string {
	return strings.Join([]string{prefixJobs, p.lane, string(p.priority), p.tenant}, ".")
}

// parsePlace reads the subject of a message in JOBS or QUEUED.
func parsePlace(subject, prefix string) (place, error) {
	tokens := strings.Split(subject, ".")
	if len(tokens) != 4 || tokens[0] != prefix {
		return place{}, fmt.Errorf("subject %q is not %s.<lane>.<priority>.<tenant>", job.Printable(subject, 200), prefix)
	}
	p := place{lane: tokens[1], priority: job.Priority(tokens[2]), tenant: tokens[3]}
	return p, p.check()
}

// storedPlace is parsePlace for a subject that JOBS really has. The tenant may
// be no valid name: what lies there is to be taken out, and for that to be
// found.
func storedPlace(subject string) (place, bool) {
	tokens := strings.Split(subject, ".")
	if len(tokens) != 4 || strings.ContainsAny(subject, "*>") {
		return place{}, false
	}
	p := place{lane: tokens[1], priority: job.Priority(tokens[2]), tenant: tokens[3]}
	named := p
	named.tenant = job.DefaultTenant
	return p, named.check() == nil
}

// consumer is the name of the place's consumer. It is unique, since none of
// the three holds an =. Servers keep consumers in folders of that name, which
// on some systems are the same in upper and lower case.
func (p place) consumer() string {
	if !job.ValidName(p.tenant) {
		return strings.Join([]string{p.lane, string(p.priority), "", digestOf([]byte(p.tenant))[:16]}, "=")
	}
	name := strings.Join([]string{p.lane, string(p.priority), p.tenant}, "=")
	if lower := strings.ToLower(p.tenant); lower != p.tenant {
		name += "=" + digestOf([]byte(p.tenant))[:8]
	}
	return name
}

// laneKey is a lane's key in LANES. Keys may not hold the + of lanes' names,
// and lanes' names never hold an =.
func laneKey(lane string) string { return strings.ReplaceAll(lane, "+", "=") }

// checkOwner checks a tenant, and a batch unless there is none.
func checkOwner(tenant, batch string) error {
	if !job.ValidName(tenant) {
		return fmt.Errorf("tenant %q is no valid name", job.Printable(tenant, 80))
	}
	if batch != "" && !job.ValidName(batch) {
		return fmt.Errorf("batch %q is no valid name", job.Printable(batch, 80))
	}
	return nil
}

func resultSubject(tenant, batch string, id job.ID) (string, error) {
	if err := checkOwner(tenant, batch); err != nil {
		return "", err
	}
	if batch == "" {
		batch = noBatch
	}
	return strings.Join([]string{prefixResults, tenant, batch, id.String()}, "."), nil
}

// resultFilter covers the results of a tenant, narrowed to a batch or a job.
func resultFilter(tenant, batch string, id job.ID) (string, error) {
	if err := checkOwner(tenant, batch); err != nil {
		return "", err
	}
	batchToken, jobToken := "*", "*"
	if batch != "" {
		batchToken = batch
	}
	if !id.IsZero() {
		jobToken = id.String()
	}
	return strings.Join([]string{prefixResults, tenant, batchToken, jobToken}, "."), nil
}

// eventSubject is where the news of a job go.
func eventSubject(tenant, batch string, id job.ID) (string, error) {
	if err := checkOwner(tenant, batch); err != nil {
		return "", err
	}
	if batch == "" {
		batch = noBatch
	}
	return strings.Join([]string{prefixEvents, tenant, batch, id.String()}, "."), nil
}

// resultsFilter covers the results of all tenants.
func resultsFilter() string { return prefixResults + ".*.*.*" }

// eventFilter covers the news of all jobs of all tenants.
func eventFilter() string { return prefixEvents + ".*.*.*" }

func controlSubject(tenant, verb string) (string, error) {
	return questionSubject(prefixControl, tenant, verb)
}

// questionSubject is where a verb's questions of a tenant go. Below
// prefixControl are those about the history, below prefixFleet the queue's own.
func questionSubject(prefix, tenant, verb string) (string, error) {
	if !job.ValidName(tenant) {
		return "", fmt.Errorf("tenant %q is no valid name", job.Printable(tenant, 80))
	}
	if !verbPattern.MatchString(verb) {
		return "", fmt.Errorf("verb %q is no valid name", job.Printable(verb, 80))
	}
	return strings.Join([]string{prefix, tenant, verb}, "."), nil
}

func questionFilter(prefix string) string { return prefix + ".*.*" }

func parseQuestion(subject string) (tenant, verb string, ok bool) {
	tokens := strings.Split(subject, ".")
	if len(tokens) != 3 || !job.ValidName(tokens[1]) || !verbPattern.MatchString(tokens[2]) {
		return "", "", false
	}
	return tokens[1], tokens[2], true
}

// keyOf is an idempotency key's in KEYS. The key itself may be any text.
func keyOf(tenant, key string) (string, error) {
	if !job.ValidName(tenant) {
		return "", fmt.Errorf("tenant %q is no valid name", job.Printable(tenant, 80))
	}
	return tenant + "." + digestOf([]byte(key)), nil
}

func (t CancelTarget) key(tenant string) (string, error) {
	switch {
	case !job.ValidName(tenant):
		return "", fmt.Errorf("tenant %q is no valid name", job.Printable(tenant, 80))
	case t.Job.IsZero() == (t.Batch == ""):
		return "", fmt.Errorf("cancel wants either a job or a batch")
	case t.Batch == "":
		return tenant + ".job." + t.Job.String(), nil
	case !job.ValidName(t.Batch):
		return "", fmt.Errorf("batch %q is no valid name", job.Printable(t.Batch, 80))
	}
	return tenant + ".batch." + t.Batch, nil
}

func parseCancelKey(key string) (tenant string, t CancelTarget, err error) {
	tokens := strings.Split(key, ".")
	if len(tokens) != 3 || !job.ValidName(tokens[0]) {
		return "", t, fmt.Errorf("key %q is no cancellation", job.Printable(key, 200))
	}
	switch {
	case tokens[1] == "job":
		t.Job, err = job.ParseID(tokens[2])
	case tokens[1] == "batch" && job.ValidName(tokens[2]):
		t.Batch = tokens[2]
	default:
		err = fmt.Errorf("key %q is no cancellation", job.Printable(key, 200))
	}
	return tokens[0], t, err
}

// blobSubject is that of one part of a tenant's blob on that shelf.
func blobSubject(on shelf, tenant, digest string, part int) (string, error) {
	if !job.ValidName(tenant) {
		return "", fmt.Errorf("tenant %q is no valid name", job.Printable(tenant, 80))
	}
	if !digestPattern.MatchString(digest) {
		return "", fmt.Errorf("%q is no digest", job.Printable(digest, 80))
	}
	return strings.Join([]string{string(on), tenant, digest, strconv.Itoa(part)}, "."), nil
}

// bucketStream and bucketSubject are how NATS names what a bucket is made of.
func bucketStream(bucket string) string { return "KV_" + bucket }

func bucketSubject(bucket, key string) string { return "$KV." + bucket + "." + key }

// messageID is what JetStream deduplicates a job by. It remembers ids after
// the message is gone, so a requeued job needs one of its own.
func messageID(id job.ID, generation int) string {
	return fmt.Sprintf("%s:%d", id, generation)
}

// resultID is messageID for the result of one attempt: a requeued job has
// another result soon after the first.
func resultID(id job.ID, attempt int) string {
	return fmt.Sprintf("%s:result:%d", id, attempt)
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
