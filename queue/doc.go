// Package queue carries jobs from submitters to workers and results back, over
// NATS JetStream.
//
// Stream JOBS holds the work, one subject per lane, priority and tenant. A
// lane is the queue of all jobs with the same requirement; one durable pull
// consumer serves each lane and priority, and every worker that satisfies the
// requirement pulls from it. What enters JOBS is copied by the server to
// stream QUEUED, from where a recorder writes it to the database, and its
// headers to bell.>, which wakes idle workers. Results are announced in stream
// RESULTS. Key-value buckets show lanes, workers, cancellations and
// idempotency keys; bodies too large for a message lie in an object store by
// their digest.
//
// The queue delivers at least once: everything may arrive twice. It does not
// know who holds a job. Whoever runs one must hold its lease in the database,
// and acknowledges only what is committed there.
//
// Everything that comes out of NATS is foreign: subjects and bodies are checked
// against each other, and no subject is built from a string that was not.
package queue
