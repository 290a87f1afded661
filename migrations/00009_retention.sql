-- Retention: whole months of history that are older than what is kept are
-- dropped, all their tables at once.

-- +goose Up

-- What is kept. The row is the owner's: workers act on it and cannot change it.
CREATE TABLE retention (
    one boolean NOT NULL DEFAULT true,
    at_least interval NOT NULL DEFAULT '1 day',
    refused_before timestamptz,
    CONSTRAINT retention_pkey PRIMARY KEY (one),
    CONSTRAINT retention_one CHECK (one),
    CONSTRAINT retention_at_least CHECK (at_least >= interval '1 day')
);
INSERT INTO retention DEFAULT VALUES;
COMMENT ON TABLE retention IS 'One row: how much of the history no worker may drop, and what was dropped.';
COMMENT ON COLUMN retention.at_least IS
    'Younger history is never dropped, whatever a worker asks for. Set it as the owner, such as to 90 days.';
COMMENT ON COLUMN retention.refused_before IS
    'Unknown jobs whose id is older are refused: they were dropped, and a message of theirs must not run them again.';

-- +goose StatementBegin
-- airlock_parents are the tables that are partitioned by month, each behind
-- those that it refers to, with the column of the job and the references. A
-- migration that adds one replaces this function.
CREATE FUNCTION airlock_parents(OUT parent text, OUT key text, OUT refers text, OUT filled integer)
    RETURNS SETOF record
    LANGUAGE sql
    IMMUTABLE
AS $$
    VALUES
        ('jobs', 'id', NULL, 70),
        ('attempts', 'job', 'FOREIGN KEY (job) REFERENCES jobs_%s (id)', 80),
        ('tool_calls', 'job', 'FOREIGN KEY (job, attempt) REFERENCES attempts_%s (job, number)', 80),
        ('artifacts', 'job', 'FOREIGN KEY (job, attempt) REFERENCES attempts_%s (job, number)', 100)
$$;
-- +goose StatementEnd

-- Rows of one month refer to rows of the same month only, so that the foreign
-- keys are those of its tables. Between the whole tables, the server would hold
-- the rest of the history against a month before it lets go of it, with claims
-- shut out meanwhile.
ALTER TABLE tool_calls DROP CONSTRAINT tool_calls_attempt;
ALTER TABLE artifacts DROP CONSTRAINT artifacts_attempt;
ALTER TABLE attempts DROP CONSTRAINT attempts_job_fkey;
ALTER TABLE job_keys DROP CONSTRAINT job_keys_job_fkey;

-- +goose StatementBegin
-- NOT VALID, because what is there was held to the same until a moment ago;
-- reading all of it again would take minutes.
DO $$
DECLARE
    suffix text;
    p record;
BEGIN
    FOR suffix IN
        SELECT substr(c.relname, length('jobs_') + 1)
        FROM pg_inherits i
        JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'jobs'::regclass
    LOOP
        FOR p IN SELECT parent, refers FROM airlock_parents() WHERE refers IS NOT NULL LOOP
            EXECUTE format('ALTER TABLE %I ADD CONSTRAINT %I %s NOT VALID',
                p.parent || '_' || suffix, p.parent || '_' || suffix || '_of', format(p.refers, suffix));
        END LOOP;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- A key's job must be there when the key is written. Only retention removes
-- jobs, after their keys.
CREATE FUNCTION airlock_check_key()
    RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM jobs WHERE id = NEW.job;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job % of a key does not exist', NEW.job USING ERRCODE = 'foreign_key_violation';
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER job_keys_insert AFTER INSERT ON job_keys
    FOR EACH ROW
    EXECUTE FUNCTION airlock_check_key();
CREATE TRIGGER job_keys_update AFTER UPDATE OF job ON job_keys
    FOR EACH ROW
    WHEN (OLD.job IS DISTINCT FROM NEW.job)
    EXECUTE FUNCTION airlock_check_key();

-- +goose StatementBegin
-- As before, but the owner's functions for retention may delete.
CREATE OR REPLACE FUNCTION airlock_refuse_change()
    RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('airlock.retiring', true) = 'on' AND (
        SELECT c.relowner = r.oid
        FROM pg_catalog.pg_class c, pg_catalog.pg_roles r
        WHERE c.oid = TG_RELID AND r.rolname = current_user)
    THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% of % is refused: it is part of the audit', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- airlock_refuse_retired keeps a job from coming back that was dropped: it
-- would run a second time. The month of such a job has no partition, so that
-- this costs the others nothing.
CREATE FUNCTION airlock_refuse_retired()
    RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    IF EXISTS (SELECT FROM retention WHERE NEW.id < airlock_id_floor(refused_before))
        AND NOT EXISTS (SELECT FROM jobs WHERE id = NEW.id)
    THEN
        RAISE EXCEPTION 'job % is older than the history that is kept', NEW.id USING ERRCODE = 'AL001';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER jobs_refuse_retired
    BEFORE INSERT ON jobs_default
    FOR EACH ROW
    EXECUTE FUNCTION airlock_refuse_retired();

-- +goose StatementBegin
-- airlock_add_month makes the tables of the month that holds the given time,
-- unless they exist, and moves rows of it there that are in the default
-- partitions. It returns whether it made any. It gives up with
-- lock_not_available rather than let claims wait behind it.
CREATE OR REPLACE FUNCTION airlock_add_month(at timestamptz)
    RETURNS boolean
    LANGUAGE plpgsql
    SECURITY DEFINER
    SET lock_timeout = '100ms'
AS $$
DECLARE
    first timestamptz := date_trunc('month', at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
    past timestamptz := (date_trunc('month', at AT TIME ZONE 'UTC') + interval '1 month') AT TIME ZONE 'UTC';
    suffix text := to_char(at AT TIME ZONE 'UTC', 'YYYY_MM');
    within text := format('%%1$I >= %L AND %%1$I < %L', airlock_id_floor(first), airlock_id_floor(past));
    p record;
BEGIN
    IF to_regclass(format('%I', 'jobs_' || suffix)) IS NOT NULL THEN
        RETURN false;
    END IF;
    -- Two workers may notice a new month at the same moment.
    PERFORM pg_advisory_xact_lock(4801, 1);
    IF to_regclass(format('%I', 'jobs_' || suffix)) IS NOT NULL THEN
        RETURN false;
    END IF;
    FOR p IN SELECT parent FROM airlock_parents() LOOP
        EXECUTE format('LOCK TABLE ONLY %I IN SHARE UPDATE EXCLUSIVE MODE', p.parent);
        EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', p.parent || '_default');
    END LOOP;
    FOR p IN SELECT * FROM airlock_parents() LOOP
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL EXCLUDING INDEXES EXCLUDING COMMENTS) WITH (fillfactor = %s)',
            p.parent || '_' || suffix, p.parent, p.filled);
        EXECUTE format('INSERT INTO %I SELECT * FROM %I WHERE ', p.parent || '_' || suffix, p.parent || '_default')
            || format(within, p.key);
    END LOOP;
    PERFORM set_config('airlock.retiring', 'on', true);
    FOR p IN SELECT * FROM airlock_parents() WITH ORDINALITY AS o ORDER BY o.ordinality DESC LOOP
        EXECUTE format('DELETE FROM %I WHERE ', p.parent || '_default') || format(within, p.key);
    END LOOP;
    PERFORM set_config('airlock.retiring', 'off', true);
    FOR p IN SELECT * FROM airlock_parents() LOOP
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
            p.parent, p.parent || '_' || suffix, airlock_id_floor(first), airlock_id_floor(past));
        IF p.refers IS NOT NULL THEN
            EXECUTE format('ALTER TABLE %I ADD CONSTRAINT %I %s',
                p.parent || '_' || suffix, p.parent || '_' || suffix || '_of', format(p.refers, suffix));
        END IF;
    END LOOP;
    RETURN true;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- airlock_check_cutoff refuses to forget what the owner wants kept.
CREATE FUNCTION airlock_check_cutoff(cutoff timestamptz)
    RETURNS void
    LANGUAGE plpgsql
AS $$
BEGIN
    IF cutoff IS NULL OR EXISTS (SELECT FROM retention WHERE cutoff > now() - at_least) THEN
        RAISE EXCEPTION 'history since % is to be kept: see retention.at_least', cutoff
            USING ERRCODE = 'insufficient_privilege';
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- airlock_forget_keys deletes up to most idempotency keys of the month that
-- holds at, before the month itself is dropped, and returns how many.
CREATE FUNCTION airlock_forget_keys(at timestamptz, cutoff timestamptz, most integer)
    RETURNS integer
    LANGUAGE plpgsql
    SECURITY DEFINER
AS $$
DECLARE
    first timestamptz := date_trunc('month', at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
    past timestamptz := (date_trunc('month', at AT TIME ZONE 'UTC') + interval '1 month') AT TIME ZONE 'UTC';
    deleted integer;
BEGIN
    PERFORM airlock_check_cutoff(greatest(cutoff, past));
    DELETE FROM job_keys
    WHERE (tenant, key_digest) IN (
        SELECT tenant, key_digest
        FROM job_keys
        WHERE job >= airlock_id_floor(first) AND job < airlock_id_floor(past)
        LIMIT most);
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- airlock_drop_month drops the tables of the month that holds at, if all of it
-- lies before the cutoff and all its jobs ended before it. Else kept says why
-- not: gone, open, recent, or keys where there are so many of them that
-- airlock_forget_keys must go first. jobs, dead and bytes are what the month
-- holds. It gives up with lock_not_available rather than let claims wait behind
-- it.
CREATE FUNCTION airlock_drop_month(
    at timestamptz, cutoff timestamptz, OUT kept text, OUT jobs bigint, OUT dead bigint, OUT bytes bigint)
    LANGUAGE plpgsql
    SECURITY DEFINER
    SET lock_timeout = '100ms'
AS $$
DECLARE
    first timestamptz := date_trunc('month', at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
    past timestamptz := (date_trunc('month', at AT TIME ZONE 'UTC') + interval '1 month') AT TIME ZONE 'UTC';
    suffix text := to_char(at AT TIME ZONE 'UTC', 'YYYY_MM');
    month text := format('%I', 'jobs_' || to_char(at AT TIME ZONE 'UTC', 'YYYY_MM'));
    still bigint;
    latest timestamptz;
    reopened boolean;
    p record;
BEGIN
    PERFORM airlock_check_cutoff(cutoff);
    kept := 'gone'; jobs := 0; dead := 0; bytes := 0;
    IF to_regclass(month) IS NULL THEN
        RETURN;
    END IF;
    -- The long look comes before any lock that others would notice, and reads
    -- the table as it lies.
    PERFORM set_config('enable_seqscan', 'on', true);
    EXECUTE format('SELECT count(*), count(*) FILTER (WHERE state = ''dead''), count(*) FILTER (WHERE ended_at IS NULL),
        max(ended_at) FROM %s', month) INTO jobs, dead, still, latest;
    kept := CASE WHEN still > 0 THEN 'open' WHEN latest >= cutoff OR past > cutoff THEN 'recent' END;
    IF kept IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM FROM job_keys WHERE job >= airlock_id_floor(first) AND job < airlock_id_floor(past) OFFSET 10000 LIMIT 1;
    IF FOUND THEN
        kept := 'keys';
        RETURN;
    END IF;
    DELETE FROM job_keys WHERE job >= airlock_id_floor(first) AND job < airlock_id_floor(past);
    DELETE FROM announcements WHERE job >= airlock_id_floor(first) AND job < airlock_id_floor(past);

    PERFORM pg_advisory_xact_lock(4801, 1);
    FOR p IN SELECT parent FROM airlock_parents() LOOP
        EXECUTE format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE', p.parent);
    END LOOP;
    -- A dead job may have been requeued since. The partial indexes answer this
    -- at once.
    PERFORM set_config('enable_seqscan', 'off', true);
    EXECUTE format('SELECT EXISTS (SELECT FROM %1$s WHERE state = ''running'')
        OR EXISTS (SELECT FROM %1$s WHERE state = ''retry_wait'')
        OR EXISTS (SELECT FROM %1$s WHERE state = ''queued'' AND publish_due IS NULL)
        OR EXISTS (SELECT FROM %1$s WHERE publish_due IS NOT NULL)', month) INTO reopened;
    IF reopened OR EXISTS (SELECT FROM announcements WHERE job >= airlock_id_floor(first) AND job < airlock_id_floor(past)) THEN
        RAISE EXCEPTION 'a job of % was requeued just now', month USING ERRCODE = 'lock_not_available';
    END IF;
    UPDATE retention SET refused_before = greatest(refused_before, past);
    FOR p IN SELECT parent FROM airlock_parents() WITH ORDINALITY AS o ORDER BY o.ordinality DESC LOOP
        bytes := bytes + pg_total_relation_size(to_regclass(format('%I', p.parent || '_' || suffix)));
        EXECUTE format('DROP TABLE %I', p.parent || '_' || suffix);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- airlock_drop_strays deletes up to most jobs of the default partition that are
-- older than the cutoff and ended before it, with all that is theirs, and
-- returns how many.
CREATE FUNCTION airlock_drop_strays(cutoff timestamptz, most integer)
    RETURNS integer
    LANGUAGE plpgsql
    SECURITY DEFINER
AS $$
DECLARE
    gone uuid[];
    p record;
BEGIN
    PERFORM airlock_check_cutoff(cutoff);
    SELECT array_agg(id) INTO gone FROM (
        SELECT id
        FROM jobs_default
        WHERE id < airlock_id_floor(cutoff) AND ended_at < cutoff
        ORDER BY id
        LIMIT most
        FOR UPDATE SKIP LOCKED) AS old;
    IF gone IS NULL THEN
        RETURN 0;
    END IF;
    UPDATE retention SET refused_before = greatest(refused_before, cutoff);
    DELETE FROM job_keys WHERE job = ANY (gone);
    DELETE FROM announcements WHERE job = ANY (gone);
    PERFORM set_config('airlock.retiring', 'on', true);
    FOR p IN SELECT parent, key FROM airlock_parents() WITH ORDINALITY AS o ORDER BY o.ordinality DESC LOOP
        EXECUTE format('DELETE FROM %I WHERE %I = ANY ($1)', p.parent || '_default', p.key) USING gone;
    END LOOP;
    PERFORM set_config('airlock.retiring', 'off', true);
    RETURN cardinality(gone);
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Functions that run with their owner's rights must not be led to other tables
-- by their caller's search_path, and are for workers only.
DO $$
DECLARE
    signature text;
BEGIN
    FOREACH signature IN ARRAY ARRAY[
        'airlock_add_month(timestamptz)', 'airlock_forget_keys(timestamptz, timestamptz, integer)',
        'airlock_drop_month(timestamptz, timestamptz)', 'airlock_drop_strays(timestamptz, integer)']
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', signature, current_schema());
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', signature);
        IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'airlock_worker') THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO airlock_worker', signature);
        END IF;
    END LOOP;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'airlock_worker') THEN
        GRANT SELECT ON retention TO airlock_worker;
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'airlock_analyst') THEN
        GRANT SELECT ON retention TO airlock_analyst;
    END IF;
END
$$;
-- +goose StatementEnd

COMMENT ON INDEX jobs_pkey IS 'Claim, Finish, Heartbeat and Job: one job; and what of a job has a parent.';
COMMENT ON INDEX attempts_pkey IS 'Job, Result, History and Attempts: the tries of a job; job_results and job_attempts.';
COMMENT ON INDEX tool_calls_pkey IS 'CallStarted, CallEnded and Calls: the calls of a job; tool_call_history.';
COMMENT ON INDEX artifacts_pkey IS 'Artifact: a file of a result; job_artifacts.';
COMMENT ON INDEX job_keys_pkey IS 'Claim and RecordQueued: whose a key is.';
COMMENT ON INDEX announcements_pkey IS 'Announced, and Requeue: whether a result was told; Unannounced reads the few rows whole.';
COMMENT ON INDEX workers_pkey IS 'WorkerSeen; Sweep reads the few rows whole.';
COMMENT ON INDEX retention_pkey IS 'Keeps it one row.';
COMMENT ON INDEX jobs_by_tenant IS 'History without a filter: newest jobs of a tenant, and those since a time; job_results of a tenant.';
COMMENT ON INDEX job_keys_by_job IS 'airlock_forget_keys and airlock_drop_month: the keys of a month that is dropped.';
