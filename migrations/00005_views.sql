-- Views: what analysts ask. They show bytes as text that any client can
-- display, and leave the bytes themselves to the tables.

-- +goose Up

-- +goose StatementBegin
-- airlock_text shows bytes as text: as they are where they are UTF-8, else
-- escaped. It never fails, so that one hostile row cannot spoil a query.
CREATE FUNCTION airlock_text(raw bytea)
    RETURNS text
    LANGUAGE plpgsql
    IMMUTABLE
    STRICT
AS $$
BEGIN
    RETURN convert_from(raw, 'UTF8');
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN encode(raw, 'escape');
END
$$;
-- +goose StatementEnd

CREATE VIEW job_results AS
SELECT
    j.id AS job,
    j.tenant,
    j.batch,
    airlock_text(j.key) AS key,
    j.labels,
    j.lane,
    j.priority,
    j.state,
    j.status,
    airlock_text(a.value) AS value,
    a.value_json,
    a.lossy,
    airlock_text(a.error_type) AS error_type,
    airlock_text(a.error_message) AS error_message,
    airlock_text(a.error_traceback) AS error_traceback,
    airlock_text(a.stdout) AS stdout,
    a.stdout_bytes,
    a.stdout_truncated,
    airlock_text(a.stderr) AS stderr,
    a.stderr_bytes,
    a.stderr_truncated,
    a.exit_code,
    a.signal,
    a.tool_calls,
    (a.usage ->> 'wall')::double precision AS wall_seconds,
    (a.usage ->> 'cpu')::double precision AS cpu_seconds,
    (a.usage ->> 'tool_wait')::double precision AS tool_wait_seconds,
    (a.usage ->> 'queue_wait')::double precision AS queue_wait_seconds,
    (a.usage ->> 'startup')::double precision AS startup_seconds,
    (a.usage ->> 'peak_memory')::bigint AS peak_memory_bytes,
    (a.usage ->> 'peak_processes')::integer AS peak_processes,
    a.facts_json AS facts,
    a.audit_head,
    j.attempt AS attempts,
    a.number AS attempt,
    a.worker,
    a.backend,
    j.queued_at,
    a.started_at,
    j.ended_at,
    j.ended_at - j.queued_at AS turnaround
FROM jobs j
LEFT JOIN attempts a ON a.job = j.id AND a.number = j.ended_by;

COMMENT ON VIEW job_results IS 'One row a job, with its result once it has ended.';

CREATE VIEW job_attempts AS
SELECT
    a.job,
    j.tenant,
    j.batch,
    a.number AS attempt,
    a.generation,
    a.worker,
    a.backend,
    a.outcome,
    a.status,
    airlock_text(a.error_type) AS error_type,
    airlock_text(a.error_message) AS error_message,
    a.tool_calls,
    a.started_at,
    a.ended_at,
    a.ended_at - a.started_at AS duration
FROM attempts a
JOIN jobs j ON j.id = a.job;

COMMENT ON VIEW job_attempts IS 'One row a try: which worker and backend, and what came of it.';

CREATE VIEW tool_call_history AS
SELECT
    c.job,
    j.tenant,
    j.batch,
    c.attempt,
    c.seq,
    c.namespace,
    c.name,
    c.state,
    airlock_text(c.arguments) AS arguments,
    c.arguments_json,
    airlock_text(c.answer) AS answer,
    c.answer_json,
    c.code,
    airlock_text(c.message) AS message,
    airlock_text(c.detail) AS detail,
    c.provider,
    c.started_at,
    c.ended_at,
    c.ended_at - c.started_at AS duration
FROM tool_calls c
JOIN jobs j ON j.id = c.job;

COMMENT ON VIEW tool_call_history IS 'One row a use of a tool, refusals included.';

-- +goose StatementBegin
-- Views that run with the asker's rights exist since server 15.
DO $$
DECLARE
    name text;
BEGIN
    IF current_setting('server_version_num')::integer >= 150000 THEN
        FOREACH name IN ARRAY ARRAY['job_results', 'job_attempts', 'tool_call_history'] LOOP
            EXECUTE format('ALTER VIEW %I SET (security_invoker = true)', name);
        END LOOP;
    END IF;
END
$$;
-- +goose StatementEnd
