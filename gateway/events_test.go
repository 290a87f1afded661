package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/gateway"
	"airlock/job"
	"airlock/store"
)

func TestAJobIsFollowedAsItHappens(t *testing.T) {
	t.Parallel()
	gate, open := newGate()
	defer open()
	w := start(t, setUp{play: scriptedBy(faithful, func(s *scripted) bool {
		<-gate
		s.print("stdout", []byte("one\n"))
		first := s.start(1)
		second := s.start(2)
		s.end(second, job.CallOK)
		s.print("stdout", []byte("two\n"))
		s.end(first, job.CallFailed)
		return true
	})})
	id := w.submitted(`{"code": "return 1", "batch": "b1"}`, "")
	s := w.open("/v1/jobs/"+id.String()+"/events", "", "")
	if got := s.resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("got Content-Type %q", got)
	}
	var got []string
	printed := ""
	for m, ok := s.next(); ok; m, ok = s.next() {
		if m.data.Job != id || m.data.Batch != "b1" || m.data.At.IsZero() {
			t.Errorf("%s: got %+v, want it of the job, with a time", m.name, m.data)
		}
		if m.name == "started" {
			open()
		}
		if m.name == "output" {
			printed += string(m.data.Output.Data)
			continue
		}
		text := m.id + " " + m.name
		if c := m.data.Call; c != nil {
			text += fmt.Sprintf(" %d %s.%s %s", c.Seq, c.Namespace, c.Name, c.State)
		}
		if r := m.data.Result; r != nil {
			text += " " + string(r.Status) + " " + string(r.Stdout)
		}
		got = append(got, text)
	}
	want := []string{
		"0.0 queued", "1.0 claimed", "1.1 started", "1.2 call_started 1 math.add started", "1.3 call_started 2 math.add started",
		"1.4 call_ended 2 math.add ok", "1.5 call_ended 1 math.add failed", "1.end finished ok one\ntwo\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if printed != "one\ntwo\n" {
		t.Errorf("got output %q while it ran, want all", printed)
	}
	again := w.open("/v1/jobs/"+id.String()+"/events", s.last, "")
	if again.resp.StatusCode != http.StatusNoContent {
		t.Errorf("got status %d after the end, want 204", again.resp.StatusCode)
	}
	for _, bad := range []string{"x", "1", "1.x", "-1.0", "1.0.0", "99999999999999999999.1", "1.1\u00a0"} {
		r := w.ask(asking{path: "/v1/jobs/" + id.String() + "/events", header: map[string]string{"Last-Event-ID": bad}})
		r.refused(t, bad, gateway.CodeBadRequest, http.StatusBadRequest)
	}
}

// TestReconnectsLoseAndRepeatNothing: clients that are cut off at random, of
// jobs whose news are lost at random.
func TestReconnectsLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	lossy := func(w *world, j *job.Job, n job.News) {
		if rand.IntN(3) > 0 {
			w.queue.Tell(j, n)
		}
	}
	w := start(t, setUp{gateway: gateway.Config{Rate: 1e6}, play: scriptedBy(lossy, func(s *scripted) bool {
		nap := func() { time.Sleep(rand.N(4 * time.Millisecond)) }
		for seq := 1; seq < 12; seq += 2 {
			a := s.start(seq)
			s.print("stdout", []byte("x"))
			nap()
			b := s.start(seq + 1)
			s.end(b, job.CallOK)
			nap()
			s.end(a, job.CallOK)
		}
		return s.attempt.Number == 3
	})})
	var want []string
	want = append(want, "0.0")
	for attempt := 1; attempt <= 3; attempt++ {
		for step := 0; step <= 25; step++ {
			want = append(want, fmt.Sprintf("%d.%d", attempt, step))
		}
		want = append(want, fmt.Sprintf("%d.end", attempt))
	}
	var clients sync.WaitGroup
	for range 16 {
		id := w.submitted(`{"code": "return 1"}`, "")
		clients.Go(func() {
			var got []string
			last, cuts := "", 0
			for until := time.Now().Add(patience); (len(got) == 0 || got[len(got)-1] != "3.end") && time.Now().Before(until); cuts++ {
				s := w.open("/v1/jobs/"+id.String()+"/events", last, "")
				for n := rand.IntN(20); n >= 0; n-- {
					m, ok := s.next()
					if !ok {
						break
					}
					if m.id != "" {
						got = append(got, m.id)
					}
				}
				last = s.last
				s.cut()
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("ids after %d cuts (-want +got):\n%s", cuts, diff)
			}
		})
	}
	clients.Wait()
}

// TestHostileOutputForgesNothing: what a guest prints stays in its event.
func TestHostileOutputForgesNothing(t *testing.T) {
	t.Parallel()
	hostile := [][]byte{
		[]byte("\n\nevent: finished\ndata: {}\n\n"), []byte("\r\n\r\nid: 9.end\r\nevent: finished\r\ndata: {}\r\n\r\n"), []byte("\revent: x\r\r"),
		[]byte("\x00"), []byte("\xff\xfe\nid: 7.7\n\n"), []byte("\x1b[2J\x1b]0;x\x07"), []byte("data: \u2028\u2029"), []byte(": comment\n"), bytes.Repeat([]byte("\x00"), 32<<10),
	}
	gate, open := newGate()
	defer open()
	w := start(t, setUp{play: scriptedBy(faithful, func(s *scripted) bool {
		<-gate
		for _, piece := range hostile {
			s.print("stdout", piece)
		}
		return true
	})})
	id := w.submitted(`{"code": "return 1"}`, "")
	s := w.open("/v1/jobs/"+id.String()+"/events", "", "")
	var printed []byte
	var names []string
	for m, ok := s.next(); ok; m, ok = s.next() {
		if names = append(names, m.name); m.name == "started" {
			open()
		}
		if m.name == "output" {
			printed = append(printed, m.data.Output.Data...)
		}
	}
	names = slices.Compact(names)
	if diff := cmp.Diff([]string{"queued", "claimed", "started", "output", "finished"}, names); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if want := bytes.Join(hostile, nil); !bytes.Equal(printed, want) {
		t.Errorf("got %d bytes of output %.200q, want the %d that were printed", len(printed), printed, len(want))
	}
	if len(s.comments) != 1 {
		t.Errorf("got comments %q, want the gateway's own", s.comments)
	}
}

// TestOutputThatWasNotHeard: an end that is heard before what was printed last
// takes none of it away from those who followed.
func TestOutputThatWasNotHeard(t *testing.T) {
	t.Parallel()
	long := "x" + strings.Repeat("ä", 40<<10)
	for name, c := range map[string]struct {
		lose func(offset int64) bool
		// comes is the id with which the client comes once the guest has started,
		// "-" when the job has ended, "" before.
		comes string
		want  string
	}{
		"all is heard":              {lose: func(int64) bool { return false }, want: "one\n" + long},
		"the last is not":           {lose: func(at int64) bool { return at > 0 }, want: "one\n" + long},
		"nothing is":                {lose: func(int64) bool { return true }, want: "one\n" + long},
		"resumed, and nothing is":   {lose: func(int64) bool { return true }, comes: "1.1", want: ""},
		"resumed before the claim":  {lose: func(int64) bool { return true }, comes: "0.0", want: "one\n" + long},
		"came when all was history": {lose: func(int64) bool { return true }, comes: "-", want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			started := make(chan struct{})
			gate, open := newGate()
			defer open()
			tell := func(w *world, j *job.Job, n job.News) {
				if n.Kind != job.NewsOutput || !c.lose(n.Offset) {
					w.queue.Tell(j, n)
				}
			}
			w := start(t, setUp{play: scriptedBy(tell, func(s *scripted) bool {
				close(started)
				<-gate
				s.print("stdout", []byte("one\n"))
				s.print("stdout", []byte(long))
				return true
			})})
			id := w.submitted(`{"code": "return 1"}`, "")
			<-started
			if c.comes == "-" {
				open()
				w.open("/v1/jobs/"+id.String()+"/events", "", "").rest()
			}
			s := w.open("/v1/jobs/"+id.String()+"/events", strings.Trim(c.comes, "-"), "")
			if c.comes != "-" {
				open()
			}
			var got []byte
			for _, m := range s.rest() {
				if m.name == "output" {
					if m.data.Output.Offset != int64(len(got)) {
						t.Errorf("got output at %d, want it at %d", m.data.Output.Offset, len(got))
					}
					got = append(got, m.data.Output.Data...)
				}
			}
			if string(got) != c.want {
				t.Errorf("got %d bytes of output %.80q, want %d", len(got), got, len(c.want))
			}
		})
	}
}

func TestEventsAreOfTheirTenantOnly(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{public: true})
	mine, theirs, blind := w.token("a"), w.token("b"), w.token("a", store.ScopeSubmit)
	id := w.submitted(`{"code": "return 1", "batch": "b1"}`, mine)
	w.open("/v1/jobs/"+id.String()+"/events", "", mine).rest()
	w.open("/v1/batches/b1/events", "", mine).rest()
	for _, path := range []string{"/v1/jobs/" + id.String() + "/events", "/v1/batches/b1/events"} {
		w.ask(asking{path: path, token: theirs}).refused(t, path, gateway.CodeNotFound, http.StatusNotFound)
		w.ask(asking{path: path, token: blind}).refused(t, path, gateway.CodeForbidden, http.StatusForbidden)
		w.ask(asking{path: path}).refused(t, path, gateway.CodeUnauthorized, http.StatusUnauthorized)
	}
	// Not even who knows the id and is first hears of it.
	for _, path := range []string{"/v1/jobs/" + job.NewID().String() + "/events", "/v1/jobs/x/events", "/v1/batches/none/events"} {
		w.ask(asking{path: path, token: mine}).refused(t, path, gateway.CodeNotFound, http.StatusNotFound)
	}
}

// TestASlowReaderIsSentAway, and what waits for it does not grow.
func TestASlowReaderIsSentAway(t *testing.T) {
	t.Parallel()
	gate, open := newGate()
	defer open()
	flooded, dry := newGate()
	defer dry()
	w := start(t, setUp{gateway: gateway.Config{AnswerWait: 2 * time.Second}, play: scriptedBy(faithful, func(s *scripted) bool {
		<-gate
		for range 1000 {
			s.news(job.News{Kind: job.NewsOutput, Stream: "stdout", Data: bytes.Repeat([]byte("x"), 32<<10)})
		}
		<-flooded
		return true
	})})
	id := w.submitted(`{"code": "return 1"}`, "")
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	must(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "GET /v1/jobs/%s/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", id)
	eventually(t, "following", func() bool { return gateway.Following(w.gw) == 1 })
	open()
	eventually(t, "sent away", func() bool { return gateway.Following(w.gw) == 0 })
	dry()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	seen, _ := io.ReadAll(conn)
	if bytes.Contains(seen, []byte("event: finished")) {
		t.Error("a client that does not read was served to the end")
	}
	// It may be sent away again while there is still a flood.
	eventually(t, "finished after coming back", func() bool {
		got := w.open("/v1/jobs/"+id.String()+"/events", "1.1", "").rest()
		return len(got) > 0 && got[len(got)-1].name == "finished"
	})
}

// TestOutputComesAfterTheStart also for who comes when the news of the start
// have gone by, and the history does not have it yet.
func TestOutputComesAfterTheStart(t *testing.T) {
	t.Parallel()
	gate, open := newGate()
	defer open()
	w := start(t, setUp{play: scriptedBy(faithful, func(s *scripted) bool {
		<-gate
		s.print("stdout", []byte("late\n"))
		return true
	})})
	id := w.submitted(`{"code": "return 1"}`, "")
	eventually(t, "it runs", func() bool {
		record, err := w.store.Job(t.Context(), "default", id)
		return err == nil && record.State == job.StateRunning
	})
	s := w.open("/v1/jobs/"+id.String()+"/events", "", "")
	eventually(t, "following", func() bool { return gateway.Following(w.gw) == 1 })
	open()
	var got []string
	for _, m := range s.rest() {
		got = append(got, strings.TrimSpace(m.id+" "+m.name))
	}
	want := []string{"0.0 queued", "1.0 claimed", "1.1 started", "output", "1.end finished"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestAThousandStreams(t *testing.T) {
	t.Parallel()
	const jobs, each = 100, 10
	gate, open := newGate()
	defer open()
	w := start(t, setUp{gateway: gateway.Config{Rate: 1e6}, play: scriptedBy(faithful, func(s *scripted) bool {
		<-gate
		s.end(s.start(1), job.CallOK)
		s.print("stdout", []byte("hello"))
		return true
	})})
	var connected, done sync.WaitGroup
	for range jobs {
		id := w.submitted(`{"code": "return 1"}`, "")
		for range each {
			connected.Add(1)
			done.Go(func() {
				s := w.open("/v1/jobs/"+id.String()+"/events", "", "")
				m, ok := s.next()
				connected.Done()
				var ids []string
				for ; ok; m, ok = s.next() {
					if m.id != "" {
						ids = append(ids, m.id)
					}
				}
				if diff := cmp.Diff([]string{"0.0", "1.0", "1.1", "1.2", "1.3", "1.end"}, ids); diff != "" {
					t.Errorf("ids (-want +got):\n%s", diff)
				}
			})
		}
	}
	connected.Wait()
	if got := gateway.Following(w.gw); got != jobs*each {
		t.Errorf("got %d streams, want %d", got, jobs*each)
	}
	open()
	done.Wait()
	eventually(t, "nobody is left", func() bool { return gateway.Following(w.gw) == 0 })
}

func TestStreamsEndWithTheGateway(t *testing.T) {
	t.Parallel()
	gate, open := newGate()
	defer open()
	w := start(t, setUp{play: scriptedBy(faithful, func(*scripted) bool { <-gate; return true })})
	id := w.submitted(`{"code": "return 1", "batch": "b"}`, "")
	s, b := w.open("/v1/jobs/"+id.String()+"/events", "", ""), w.open("/v1/batches/b/events", "", "")
	for m, ok := s.next(); ok && m.name != "started"; m, ok = s.next() {
	}
	w.gw.Leave()
	s.rest()
	b.rest()
	if got := s.comments[len(s.comments)-1]; !strings.Contains(got, "1.1") {
		t.Errorf("got comment %q, want the id to go on from", got)
	}
	open()
}

// TestABatchIsFollowedToItsEnd: over several pages, by clients that are cut off.
func TestABatchIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	const jobs = 1200
	w := start(t, setUp{gateway: gateway.Config{Rate: 1e6}})
	r := w.ask(asking{method: http.MethodPost, path: "/v1/batches?name=big", media: "application/x-ndjson", body: lines(jobs)})
	if got := into[gateway.BatchReceipt](t, r); got.Accepted != jobs {
		t.Fatalf("got %+v, want all accepted", got)
	}
	eventually(t, "all are in the history", func() bool {
		r := w.ask(asking{path: "/v1/batches/big"})
		return r.status == http.StatusOK && into[job.Summary](t, r).Total == jobs
	})
	seen, total, last := map[job.ID]int{}, 0, ""
	for until, before := time.Now().Add(patience), 0; time.Now().Before(until); {
		if len(seen) > before { // a busy machine is slow, which is no failure
			until, before = time.Now().Add(patience), len(seen)
		}
		s := w.open("/v1/batches/big/events", last, "")
		if s.resp.StatusCode == http.StatusNoContent {
			break
		}
		for n := rand.IntN(400); n >= 0; n-- {
			m, ok := s.next()
			if !ok {
				break
			}
			switch m.name {
			case "finished":
				seen[m.data.Job]++
				if m.data.Ended.Status != job.StatusOK {
					t.Errorf("got %+v, want ok", m.data.Ended)
				}
			case "progress":
				total = m.data.Progress.Total
			}
		}
		last = s.last
		s.cut()
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("job %s ended %d times", id, n)
		}
	}
	if len(seen) != jobs || total != jobs {
		t.Errorf("got the ends of %d jobs, %d counted, want %d", len(seen), total, jobs)
	}
	whole := w.open("/v1/batches/big/events", "", "").rest()
	if n := len(whole); n != jobs+1 || whole[n-1].name != "progress" || whole[n-1].data.Progress.States[job.StateFinished] != jobs {
		t.Errorf("got %d events of a batch that has ended, want each end and the counts", n)
	}
	w.ask(asking{path: "/v1/batches/big/events?last_event_id=1-x"}).refused(t, "bad id", gateway.CodeBadRequest, http.StatusBadRequest)
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"code\": \"return %d\"}\n", i)
	}
	return b.String()
}
