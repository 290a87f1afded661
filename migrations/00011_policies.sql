-- Policies: what operators allowed tools to be used for, and when each worker
-- took it. An attempt names its policy in its facts.

-- +goose Up

CREATE TABLE policies (
    digest text COLLATE "C" NOT NULL,
    policy text NOT NULL,
    first_at timestamptz NOT NULL,
    CONSTRAINT policies_pkey PRIMARY KEY (digest),
    CONSTRAINT policies_digest CHECK (digest ~ '^[0-9a-f]{64}$'),
    CONSTRAINT policies_size CHECK (octet_length(policy) <= 16777216)
);

COMMENT ON TABLE policies IS 'Every policy for tools that a worker ever took.';
COMMENT ON COLUMN policies.policy IS 'JSON without white space, members sorted; digest is its SHA-256.';

COMMENT ON INDEX policies_pkey IS 'RecordPolicy: whether a policy is known; policy_history.';

CREATE TABLE policy_changes (
    worker text COLLATE "C" NOT NULL,
    at timestamptz NOT NULL,
    digest text COLLATE "C" NOT NULL,
    CONSTRAINT policy_changes_pkey PRIMARY KEY (worker, at),
    CONSTRAINT policy_changes_policy FOREIGN KEY (digest) REFERENCES policies (digest)
);

COMMENT ON TABLE policy_changes IS 'When each worker took a policy: at its start, and when its file changed.';

COMMENT ON INDEX policy_changes_pkey IS 'policy_history of one worker; one change at a time.';

CREATE INDEX policy_changes_digest ON policy_changes (digest);
COMMENT ON INDEX policy_changes_digest IS 'policy_history of one digest, such as that of an attempt.';

CREATE TRIGGER policies_never_change
    BEFORE UPDATE OR DELETE ON policies
    FOR EACH ROW
    EXECUTE FUNCTION airlock_refuse_change();

CREATE TRIGGER policy_changes_never_change
    BEFORE UPDATE OR DELETE ON policy_changes
    FOR EACH ROW
    EXECUTE FUNCTION airlock_refuse_change();

CREATE VIEW policy_history AS
SELECT
    c.at,
    c.worker,
    w.host,
    c.digest,
    p.policy
FROM policy_changes c
JOIN policies p ON p.digest = c.digest
LEFT JOIN workers w ON w.id = c.worker;

COMMENT ON VIEW policy_history IS 'One row a policy that a worker took. An attempt''s is attempts.facts_json ->> ''policy''.';

-- +goose StatementBegin
DO $$
BEGIN
    -- Views that run with the asker's rights exist since server 15.
    IF current_setting('server_version_num')::integer >= 150000 THEN
        ALTER VIEW policy_history SET (security_invoker = true);
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'airlock_worker') THEN
        GRANT SELECT, INSERT ON policies, policy_changes TO airlock_worker;
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'airlock_analyst') THEN
        GRANT SELECT ON policies, policy_changes, policy_history TO airlock_analyst;
    END IF;
END
$$;
-- +goose StatementEnd
