package main

import (
	"github.com/alecthomas/kong"

	"airlock/job"
)

// cli is the command line. The flags that stand before the commands hold for
// all of them.
type cli struct {
	NATS    string           `name:"nats" placeholder:"URL" default:"nats://127.0.0.1:4222" help:"NATS server to talk to; several with commas, or file: and the path of a file that holds them."`
	Tenant  string           `placeholder:"NAME" default:"default" help:"Whose jobs these are."`
	Timeout job.Duration     `placeholder:"TIME" default:"10s" help:"How long to try to reach NATS, and to wait for a worker's answer."`
	JSON    bool             `name:"json" help:"Print JSON, one document a line, in place of text and tables."`
	Quiet   bool             `short:"q" help:"Say nothing on stderr but errors and what the guest wrote there."`
	Version kong.VersionFlag `help:"Print the version and leave."`

	Run       runCmd       `cmd:"" help:"Run one job and print what it gave."`
	Batch     batchCmd     `cmd:"" help:"Run every job of a JSON lines file. A second run of the file resumes it."`
	Wait      waitCmd      `cmd:"" help:"Wait until every job of a batch has ended."`
	Status    statusCmd    `cmd:"" help:"Show where a job stands."`
	Result    resultCmd    `cmd:"" help:"Print the stored result of a job as run does."`
	Calls     callsCmd     `cmd:"" help:"Show the tool calls of a job."`
	Tools     toolsCmd     `cmd:"" help:"List the tools that code may be granted, and how your calls of them went."`
	Call      callCmd      `cmd:"" help:"Try a tool by hand."`
	Approvals approvalsCmd `cmd:"" help:"List the tool calls that wait for a person."`
	Approve   approveCmd   `cmd:"" help:"Let a waiting tool call through, or deny it."`
	Audit     auditCmd     `cmd:"" help:"Verify the audit of tool calls."`
	Replay    replayCmd    `cmd:"" help:"Run an ended job's code again with the recorded answers of its tool calls, and compare."`
	Cancel    cancelCmd    `cmd:"" help:"Cancel a job or a batch."`
	History   historyCmd   `cmd:"" help:"List jobs, newest first."`
	Workers   workersCmd   `cmd:"" help:"List the live workers and what they offer."`
	Lanes     lanesCmd     `cmd:"" help:"List the queue's lanes and what waits in them."`
	Dead      deadCmd      `cmd:"" help:"List the jobs that Airlock gave up on."`
	Requeue   requeueCmd   `cmd:"" help:"Give a dead job another round of attempts."`
}

const description = `Give Python jobs to Airlock and bring their results back.

Results go to stdout, talk and progress to stderr. Exit codes: 0 ok, 1 a job failed, 2 wrong usage,
3 no worker can run it, 4 Airlock's own failure, 130 interrupted.`
