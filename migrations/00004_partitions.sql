-- Partitions: one month of jobs, attempts and tool_calls each, and a default
-- for ids outside of all months, which should stay empty.

-- +goose Up

CREATE TABLE jobs_default PARTITION OF jobs DEFAULT WITH (fillfactor = 70);
CREATE TABLE attempts_default PARTITION OF attempts DEFAULT WITH (fillfactor = 80);
CREATE TABLE tool_calls_default PARTITION OF tool_calls DEFAULT WITH (fillfactor = 80);

-- +goose StatementBegin
-- airlock_add_month makes the partitions of the month that holds the given
-- time, unless they exist. It returns whether it made any. Rows of that month
-- that are in the default partition already make it fail with check_violation.
--
-- It runs with its owner's rights, because workers do not own the tables.
CREATE FUNCTION airlock_add_month(at timestamptz)
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
    FOREACH parent IN ARRAY ARRAY['jobs', 'attempts', 'tool_calls'] LOOP
        CONTINUE WHEN to_regclass(format('%I', parent || '_' || suffix)) IS NOT NULL;
        -- Two workers may notice a new month at the same moment.
        PERFORM pg_advisory_xact_lock(4801, 1);
        CONTINUE WHEN to_regclass(format('%I', parent || '_' || suffix)) IS NOT NULL;
        EXECUTE format(
            'CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L) WITH (fillfactor = %s)',
            parent || '_' || suffix, parent, airlock_id_floor(first), airlock_id_floor(past),
            CASE parent WHEN 'jobs' THEN 70 ELSE 80 END);
        made := true;
    END LOOP;
    RETURN made;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- A function that runs with another's rights must not be led to other tables
-- by its caller's search_path.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION airlock_add_month(timestamptz) SET search_path = %I, pg_temp', current_schema());
END
$$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION airlock_add_month(timestamptz) FROM PUBLIC;

SELECT airlock_add_month(now());
SELECT airlock_add_month(now() + interval '1 month');
