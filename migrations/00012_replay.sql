-- Replay: what a later run needs of a recorded failure.

-- +goose Up

ALTER TABLE tool_calls ADD COLUMN retryable boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN tool_calls.retryable IS 'The guest was told that the same call may be made again.';

-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'airlock_worker') THEN
        GRANT UPDATE (retryable) ON tool_calls TO airlock_worker;
    END IF;
END
$$;
-- +goose StatementEnd
