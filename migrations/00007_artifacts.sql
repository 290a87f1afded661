-- Artifacts: the files that guests brought back. What was not kept, and why,
-- is in the facts of the attempt, in the order in which the guest named it.

-- +goose Up

CREATE TABLE artifacts (
    job uuid NOT NULL,
    attempt integer NOT NULL,
    path text COLLATE "C" NOT NULL,
    content bytea NOT NULL,
    sha256 bytea NOT NULL,
    CONSTRAINT artifacts_pkey PRIMARY KEY (job, attempt, path),
    CONSTRAINT artifacts_attempt FOREIGN KEY (job, attempt) REFERENCES attempts (job, number),
    CONSTRAINT artifacts_path CHECK (octet_length(path) BETWEEN 1 AND 512 AND path !~ '^/|(^|/)\.\.?(/|$)|//|/$|\\'),
    CONSTRAINT artifacts_content CHECK (octet_length(content) <= 16777216),
    CONSTRAINT artifacts_sha256 CHECK (octet_length(sha256) = 32)
) PARTITION BY RANGE (job);

COMMENT ON TABLE artifacts IS 'Files that guests brought back, byte for byte. They are the guests'': run, load or render none.';
COMMENT ON COLUMN artifacts.path IS 'Relative to /workspace, with forward slashes, printable, and never climbing.';

CREATE TRIGGER artifacts_never_change
    BEFORE UPDATE OR DELETE ON artifacts
    FOR EACH ROW
    EXECUTE FUNCTION airlock_refuse_change();

CREATE TABLE artifacts_default PARTITION OF artifacts DEFAULT;

-- The months that there are already; what was inserted between two statements
-- of a migration does not exist.
-- +goose StatementBegin
DO $$
DECLARE
    month record;
BEGIN
    FOR month IN
        SELECT replace(c.relname, 'attempts_', 'artifacts_') AS name, pg_get_expr(c.relpartbound, c.oid) AS bound
        FROM pg_inherits i
        JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'attempts'::regclass AND c.relname <> 'attempts_default'
    LOOP
        EXECUTE format('CREATE TABLE %I PARTITION OF artifacts %s', month.name, month.bound);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- As before, with one table more, which has no row that changes.
CREATE OR REPLACE FUNCTION airlock_add_month(at timestamptz)
    RETURNS boolean
    LANGUAGE plpgsql
    SECURITY DEFINER
AS $$
DECLARE
    first timestamptz := date_trunc('month', at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
    past timestamptz := (date_trunc('month', at AT TIME ZONE 'UTC') + interval '1 month') AT TIME ZONE 'UTC';
    suffix text := to_char(at AT TIME ZONE 'UTC', 'YYYY_MM');
    parent text;
    made boolean := false;
BEGIN
    FOREACH parent IN ARRAY ARRAY['jobs', 'attempts', 'tool_calls', 'artifacts'] LOOP
        CONTINUE WHEN to_regclass(format('%I', parent || '_' || suffix)) IS NOT NULL;
        -- Two workers may notice a new month at the same moment.
        PERFORM pg_advisory_xact_lock(4801, 1);
        CONTINUE WHEN to_regclass(format('%I', parent || '_' || suffix)) IS NOT NULL;
        EXECUTE format(
            'CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L) WITH (fillfactor = %s)',
            parent || '_' || suffix, parent, airlock_id_floor(first), airlock_id_floor(past),
            CASE parent WHEN 'jobs' THEN 70 WHEN 'artifacts' THEN 100 ELSE 80 END);
        made := true;
    END LOOP;
    RETURN made;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- CREATE OR REPLACE drops the setting.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION airlock_add_month(timestamptz) SET search_path = %I, pg_temp', current_schema());
END
$$;
-- +goose StatementEnd

CREATE VIEW job_artifacts AS
SELECT
    x.job,
    j.tenant,
    j.batch,
    x.attempt,
    x.path,
    octet_length(x.content) AS size,
    encode(x.sha256, 'hex') AS sha256,
    x.content
FROM artifacts x
JOIN jobs j ON j.id = x.job AND j.ended_by = x.attempt;

COMMENT ON VIEW job_artifacts IS 'One row a file that a job''s result has.';

-- +goose StatementBegin
DO $$
BEGIN
    -- Views that run with the asker's rights exist since server 15.
    IF current_setting('server_version_num')::integer >= 150000 THEN
        ALTER VIEW job_artifacts SET (security_invoker = true);
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'airlock_worker') THEN
        GRANT SELECT, INSERT ON artifacts TO airlock_worker;
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'airlock_analyst') THEN
        GRANT SELECT ON artifacts, job_artifacts TO airlock_analyst;
    END IF;
END
$$;
-- +goose StatementEnd
