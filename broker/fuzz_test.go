package broker_test

import (
	"bytes"
	"encoding/hex"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/job"

	"github.com/rogpeppe/go-internal/txtar"
)

// seedStreams are what the guests of the transcripts send.
func seedStreams(f *testing.F) [][]byte {
	f.Helper()
	paths, _ := filepath.Glob("testdata/wire/*.txtar")
	var streams [][]byte
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatalf("read %s: %v", path, err)
		}
		var stream []byte
		for _, section := range archive.Files {
			for line := range lines(section) {
				switch section.Name {
				case "guest":
					stream, _ = broker.AppendFrame(stream, []byte(line))
				case "guest raw":
					raw, _ := hex.DecodeString(strings.ReplaceAll(line, " ", ""))
					stream = append(stream, raw...)
				}
			}
		}
		streams = append(streams, stream)
	}
	return streams
}

// FuzzFrame holds the decoder against what must be true of any bytes (BK42):
// it does not panic, and what it accepts is strict JSON of a known shape.
func FuzzFrame(f *testing.F) {
	for _, stream := range seedStreams(f) {
		f.Add(stream)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := bytes.NewReader(stream)
		for {
			body, err := broker.ReadFrame(r)
			if err != nil {
				return
			}
			if cap(body) > 2*len(stream)+64<<10 {
				t.Fatalf("got %d bytes allocated for a stream of %d", cap(body), len(stream))
			}
			checkDecoded(t, body)
		}
	})
}

func checkDecoded(t *testing.T, body []byte) {
	msg, err := broker.DecodeMessage(body)
	if err != nil {
		if shown := job.Printable(err.Error(), 1<<20); shown != err.Error() {
			t.Fatalf("got error %q, want printable text", err)
		}
		return
	}
	if err := job.CheckJSON(body); err != nil {
		t.Fatalf("decoded %q, which is not strict: %v", body, err)
	}
	parts := map[broker.Method]bool{
		broker.MethodHello: msg.Hello != nil, broker.MethodCallTool: msg.Call != nil,
		broker.MethodArtifact: msg.Artifact != nil, broker.MethodResult: msg.Result != nil, broker.MethodListTools: true,
	}
	if !parts[msg.Method] {
		t.Fatalf("decoded %q as %s without its part", body, msg.Method)
	}
	if msg.Call != nil && job.CheckJSON(msg.Call.Arguments) != nil {
		t.Fatalf("got arguments %q, want JSON", msg.Call.Arguments)
	}
}

// FuzzSession lets a guest say anything: the conversation ends, the audit
// verifies, and what is reported is within its bounds.
func FuzzSession(f *testing.F) {
	for _, stream := range seedStreams(f) {
		f.Add(stream)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		guest, host := net.Pipe()
		audit := &brokertest.Audit{}
		b := broker.New(broker.Config{
			Tools: brokertest.Math(t), Audit: audit, Grace: time.Millisecond, Linger: time.Millisecond,
		})
		a := brokertest.Attempt(t, "math.*", func(j *job.Job) { j.Collect = []string{"out/**", "*.log"} })
		running := brokertest.Serve(t, b, a, host)
		go io.Copy(io.Discard, guest)
		guest.SetDeadline(time.Now().Add(time.Minute))
		guest.Write(stream) // the worker may have hung up
		guest.Close()
		report, err := running.Wait()
		if (report.Breach != "") != (err != nil) {
			t.Fatalf("got breach %q and error %v, want both or none", report.Breach, err)
		}
		if report.Value != nil && (job.CheckJSON(report.Value) != nil || len(report.Value) > int(a.Job.Limits.Result)) {
			t.Fatalf("got value %q, want JSON within the limit", report.Value)
		}
		if len(report.Artifacts) > job.MaxArtifacts {
			t.Fatalf("got %d artifacts, want at most %d", len(report.Artifacts), job.MaxArtifacts)
		}
		for _, x := range report.Artifacts {
			if x.Reason == "" && !job.Collects(a.Job.Collect, x.Path) || job.Printable(x.Path, 1<<20) != x.Path {
				t.Fatalf("got artifact %q, which no glob covers, or which does not print", x.Path)
			}
		}
		if head, err := broker.Verify(a.Job.ID, a.Number, audit.Calls()); err != nil || head != report.AuditHead {
			t.Fatalf("Verify: got head %s and error %v, want %s", head, err, report.AuditHead)
		}
	})
}
