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

const posture = "Airlock:" + docker.FirstVersion + "\nPython:3.11.2\nCPU:24000\nUid:\t65532\t65532\t65532\t65532\nGid:\t65532\t65532\t65532\t65532\n" +
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
		{"CPU:24000\n", ""}, {"CPU:24000", "CPU:-1"}, {"CPU:24000", "CPU:18446744073709551615"}, {"CPU:24000", "CPU:2.4"},
	} {
		if err := docker.ReadGreeting(strings.Replace(posture, change[0], change[1], 1), 65532); err == nil {
			t.Errorf("got no error with %q", change[1])
		}
	}
}

// TestAnotherVersion: an image whose first process is older or newer is called
// that, whatever else it says.
func TestAnotherVersion(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "Airlock:\n", "Airlock:1\n", "Airlock:" + docker.FirstVersion + "0\n"} {
		err := docker.ReadGreeting(strings.Replace(posture, "Airlock:"+docker.FirstVersion+"\n", line, 1), 65532)
		if err == nil || !strings.Contains(err.Error(), "the image or the worker is an old one") || strings.Contains(err.Error(), "CPU") {
			t.Errorf("with %q got error %v, want one that says that the image is old", line, err)
		}
	}
}

// end is the body of the first process's report.
func end(status uint32, flags byte, cpu, largest uint64) []byte {
	body := append(binary.BigEndian.AppendUint32(nil, status), flags)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(body, cpu), largest)
}

func TestEnding(t *testing.T) {
	t.Parallel()
	status, full, many, cpu, largest, err := docker.ReadEnding(end(3<<8, 2, 1500, 9<<20))
	if err != nil || status != 3<<8 || full || !many || cpu != 1500*time.Microsecond || largest != 9<<20 {
		t.Errorf("got status %d, full %v, many %v, %v, %d bytes and error %v", status, full, many, cpu, largest, err)
	}
	if _, full, many, _, _, err := docker.ReadEnding(end(0, 1, 0, 0)); err != nil || !full || many {
		t.Errorf("got full %v, many %v and error %v, want only full", full, many, err)
	}
	for name, body := range map[string][]byte{
		"nothing": nil, "an old image's": end(0, 0, 0, 0)[:5], "cut": end(0, 0, 0, 0)[:20], "too long": append(end(0, 0, 0, 0), 0),
		"unknown flags": end(0, 4, 0, 0), "too much time": end(0, 0, 1<<63, 0), "too much memory": end(0, 0, 0, 1<<63),
	} {
		if _, _, _, _, _, err := docker.ReadEnding(body); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// FuzzEnding: a report is understood to the last bit or refused.
func FuzzEnding(f *testing.F) {
	f.Add(end(9, 3, 2_000_000, 64<<20))
	f.Add(end(0, 0, 1<<63, 1<<63))
	f.Add([]byte{0, 0, 0, 9, 1})
	f.Fuzz(func(t *testing.T, body []byte) {
		status, full, many, cpu, largest, err := docker.ReadEnding(body)
		if err != nil {
			return
		}
		flags := byte(0)
		if full {
			flags |= 1
		}
		if many {
			flags |= 2
		}
		if again := end(status, flags, uint64(cpu/time.Microsecond), uint64(largest)); cpu < 0 || largest < 0 || !bytes.Equal(again, body) {
			t.Errorf("got %x out of %x", again, body)
		}
	})
}

// FuzzGreeting: no greeting passes without what must be in it.
func FuzzGreeting(f *testing.F) {
	f.Add(posture)
	f.Add(strings.Replace(posture, "Seccomp:\t2", "Seccomp:\t2\nSeccomp:\t0", 1))
	f.Fuzz(func(t *testing.T, text string) {
		err := docker.ReadGreeting(text, 65532)
		for _, must := range []string{"Airlock", "CPU", "Seccomp", "NoNewPrivs", "CapEff", "Uid", "Gid"} {
			if err == nil && !strings.Contains(text, must+":") {
				t.Errorf("got no error without %s in %q", must, text)
			}
		}
	})
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
