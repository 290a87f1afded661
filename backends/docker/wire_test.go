package docker_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"airlock/backends"
	"airlock/backends/docker"
	"airlock/backends/internal/cgroup"
	"airlock/job"
)

// piece is what an engine sends of a stream.
func piece(stream byte, text string) string {
	header := binary.BigEndian.AppendUint32([]byte{stream, 0, 0, 0}, uint32(len(text)))
	return string(header) + text
}

func TestDemux(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, stream, want string
		broken             bool
	}{
		{"nothing", "", "", false},
		{"pieces", piece(1, "ab") + piece(1, "") + piece(1, "c"), "abc", false},
		{"complaints between", piece(1, "ab") + piece(2, "oh no") + piece(1, "c"), "abc", false},
		{"cut in a header", piece(1, "ab") + "\x01\x00", "ab", true},
		{"cut in a complaint", piece(1, "ab") + piece(2, "oh no")[:10], "ab", false},
		{"another stream", piece(7, "ab"), "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := io.ReadAll(docker.Demux(iotest.OneByteReader(strings.NewReader(tt.stream))))
			if string(got) != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if broken := err != nil; broken != tt.broken {
				t.Errorf("got error %v, want one: %v", err, tt.broken)
			}
		})
	}
}

// FuzzDemux: whatever a stream holds, no more comes out than went in.
func FuzzDemux(f *testing.F) {
	f.Add([]byte(piece(1, "ab") + piece(2, "c")))
	f.Add([]byte(piece(1, "ab")[:9]))
	f.Fuzz(func(t *testing.T, stream []byte) {
		got, _ := io.ReadAll(docker.Demux(bytes.NewReader(stream)))
		if len(got) > len(stream) {
			t.Errorf("got %d bytes out of %d", len(got), len(stream))
		}
	})
}

const posture = "Python:3.11.2\nUid:\t65532\t65532\t65532\t65532\nGid:\t65532\t65532\t65532\t65532\n" +
	"CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\n" +
	"NoNewPrivs:\t1\nSeccomp:\t2\n"

func TestGreeting(t *testing.T) {
	t.Parallel()
	if err := docker.ReadGreeting(posture, 65532); err != nil {
		t.Fatalf("got error %v, want none", err)
	}
	for _, change := range [][2]string{
		{"Uid:\t65532", "Uid:\t0"}, {"Gid:\t65532", "Gid:\t0"}, {"CapBnd:\t0000000000000000", "CapBnd:\t00000000a80425fb"},
		{"NoNewPrivs:\t1", "NoNewPrivs:\t0"}, {"Seccomp:\t2", "Seccomp:\t0"}, {"Seccomp:\t2\n", ""},
	} {
		if err := docker.ReadGreeting(strings.Replace(posture, change[0], change[1], 1), 65532); err == nil {
			t.Errorf("got no error with %q", change[1])
		}
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	const core = 0x80
	limits := job.DefaultLimits()
	spent, oom := cgroup.Usage{CPU: limits.CPU.Std()}, cgroup.Usage{OOMKills: 1, CPU: time.Millisecond}
	stopped := errors.New("cancelled")
	for _, tt := range []struct {
		name    string
		status  uint32
		stopped error
		watched bool
		usage   cgroup.Usage
		want    backends.Cause
		code    int
		signal  string
	}{
		{name: "exit", status: 3 << 8, want: backends.Exited, code: 3},
		{name: "exit with a kill's number", status: 137 << 8, want: backends.Exited, code: 137},
		{name: "exit before we could kill it", status: 0, stopped: stopped, want: backends.Exited},
		{name: "exit after a child died for memory", status: 0, usage: oom, want: backends.Exited},
		{name: "crash", status: 11 | core, want: backends.Signalled, signal: "SIGSEGV"},
		{name: "a real-time signal", status: 40, want: backends.Signalled, signal: "SIG40"},
		{name: "its own kill", status: 9, want: backends.Signalled, signal: "SIGKILL"},
		{name: "our kill", status: 9, stopped: stopped, want: backends.Killed, signal: "SIGKILL"},
		{name: "out of memory", status: 9, usage: oom, want: backends.OutOfMemory, signal: "SIGKILL"},
		{name: "our watch of its time", status: 9, watched: true, usage: spent, want: backends.OutOfCPU, signal: "SIGKILL"},
		{name: "the kernel's limit of its time", status: 24, usage: spent, want: backends.OutOfCPU, signal: "SIGXCPU"},
		{name: "its own SIGXCPU", status: 24, want: backends.Signalled, signal: "SIGXCPU"},
		{name: "the filter", status: 31 | core, want: backends.Violated, signal: "SIGSYS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := docker.Ended(backends.Task{Limits: limits}, tt.stopped, tt.watched, tt.status, tt.usage)
			if got.Cause != tt.want || got.ExitCode != tt.code || got.Signal != tt.signal {
				t.Errorf("got %s, code %d, signal %q, want %s, %d, %q", got.Cause, got.ExitCode, got.Signal, tt.want, tt.code, tt.signal)
			}
		})
	}
}
