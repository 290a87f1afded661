-- Roles: airlock_worker for the processes, airlock_analyst for people with
-- SQL. Both have no login; grant them to one. Where the migrating role may not
-- create roles, they are left out with a notice and everything else works.

-- +goose Up

-- +goose StatementBegin
DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['airlock_worker', 'airlock_analyst'] LOOP
        CONTINUE WHEN EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = wanted);
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
        EXCEPTION
            -- Roles are the server's, not the database's: another database
            -- may be migrated at this moment.
            WHEN duplicate_object OR unique_violation THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'role % is not created: % may not', wanted, current_user;
        END;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- A fixed list of statements, each run only if its role exists.
DO $$
DECLARE
    statement text;
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'airlock_worker') THEN
        FOREACH statement IN ARRAY ARRAY[
            'GRANT SELECT, INSERT ON jobs, attempts, tool_calls, job_keys TO airlock_worker',
            'GRANT UPDATE (not_before, state, status, generation, publish_due, attempt, failures, deaths, worker,
                lease_until, cancel_requested, ended_at, ended_by) ON jobs TO airlock_worker',
            'GRANT UPDATE (outcome, ended_at, status, value, value_json, lossy, error_type, error_message,
                error_traceback, stdout, stdout_bytes, stdout_truncated, stderr, stderr_bytes, stderr_truncated,
                exit_code, signal, tool_calls, usage, facts, facts_json, audit_head) ON attempts TO airlock_worker',
            'GRANT UPDATE (state, answer, answer_json, code, message, detail, ended_at, provider, schema_digest,
                end_link, end_hash) ON tool_calls TO airlock_worker',
            'GRANT UPDATE (job) ON job_keys TO airlock_worker',
            'GRANT SELECT, INSERT, UPDATE, DELETE ON announcements, workers TO airlock_worker',
            'GRANT SELECT ON goose_db_version TO airlock_worker',
            'GRANT EXECUTE ON FUNCTION airlock_add_month(timestamptz) TO airlock_worker']
        LOOP
            EXECUTE statement;
        END LOOP;
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'airlock_analyst') THEN
        GRANT SELECT ON jobs, attempts, tool_calls, workers, job_results, job_attempts, tool_call_history
            TO airlock_analyst;
    END IF;
END
$$;
-- +goose StatementEnd
