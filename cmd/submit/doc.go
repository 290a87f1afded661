// Command submit gives jobs to Airlock and brings their results back. It talks
// to NATS only: workers answer its questions.
//
// Results go to stdout, talk and progress to stderr. What a guest printed is
// passed on byte for byte, except to a terminal, where it is made harmless.
//
// Exit codes:
//
//	0    done; the job, or every job of the batch, is ok
//	1    the job failed, or a job of the batch did, or a line was malformed
//	2    wrong usage, which includes a job or batch that nobody knows
//	3    no worker can run the job
//	4    Airlock's own failure: NATS or the workers do not answer, output
//	     could not be written, or the job ended as infra_error
//	130  interrupted; what was submitted goes on unless it was cancelled
//
// Every flag has an environment twin: --max-attempts is AIRLOCK_MAX_ATTEMPTS.
package main
