// Package migrations holds the database schema as numbered SQL files in the
// form that goose reads. A file is never edited once it has been merged; a
// change is a new file with the next number. There are no down migrations.
package migrations

import "embed"

// FS holds the SQL files at its root.
//
//go:embed *.sql
var FS embed.FS
