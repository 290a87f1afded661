// Package job is the vocabulary that every other package of Airlock shares.
//
// The words, used the same way in Go, JSON, SQL, logs, subjects and Python:
//
//   - job: one piece of code with its inputs, limits and requirements.
//   - attempt: one try at a job by one worker; its number is the fencing token.
//   - guest: the sandboxed interpreter of one attempt, never used twice.
//   - backend: a way to isolate a guest, such as bubblewrap or docker.
//   - lane: the queue of all jobs with the same requirement and priority.
//   - tool, namespace, provider: a named host function, the group it belongs
//     to, and the service that answers for it.
//   - call: one use of a tool by a guest.
//   - outcome: what a backend saw of a guest.
//   - result: what the job gave.
//   - tenant, batch: whose job it is, and the set it was submitted with.
//
// In JSON a duration is a number of seconds and a size a number of bytes;
// strings such as "1.5s" and "64MiB" are accepted too. Zero or absent means
// the default, never "unlimited".
//
// The package does no I/O, starts no goroutine and imports nothing of Airlock.
package job
