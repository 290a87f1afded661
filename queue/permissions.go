package queue

import (
	"fmt"
	"slices"
	"strings"

	"airlock/job"
)

// Role is what a user of the NATS server is there for.
type Role string

// The roles. A submitter, an approver and an analyst are of one tenant, a provider is of one
// namespace; the others are of nothing.
const (
	// RoleWorker runs jobs of every tenant and is trusted with them.
	RoleWorker Role = "worker"
	// RoleSubmitter submits jobs of its tenant, and sees only those.
	RoleSubmitter Role = "submitter"
	// RoleGateway submits jobs of every tenant, for those who speak HTTP.
	RoleGateway Role = "gateway"
	// RoleProvider answers the calls of its namespace's tools.
	RoleProvider Role = "provider"
	// RoleApprover decides about its tenant's tool calls that wait for a
	// person. A submitter cannot: what submits jobs shall not let their calls
	// through.
	RoleApprover Role = "approver"
	// RoleAnalyst hears of its tenant's results as they are announced, and
	// can send nothing. Its history it asks of Postgres.
	RoleAnalyst Role = "analyst"
	// RoleAdmin is for people who look after the server; nothing of Airlock
	// uses it.
	RoleAdmin Role = "admin"
)

// Permissions are what a user may publish and subscribe; everything else is
// refused. A subscription is a subject, or a subject, a space and the queue
// group without which it is refused.
type Permissions struct {
	Publish, Subscribe []string
}

// User is one login.
type User struct {
	Role Role
	// Of is the tenant or the namespace, where the role has one.
	Of string
}

// Name is the user's login. It is one token, because the user's inboxes begin
// with it.
func (u User) Name() string {
	if u.Of == "" {
		return string(u.Role)
	}
	return string(u.Role) + "-" + u.Of
}

func (u User) check() error {
	switch u.Role {
	case RoleSubmitter, RoleApprover, RoleAnalyst:
		if !job.ValidName(u.Of) {
			return fmt.Errorf("%s: tenant %q is no valid name", u.Role, job.Printable(u.Of, 80))
		}
	case RoleProvider:
		if !job.ValidToolName(u.Of) {
			return fmt.Errorf("%s: namespace %q is no valid name", u.Role, job.Printable(u.Of, 80))
		}
	case RoleWorker, RoleGateway, RoleAdmin:
		if u.Of != "" {
			return fmt.Errorf("%s: belongs to no tenant, but %q was given", u.Role, job.Printable(u.Of, 80))
		}
	default:
		return fmt.Errorf("unknown role %q", job.Printable(string(u.Role), 40))
	}
	return nil
}

// Permissions returns what the user may do. It is made of the subjects that the
// code uses, and no more.
func (u User) Permissions() (Permissions, error) {
	if err := u.check(); err != nil {
		return Permissions{}, err
	}
	p := Permissions{Subscribe: []string{InboxPrefix(u.Name()) + ".>"}}
	switch u.Role {
	case RoleWorker:
		p.worker()
	case RoleSubmitter:
		p.submitter(u.Of)
	case RoleApprover:
		p.approver(u.Of)
	case RoleGateway:
		// It decides by itself who may see what.
		p.submitter("*")
		p.Subscribe = append(p.Subscribe, resultsFilter(), eventFilter())
	case RoleProvider:
		p.provider(u.Of, u.Name())
	case RoleAnalyst:
		p.Subscribe = append(p.Subscribe, strings.Join([]string{prefixResults, u.Of, "*", "*"}, "."))
	case RoleAdmin:
		return Permissions{Publish: []string{">"}, Subscribe: []string{">"}}, nil
	}
	slices.Sort(p.Publish)
	slices.Sort(p.Subscribe)
	p.Publish = slices.Compact(p.Publish)
	return p, nil
}

// InboxPrefix is that of a user's inboxes. Nobody may subscribe to another's,
// so that answers reach only who asked.
func InboxPrefix(user string) string { return inboxPrefix + "." + user }

func (p *Permissions) publish(subjects ...string) { p.Publish = append(p.Publish, subjects...) }

// The subjects of JetStream's API.
func api(parts ...string) string { return "$JS.API." + strings.Join(parts, ".") }

// submitter may read nothing that a tenant wrote by itself, and make the server
// send it only what workers wrote: see fleet.go.
func (p *Permissions) submitter(tenant string) {
	p.publish(
		strings.Join([]string{prefixJobs, "*", "*", tenant}, "."),
		strings.Join([]string{prefixControl, tenant, "*"}, "."),
		strings.Join([]string{prefixFleet, tenant, "*"}, "."),
		strings.Join([]string{prefixBlobs, tenant, "*", "*"}, "."),
		bucketSubject(bucketKeys, tenant+".*"),
		bucketSubject(bucketCancels, tenant+".*.*"),
	)
	p.watch(bucketLanes)
	p.watch(bucketWorkers)
	p.results(tenant)
}

// approver may see what waits for a person, and decide; of the queue it needs
// what attaching to it takes.
func (p *Permissions) approver(tenant string) {
	p.publish(
		strings.Join([]string{prefixControl, tenant, verbApprovals}, "."),
		strings.Join([]string{prefixApproval, tenant, verbDecide}, "."),
		strings.Join([]string{prefixFleet, tenant, fleetLanes}, "."),
	)
	p.watch(bucketLanes)
	p.watch(bucketWorkers)
}

// results reads the announcements of a tenant, or of all. The filter stands in
// the subject that creates a consumer, where the server holds it against the
// one in the request; the names of consumers cannot be guessed.
func (p *Permissions) results(tenant string) {
	p.publish(
		api("CONSUMER.CREATE", streamResults, "*", prefixResults, tenant, "*", "*"),
		api("CONSUMER.MSG.NEXT", streamResults, "*"),
		api("CONSUMER.DELETE", streamResults, "*"),
	)
}

// watch binds to a bucket and follows it. After a reconnect the library makes
// the consumer anew, with neither name nor filter in the subject; the bucket is
// the same.
func (p *Permissions) watch(bucket string) {
	stream := bucketStream(bucket)
	p.publish(
		api("STREAM.INFO", stream),
		api("CONSUMER.CREATE", stream, "*", bucketSubject(bucket, ">")),
		api("CONSUMER.CREATE", stream),
		api("CONSUMER.DELETE", stream, "*"),
		"$JS.FC."+stream+".>",
	)
}

func (p *Permissions) worker() {
	var q Queue
	for _, cfg := range q.streamConfigs() {
		p.publish(api("STREAM.CREATE", cfg.Name), api("STREAM.UPDATE", cfg.Name), api("STREAM.INFO", cfg.Name))
	}
	for _, bucket := range []string{bucketLanes, bucketWorkers, bucketCancels} {
		p.watch(bucket)
	}
	p.publish(
		api("DIRECT.GET", bucketStream(bucketKeys), bucketSubject(bucketKeys, "*.*")),
		api("DIRECT.GET", streamBlobs, prefixBlobs+".*.*.*"), api("DIRECT.GET", streamOutputs, prefixOutputs+".*.*.*"),
		// What a job that has ended needs no more.
		api("STREAM.PURGE", streamBlobs),
		api("CONSUMER.LIST", streamJobs), api("CONSUMER.LIST", streamQueued),
		api("CONSUMER.CREATE", streamJobs, "*", prefixJobs, "*.*.*"),
		api("CONSUMER.MSG.NEXT", streamJobs, "*"),
		// A consumer that gives out nothing is made anew.
		api("CONSUMER.DELETE", streamJobs, "*"),
		api("CONSUMER.DELETE", streamQueued, recorderName),
		"$JS.ACK."+streamJobs+".>",
		api("CONSUMER.CREATE", streamQueued, recorderName),
		api("CONSUMER.MSG.NEXT", streamQueued, recorderName),
		"$JS.ACK."+streamQueued+"."+recorderName+".>",
		bucketSubject(bucketLanes, "*"), bucketSubject(bucketWorkers, "*"),
		bucketSubject(bucketCancels, "*.*.*"), bucketSubject(bucketKeys, "*.*"),
		prefixJobs+".*.*.*", prefixResults+".*.*.*", prefixBlobs+".*.*.*", prefixOutputs+".*.*.*", eventFilter(),
		// Answers, and questions to tool providers.
		inboxPrefix+".>", job.ToolSubject("*", "*"), job.ToolCancel("*"), "$SRV.INFO",
		// What a health check asks, as the worker that it is of.
		prefixFleet+".*."+fleetLanes,
		prefixDecided+".*",
	)
	p.Subscribe = append(p.Subscribe,
		prefixBell+".*.*.*",
		questionFilter(prefixControl)+" "+controlGroup,
		questionFilter(prefixFleet)+" "+fleetGroup,
		questionFilter(prefixApproval)+" "+decideGroup,
		prefixDecided+".*",
	)
}

// provider answers to nothing but the inboxes where workers wait for tools, and
// only in the group in which each call goes to one provider. That a call is
// given up all of them hear, since one has it. It may ask whether a provider of
// its namespace is there, which is a check of its health.
func (p *Permissions) provider(namespace, user string) {
	p.publish(job.ToolInbox(InboxPrefix(string(RoleWorker)))+".>", "$SRV.PING."+namespace, InboxPrefix(user)+".>")
	p.Subscribe = append(p.Subscribe, job.ToolSubject(namespace, "*")+" q", job.ToolCancel(namespace))
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		own := "$SRV." + verb
		p.Subscribe = append(p.Subscribe, own, own+"."+namespace, own+"."+namespace+".*")
	}
}
