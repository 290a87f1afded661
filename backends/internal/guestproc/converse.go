package guestproc

import (
	"errors"
	"fmt"
	"io"

	"airlock/backends/internal/frame"
	"airlock/job"

	"github.com/go-json-experiment/json/jsontext"
)

// Converse has the guest run code that calls no tool, and returns once it has
// reported that the code ended well. It is what a probe says to a guest.
func Converse(channel io.ReadWriter, code string) error {
	var hello, result frame.Request
	if err := frame.Read(channel, &hello); err != nil {
		return fmt.Errorf("wait for hello: %w", err)
	}
	if hello.Method != "hello" {
		return fmt.Errorf("the guest's first frame is %s, want hello", job.Printable(hello.Method, 40))
	}
	task := frame.Job{Method: "job", Params: frame.JobParams{Code: code, Limits: frame.Limits{Result: 1 << 20, Frame: frame.Max, Parallel: 1}}}
	if err := frame.Write(channel, task); err != nil {
		return fmt.Errorf("send job: %w", err)
	}
	if err := frame.Read(channel, &result); err != nil {
		return fmt.Errorf("wait for result: %w", err)
	}
	if result.Method != "result" || result.ID == nil {
		return fmt.Errorf("the guest's second frame is %s, want result", job.Printable(result.Method, 40))
	}
	if err := checkResult(result.Params); err != nil {
		return err
	}
	return frame.Write(channel, frame.Reply{ID: *result.ID, OK: true})
}

func checkResult(params jsontext.Value) error {
	var result frame.Result
	if err := job.DecodeStrict(params, &result); err != nil {
		return fmt.Errorf("read result: %w", err)
	}
	if e := result.Error; e != nil {
		return errors.New("the guest's code failed: " + job.Printable(e.Type+": "+e.Message, 300))
	}
	return nil
}
