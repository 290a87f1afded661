package main

import (
	"context"
	"fmt"
	"time"

	"airlock/job"
	"airlock/queue"
)

const (
	// patientFor is how long a wait is not worth a word.
	patientFor = 2 * time.Second
	// tellEvery is how often a long one is told of again.
	tellEvery = 30 * time.Second
	// standingWithin bounds what is asked only to be told.
	standingWithin = 2 * time.Second
)

// tellStanding says where a job stands while it is waited for, until ctx ends.
// What cannot be had is not told.
func (s *session) tellStanding(ctx context.Context, j *job.Job) {
	for between := patientFor; pause(ctx, between); between = tellEvery {
		var record job.Record
		if err := s.ask(ctx, "status", idRequest{j.ID}, &record); err != nil || record.State != job.StateQueued {
			continue
		}
		if standing, ok := s.standing(ctx, j); ok {
			s.talk.say("job %s waits in lane %s: %s", j.ID, j.Requires.Lane(), describeStanding(standing))
		}
	}
}

// standing asks where a submitted job stands, at most. It is for telling only:
// false when the answer does not come soon.
func (s *session) standing(ctx context.Context, j *job.Job) (queue.Standing, bool) {
	ctx, cancel := context.WithTimeout(ctx, standingWithin)
	defer cancel()
	standing, err := s.Standing(ctx, j)
	standing.Ahead = max(0, standing.Ahead-1) // it is one of those that wait
	return standing, err == nil
}

func describeStanding(s queue.Standing) string {
	text := fmt.Sprintf("about %d jobs are before it", s.Ahead)
	if wait, known := s.Wait(); known && s.Ahead > 0 {
		return text + fmt.Sprintf(", which takes about %s", wait.Round(time.Second))
	}
	return text
}
