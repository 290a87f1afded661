// Package worker takes one attempt from job to result.
//
// What always holds here:
//
//   - The end of an attempt is committed before the job is acknowledged and
//     before the result is announced.
//   - A worker whose lease is gone kills the guest, writes nothing and tells
//     the queue nothing.
//   - Each end has exactly one cause, taken from what the host saw.
//   - A backend is offered only while it probes well, and what runs in it is
//     not ended because it no longer does.
//
// The package knows neither NATS nor Postgres: it declares the few methods it
// needs of them, and cmd/worker fits the parts.
package worker
