package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
)

const (
	requestTimeout = 5 * time.Second
	// clusterReplicas outlive the loss of one server. More cost every publish.
	clusterReplicas = 3
	// dedupeWindow only guards the retries of one publish, which give up
	// after publishPatience; uniqueness of a job is the database's.
	dedupeWindow = 2 * time.Minute
	// queuedDedupe is next to none: what QUEUED is sent is what JOBS has taken, once.
	// The ids of two minutes took 19 MiB of a server's memory at 2,500 jobs/s.
	queuedDedupe = time.Second
	// queuedAge bounds QUEUED when nobody records. Every job is recorded
	// again when it is claimed, so that nothing is lost with it.
	queuedAge  = 7 * 24 * time.Hour
	cancelsTTL = 7 * 24 * time.Hour
	keysTTL    = 30 * 24 * time.Hour
	blobsTTL   = 14 * 24 * time.Hour
	// markerTTL is how long WORKERS keeps the mark of an expired key; without
	// marks a watcher learns that a key is gone only when it begins anew.
	markerTTL = time.Minute
	// maxMessage leaves room for headers below the server's usual 1 MiB.
	maxMessage = 900 * job.KiB
)

// stores are the bound buckets.
type stores struct {
	lanesKV, workersKV jetstream.KeyValue
	// The rest is not read by submitters, and nil in a queue that was
	// attached to.
	cancelsKV, keysKV jetstream.KeyValue
	blobs, outputs    jetstream.Stream
	jobs, queued      jetstream.Stream
}

// setUp creates or updates streams and buckets. Only a server that is no
// cluster's says so when it is asked for replicas; one of a cluster that is too
// small, or not whole just now, must not make replicated streams single ones.
func (q *Queue) setUp(ctx context.Context) error {
	if q.cfg.Replicas > 0 {
		return q.setUpOn(ctx, q.cfg.Replicas)
	}
	err := q.setUpOn(ctx, clusterReplicas)
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == codeNoCluster {
		return q.setUpOn(ctx, 1)
	}
	return err
}

func (q *Queue) streamConfigs() []jetstream.StreamConfig {
	return append([]jetstream.StreamConfig{
		q.jobsStream(), q.queuedStream(), q.resultsStream(), q.blobsStream(), q.outputsStream(),
	}, q.bucketStreams()...)
}

func (q *Queue) storage() jetstream.StorageType {
	if q.cfg.MemoryStorage {
		return jetstream.MemoryStorage
	}
	return jetstream.FileStorage
}

func (q *Queue) jobsStream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: streamJobs, Description: "Airlock: jobs that are waiting or running",
		Subjects:  []string{prefixJobs + ".*.*.*"},
		Retention: jetstream.WorkQueuePolicy, Storage: q.storage(),
		// New jobs are refused where old ones would otherwise be dropped.
		Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
		MaxMsgsPerSubject: q.cfg.MaxPerTenant, MaxMsgs: q.cfg.MaxJobs,
		MaxMsgSize: int32(maxMessage), Duplicates: dedupeWindow,
		// Else the server's own limit holds, of a thousand.
		MaxConsumers: maxConsumers,
		RePublish:    &jetstream.RePublish{Source: prefixJobs + ".>", Destination: prefixQueued + ".>"},
	}
}

// queuedStream is a WorkQueue with the one consumer that records. Its own
// republishing rings the bell: one stream can republish only once.
func (q *Queue) queuedStream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: streamQueued, Description: "Airlock: jobs that entered the queue and are not yet recorded",
		Subjects:  []string{prefixQueued + ".*.*.*"},
		Retention: jetstream.WorkQueuePolicy, Storage: q.storage(),
		Discard: jetstream.DiscardOld, MaxAge: queuedAge, Duplicates: queuedDedupe,
		RePublish: &jetstream.RePublish{Source: prefixQueued + ".>", Destination: prefixBell + ".>", HeadersOnly: true},
	}
}

// resultsStream keeps one result per job: a job that was requeued has its
// newest.
func (q *Queue) resultsStream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: streamResults, Description: "Airlock: results, for those who wait",
		Subjects:  []string{prefixResults + ".*.*.*"},
		Retention: jetstream.LimitsPolicy, Storage: q.storage(),
		Discard: jetstream.DiscardOld, MaxAge: q.cfg.ResultsAge, MaxMsgsPerSubject: 1,
		MaxMsgSize: int32(maxMessage), Duplicates: min(dedupeWindow, q.cfg.ResultsAge), AllowDirect: true,
	}
}

// blobsStream keeps the jobs that are too large for a message, in parts. The
// tenant stands in the subject, so that permissions keep tenants apart. A job
// that waits must not lose its body to a newer one.
func (q *Queue) blobsStream() jetstream.StreamConfig {
	return q.partsStream(streamBlobs, jobShelf, "jobs too large for a message, by their SHA-256", jetstream.DiscardNew)
}

// outputsStream is the same for results and answers, which Postgres has too.
func (q *Queue) outputsStream() jetstream.StreamConfig {
	return q.partsStream(streamOutputs, outputShelf, "results and answers too large for a message, by their SHA-256", jetstream.DiscardOld)
}

func (q *Queue) partsStream(name string, on shelf, about string, full jetstream.DiscardPolicy) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: name, Description: "Airlock: " + about,
		Subjects:  []string{string(on) + ".*.*.*"},
		Retention: jetstream.LimitsPolicy, Storage: q.storage(),
		Discard: full, MaxAge: blobsTTL, MaxMsgsPerSubject: 1,
		MaxMsgSize: int32(maxMessage), Duplicates: dedupeWindow, AllowDirect: true,
	}
}

// bucketStreams are the streams behind the buckets. They are made here and not
// by the library, which lets every bucket be rolled up: whoever may write one
// key could then empty the bucket, with one header.
func (q *Queue) bucketStreams() []jetstream.StreamConfig {
	bucket := func(name, about string, ttl time.Duration) jetstream.StreamConfig {
		cfg := jetstream.StreamConfig{
			Name: bucketStream(name), Description: "Airlock: " + about,
			Subjects:          []string{bucketSubject(name, ">")},
			MaxMsgsPerSubject: 1, MaxAge: ttl, Storage: q.storage(),
			Discard: jetstream.DiscardNew, DenyDelete: true, AllowDirect: true, Duplicates: dedupeWindow,
		}
		if ttl > 0 {
			cfg.Duplicates = min(ttl, dedupeWindow)
		}
		return cfg
	}
	// Not in memory: a memory stream is gone after a restart, and with it
	// every watch on it. Marks and purges need rolling up; only workers write
	// here.
	workers := bucket(bucketWorkers, "the workers that are there", q.cfg.WorkerTTL)
	workers.AllowRollup, workers.AllowMsgTTL, workers.SubjectDeleteMarkerTTL = true, true, markerTTL
	// Behind the keys are the database's: the oldest may make way.
	keys := bucket(bucketKeys, "idempotency keys", keysTTL)
	keys.Discard = jetstream.DiscardOld
	return []jetstream.StreamConfig{
		bucket(bucketLanes, "the requirement behind each lane's name", 0),
		workers,
		bucket(bucketCancels, "jobs and batches that somebody cancelled", cancelsTTL),
		keys,
	}
}

// bind looks the streams and buckets up that are read directly: by submitters
// those that hold nothing of any tenant.
func (q *Queue) bind(ctx context.Context) error {
	type binding struct {
		name string
		into *jetstream.KeyValue
	}
	buckets := []binding{{bucketLanes, &q.lanesKV}, {bucketWorkers, &q.workersKV}}
	if !q.attached {
		buckets = append(buckets, binding{bucketCancels, &q.cancelsKV}, binding{bucketKeys, &q.keysKV})
		for name, into := range map[string]*jetstream.Stream{
			streamBlobs: &q.blobs, streamOutputs: &q.outputs, streamJobs: &q.jobs, streamQueued: &q.queued,
		} {
			err := q.insist(ctx, func(ctx context.Context) (err error) {
				*into, err = q.js.Stream(ctx, name)
				return err
			})
			if err != nil {
				return bindError("stream "+name, err)
			}
		}
	}
	for _, b := range buckets {
		err := q.insist(ctx, func(ctx context.Context) (err error) {
			*b.into, err = q.js.KeyValue(ctx, b.name)
			return err
		})
		if err != nil {
			return bindError("bucket "+b.name, err)
		}
	}
	return nil
}

func bindError(what string, err error) error {
	for _, missing := range []error{
		jetstream.ErrBucketNotFound, jetstream.ErrStreamNotFound, jetstream.ErrJetStreamNotEnabled,
		jetstream.ErrJetStreamNotEnabledForAccount, nats.ErrNoResponders,
	} {
		if errors.Is(err, missing) {
			return fmt.Errorf("bind to %s: %w: %w", what, ErrNoQueue, err)
		}
	}
	return fmt.Errorf("bind to %s: %w", what, err)
}
