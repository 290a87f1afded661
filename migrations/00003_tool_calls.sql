-- Tool calls: the audit. A row appears before its call leaves the worker and
-- changes once, when the call ends.

-- +goose Up

CREATE TABLE tool_calls (
    job uuid NOT NULL,
    attempt integer NOT NULL,
    seq integer NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    arguments bytea,
    arguments_json jsonb,
    state text COLLATE "C" NOT NULL,
    answer bytea,
    answer_json jsonb,
    code text COLLATE "C",
    message bytea,
    detail bytea,
    started_at timestamptz NOT NULL,
    ended_at timestamptz,
    provider text,
    schema_digest text,
    start_link integer,
    start_hash bytea,
    end_link integer,
    end_hash bytea,
    CONSTRAINT tool_calls_pkey PRIMARY KEY (job, attempt, seq),
    CONSTRAINT tool_calls_attempt FOREIGN KEY (job, attempt) REFERENCES attempts (job, number),
    CONSTRAINT tool_calls_numbers CHECK (attempt >= 1 AND seq >= 1),
    CONSTRAINT tool_calls_state CHECK (state IN ('started', 'ok', 'failed', 'refused', 'cancelled', 'late', 'replayed')),
    CONSTRAINT tool_calls_ended CHECK ((state = 'started') = (ended_at IS NULL)),
    CONSTRAINT tool_calls_names CHECK (octet_length(namespace) <= 4096 AND octet_length(name) <= 4096),
    CONSTRAINT tool_calls_sizes CHECK (
        octet_length(arguments) <= 16777216
        AND octet_length(answer) <= 16777216
        AND octet_length(message) <= 16777216
        AND octet_length(detail) <= 16777216),
    CONSTRAINT tool_calls_hashes CHECK (octet_length(start_hash) <= 64 AND octet_length(end_hash) <= 64)
) PARTITION BY RANGE (job);

COMMENT ON TABLE tool_calls IS 'Every use of a tool by a guest, refusals included.';
COMMENT ON COLUMN tool_calls.arguments IS 'JSON text as the guest sent it; arguments_json for querying, NULL where jsonb cannot hold it.';
COMMENT ON COLUMN tool_calls.answer IS 'JSON text as the provider sent it; answer_json for querying.';
COMMENT ON COLUMN tool_calls.detail IS 'For operators; the guest never saw it.';
COMMENT ON COLUMN tool_calls.start_hash IS 'The start''s link in the attempt''s hash chain; end_hash is the end''s.';

CREATE TRIGGER tool_calls_end_once
    BEFORE UPDATE ON tool_calls
    FOR EACH ROW
    WHEN (NOT (OLD.state = 'started' OR (OLD.state = 'cancelled' AND NEW.state = 'late'))
        OR (NEW.job, NEW.attempt, NEW.seq, NEW.namespace, NEW.name, NEW.arguments, NEW.started_at, NEW.start_link, NEW.start_hash)
            IS DISTINCT FROM
           (OLD.job, OLD.attempt, OLD.seq, OLD.namespace, OLD.name, OLD.arguments, OLD.started_at, OLD.start_link, OLD.start_hash))
    EXECUTE FUNCTION airlock_refuse_change();

CREATE TRIGGER tool_calls_keep
    BEFORE DELETE ON tool_calls
    FOR EACH ROW
    EXECUTE FUNCTION airlock_refuse_change();
