-- Approvals: calls that a person is asked about before they leave the worker.
-- A row appears before anybody is asked and changes once, when it is decided.

-- +goose Up

-- There are as many rows as people can read, so that they are neither in
-- partitions nor bound to them: the months of jobs can be removed, and Sweep
-- removes what is left here.
CREATE TABLE approvals (
    job uuid NOT NULL,
    attempt integer NOT NULL,
    seq integer NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    arguments bytea,
    asked_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    decision text COLLATE "C",
    decided_at timestamptz,
    decided_by text,
    reason text,
    CONSTRAINT approvals_pkey PRIMARY KEY (job, attempt, seq),
    CONSTRAINT approvals_numbers CHECK (attempt >= 1 AND seq >= 1),
    CONSTRAINT approvals_decision CHECK (decision IN ('approved', 'denied', 'expired', 'gone')),
    CONSTRAINT approvals_decided CHECK ((decision IS NULL) = (decided_at IS NULL)),
    CONSTRAINT approvals_person CHECK (decision NOT IN ('approved', 'denied') OR decided_by IS NOT NULL),
    CONSTRAINT approvals_sizes CHECK (
        octet_length(arguments) <= 16777216
        AND octet_length(namespace) <= 4096
        AND octet_length(name) <= 4096
        AND octet_length(decided_by) <= 4096
        AND octet_length(reason) <= 16384)
);

COMMENT ON TABLE approvals IS 'Calls that a person was asked about before they left the worker, and what was decided.';
COMMENT ON COLUMN approvals.arguments IS 'JSON text, as tool_calls keeps it.';
COMMENT ON COLUMN approvals.decision IS 'NULL while nobody decided; gone means that the attempt ended before.';
COMMENT ON COLUMN approvals.decided_by IS 'Who said to have decided; what proves it is the login of NATS.';

COMMENT ON INDEX approvals_pkey IS 'Ask, Decide and SettleApprovals: the request of one call.';

CREATE INDEX approvals_of_tenant ON approvals (tenant, asked_at DESC);
COMMENT ON INDEX approvals_of_tenant IS 'Approvals, Decide by short id: a tenant''s requests, newest first.';

CREATE INDEX approvals_waiting ON approvals (tenant, asked_at) WHERE decision IS NULL;
COMMENT ON INDEX approvals_waiting IS 'Approvals, SettleApprovals: what still waits.';

CREATE TRIGGER approvals_decide_once
    BEFORE UPDATE ON approvals
    FOR EACH ROW
    WHEN (OLD.decision IS NOT NULL
        OR (NEW.job, NEW.attempt, NEW.seq, NEW.tenant, NEW.namespace, NEW.name, NEW.arguments, NEW.asked_at, NEW.expires_at)
            IS DISTINCT FROM
           (OLD.job, OLD.attempt, OLD.seq, OLD.tenant, OLD.namespace, OLD.name, OLD.arguments, OLD.asked_at, OLD.expires_at))
    EXECUTE FUNCTION airlock_refuse_change();

-- +goose StatementBegin
-- A request stays for as long as its job does.
CREATE FUNCTION airlock_keep_approval()
    RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    IF EXISTS (SELECT FROM jobs WHERE id = OLD.job) THEN
        RAISE EXCEPTION '% of % is refused: it is part of the audit', TG_OP, TG_TABLE_NAME
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN OLD;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER approvals_keep
    BEFORE DELETE ON approvals
    FOR EACH ROW
    EXECUTE FUNCTION airlock_keep_approval();

CREATE VIEW approval_history AS
SELECT
    p.job,
    j.tenant,
    j.batch,
    p.attempt,
    p.seq,
    p.namespace,
    p.name,
    airlock_text(p.arguments) AS arguments,
    p.asked_at,
    p.expires_at,
    CASE
        WHEN p.decision IS NOT NULL THEN p.decision
        WHEN j.state <> 'running' OR j.attempt <> p.attempt THEN 'gone'
        WHEN p.expires_at <= now() THEN 'expired'
        ELSE 'waiting' END AS state,
    p.decision,
    p.decided_at,
    p.decided_by,
    p.reason,
    p.decided_at - p.asked_at AS waited
FROM approvals p
JOIN jobs j ON j.id = p.job;

COMMENT ON VIEW approval_history IS 'One row a call that a person was asked about.';
COMMENT ON COLUMN approval_history.state IS 'Where it stands; decision is written within the hour when a worker died.';

-- +goose StatementBegin
DO $$
BEGIN
    -- Views that run with the asker's rights exist since server 15.
    IF current_setting('server_version_num')::integer >= 150000 THEN
        ALTER VIEW approval_history SET (security_invoker = true);
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'airlock_worker') THEN
        GRANT SELECT, INSERT, DELETE ON approvals TO airlock_worker;
        GRANT UPDATE (decision, decided_at, decided_by, reason) ON approvals TO airlock_worker;
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'airlock_analyst') THEN
        GRANT SELECT ON approvals, approval_history TO airlock_analyst;
    END IF;
END
$$;
-- +goose StatementEnd
