package broker_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/job"
)

// heap is what is in use once garbage is gone.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one only unlinked from pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A conversation keeps nothing of a call whose answer was read: after 100 MB of
// answers it holds what it held before, and one frame at most. It runs beside no
// other test, whose memory it would measure.
func TestAnswersAreNotKept(t *testing.T) {
	const answers, size, room = 100, 1 << 20, 8 << 20
	tools := &brokertest.Tools{}
	tools.Add(t, "n.big", "", func(broker.Request) *broker.Answer {
		return brokertest.Body(`"` + strings.Repeat("x", size) + `"`)
	})
	guest, host := brokertest.NewSocketGuest(t)
	attempt := brokertest.Attempt(t, "n.*", func(j *job.Job) { j.Limits.ToolCalls = answers })
	running := brokertest.Serve(t, broker.New(broker.Config{Tools: tools, Audit: brokertest.Nothing{}}), attempt, host)
	guest.Hello()
	before := heap()
	for i := range answers {
		guest.Call(i+1, "n.big", `{}`)
		if got := guest.Recv(); len(got) < size {
			t.Fatalf("answer %d: got %.200s, want %d bytes", i, got, size)
		}
		if i%10 != 9 {
			continue
		}
		if grown := heap() - before; grown > room {
			t.Fatalf("after %d answers of %d bytes: got %d bytes more in use, want at most %d", i+1, size, grown, room)
		}
	}
	guest.Finish(answers+1, "null")
	if _, err := running.Wait(); err != nil {
		t.Fatal(err)
	}
}

// A thousand calls sent at once are all made and answered, 64 at a time.
func TestAThousandCallsAtOnce(t *testing.T) {
	t.Parallel()
	const calls = 1000
	b := begin(t, setup{edits: []func(*job.Job){func(j *job.Job) { j.Limits.ToolCalls = calls }}})
	b.Hello()
	go func() {
		var all bytes.Buffer
		for i := range calls {
			body := fmt.Sprintf(`{"id":%d,"method":"call_tool","params":{"namespace":"math","name":"add","arguments":{"a":%d,"b":1}}}`, i+1, i)
			frame, err := broker.AppendFrame(nil, []byte(body))
			if err != nil {
				t.Error(err)
			}
			all.Write(frame)
		}
		if _, err := b.Conn.Write(all.Bytes()); err != nil {
			t.Errorf("send: %v", err)
		}
	}()
	got := map[string]bool{}
	for range calls {
		got[b.Recv()] = true
	}
	for i := range calls {
		if want := fmt.Sprintf(`{"id":%d,"ok":true,"value":{"sum":%d}}`, i+1, i+1); !got[want] {
			t.Errorf("nothing like %s arrived", want)
		}
	}
	b.end(t)
	if n := len(b.audit.Calls()); n != calls {
		t.Errorf("got %d calls recorded, want %d", n, calls)
	}
}
