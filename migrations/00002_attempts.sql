-- Attempts: each try at a job and what came of it.

-- +goose Up

CREATE TABLE attempts (
    job uuid NOT NULL REFERENCES jobs (id),
    number integer NOT NULL,
    generation integer NOT NULL,
    worker text NOT NULL,
    backend text NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at timestamptz,
    status text COLLATE "C",
    value bytea,
    value_json jsonb,
    lossy boolean NOT NULL DEFAULT false,
    error_type bytea,
    error_message bytea,
    error_traceback bytea,
    stdout bytea,
    stdout_bytes bigint NOT NULL DEFAULT 0,
    stdout_truncated boolean NOT NULL DEFAULT false,
    stderr bytea,
    stderr_bytes bigint NOT NULL DEFAULT 0,
    stderr_truncated boolean NOT NULL DEFAULT false,
    exit_code bigint,
    signal text,
    tool_calls integer NOT NULL DEFAULT 0,
    usage jsonb,
    facts bytea,
    facts_json jsonb,
    audit_head text,
    CONSTRAINT attempts_pkey PRIMARY KEY (job, number),
    CONSTRAINT attempts_number CHECK (number >= 0 AND generation >= 1),
    CONSTRAINT attempts_outcome CHECK (outcome IN ('running', 'finished', 'failed', 'released', 'lost')),
    CONSTRAINT attempts_ended CHECK ((outcome = 'running') = (ended_at IS NULL)),
    CONSTRAINT attempts_result CHECK ((outcome IN ('running', 'released')) = (status IS NULL)),
    CONSTRAINT attempts_status CHECK (status IN (
        'ok', 'guest_error', 'no_result', 'timeout', 'cpu_limit', 'memory_limit', 'output_limit', 'process_limit',
        'disk_limit', 'tool_limit', 'result_limit', 'policy_violation', 'cancelled', 'expired', 'infra_error')),
    CONSTRAINT attempts_names CHECK (octet_length(worker) <= 512 AND octet_length(backend) <= 64),
    CONSTRAINT attempts_sizes CHECK (
        octet_length(value) <= 8388608
        AND octet_length(stdout) <= 33554432
        AND octet_length(stderr) <= 33554432
        AND octet_length(error_type) + octet_length(error_message) + octet_length(error_traceback) <= 16777216
        AND octet_length(facts) <= 16777216),
    CONSTRAINT attempts_counts CHECK (stdout_bytes >= 0 AND stderr_bytes >= 0 AND tool_calls >= 0)
) PARTITION BY RANGE (job);

COMMENT ON TABLE attempts IS 'One row a try. Number 0 is an end that no attempt made: cancelled or expired while waiting.';
COMMENT ON COLUMN attempts.outcome IS
    'running; finished: this try made the job''s result; failed: our failure, to be retried; released: given back; lost: its worker vanished.';
COMMENT ON COLUMN attempts.value IS 'What the guest returned, as the JSON text it sent.';
COMMENT ON COLUMN attempts.value_json IS 'The same for querying; NULL where jsonb cannot hold it (a NUL character, for one).';
COMMENT ON COLUMN attempts.stdout IS 'What was kept, byte for byte; stdout_bytes counts all that was written.';
COMMENT ON COLUMN attempts.usage IS 'Seconds and bytes as the host measured them.';
COMMENT ON COLUMN attempts.facts IS 'Events, isolation, artifacts and verdict as JSON text; facts_json for querying.';
COMMENT ON COLUMN attempts.audit_head IS 'Head of this attempt''s hash chain over tool_calls, in hex.';

-- +goose StatementBegin
CREATE FUNCTION airlock_refuse_change()
    RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: it is part of the audit', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END
$$;
-- +goose StatementEnd

-- The condition is the trigger's own, so that a lawful update calls nothing.
CREATE TRIGGER attempts_end_once
    BEFORE UPDATE ON attempts
    FOR EACH ROW
    WHEN (OLD.outcome <> 'running'
        OR (NEW.job, NEW.number, NEW.generation, NEW.worker, NEW.backend, NEW.started_at)
            IS DISTINCT FROM (OLD.job, OLD.number, OLD.generation, OLD.worker, OLD.backend, OLD.started_at))
    EXECUTE FUNCTION airlock_refuse_change();

CREATE TRIGGER attempts_keep
    BEFORE DELETE ON attempts
    FOR EACH ROW
    EXECUTE FUNCTION airlock_refuse_change();
