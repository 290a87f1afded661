-- Jobs: what was asked for and where it stands. Everything here is the truth
-- about a job; the queue only carries it to a worker.

-- +goose Up

-- +goose StatementBegin
-- airlock_id_floor is the smallest UUIDv7 of a millisecond: the bound of a
-- partition, and where a search by time starts.
CREATE FUNCTION airlock_id_floor(at timestamptz)
    RETURNS uuid
    LANGUAGE sql
    IMMUTABLE
    PARALLEL SAFE
AS $$
    SELECT (lpad(to_hex(floor(extract(EPOCH FROM at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;
-- +goose StatementEnd

CREATE TABLE jobs (
    id uuid NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    batch text COLLATE "C",
    key bytea,
    labels jsonb NOT NULL DEFAULT '{}',
    spec bytea NOT NULL,
    content_digest bytea NOT NULL,
    lane text COLLATE "C" NOT NULL,
    priority text COLLATE "C" NOT NULL,
    max_attempts integer NOT NULL,
    not_before timestamptz,
    deadline timestamptz,
    queued_at timestamptz NOT NULL,
    state text COLLATE "C" NOT NULL,
    status text COLLATE "C",
    generation integer NOT NULL,
    publish_due timestamptz,
    attempt integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    deaths integer NOT NULL DEFAULT 0,
    worker text,
    lease_until timestamptz,
    cancel_requested boolean NOT NULL DEFAULT false,
    ended_at timestamptz,
    ended_by integer,
    CONSTRAINT jobs_pkey PRIMARY KEY (id),
    CONSTRAINT jobs_tenant CHECK (tenant ~ '^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$'),
    CONSTRAINT jobs_batch CHECK (batch ~ '^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$'),
    CONSTRAINT jobs_key CHECK (octet_length(key) BETWEEN 1 AND 256),
    CONSTRAINT jobs_spec CHECK (octet_length(spec) BETWEEN 2 AND 16777216),
    CONSTRAINT jobs_digest CHECK (octet_length(content_digest) = 32),
    CONSTRAINT jobs_lane CHECK (octet_length(lane) BETWEEN 1 AND 64),
    CONSTRAINT jobs_priority CHECK (priority IN ('high', 'normal', 'low')),
    CONSTRAINT jobs_state CHECK (state IN ('queued', 'running', 'retry_wait', 'finished', 'dead')),
    CONSTRAINT jobs_status CHECK (status IN (
        'ok', 'guest_error', 'no_result', 'timeout', 'cpu_limit', 'memory_limit', 'output_limit', 'process_limit',
        'disk_limit', 'tool_limit', 'result_limit', 'policy_violation', 'cancelled', 'expired', 'infra_error')),
    CONSTRAINT jobs_counts CHECK (
        generation >= 1 AND attempt >= 0 AND failures >= 0 AND deaths >= 0 AND max_attempts BETWEEN 1 AND 100),
    CONSTRAINT jobs_worker CHECK (octet_length(worker) <= 512),
    CONSTRAINT jobs_running CHECK ((state = 'running') = (lease_until IS NOT NULL)),
    CONSTRAINT jobs_retry_wait CHECK (state <> 'retry_wait' OR not_before IS NOT NULL),
    CONSTRAINT jobs_ended CHECK (
        (state IN ('finished', 'dead')) = (status IS NOT NULL)
        AND (status IS NULL) = (ended_at IS NULL)
        AND (status IS NULL) = (ended_by IS NULL)),
    CONSTRAINT jobs_dead CHECK ((state = 'dead') = (status IS NOT DISTINCT FROM 'infra_error'))
) PARTITION BY RANGE (id);

COMMENT ON TABLE jobs IS 'One row a job. Partitioned by the time in the id, one month each.';
COMMENT ON COLUMN jobs.key IS 'The idempotency key as the submitter gave it.';
COMMENT ON COLUMN jobs.spec IS 'The job as canonical JSON; code may hold what text columns cannot.';
COMMENT ON COLUMN jobs.content_digest IS 'SHA-256 of all that decides what runs; the same id with another digest is a fault.';
COMMENT ON COLUMN jobs.not_before IS 'Earliest start: the submitter''s, then that of the next retry.';
COMMENT ON COLUMN jobs.generation IS 'Counts how often the job was put into the queue anew; deliveries of older generations are void.';
COMMENT ON COLUMN jobs.publish_due IS 'Set while this generation is not known to be in the queue: when to publish it again.';
COMMENT ON COLUMN jobs.attempt IS 'Number of the newest attempt: the fencing token.';
COMMENT ON COLUMN jobs.failures IS 'Attempts that failed by our fault since the last requeue; max_attempts of them make the job dead.';
COMMENT ON COLUMN jobs.deaths IS 'Attempts whose worker vanished since the last requeue; three of them make the job dead.';
COMMENT ON COLUMN jobs.worker IS 'Who holds the lease, or held it last.';
COMMENT ON COLUMN jobs.ended_by IS 'Number of the row in attempts that holds the result; 0 when no attempt made it.';

CREATE INDEX jobs_by_tenant ON jobs (tenant, id);
COMMENT ON INDEX jobs_by_tenant IS 'History without a filter: newest jobs of a tenant.';

CREATE INDEX jobs_by_batch ON jobs (tenant, batch, id) WHERE batch IS NOT NULL;
COMMENT ON INDEX jobs_by_batch IS 'Batch, BatchResults, CancelBatch and History of one batch.';

CREATE INDEX jobs_by_status ON jobs (tenant, status, id) WHERE status IS NOT NULL;
COMMENT ON INDEX jobs_by_status IS 'History of one status, and Dead.';

CREATE INDEX jobs_running ON jobs (id) WHERE state = 'running';
COMMENT ON INDEX jobs_running IS
    'TakeDue: running jobs, whose leases are few enough to read. The lease is not in it, so that a heartbeat changes no index.';

CREATE INDEX jobs_waiting ON jobs (not_before) WHERE state = 'retry_wait';
COMMENT ON INDEX jobs_waiting IS 'TakeDue: jobs whose next try is due.';

CREATE INDEX jobs_unpublished ON jobs (publish_due) WHERE publish_due IS NOT NULL;
COMMENT ON INDEX jobs_unpublished IS 'TakeDue: jobs that may not have reached the queue.';

CREATE INDEX jobs_by_deadline ON jobs (deadline) WHERE deadline IS NOT NULL AND state IN ('queued', 'retry_wait');
COMMENT ON INDEX jobs_by_deadline IS 'ExpireOverdue: waiting jobs whose deadline has passed.';

CREATE TABLE job_keys (
    tenant text COLLATE "C" NOT NULL,
    key_digest bytea NOT NULL,
    job uuid NOT NULL REFERENCES jobs (id),
    content_digest bytea NOT NULL,
    CONSTRAINT job_keys_pkey PRIMARY KEY (tenant, key_digest),
    CONSTRAINT job_keys_digests CHECK (octet_length(key_digest) = 32 AND octet_length(content_digest) = 32)
);
COMMENT ON TABLE job_keys IS 'Which job an idempotency key belongs to. Not partitioned, because a key is unique over all time.';

CREATE INDEX job_keys_by_job ON job_keys (job);
COMMENT ON INDEX job_keys_by_job IS 'Retention: the keys of a month that is dropped.';

CREATE TABLE announcements (
    job uuid NOT NULL,
    ended_at timestamptz NOT NULL,
    CONSTRAINT announcements_pkey PRIMARY KEY (job)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
COMMENT ON TABLE announcements IS
    'Jobs that have ended and whose result is not known to be published. Rows live for milliseconds, so jobs need no flag.';

CREATE TABLE workers (
    id text COLLATE "C" NOT NULL,
    host text NOT NULL,
    version text NOT NULL,
    slots integer NOT NULL,
    draining boolean NOT NULL DEFAULT false,
    labels jsonb NOT NULL DEFAULT '{}',
    offers jsonb NOT NULL DEFAULT '[]',
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    CONSTRAINT workers_pkey PRIMARY KEY (id),
    CONSTRAINT workers_sizes CHECK (octet_length(id) <= 512 AND octet_length(host) <= 512 AND slots >= 0)
);
COMMENT ON TABLE workers IS 'Every worker that ever joined, as it last described itself.';
