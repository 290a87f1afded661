// Package store keeps the truth about jobs in Postgres: who may run a job,
// what came of it, and every use of a tool by a guest.
//
// # Claims
//
// A worker may run a job only while it holds the job's lease. [Store.Claim]
// decides by one SQL statement and gives the attempt's number, which is the
// fence: every later write names it, and a write whose attempt is no longer
// the newest, or whose job has ended, changes nothing and returns
// [job.ErrFenced]. All times are the database's clock.
//
// A claim is committed without waiting for the disk. A crash of the database's
// server (not of a worker) may take the last moment's claims back; nothing that
// came of them is lost with them, since each start of a call and each end of an
// attempt waits for the disk, and with it for all that was committed before.
//
// So is the end of a call that brought an answer. A result is not taken while
// the end of one of its attempt's calls is missing, so that what is in a
// finished job's audit is whole.
//
// # Everything may arrive twice
//
// Each method may be repeated after an error whose outcome is unknown. The
// same finish, call, queued row or announcement delivered twice leaves what
// it left the first time.
//
// # Publishing what the database decided
//
// [Store.TakeDue] moves jobs to state queued with the next generation before
// anybody publishes them, because a worker that got the message first would
// find nothing to claim. A row so moved carries publish_due until
// [Store.Republished] or a claim proves that its message exists; TakeDue finds
// rows whose publish_due has passed again and returns them with the same
// generation, so that a crash between the two loses nothing and publishes at
// worst a duplicate, which the claim refuses.
//
// # Guest bytes
//
// Whatever a guest or provider wrote is kept byte for byte in bytea columns.
// JSON is kept there too, and beside it as jsonb where jsonb can hold it; a
// NUL or a lone surrogate costs the jsonb copy and never the row.
//
// # Grouped writes
//
// Claim, Finish, CallStarted, CallEnded and Announced gather: while one
// transaction of a kind is under way, callers of that kind queue up, and all
// of them make the next transaction. A row that the database refuses is
// isolated by halving and costs its neighbours nothing. A caller whose context
// ends before its write was taken up leaves the queue; afterwards it waits,
// since the write can no longer be called off.
package store
