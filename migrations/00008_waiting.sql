-- Waiting jobs by lane: what the queue should hold, and what nobody can run.

-- +goose Up

CREATE INDEX jobs_queued ON jobs (lane, id) WHERE state = 'queued' AND publish_due IS NULL;
COMMENT ON INDEX jobs_queued IS
    'Waiting, RebuildLane and BuryUnplaceable: jobs that are in the queue, or should be, a lane at a time.';
