-- Callbacks: whom a gateway tells that a job or a batch has ended, and the
-- order in which the jobs of a batch did.

-- +goose Up

CREATE INDEX jobs_by_end ON jobs (tenant, batch, ended_at, id) WHERE batch IS NOT NULL AND ended_at IS NOT NULL;
COMMENT ON INDEX jobs_by_end IS 'BatchEnds: the jobs of a batch in the order in which they ended.';

CREATE TABLE callbacks (
    id uuid NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    job uuid,
    batch text COLLATE "C",
    expected integer NOT NULL DEFAULT 0,
    url text COLLATE "C" NOT NULL,
    secret bytea NOT NULL DEFAULT '',
    state text COLLATE "C" NOT NULL DEFAULT 'waiting',
    next_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    CONSTRAINT callbacks_pkey PRIMARY KEY (id),
    CONSTRAINT callbacks_once UNIQUE (tenant, job, url),
    CONSTRAINT callbacks_batch_once UNIQUE (tenant, batch, url),
    CONSTRAINT callbacks_of CHECK ((job IS NULL) <> (batch IS NULL)),
    CONSTRAINT callbacks_url CHECK (octet_length(url) BETWEEN 1 AND 2048),
    CONSTRAINT callbacks_secret CHECK (octet_length(secret) <= 256),
    CONSTRAINT callbacks_counts CHECK (expected >= 0 AND attempts >= 0),
    CONSTRAINT callbacks_state CHECK (state IN ('waiting', 'due', 'delivered', 'given_up')),
    CONSTRAINT callbacks_ended CHECK ((state IN ('delivered', 'given_up')) = (ended_at IS NOT NULL))
);

COMMENT ON TABLE callbacks IS 'Where to tell of the end of a job or a batch. No foreign key: a job may be on its way into the history.';
COMMENT ON COLUMN callbacks.expected IS 'How many jobs a batch has at least.';
COMMENT ON COLUMN callbacks.secret IS 'What deliveries are signed with, as the submitter gave it; empty for none. Never shown.';
COMMENT ON COLUMN callbacks.state IS 'waiting for the end; due: it has ended, and is being told; delivered; given_up after the last try.';
COMMENT ON COLUMN callbacks.next_at IS 'When to look, or to try, again. While a gateway does, when another may.';
COMMENT ON INDEX callbacks_pkey IS 'Note how a try went.';
COMMENT ON INDEX callbacks_once IS 'AddCallback: a submission that is repeated registers nothing twice; CallbackDue.';
COMMENT ON INDEX callbacks_batch_once IS 'AddCallback: one callback for all the bodies of a batch.';

CREATE INDEX callbacks_due ON callbacks (next_at) WHERE state IN ('waiting', 'due');
COMMENT ON INDEX callbacks_due IS 'TakeCallbacks: what is to be looked at, or tried, now.';

CREATE INDEX callbacks_by_tenant ON callbacks (tenant, id);
COMMENT ON INDEX callbacks_by_tenant IS 'Callbacks: a tenant''s, newest first.';

CREATE INDEX callbacks_old ON callbacks (ended_at) WHERE ended_at IS NOT NULL;
COMMENT ON INDEX callbacks_old IS 'DropCallbacks: what ended long ago.';

CREATE TABLE callback_deliveries (
    callback uuid NOT NULL,
    number integer NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    took interval NOT NULL,
    status integer,
    error text,
    CONSTRAINT callback_deliveries_pkey PRIMARY KEY (callback, number),
    CONSTRAINT callback_deliveries_callback FOREIGN KEY (callback) REFERENCES callbacks (id) ON DELETE CASCADE,
    CONSTRAINT callback_deliveries_error CHECK (octet_length(error) <= 1000)
);

COMMENT ON TABLE callback_deliveries IS 'Each try to tell, and what came of it: the status that was answered, or why there was none.';
COMMENT ON INDEX callback_deliveries_pkey IS 'Callbacks: the tries of each.';

-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'airlock_worker') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON callbacks TO airlock_worker;
        GRANT SELECT, INSERT ON callback_deliveries TO airlock_worker;
    END IF;
END
$$;
-- +goose StatementEnd
