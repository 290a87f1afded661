//go:build linux

package faults_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// pause lets a fault last.
func pause(d time.Duration) { <-time.After(d) }

func killOnlyNode(t testing.TB, p *plant) {
	p.nodes[0].kill()
	pause(2 * time.Second)
	p.nodes[0].start(t)
}

// wipeNode has the only node come back without anything that it kept.
func wipeNode(t testing.TB, p *plant) {
	n := p.nodes[0]
	n.kill()
	if err := os.RemoveAll(n.store); err != nil {
		t.Fatal(err)
	}
	n.start(t)
}

func killLeader(t testing.TB, p *plant) { killFor(t, p.awaitStreamLeader(t)) }

func killFollower(t testing.TB, p *plant) { killFor(t, p.follower(t)) }

func killFor(t testing.TB, n *node) {
	n.kill()
	pause(aWhile)
	n.start(t)
}

// partitionLeader takes the leader's routes away; its clients still reach it.
func partitionLeader(t testing.TB, p *plant) {
	n := p.awaitStreamLeader(t)
	for _, link := range n.links {
		link.block(true)
	}
	pause(2 * aWhile)
	for _, link := range n.links {
		link.block(false)
	}
}

func restartPostgres(t testing.TB, p *plant) {
	if err := p.postgres.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func postgresDown(t testing.TB, p *plant) {
	if err := p.postgres.Stop(); err != nil {
		t.Fatal(err)
	}
	pause(outage)
	if err := p.postgres.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// refuseWrites has Postgres answer every write as it does when its disk is
// full.
func refuseWrites(t testing.TB, p *plant) {
	db := p.database(t)
	ctx := context.Background()
	_, err := db.Exec(ctx, `
		CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
		    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
		END $$;
		CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE OR DELETE ON jobs FOR EACH STATEMENT EXECUTE FUNCTION full_disk();
		CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE OR DELETE ON attempts FOR EACH STATEMENT EXECUTE FUNCTION full_disk();
		CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE OR DELETE ON tool_calls FOR EACH STATEMENT EXECUTE FUNCTION full_disk();
		CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE OR DELETE ON announcements FOR EACH STATEMENT EXECUTE FUNCTION full_disk();`)
	if err != nil {
		t.Fatal(err)
	}
	pause(aWhile)
	if _, err := db.Exec(ctx, `DROP FUNCTION full_disk() CASCADE`); err != nil {
		t.Fatal(err)
	}
}

func cutConnections(t testing.TB, p *plant) {
	for range 8 {
		p.natsWay.sever()
		pause(300 * time.Millisecond)
		p.postgresWay.sever()
		pause(300 * time.Millisecond)
	}
	p.natsWay.block(true)
	p.postgresWay.block(true)
	pause(3 * time.Second)
	p.natsWay.block(false)
	p.postgresWay.block(false)
}

func slowNetwork(t testing.TB, p *plant) {
	p.natsWay.slow(150 * time.Millisecond)
	p.postgresWay.slow(150 * time.Millisecond)
	pause(2 * aWhile)
	p.natsWay.slow(0)
	p.postgresWay.slow(0)
}

// publishAgain puts a copy of each waiting message into the queue, under ids of
// its own, as a submitter does that lost its memory.
func publishAgain(t testing.TB, p *plant) {
	stream, err := p.js.Stream(t.Context(), "JOBS")
	if err != nil {
		t.Fatal(err)
	}
	state := stream.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		old, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			continue // done already
		}
		for range 2 {
			msg := &nats.Msg{Subject: old.Subject, Data: old.Data, Header: nats.Header{}}
			msg.Header.Set("Airlock-Generation", old.Header.Get("Airlock-Generation"))
			if _, err := p.js.PublishMsg(t.Context(), msg); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// acknowledgeForOthers acts as a worker that lost its leases and does not know:
// it says things of deliveries that others hold by now. The queue goes by the
// message's number in the stream, whoever's delivery it was.
func acknowledgeForOthers(t testing.TB, p *plant) {
	stale := p.earlierDeliveries(t)
	if len(stale) < len(p.steps)/2 {
		t.Fatalf("only %d messages are held", len(stale))
	}
	nc := p.connect(t, "stale worker")
	for round := range 3 {
		for i, reply := range stale {
			word := []string{"-NAK", "+WPI", "+ACK"}[(i+round)%3]
			if err := nc.Publish(reply, []byte(word)); err != nil {
				t.Fatal(err)
			}
		}
		pause(500 * time.Millisecond)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

// dropMessages acknowledges what dead workers hold: a stale acknowledgement
// takes a message out of the queue for good, and nobody else knows of it.
func dropMessages(t testing.TB, p *plant) {
	nc := p.connect(t, "stale worker")
	for _, reply := range p.earlierDeliveries(t) {
		if err := nc.Publish(reply, []byte("+ACK")); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

// earlierDeliveries are the subjects that a delivery of each message would
// have had before the one that holds now.
func (p *plant) earlierDeliveries(t testing.TB) (replies []string) {
	stream, err := p.js.Stream(t.Context(), "JOBS")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{} // of consumers, by their filters
	consumers := stream.ListConsumers(t.Context())
	for info := range consumers.Info() {
		names[info.Config.FilterSubject] = info.Name
	}
	state := stream.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		msg, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			continue // done already
		}
		name := names[msg.Subject]
		if name == "" {
			name = names[msg.Subject[:strings.LastIndex(msg.Subject, ".")]+".*"]
		}
		if name == "" {
			continue // nobody has taken any of that lane yet
		}
		replies = append(replies, fmt.Sprintf("$JS.ACK.JOBS.%s.1.%d.1.%d.0", name, seq, msg.Time.UnixNano()))
	}
	return replies
}

// loseDoorbells has the queue ring for nobody any more.
func loseDoorbells(t testing.TB, p *plant) {
	stream, err := p.js.Stream(t.Context(), "QUEUED")
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.RePublish = nil
	if _, err := p.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// starve lets the workers of the steps run for a twentieth of the time, as on a
// host whose guests take all of it, for longer than a lease (F48): what they
// hold stays theirs.
func starve(t testing.TB, p *plant) {
	lasts, err := time.ParseDuration(starvedFor)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		for _, s := range p.steps {
			s.worker.signal(syscall.SIGSTOP)
		}
		pause(190 * time.Millisecond)
		for _, s := range p.steps {
			s.worker.signal(syscall.SIGCONT)
		}
		pause(10 * time.Millisecond)
	}
}

// drainAll has every worker that is at a step leave, and then the others one
// after the other, as a rolling restart does.
func drainAll(t testing.TB, p *plant) {
	for _, s := range p.steps {
		s.worker.signal(syscall.SIGTERM)
	}
	for _, w := range p.hands {
		w.awaitReady(t)
	}
	for i, old := range p.hands {
		labels := []string{loadLabel}
		for _, s := range p.steps {
			labels = append(labels, s.label())
		}
		fresh := p.start(t, labels, "", workerBinary(t))
		fresh.awaitReady(t)
		old.drain(t)
		p.hands[i] = fresh
	}
	for _, s := range p.steps {
		s.worker.await(t)
	}
}
