package integration_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"airlock/broker"
	"airlock/job"
)

// deployment is a project of docker-compose.yml with names, ports, images and
// secrets of its own.
type deployment struct {
	project string
	secrets string
	env     []string
}

// composeJobs go through the deployment, and half of them are there when one
// of its workers is killed.
const composeJobs = 1000

// TestComposeDeployment has a batch go through two workers in containers, of
// which one is killed half-way: every result is there once, the audit is
// complete, and down leaves nothing.
func TestComposeDeployment(t *testing.T) {
	requireEngine(t)
	d := newDeployment(t)
	if got := d.script(t, "dev/compose-up.sh"); got.code != 0 || !strings.HasSuffix(got.stdout, "ready\n") {
		t.Fatalf("compose-up: %d, %q\n%s", got.code, got.stdout, got.stderr)
	}
	before := d.containers(t, "worker")
	if len(before) != 2 {
		t.Fatalf("%d workers run, want 2", len(before))
	}
	// Again: what is up stays.
	if got := d.script(t, "dev/compose-up.sh"); got.code != 0 {
		t.Fatalf("compose-up again: %d, %q\n%s", got.code, got.stdout, got.stderr)
	}
	if after := d.containers(t, "worker"); strings.Join(after, " ") != strings.Join(before, " ") {
		t.Errorf("got workers %v after another compose-up, want %v", after, before)
	}

	analyst := d.analyst(t)
	results := d.batch(t, func() { d.killWorker(t, analyst, before[0]) })
	checkResults(t, results)
	checkAudit(t, analyst)
	checkRoles(t, analyst)
	d.checkHTTP(t)

	if got := d.down(t); got.code != 0 {
		t.Fatalf("down: %d %s", got.code, got.stderr)
	}
	for _, what := range [][]string{{"ps", "-aq"}, {"network", "ls", "-q"}, {"volume", "ls", "-q"}} {
		if left := dockerCLI(t, append(what, "--filter", "label=com.docker.compose.project="+d.project)...); left != "" {
			t.Errorf("docker %s: %q is left, want nothing", what[0], left)
		}
	}
}

func requireEngine(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("makes images and runs a thousand jobs in containers")
	}
	require(t, "docker", "docker")
	out, err := exec.Command("docker", "version").CombinedOutput()
	if err == nil {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("AIRLOCK_REQUIRE"), ","), "docker") {
		t.Fatalf("docker is required, and no engine answers: %v %s", err, out)
	}
	t.Skipf("no Docker Engine answers: see dev/dockerd.sh start; %v", err)
}

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	suffix := make([]byte, 4)
	if _, err := rand.Read(suffix); err != nil {
		t.Fatal(err)
	}
	name := hex.EncodeToString(suffix)
	d := &deployment{project: "airlock-test-" + name, secrets: filepath.Join(t.TempDir(), "secrets")}
	d.env = []string{
		"COMPOSE_PROJECT_NAME=" + d.project, "SECRETS_DIR=" + d.secrets,
		"NATS_PORT=" + freePort(t), "POSTGRES_PORT=" + freePort(t), "HTTP_PORT=" + freePort(t),
		"WORKER_IMAGE=airlock-worker:test-" + name, "RUNNER_IMAGE=airlock-runner:test-" + name,
	}
	host := script(t, nil, "dev/compose-env.sh")
	if host.code != 0 {
		t.Fatalf("compose-env: %s", host.stderr)
	}
	d.env = append(d.env, strings.Fields(host.stdout)...)
	t.Cleanup(func() {
		if t.Failed() {
			logs := compose(t, d.env, "logs", "--no-color", "--tail", "40")
			t.Logf("%.20000s", logs.stdout)
		}
		d.down(t)
		_ = exec.Command("docker", "rmi", "airlock-worker:test-"+name, "airlock-runner:test-"+name).Run()
	})
	return d
}

func (d *deployment) script(t *testing.T, name string, args ...string) said {
	t.Helper()
	return script(t, d.env, name, args...)
}

func (d *deployment) down(t *testing.T) said {
	t.Helper()
	return compose(t, d.env, "--profile", "submit", "--profile", "gateway", "down", "--volumes", "--remove-orphans")
}

// checkHTTP has a job run over HTTP with the token that people are told of, and
// none without.
func (d *deployment) checkHTTP(t *testing.T) {
	t.Helper()
	env, err := readEnv(filepath.Join(d.secrets, "http.env"))
	if err != nil {
		t.Fatal(err)
	}
	url := env["AIRLOCK_HTTP"] + "/v1/jobs?wait=1m"
	got, err := ask(t.Context(), http.DefaultClient, http.MethodPost, url, env["AIRLOCK_TOKEN"], `{"code": "return 6 * 7"}`)
	if err != nil || got.status != http.StatusOK || !strings.Contains(got.body, `"value":42`) {
		t.Errorf("over HTTP: got %d %s, want 42: %v", got.status, got.body, err)
	}
	if got, err := ask(t.Context(), http.DefaultClient, http.MethodPost, url, "", `{"code": "1"}`); err != nil || got.status != http.StatusUnauthorized {
		t.Errorf("without a token: got %d %s, want 401: %v", got.status, got.body, err)
	}
}

// containers are the running ones of a service, oldest first.
func (d *deployment) containers(t *testing.T, service string) []string {
	t.Helper()
	ids := strings.Fields(dockerCLI(t, "ps", "-q", "--no-trunc",
		"--filter", "label=com.docker.compose.project="+d.project, "--filter", "label=com.docker.compose.service="+service))
	return ids
}

func dockerCLI(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).Output()
	if err != nil {
		t.Fatalf("docker %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// analyst connects as the file that people are told of says.
func (d *deployment) analyst(t *testing.T) *pgx.Conn {
	t.Helper()
	env := map[string]string{}
	for _, word := range strings.Fields(d.secret(t, "analyst.env")) {
		name, value, _ := strings.Cut(word, "=")
		env[name] = value
	}
	at := url.URL{
		Scheme: "postgres", User: url.UserPassword(env["PGUSER"], env["PGPASSWORD"]),
		Host: net.JoinHostPort(env["PGHOST"], env["PGPORT"]), Path: env["PGDATABASE"],
	}
	db, err := pgx.Connect(t.Context(), at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close(context.Background()) })
	return db
}

func (d *deployment) secret(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(d.secrets, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}

// batch runs the jobs from this host, and what is to happen meanwhile. It
// returns the file of results.
func (d *deployment) batch(t *testing.T, meanwhile func()) []byte {
	t.Helper()
	dir := t.TempDir()
	jobs, results := filepath.Join(dir, "jobs.jsonl"), filepath.Join(dir, "results.jsonl")
	var lines bytes.Buffer
	for n := range composeJobs {
		fmt.Fprintf(&lines, `{"code": "return (await add(a=%d, b=1))[\"sum\"]", "tools": [{"namespace": "math", "name": "add"}]}`+"\n", n)
	}
	if err := os.WriteFile(jobs, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(t, "submit"), "batch", jobs, "--batch", "half-way", "-o", results)
	cmd.Env = append(os.Environ(), d.secret(t, "submit.env"))
	var talk transcript
	cmd.Stdout, cmd.Stderr = &talk, &talk
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	meanwhile()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("submit batch: %v\n%.3000s", err, talk.String())
	}
	raw, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// killWorker kills one when half of the jobs have ended and it is at work.
func (d *deployment) killWorker(t *testing.T, analyst *pgx.Conn, id string) {
	t.Helper()
	count := func(sql string) (n int) {
		if err := analyst.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	until(t, 10*time.Minute, "half of the jobs have ended", func() bool {
		return count(`SELECT count(*) FROM job_results WHERE batch = 'half-way' AND status IS NOT NULL`) >= composeJobs/2
	})
	if len(d.containers(t, "guest")) == 0 {
		t.Error("no guest is labelled as the project's")
	}
	dockerCLI(t, "kill", "--signal", "KILL", id)
	if left := count(`SELECT count(*) FROM job_results WHERE batch = 'half-way' AND status IS NULL`); left == 0 {
		t.Error("the worker was killed when all was over: nothing was tested")
	}
}

// checkResults wants each line's result once, and right.
func checkResults(t *testing.T, results []byte) {
	t.Helper()
	seen, workers := map[int]int{}, map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(results))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r struct {
			Line int `json:"line"`
			job.Result
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		seen[r.Line]++
		workers[r.Worker]++
		if r.Status != job.StatusOK || string(r.Value) != fmt.Sprint(r.Line) || r.Backend != "docker" {
			t.Errorf("line %d: got %s %s from %q, want ok and %d from docker", r.Line, r.Status, r.Value, r.Backend, r.Line)
		}
	}
	for line := 1; line <= composeJobs; line++ {
		if seen[line] != 1 {
			t.Errorf("line %d has %d results, want 1", line, seen[line])
		}
	}
	if len(seen) != composeJobs || len(workers) < 2 {
		t.Errorf("got results of %d lines from %d workers, want %d from at least 2", len(seen), len(workers), composeJobs)
	}
}

// checkAudit wants the one call of each job, and every attempt's chain whole
// up to the head that came with the result.
func checkAudit(t *testing.T, analyst *pgx.Conn) {
	t.Helper()
	rows, err := analyst.Query(t.Context(), `
		SELECT a.job, a.number, a.audit_head, a.tool_calls, c.seq, c.namespace, c.name, c.arguments, c.state, c.answer,
			coalesce(c.code, ''), coalesce(c.message, ''), coalesce(c.detail, ''), c.started_at, c.ended_at,
			coalesce(c.provider, ''), coalesce(c.schema_digest, ''), c.start_link, c.start_hash, c.end_link, c.end_hash
		FROM job_results r
		JOIN attempts a ON a.job = r.job AND a.number = r.attempt
		JOIN tool_calls c ON c.job = a.job AND c.attempt = a.number
		WHERE r.batch = 'half-way' AND r.state = 'finished'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	jobs := map[job.ID]bool{}
	for rows.Next() {
		var id [16]byte
		var head string
		var calls int
		var c job.Call
		var message, detail []byte
		if err := rows.Scan(&id, &c.Attempt, &head, &calls, &c.Seq, &c.Namespace, &c.Name, (*[]byte)(&c.Arguments), &c.State, (*[]byte)(&c.Answer),
			&c.Code, &message, &detail, &c.Started, &c.Ended, &c.Provider, &c.SchemaDigest, &c.StartLink, &c.StartHash, &c.EndLink, &c.EndHash); err != nil {
			t.Fatal(err)
		}
		c.Job, c.Message, c.Detail = job.ID(id), string(message), string(detail)
		if jobs[c.Job] || calls != 1 || c.State != job.CallOK {
			t.Errorf("job %s: call %d of %d is %s, want one that is ok", c.Job, c.Seq, calls, c.State)
		}
		jobs[c.Job] = true
		if got, err := broker.Verify(c.Job, c.Attempt, []job.Call{c}); err != nil || got != head {
			t.Errorf("job %s: chain ends in %s, %v; want %s", c.Job, got, err, head)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if len(jobs) != composeJobs {
		t.Errorf("%d jobs have their call on record, want %d", len(jobs), composeJobs)
	}
}

// checkRoles wants an analyst who can only read, and no superuser but the one
// whom nobody connects as.
func checkRoles(t *testing.T, analyst *pgx.Conn) {
	t.Helper()
	var super, connected string
	err := analyst.QueryRow(t.Context(), `SELECT string_agg(rolname, ' ') FROM pg_roles WHERE rolsuper OR rolcreaterole OR rolcreatedb`).Scan(&super)
	if err != nil || super != "postgres" {
		t.Errorf("roles with power are %q, %v; want postgres alone", super, err)
	}
	err = analyst.QueryRow(t.Context(), `SELECT string_agg(DISTINCT usename, ' ' ORDER BY usename) FROM pg_stat_activity
		WHERE datname = current_database()`).Scan(&connected)
	if err != nil || connected != "airlock_analyst airlock_worker" {
		t.Errorf("connected are %q, %v; want airlock_analyst and airlock_worker", connected, err)
	}
	// Not by a setting, which he could change, but by what he is granted.
	if _, err := analyst.Exec(t.Context(), `SET default_transaction_read_only = off`); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{`UPDATE jobs SET state = 'dead'`, `DELETE FROM tool_calls`, `CREATE TABLE mine (n int)`, `SET ROLE airlock_worker`} {
		if _, err := analyst.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("analyst: %s: got %v, want permission denied", sql, err)
		}
	}
}
