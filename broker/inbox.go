package broker

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"airlock/broker/provider"
	"airlock/job"

	"github.com/nats-io/nats.go"
)

// inbox receives the answers of all calls on one subscription. Each call has
// an address that nobody can guess and that is good for one answer; whatever
// arrives elsewhere is dropped.
type inbox struct {
	nc *nats.Conn

	mu      sync.Mutex
	sub     *nats.Subscription     // guarded by mu, as all below
	prefix  string                 // of the addresses
	waiting map[string]chan Answer // by the last token of the address
	closed  bool
}

// open returns the address and the channel of one answer.
func (b *inbox) open() (address, token string, answer chan Answer, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return "", "", nil, errors.New("the catalogue is closed")
	}
	if b.sub == nil {
		if err := b.subscribe(); err != nil {
			return "", "", nil, err
		}
	}
	var secret [16]byte
	rand.Read(secret[:]) // never fails
	token = hex.EncodeToString(secret[:])
	answer = make(chan Answer, 1)
	b.waiting[token] = answer
	return b.prefix + token, token, answer, nil
}

// subscribe is called with mu held.
func (b *inbox) subscribe() error {
	prefix := toolInbox(b.nc) + "."
	sub, err := b.nc.Subscribe(prefix+"*", b.receive)
	if err != nil {
		return err
	}
	// The calls that are open bound what can arrive; dropping some of it
	// would turn answers into timeouts.
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return err
	}
	b.sub, b.prefix, b.waiting = sub, prefix, map[string]chan Answer{}
	return nil
}

// toolInbox is like nc.NewInbox, at the place where permissions let providers
// publish.
func toolInbox(nc *nats.Conn) string {
	own := strings.TrimSuffix(nats.InboxPrefix, ".")
	if nc.Opts.InboxPrefix != "" {
		own = strings.TrimSuffix(nc.Opts.InboxPrefix, ".")
	}
	var secret [16]byte
	rand.Read(secret[:]) // never fails
	return job.ToolInbox(own) + "." + hex.EncodeToString(secret[:])
}

func (b *inbox) receive(msg *nats.Msg) {
	token := msg.Subject[strings.LastIndexByte(msg.Subject, '.')+1:]
	b.mu.Lock()
	answer, open := b.waiting[token]
	delete(b.waiting, token)
	b.mu.Unlock()
	if open {
		answer <- readAnswer(msg)
	}
}

func (b *inbox) forget(token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, token)
}

func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.sub != nil {
		b.sub.Unsubscribe() // fails only when the connection is gone as well
		b.sub, b.waiting = nil, nil
	}
}

// Call implements Tools.
func (c *Catalogue) Call(t *Tool, r Request) (<-chan Answer, func(), error) {
	// A message that waits for the connection would arrive long after the
	// guest was told that there is no answer.
	if !c.nc.IsConnected() {
		return nil, nil, errors.New("not connected to NATS")
	}
	if !job.ValidName(r.Tenant) || !job.ValidToolName(t.Namespace) || !job.ValidToolName(t.Name) {
		return nil, nil, errors.New("a name that must not reach a subject or header")
	}
	address, token, answer, err := c.inbox.open()
	if err != nil {
		return nil, nil, fmt.Errorf("subscribe: %w", err)
	}
	msg := nats.NewMsg(provider.Subject(t.Namespace, t.Name))
	msg.Reply, msg.Data = address, r.Arguments
	msg.Header = nats.Header{
		provider.HeaderTenant:         {r.Tenant},
		provider.HeaderJob:            {r.Job.String()},
		provider.HeaderCall:           {callID(r.Job, r.Attempt, r.Seq)},
		provider.HeaderDeadline:       {r.Deadline.UTC().Format(time.RFC3339Nano)},
		provider.HeaderIdempotencyKey: {r.Key},
	}
	if traceParentPattern.MatchString(r.TraceParent) {
		msg.Header.Set(provider.HeaderTraceParent, r.TraceParent)
	}
	if err := c.nc.PublishMsg(msg); err != nil {
		c.inbox.forget(token)
		if errors.Is(err, nats.ErrMaxPayload) {
			err = ErrTooLarge
		}
		return nil, nil, fmt.Errorf("publish: %w", err)
	}
	return answer, func() { c.inbox.forget(token) }, nil
}

// Cancel implements Canceller. All instances of the namespace hear it: which
// one has the call is the server's secret.
func (c *Catalogue) Cancel(t *Tool, r Request) {
	if !c.nc.IsConnected() || !job.ValidToolName(t.Namespace) {
		return
	}
	err := c.nc.PublishMsg(&nats.Msg{
		Subject: provider.CancelSubject(t.Namespace),
		Header:  nats.Header{provider.HeaderCall: {callID(r.Job, r.Attempt, r.Seq)}},
	})
	if err != nil {
		c.cfg.Log.Debug().Err(err).Str(fieldNamespace, t.Namespace).Msg("provider not told of a cancelled call")
	}
}

var (
	codePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
	// traceParentPattern is version 00 of W3C Trace Context.
	traceParentPattern = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
	instancePattern    = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
)

// maxProviderMessage bounds what a provider may tell a guest.
const maxProviderMessage = 300

// readAnswer takes an answer apart. Of an error the guest learns the code, and
// the message if the provider says that it may; the description stays here.
func readAnswer(msg *nats.Msg) Answer {
	if len(msg.Data) == 0 && msg.Header.Get("Status") == "503" {
		return Answer{Code: CodeNoProvider, Message: "nobody answers for the tool"}
	}
	answer := Answer{Body: msg.Data}
	if instance := msg.Header.Get(provider.HeaderProvider); instancePattern.MatchString(instance) {
		answer.Provider = instance
	}
	code, isError := errorCode(msg.Header)
	if !isError {
		return answer
	}
	answer.Body, answer.Detail = nil, msg.Header.Get(provider.HeaderError)
	answer.Code, answer.Message = CodeProviderError, code
	answer.Retryable = msg.Header.Get(provider.HeaderRetryable) == "true"
	switch code {
	case provider.CodeTooLarge:
		answer.Code, answer.Message = CodeTooLarge, "the answer exceeds what one message carries"
	case provider.CodeDeadline:
		answer.Code, answer.Message = CodeTimeout, "no answer in time; the tool may still have acted"
	}
	if public := msg.Header.Get(provider.HeaderMessage); public != "" {
		answer.Message += ": " + job.Printable(public, maxProviderMessage)
	}
	return answer
}

// errorCode reports whether an answer is an error, by the presence of either
// header. A provider that gives out its word for this worker's is not quoted.
func errorCode(h nats.Header) (code string, isError bool) {
	_, hasCode := h[provider.HeaderErrorCode]
	_, hasText := h[provider.HeaderError]
	if code = h.Get(provider.HeaderErrorCode); !codePattern.MatchString(code) || provider.Reserved(code) && code != provider.CodeCancelled {
		code = "error"
	}
	return code, hasCode || hasText
}

func itoa(n int) string { return strconv.Itoa(n) }
