-- Tokens: who may speak HTTP to a gateway, and what was done about them.

-- +goose Up

CREATE TABLE tokens (
    id uuid PRIMARY KEY,
    hash bytea NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    scopes text[] NOT NULL,
    note text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    CONSTRAINT tokens_hash UNIQUE (hash),
    CONSTRAINT tokens_hash_size CHECK (octet_length(hash) = 32),
    CONSTRAINT tokens_scopes CHECK (cardinality(scopes) > 0 AND scopes <@ ARRAY['submit', 'read', 'cancel', 'admin'])
);

COMMENT ON TABLE tokens IS 'Bearer tokens of gateways. The token itself is kept nowhere: hash is its SHA-256, and it is 256 random bits.';
COMMENT ON INDEX tokens_hash IS 'Find the token that a request bears.';
COMMENT ON INDEX tokens_pkey IS 'Revoke a token.';

CREATE TABLE admin_acts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    actor text NOT NULL,
    act text COLLATE "C" NOT NULL,
    tenant text COLLATE "C",
    detail jsonb NOT NULL DEFAULT '{}'
);

COMMENT ON TABLE admin_acts IS 'Administrative acts: who did what, when. Rows are never changed.';
COMMENT ON INDEX admin_acts_pkey IS 'List acts, newest first.';

CREATE TRIGGER admin_acts_never_change
    BEFORE UPDATE OR DELETE ON admin_acts
    FOR EACH ROW
    EXECUTE FUNCTION airlock_refuse_change();

-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'airlock_worker') THEN
        GRANT SELECT, INSERT ON tokens, admin_acts TO airlock_worker;
        GRANT UPDATE (revoked_at) ON tokens TO airlock_worker;
    END IF;
END
$$;
-- +goose StatementEnd
