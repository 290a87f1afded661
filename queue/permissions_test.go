package queue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

// attempt is one publish or subscription; a space parts a queue group.
type attempt struct {
	verb, subject string
}

func pub(subject string) attempt { return attempt{"publish", subject} }
func sub(subject string) attempt { return attempt{"subscribe", subject} }

// refused makes the attempt on a connection of its own and reports whether the
// server refused it.
func refused(t *testing.T, srv *natstest.Server, user string, a attempt) bool {
	t.Helper()
	nc := srv.ConnectAs(user)
	defer nc.Close()
	subject, group, _ := strings.Cut(a.subject, " ")
	switch a.verb {
	case "publish":
		must(t, nc.Publish(subject, []byte("{}")))
	case "subscribe":
		_, err := nc.QueueSubscribeSync(subject, group)
		must(t, err)
	}
	// The refusal comes before the answer to the flush.
	must(t, nc.FlushTimeout(patience))
	err := nc.LastError()
	if err != nil && !errors.Is(err, nats.ErrPermissionViolation) {
		t.Fatalf("%s %s: got error %v", a.verb, a.subject, err)
	}
	return err != nil
}

// nobody's: what no role but the administrator may do.
var nobodys = []attempt{
	sub(">"), sub("_INBOX.>"), sub("_INBOX.*.>"), sub("_INBOX.admin.>"), sub("$JS.>"), sub("$KV.>"), sub("$SYS.>"), sub("jobs.>"), sub("jobs.any.normal.a"),
	sub("queued.>"), sub("results.>"), sub("results.b.>"), sub("results.*.*.*"), sub("events.>"), sub("blobs.>"), sub("control.>"), sub("fleet.>"), sub("tools.>"),
	pub("queued.any.normal.a"), pub("bell.any.normal.a"), pub("$SYS.REQ.SERVER.PING"), pub("$JS.API.INFO"),
	pub("$JS.API.STREAM.LIST"), pub("$JS.API.STREAM.NAMES"), pub("$JS.API.STREAM.CREATE.OTHER"), pub("$JS.API.STREAM.SNAPSHOT.JOBS"),
	pub("$JS.API.STREAM.DELETE.JOBS"), pub("$JS.API.STREAM.PURGE.JOBS"), pub("$JS.API.STREAM.PURGE.KV_KEYS"), pub("$JS.API.STREAM.MSG.DELETE.RESULTS"),
	pub("$JS.API.STREAM.MSG.GET.JOBS"), pub("$JS.API.STREAM.MSG.GET.RESULTS"), pub("$JS.API.DIRECT.GET.RESULTS"), pub("$JS.API.DIRECT.GET.BLOBS"),
	pub("$JS.API.DIRECT.GET.KV_KEYS"), pub("$JS.API.CONSUMER.NAMES.RESULTS"),
	pub("$JS.API.CONSUMER.LIST.RESULTS"), pub("$JS.API.CONSUMER.CREATE.RESULTS"), pub("$JS.API.CONSUMER.CREATE.RESULTS.x"),
	pub("$JS.API.CONSUMER.CREATE.RESULTS.x.results.b.*.*"), pub("$JS.API.CONSUMER.CREATE.RESULTS.x.>"), pub("$JS.API.CONSUMER.CREATE.RESULTS.x.results.*.*.*"),
	pub("$JS.API.CONSUMER.DURABLE.CREATE.RESULTS.x"), pub("$JS.API.CONSUMER.DURABLE.CREATE.JOBS.x"),
	pub("$JS.API.CONSUMER.CREATE.BLOBS.x.blobs.*.*.*"), pub("$JS.API.CONSUMER.CREATE.KV_KEYS.x.$KV.KEYS.>"),
	pub("$JS.API.SERVER.REMOVE"), pub("$JS.API.ACCOUNT.PURGE.AIRLOCK"),
}

func TestEachRoleIsRefusedWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	srv.ExpectRefusals()
	open(t, srv, queue.Config{})
	digest := strings.Repeat("0", 64)
	id := job.NewID().String()
	for user, c := range map[string]struct{ allowed, refused []attempt }{
		"submitter-a": {
			allowed: []attempt{
				pub("jobs.any.normal.a"), pub("control.a.status"), pub("control.a.approvals"), pub("control.a.tools"), pub("fleet.a.lane"), pub("blobs.a." + digest + ".0"),
				pub("$KV.KEYS.a." + digest), pub("$KV.CANCELS.a.job." + id), pub("$JS.API.CONSUMER.CREATE.RESULTS.x.results.a.*.*"),
				pub("$JS.API.CONSUMER.CREATE.RESULTS.x.results.a.batch." + id), sub("_INBOX.submitter-a.>"),
			},
			refused: []attempt{
				// jobs, results, questions, keys, cancellations and blobs of another tenant
				pub("jobs.any.normal.b"), pub("jobs.any.normal.*"), pub("results.a._." + id), pub("results.b._." + id), pub("events.a._." + id), sub("events.a.*.*"), pub("control.b.status"),
				pub("control.b.cancel"), pub("fleet.b.blob"), pub("fleet.*.blob"), pub("blobs.b." + digest + ".0"), pub("$KV.KEYS.b." + digest),
				pub("$KV.CANCELS.b.job." + id), pub("$KV.CANCELS.b.batch.x"),
				// what workers show and decide
				pub("$KV.LANES.any"), pub("$KV.WORKERS.w1"), sub("bell.>"), sub("control.a.status"), sub("control.*.* control"), sub("fleet.*.* fleet"),
				// reading what tenants wrote, from where it may be sent anywhere
				pub("$JS.API.DIRECT.GET.KV_KEYS.$KV.KEYS.a." + digest), pub("$JS.API.DIRECT.GET.BLOBS.blobs.a." + digest + ".0"),
				pub("$JS.API.CONSUMER.CREATE.KV_CANCELS.x.$KV.CANCELS.>"), pub("$JS.API.CONSUMER.CREATE.KV_CANCELS.x.$KV.CANCELS.a.>"),
				pub("$JS.API.STREAM.INFO.JOBS"), pub("$JS.API.STREAM.INFO.KV_KEYS"), pub("$JS.API.STREAM.INFO.KV_CANCELS"), pub("$JS.API.STREAM.INFO.RESULTS"),
				pub("$JS.API.CONSUMER.DELETE.JOBS.any=normal=a"), pub("$JS.API.CONSUMER.MSG.NEXT.JOBS.any=normal=a"), pub("$JS.API.CONSUMER.CREATE.JOBS.x.jobs.*.*.*"), pub("$JS.ACK.JOBS.any=normal=a.1.1.1.1.0"),
				// what a person decides
				pub("approval.a.decide"), pub("approval.b.decide"), pub("decided." + id), sub("decided.*"), sub("approval.*.* approval"),
				// tools
				pub("tools.math.add"), sub("tools.math.add"), sub("tools.math.add q"), pub("$SRV.INFO"), sub("$SRV.INFO"),
				// others' inboxes
				pub("_INBOX.worker.x"), pub("_INBOX.submitter-b.x"), sub("_INBOX.submitter-b.>"), sub("_INBOX.worker.>"),
			},
		},
		"worker": {
			allowed: []attempt{
				pub("jobs.any.normal.b"), pub("results.b._." + id), pub("events.b._." + id), pub("tools.math.add"), pub("$SRV.INFO"), pub("_INBOX.submitter-b.x"),
				pub("$JS.ACK.JOBS.any=normal=a.1.1.1.1.0"), sub("control.*.* control"), sub("fleet.*.* fleet"), sub("approval.*.* approval"), pub("decided." + id), sub("decided.*"), sub("bell.any.*.*"), sub("_INBOX.worker.x"),
			},
			refused: []attempt{
				sub("_INBOX.submitter-a.>"), sub("events.*.*.*"), sub("control.*.*"), sub("control.*.* other"), sub("fleet.*.*"), sub("approval.*.*"), pub("approval.a.decide"), sub("tools.math.add"), sub("tools.math.add q"),
				sub("$SRV.INFO"), pub("control.a.status"), pub("fleet.a.blob"), pub("$JS.API.STREAM.DELETE.KV_LANES"), pub("$JS.API.CONSUMER.DELETE.RESULTS.x"),
			},
		},
		"gateway": {
			allowed: []attempt{
				pub("jobs.any.normal.b"), pub("control.b.tools"), pub("$KV.CANCELS.b.job." + id), sub("events.*.*.*"), sub("results.*.*.*"), sub("_INBOX.gateway.>"),
				pub("$JS.API.CONSUMER.CREATE.RESULTS.x.results.b.*.*"), pub("$JS.API.CONSUMER.CREATE.RESULTS.x.results.*.*.*"),
			},
			refused: []attempt{
				pub("events.a._." + id), pub("results.a._." + id), pub("approval.a.decide"), pub("tools.math.add"), pub("$KV.LANES.any"), pub("$KV.WORKERS.w1"),
				sub("_INBOX.worker.>"), sub("tools.math.add q"), sub("control.*.* control"), pub("$JS.API.STREAM.DELETE.RESULTS"),
			},
		},
		"provider-math": {
			allowed: []attempt{
				sub("tools.math.add q"), sub("tools.math.* q"), sub("$SRV.INFO"), sub("$SRV.INFO.math"), sub("$SRV.PING.math.x"),
				pub("_INBOX.worker.tools.x.y"), sub("_INBOX.provider-math.>"),
			},
			refused: []attempt{
				sub("tools.math.add"), sub("tools.other.add q"), sub("tools.*.* q"), sub("tools.> q"), sub("$SRV.INFO.other"), sub("$SRV.>"),
				pub("tools.math.add"), pub("tools.other.add"), pub("_INBOX.worker.x"), pub("_INBOX.submitter-a.x"), pub("jobs.any.normal.a"),
				pub("results.a._." + id), pub("control.a.status"), pub("approval.a.decide"), pub("decided." + id), pub("fleet.a.blob"), pub("$KV.WORKERS.w1"), pub("$KV.LANES.any"), pub("$SRV.INFO"),
				pub("$JS.API.STREAM.INFO.KV_WORKERS"), pub("$JS.API.STREAM.INFO.JOBS"), sub("_INBOX.worker.>"), sub("_INBOX.worker.tools.>"), sub("results.a.*.*"),
			},
		},
		"approver-a": {
			allowed: []attempt{
				pub("approval.a.decide"), pub("control.a.approvals"), pub("fleet.a.lanes"), sub("_INBOX.approver-a.x"),
				pub("$JS.API.STREAM.INFO.KV_LANES"), pub("$JS.API.STREAM.INFO.KV_WORKERS"),
			},
			refused: []attempt{
				pub("approval.b.decide"), pub("approval.a.other"), pub("control.a.status"), pub("control.a.cancel"), pub("control.b.approvals"), pub("fleet.a.key"),
				pub("fleet.a.blob"), pub("decided." + id), sub("decided.*"), sub("approval.*.* approval"), pub("jobs.any.normal.a"), pub("results.a._." + id),
				pub("$KV.CANCELS.a.job." + id), pub("$KV.KEYS.a." + digest), pub("$JS.API.CONSUMER.CREATE.RESULTS.x.results.a.*.*"), sub("results.a.*.*"),
				pub("tools.math.add"), sub("_INBOX.worker.>"), sub("_INBOX.submitter-a.>"), pub("_INBOX.worker.x"),
			},
		},
		"analyst-a": {
			allowed: []attempt{sub("results.a.*.*"), sub("results.a.batch.*"), sub("_INBOX.analyst-a.x")},
			refused: []attempt{
				sub("results.b.*.*"), pub("jobs.any.normal.a"), pub("results.a._." + id), pub("control.a.status"), pub("control.a.approvals"), pub("approval.a.decide"), pub("fleet.a.blob"), pub("anything"),
				pub("_INBOX.worker.x"), pub("$JS.API.CONSUMER.CREATE.RESULTS.x.results.a.*.*"), pub("$JS.API.STREAM.INFO.KV_WORKERS"), pub("tools.math.add"),
			},
		},
	} {
		for _, a := range c.allowed {
			if refused(t, srv, user, a) {
				t.Errorf("%s was refused to %s %s", user, a.verb, a.subject)
			}
		}
		for _, a := range append(c.refused, nobodys...) {
			if slices.Contains(c.allowed, a) {
				continue // the gateway's, which decides by itself who may see what
			}
			if !refused(t, srv, user, a) {
				t.Errorf("%s was let %s %s", user, a.verb, a.subject)
			}
		}
	}
	for _, a := range nobodys {
		if refused(t, srv, "admin", a) && !strings.HasPrefix(a.subject, "$NRG") {
			t.Errorf("admin was refused to %s %s, so that the others' refusal shows nothing", a.verb, a.subject)
		}
	}
}

// The filter in a request's body is not in its subject, where permissions see
// it. The server must hold them against each other.
func TestAFilterInTheBodyOpensNoOtherTenantsResults(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	open(t, srv, queue.Config{})
	nc := srv.ConnectAs("submitter-a")
	const subject = "$JS.API.CONSUMER.CREATE.RESULTS.%s.results.a.*.*"
	for name, config := range map[string]string{
		"own":     `"filter_subject":"results.a.*.*"`,
		"other":   `"filter_subject":"results.b.*.*"`,
		"several": `"filter_subjects":["results.a.*.*","results.b.*.*"]`,
		"one":     `"filter_subjects":["results.b.*.*"]`,
		"none":    `"description":"x"`,
	} {
		body := fmt.Sprintf(`{"stream_name":"RESULTS","config":{"name":%q,"ack_policy":"none",%s}}`, name, config)
		reply, err := nc.Request(fmt.Sprintf(subject, name), []byte(body), patience)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if made := !strings.Contains(string(reply.Data), `"error"`); made != (name == "own") {
			t.Errorf("%s: got made %v, answer %s", name, made, reply.Data)
		}
	}
}

// A bucket that may be rolled up is emptied by anyone who may write one key.
func TestASubmitterCannotEmptyABucketOrStream(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	open(t, srv, queue.Config{})
	digest := strings.Repeat("1", 64)
	for stream, subject := range map[string]string{
		"KV_KEYS": "$KV.KEYS.%s." + digest, "KV_CANCELS": "$KV.CANCELS.%s.batch.x", "BLOBS": "blobs.%s." + digest + ".0", "JOBS": "jobs.any.low.%s",
	} {
		publishRaw(t, srv.ConnectAs("submitter-b"), fmt.Sprintf(subject, "b"), "{}", nil)
		before := srv.Messages(stream)
		evil := nats.NewMsg(fmt.Sprintf(subject, "a"))
		evil.Header.Set("Nats-Rollup", "all")
		reply, err := srv.ConnectAs("submitter-a").RequestMsg(evil, patience)
		if err != nil {
			t.Fatalf("%s: %v", stream, err)
		}
		if got := srv.Messages(stream); before != 1 || got != before || !strings.Contains(string(reply.Data), `"error"`) {
			t.Errorf("%s: got %d messages after a roll-up, want %d; answer %s", stream, got, before, reply.Data)
		}
	}
}

func TestUsersAreChecked(t *testing.T) {
	t.Parallel()
	for _, u := range []queue.User{
		{}, {Role: "root"}, {Role: queue.RoleSubmitter}, {Role: queue.RoleSubmitter, Of: "*"}, {Role: queue.RoleSubmitter, Of: "a.b"},
		{Role: queue.RoleProvider, Of: ">"}, {Role: queue.RoleProvider, Of: "1x"}, {Role: queue.RoleWorker, Of: "a"}, {Role: queue.RoleApprover}, {Role: queue.RoleApprover, Of: "a.b"}, {Role: queue.RoleAnalyst, Of: "*"},
	} {
		if p, err := u.Permissions(); err == nil {
			t.Errorf("got permissions %v for %+v, want an error", p, u)
		}
	}
}

// What is refused brings no answer, and a submitter with the credentials of
// another tenant must not wait for one.
func TestAttachTellsThatTheTenantIsAnothers(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	srv.ExpectRefusals()
	open(t, srv, queue.Config{})
	if _, err := queue.Attach(testContext(t), srv.ConnectAs("submitter-a"), queue.Config{Tenant: "b"}); !errors.Is(err, queue.ErrRefused) {
		t.Errorf("got error %v, want ErrRefused", err)
	}
}
