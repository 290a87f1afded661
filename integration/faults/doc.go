// Package faults breaks the parts of a real Airlock at every step of an
// attempt, and then holds what is in Postgres, in JetStream and in the books of
// a tool provider against what must always hold. All of it is tests;
// matrix_test.go is the table of what is broken when, and make faults runs it.
//
// A plant is NATS (one server, or three with replicated streams), Postgres and
// workers, each in a process of its own, a provider that writes down each call,
// and a load of jobs that no fault is aimed at. One worker stands at each step
// with a job in its hands: before and after the claim, with a guest that runs,
// in a tool call, with the result ready, after the commit and after the
// acknowledgement. Then, by row:
//
//	worker-killed…             each is killed there (SIGKILL), with the fake, bubblewrap and forkserver backends
//	worker-stopped             each is halted (SIGSTOP) until others have its jobs, and then goes on
//	worker-starved             each runs for a twentieth of the time, longer than a lease: it keeps what it has (F48)
//	clock-off                  the clocks of workers are two minutes ahead and two minutes behind, in turn
//	drain-during-load          each is told to leave (SIGTERM), and all others are replaced one by one
//	postgres-restart           the database is restarted, or is down for 30 s, or refuses every write as with
//	postgres-down-30s          a full disk (a trigger that fails)
//	postgres-refuses-writes
//	nats-killed                the only server is killed and started again, or comes back without its store
//	nats-wiped
//	nats-leader-killed         of three servers the leader of JOBS, or another, is killed, or the leader
//	nats-follower-killed       is cut off from the others while its clients stay
//	nats-leader-partitioned
//	connections-cut            proxies end all connections again and again, then let none through, or
//	network-slow               carry every piece 150 ms late
//	published-twice            every waiting message is in the queue three times
//	stale-acknowledgements     somebody says things of deliveries that others hold
//	message-lost-to-a-stale-ack  and takes messages out of the queue whose workers are dead
//	doorbells-lost             nobody is rung for
//
// Held afterwards, for every job: exactly one result, the one that it had to
// come back with, from the newest attempt and in RESULTS once; all attempts
// recorded, with causes; each call that the provider saw recorded before it; a
// call of a tool that is not idempotent made once, and with on_retry: replay
// not again once its answer is recorded; audit chains whole. And of the plant:
// the streams empty, no lane stuck, nothing unannounced.
//
// Each row prints a line for each step, with the seed. The seed decides at
// which arrivals faults fall and what jobs do; SEED=… repeats a run.
package faults
