package store

import (
	"context"
	"encoding/hex"
	"fmt"

	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"
)

// artifactShape is a file that was kept; artifactRows fills it.
var artifactShape = join(fenceShape, shape{"path text", "content bytea", "sha256 bytea"})

// artifactsSQL stores the files of results that were stored before it in the
// same transaction, and of no others: the fence has been checked there. A
// repeat changes nothing.
var artifactsSQL = `
INSERT INTO artifacts (job, attempt, path, content, sha256)
SELECT r.job, r.number, r.path, r.content, r.sha256
FROM ` + artifactShape.source() + `
JOIN attempts a ON a.job = r.job AND a.number = r.number AND a.worker = r.worker AND a.outcome = 'finished'
ON CONFLICT (job, attempt, path) DO NOTHING`

// artifactRows are the files that were kept.
func artifactRows(a *job.Attempt, list []job.Artifact) ([][]any, error) {
	var rows [][]any
	for _, x := range list {
		if x.Reason != "" {
			continue
		}
		sum, err := hex.DecodeString(x.SHA256)
		if err != nil {
			return nil, fmt.Errorf("digest of artifact %q: %w", x.Path, err)
		}
		content := x.Content
		if content == nil {
			content = []byte{} // nil would be NULL
		}
		rows = append(rows, append(fenceRow(a), x.Path, content, sum))
	}
	return rows, nil
}

// Artifact returns the content of a file that a job's result has; ErrNotFound
// if the tenant has no such job or its result no such file.
func (s *Store) Artifact(ctx context.Context, tenant string, id job.ID, path string) ([]byte, error) {
	return one(ctx, s, "read artifact", pgx.RowTo[[]byte], artifactSQL, tenant, [16]byte(id), textColumn(path))
}

// artifactsOf returns the list of a job's result, without contents.
func (s *Store) artifactsOf(ctx context.Context, id job.ID) ([]job.Artifact, error) {
	lists, err := collect(ctx, s, "read artifacts", pgx.RowTo[[]byte], factsSQL, [16]byte(id))
	if err != nil || len(lists) == 0 {
		return nil, err
	}
	var f facts
	if err := json.Unmarshal(lists[0], &f); err != nil {
		return nil, fmt.Errorf("stored facts of job %s: %w", id, err)
	}
	return f.Artifacts, nil
}
