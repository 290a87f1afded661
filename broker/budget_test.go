package broker_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/job"
)

func TestBK10HugeFrames(t *testing.T) {
	t.Parallel()
	b := begin(t, setup{})
	b.Hello()
	var members strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&members, `,"k%d":1`, i)
	}
	b.Call(1, "math.add", `{"a":1`+members.String()+`}`)
	b.ExpectCode(1, broker.CodeTooLarge)
	b.Call(2, "math.echo", `{"text":"`+strings.Repeat("x", 2<<20)+`"}`) // B98
	b.ExpectCode(2, broker.CodeTooLarge)
	b.Call(3, "math.echo", `{"text":"`+strings.Repeat("x", 1<<19)+`","more":1}`)
	b.ExpectCode(3, broker.CodeBadArguments)
	b.end(t)
	for _, c := range b.audit.Calls() {
		if len(c.Arguments) > 70<<10 || !strings.Contains(string(c.Arguments), "sha256") {
			t.Errorf("call %d: got %d bytes of arguments recorded, want size and digest", c.Seq, len(c.Arguments))
		}
	}
}

func TestBK28Ceiling(t *testing.T) {
	t.Parallel()
	const ceiling, extra = 10, 20
	limit := []func(*job.Job){func(j *job.Job) { j.Limits.ToolCalls = ceiling }}
	for name, window := range map[string]int{"in turn": 1, "at once": ceiling + extra} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var executed atomic.Int32
			tools := &brokertest.Tools{}
			tools.Add(t, "count.up", "", func(broker.Request) *broker.Answer { executed.Add(1); return brokertest.Body("1") })
			b := begin(t, setup{tools: tools, grants: "count.up", edits: limit})
			b.Hello()
			refused := 0
			for sent := 0; sent < ceiling+extra; sent += window {
				for i := range window {
					b.Call(sent+i, "count.up", `{}`)
				}
				for range window {
					if strings.Contains(b.Recv(), `"code":"tool_limit"`) {
						refused++
					}
				}
			}
			report := b.end(t)
			if executed.Load() != ceiling || refused != extra || report.ToolCalls != ceiling || !report.ToolLimited {
				t.Errorf("got %d executed, %d refused, %d counted, limited %v, want %d, %d, %[5]d, true",
					executed.Load(), refused, report.ToolCalls, report.ToolLimited, ceiling, extra)
			}
		})
	}
}

func TestBK29EveryFrameCostsBudget(t *testing.T) {
	t.Parallel()
	budget := 1000 + 4*1
	for name, frame := range map[string]string{
		"list":    `{"id":1,"method":"list_tools"}`,
		"refused": `{"id":1,"method":"call_tool","params":{"namespace":"math","name":"sub","arguments":{}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := begin(t, setup{grants: "math.add", edits: []func(*job.Job){func(j *job.Job) { j.Limits.ToolCalls = 1 }}})
			b.Hello()
			for range budget - 1 { // hello was one
				b.Send(frame)
				b.Recv()
			}
			b.Send(frame)
			b.breaks(t, "too many frames")
		})
	}
}

func TestBK30ParallelCallsAreBounded(t *testing.T) {
	t.Parallel()
	const calls = 10_000
	var open, most atomic.Int32
	tools := &brokertest.Tools{}
	tools.Add(t, "slow.tool", "", func(broker.Request) *broker.Answer {
		now := open.Add(1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		runtime.Gosched()
		open.Add(-1)
		return brokertest.Body("1")
	})
	b := begin(t, setup{
		tools: tools, grants: "slow.tool",
		edits: []func(*job.Job){func(j *job.Job) { j.Limits.ToolCalls = calls }},
	})
	b.Hello()
	received := make(chan int)
	go func() {
		n := 0
		for ; n < calls; n++ {
			if _, err := b.TryRecv(); err != nil {
				break
			}
		}
		received <- n
	}()
	for i := range calls {
		b.Call(i, "slow.tool", `{}`)
	}
	if n := <-received; n != calls {
		t.Errorf("got %d replies, want %d", n, calls)
	}
	b.end(t)
	if most.Load() > 64 {
		t.Errorf("got %d calls at once, want at most 64", most.Load())
	}
}

// With all places taken the worker reads nothing more, so that what a guest
// sends waits in its own channel.
func TestBK30WorkerStopsReading(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	tools := &brokertest.Tools{}
	tools.Add(t, "slow.tool", "", never(release, "1"))
	b := begin(t, setup{tools: tools, grants: "slow.tool", memory: true, cfg: broker.Config{Parallel: 2}})
	b.Hello()
	// Two are served, the third waits for a place, the fourth is not read.
	for i := range 3 {
		b.Call(i, "slow.tool", `{}`)
	}
	frame, _ := broker.AppendFrame(nil, []byte(`{"id":9,"method":"list_tools"}`+strings.Repeat(" ", 64<<10)))
	b.Conn.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := b.Conn.Write(frame); err == nil {
		t.Errorf("got all %d bytes taken, want the guest to wait", n)
	}
	close(release)
	b.Cancel(job.ErrCancelled)
	b.Wait()
}

func TestBK32GuestThatDoesNotRead(t *testing.T) {
	t.Parallel()
	big := `"` + strings.Repeat("x", 1<<19) + `"`
	tools := &brokertest.Tools{}
	tools.Add(t, "big.tool", "", func(broker.Request) *broker.Answer { return brokertest.Body(big) })
	b := begin(t, setup{tools: tools, grants: "big.tool", cfg: broker.Config{WriteTimeout: 50 * time.Millisecond}})
	b.Hello()
	for i := range 50 {
		b.Call(i, "big.tool", `{}`)
	}
	report := b.breaks(t, "not taken within")
	if n := len(b.tools.Requests()); n > report.ToolCalls {
		t.Errorf("got %d calls sent and %d counted, want no more", n, report.ToolCalls)
	}
}

// A guest that takes a large frame slowly, as on a host whose processors others
// have, takes it all the same.
func TestGuestThatReadsSlowly(t *testing.T) {
	t.Parallel()
	const step, pause, timeout = 16 << 10, 100 * time.Millisecond, 5 * time.Second
	size := step * int(timeout/pause) * 5 / 4
	tools := &brokertest.Tools{}
	tools.Add(t, "big.tool", "", func(broker.Request) *broker.Answer { return brokertest.Body(`"` + strings.Repeat("x", size) + `"`) })
	b := begin(t, setup{tools: tools, grants: "big.tool", memory: true, cfg: broker.Config{WriteTimeout: timeout}})
	b.Hello()
	b.Call(1, "big.tool", `{}`)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	b.Conn.SetReadDeadline(time.Now().Add(5 * time.Minute))
	body, err := broker.ReadFrame(readerFunc(func(p []byte) (int, error) {
		<-tick.C
		return b.Conn.Read(p[:min(len(p), step)])
	}))
	if err != nil || len(body) < size {
		t.Fatalf("got %d bytes and error %v, want %d", len(body), err, size)
	}
	b.end(t)
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestBK34Answers(t *testing.T) { // B26
	t.Parallel()
	huge := make([]byte, 100<<20)
	for i := range huge {
		huge[i] = '1'
	}
	answers := map[string]struct {
		body string
		code broker.Code
	}{
		"huge":      {`"` + string(huge) + `"`, broker.CodeTooLarge},
		"deep":      {strings.Repeat("[", 65) + strings.Repeat("]", 65), broker.CodeBadAnswer},
		"nan":       {`{"x":NaN}`, broker.CodeBadAnswer},
		"bytes":     {"\"\xff\xfe\"", broker.CodeBadAnswer},
		"surrogate": {`"\ud800"`, broker.CodeBadAnswer}, // W13
		"empty":     {``, broker.CodeBadAnswer},
		"two":       {`1 2`, broker.CodeBadAnswer},
		"12 MB":     {`"` + string(huge[:12<<20]) + `"`, broker.CodeTooLarge},
	}
	tools := &brokertest.Tools{}
	for name, a := range answers {
		tools.Add(t, "odd."+strings.ReplaceAll(name, "12 MB", "large"), "", func(broker.Request) *broker.Answer { return brokertest.Body(a.body) })
	}
	tools.Add(t, "odd.fine", "", func(broker.Request) *broker.Answer { return brokertest.Body(`"` + string(huge[:7<<20]) + `"`) })
	b := begin(t, setup{tools: tools, grants: "odd.*"})
	b.Hello()
	for name, a := range answers {
		b.Call(1, "odd."+strings.ReplaceAll(name, "12 MB", "large"), `{}`)
		b.ExpectCode(1, a.code)
	}
	b.Call(1, "odd.fine", `{}`)
	if got := b.Recv(); len(got) < 7<<20 {
		t.Errorf("got %.100s, want 7 MiB", got)
	}
	b.end(t)
}

func TestBK35Bytes(t *testing.T) {
	t.Parallel()
	t.Run("from the guest", func(t *testing.T) {
		t.Parallel()
		b := begin(t, setup{cfg: broker.Config{MaxBytes: 100_000}})
		b.Hello()
		padded := `{"id":1,"method":"list_tools"}` + strings.Repeat(" ", 9_000)
		for range 10 {
			b.Send(padded)
			b.Recv()
		}
		b.Send(padded)
		b.Send(padded)
		b.breaks(t, "too many bytes from the guest")
	})
	t.Run("to the guest", func(t *testing.T) {
		t.Parallel()
		tools := &brokertest.Tools{}
		tools.Add(t, "big.tool", "", func(broker.Request) *broker.Answer { return brokertest.Body(`"` + strings.Repeat("x", 30_000) + `"`) })
		b := begin(t, setup{tools: tools, grants: "big.tool", cfg: broker.Config{MaxBytes: 100_000}})
		b.Hello()
		for i := range 3 {
			b.Call(i, "big.tool", `{}`)
			b.Recv()
		}
		b.Call(9, "big.tool", `{}`)
		b.breaks(t, "too many bytes to the guest")
	})
}

func TestMemoryOfAFloodIsBounded(t *testing.T) { // BK35
	body, _ := broker.AppendFrame(nil, []byte(`{"id":1,"method":"call_tool","params":{"namespace":"math","name":"sub","arguments":{"x":"`+
		strings.Repeat("x", 1<<20)+`"}}}`))
	b := begin(t, setup{grants: "math.add", memory: true})
	b.Hello()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 50 {
		b.SendRaw(body)
		b.Recv()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("got %d MiB kept of 50 MiB of refused arguments, want almost nothing", grown>>20)
	}
	b.end(t)
	if bytes.Contains(b.audit.Calls()[0].Arguments, []byte("xxxx")) {
		t.Errorf("got a refused call's large arguments recorded")
	}
}
