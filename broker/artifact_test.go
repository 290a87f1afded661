package broker_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/job"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// collecting starts a conversation of a job that collects, with room for 64
// KiB, past its hello.
func collecting(t *testing.T) (*brokertest.Guest, *brokertest.Running) {
	t.Helper()
	guest, host := brokertest.NewSocketGuest(t)
	b := broker.New(broker.Config{Tools: brokertest.Math(t), Audit: &brokertest.Audit{}, MaxArtifacts: 64 * job.KiB})
	a := brokertest.Attempt(t, "math.*", func(j *job.Job) { j.Collect = []string{"out/**"} })
	running := brokertest.Serve(t, b, a, host)
	if got := guest.Hello(); !strings.Contains(got, `"collect":["out/**"]`) || !strings.Contains(got, `"artifacts":65536`) {
		t.Fatalf("got job %s, want the globs and the room", got)
	}
	return guest, running
}

func piece(path string, content []byte, more string) string {
	return fmt.Sprintf(`{"method":"artifact","params":{"path":%q,"base64":%q%s}}`, path, base64.StdEncoding.EncodeToString(content), more)
}

func TestArtifactsAreReported(t *testing.T) {
	t.Parallel()
	guest, running := collecting(t)
	guest.Send(piece("out/a", []byte("x"), `,"more":true`))
	guest.Call(1, "math.echo", `{}`) // a thread of the guest's may still call
	guest.Send(piece("out/a", []byte("y"), ""))
	guest.Send(`{"method":"artifact","params":{"path":"out/l","refused":"link","size":9}}`)
	guest.Recv()
	guest.Send(`{"id":2,"method":"result","params":{"value":1,"left_out":3}}`)
	guest.Expect(`{"id":2,"ok":true}`)
	guest.Close()
	report, err := running.Wait()
	if err != nil {
		t.Fatal(err)
	}
	want := []job.Artifact{{Path: "out/a", Size: 2, Content: []byte("xy")}, {Path: "out/l", Size: 9, Reason: job.ReasonLink}}
	if diff := cmp.Diff(want, report.Artifacts, cmpopts.IgnoreFields(job.Artifact{}, "SHA256")); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]job.Event{{Kind: job.EventLeftOut, Count: 3}}, report.Events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestArtifactsBeyondTheRoom: the guest is told how much there is, so that
// more is a breach, and nothing is reported of a guest that broke the protocol.
func TestArtifactsBeyondTheRoom(t *testing.T) {
	t.Parallel()
	guest, running := collecting(t)
	guest.Send(piece("out/a", make([]byte, 64<<10), ""))
	guest.Send(piece("out/b", make([]byte, 1), ""))
	report, err := running.Wait()
	if err == nil || !strings.Contains(report.Breach, "more bytes than the job may bring back") || report.Artifacts != nil {
		t.Errorf("got breach %q, error %v and %d artifacts, want a breach and none", report.Breach, err, len(report.Artifacts))
	}
}

// TestArtifactsBeforeADeath: a guest that is gone before its result brings
// nothing back.
func TestArtifactsBeforeADeath(t *testing.T) {
	t.Parallel()
	guest, running := collecting(t)
	guest.Send(piece("out/a", []byte("x"), ""))
	guest.Close()
	if report, err := running.Wait(); err != nil || report.Artifacts != nil {
		t.Errorf("got error %v and artifacts %v, want neither", err, report.Artifacts)
	}
}

// TestArtifactsHaveABudgetOfFrames: 256 files and 16 MiB in small pieces fit,
// but not frames without end.
func TestArtifactsHaveABudgetOfFrames(t *testing.T) {
	t.Parallel()
	guest, running := collecting(t)
	// The worker has stopped reading then, and may leave so much that the rest
	// does not fit the channel.
	go func() { <-running.Done(); guest.Close() }()
	for i := range 2000 {
		guest.Send(piece("out/a", []byte{byte(i)}, `,"more":true`))
	}
	report, err := running.Wait()
	if err == nil || !strings.Contains(report.Breach, "too many frames") {
		t.Errorf("got breach %q and error %v, want too many frames", report.Breach, err)
	}
}
