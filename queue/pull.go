package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
)

// puller asks consumers for messages, and takes what they give out however late
// it comes. The library's own fetch listens for a second and no longer: what is
// under way by then waits out AckWait before anybody gets it. It takes no more
// for that than a process that stood still, or a flood of other messages on its
// connection. A puller belongs to one goroutine.
type puller struct {
	nc    *nats.Conn
	inbox string
	sub   *nats.Subscription
	// answers is for read, and for who waits for something else too.
	answers chan *nats.Msg
	asked   uint64
}

// newPuller makes a puller of whose answers so many may lie about that nobody
// has taken. The caller calls close.
func (q *Queue) newPuller(ahead int) (*puller, error) {
	p := &puller{nc: q.nc, inbox: q.nc.NewInbox(), answers: make(chan *nats.Msg, ahead)}
	sub, err := q.nc.ChanSubscribe(p.inbox+".*", p.answers)
	if err != nil {
		return nil, fmt.Errorf("listen for what is pulled: %w", err)
	}
	p.sub = sub
	return p, nil
}

// close gives back what nobody has taken.
func (p *puller) close() {
	_ = p.sub.Unsubscribe() // fails only when the connection is gone
	for {
		select {
		case msg := <-p.answers:
			if isMessage(msg) {
				_ = (&message{nc: p.nc, msg: msg}).Nak() // lost, it waits out AckWait
			}
		default:
			return
		}
	}
}

// pullRequest is what the server reads.
type pullRequest struct {
	Batch   int   `json:"batch"`
	NoWait  bool  `json:"no_wait,omitzero"`
	Expires int64 `json:"expires,omitzero"`
}

// ask asks a consumer for up to batch messages: of those that are there or, if
// wait is not zero, of those that come within it. It returns the question.
func (p *puller) ask(consumer jetstream.Consumer, batch int, wait time.Duration) (question string, err error) {
	body, err := json.Marshal(pullRequest{Batch: batch, NoWait: wait == 0, Expires: wait.Nanoseconds()})
	if err != nil {
		return "", fmt.Errorf("encode request: %w", err)
	}
	p.asked++
	question = p.inbox + "." + strconv.FormatUint(p.asked, 10)
	info := consumer.CachedInfo()
	return question, p.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+info.Stream+"."+info.Name, question, body)
}

// read reads one of answers: a message, or that there is no further one to a
// question, and what is wrong if something is; or neither.
func (p *puller) read(answer *nats.Msg) (m *message, ended string, err error) {
	if isMessage(answer) {
		return &message{nc: p.nc, msg: answer}, "", nil
	}
	switch status, words := answer.Header.Get("Status"), answer.Header.Get("Description"); {
	case status == "100": // a sign of life
		return nil, "", nil
	case status == "404" || status == "408": // nothing is there, or came in time
		return nil, answer.Subject, nil
	case status == noResponders:
		return nil, answer.Subject, nats.ErrNoResponders
	case strings.EqualFold(words, "Consumer Deleted"):
		return nil, answer.Subject, jetstream.ErrConsumerDeleted
	default:
		return nil, answer.Subject, fmt.Errorf("pull: the server says %s %s", job.Printable(status, 20), job.Printable(words, 200))
	}
}

// gather takes up to batch messages: those that come until the question has no
// further ones, nothing came for so long, or ctx ends.
func (p *puller) gather(ctx context.Context, question string, batch int, patience time.Duration) (msgs []*message, err error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for len(msgs) < batch {
		select {
		case answer := <-p.answers:
			m, ended, err := p.read(answer)
			if m != nil {
				msgs = append(msgs, m)
			}
			if ended == question {
				return msgs, err
			}
			timer.Reset(patience)
		case <-timer.C:
			return msgs, nil
		case <-ctx.Done():
			return msgs, nil
		}
	}
	return msgs, nil
}

// isMessage tells what a stream holds from what the server says itself. The
// headers of the former are foreign, and where its acknowledgement goes is not.
func isMessage(msg *nats.Msg) bool { return strings.HasPrefix(msg.Reply, "$JS.ACK.") }
