package store_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"airlock/job"
	"airlock/store"
)

// full makes the history of TestHistoryPlans five million calls long, as make
// plans does: in minutes, with 5 GB.
var full = flag.Bool("full", false, "test plans on five million rows, and print what each query costs")

// made is a history of three months: its jobs, in order, are of tenants t0 to
// t49 in batches of a thousand, each with as many calls.
type made struct {
	*fixture
	jobs, calls int
}

const madeBatch = 1000

// id is the n-th job's, as SQL.
func (m made) id(n int) string {
	return fmt.Sprintf(`'%s'::uuid`, value[string](m.fixture, `SELECT made_id($1)::text`, n))
}

func (m made) tenant(n int) string { return fmt.Sprintf(`'t%d'`, n/madeBatch%50) }
func (m made) batch(n int) string  { return fmt.Sprintf(`'b%d'`, n/madeBatch) }

// makeHistory fills the months before now. It goes around triggers and
// references, which would take most of the time.
func makeHistory(t *testing.T, jobs, calls int) made {
	t.Helper()
	m := made{fixture: open(t), jobs: jobs, calls: calls}
	first := monthsAgo(2).AddDate(0, 0, -14)
	for _, n := range []int{2, 1} {
		m.addMonth(monthsAgo(n))
	}
	step := time.Since(first) / time.Duration(jobs+1)
	m.exec(fmt.Sprintf(`CREATE FUNCTION made_at(n integer) RETURNS timestamptz LANGUAGE sql STABLE AS
		$$ SELECT '%s'::timestamptz + n * interval '%d microseconds' $$`, first.Format(time.RFC3339Nano), step.Microseconds()))
	m.exec(`CREATE FUNCTION made_id(n integer) RETURNS uuid LANGUAGE sql STABLE AS $$
		SELECT (substr(airlock_id_floor(made_at(n))::text, 1, 14) || '7' || lpad(to_hex(n % 4096), 3, '0') || '-8000-' || lpad(to_hex(n), 12, '0'))::uuid $$`)
	for _, sql := range []string{
		`SET session_replication_role = replica`,
		`SET synchronous_commit = off`,
		fmt.Sprintf(`INSERT INTO jobs (id, tenant, batch, labels, spec, content_digest, lane, priority, max_attempts, queued_at, state, status,
			    generation, attempt, ended_at, ended_by, worker)
			SELECT made_id(n), 't' || n / %[1]d %% 50, 'b' || n / %[1]d, '{"suite":"nightly"}', convert_to(repeat('print(1)', 60), 'UTF8'), sha256('x'), 'any',
			    'normal', 3, made_at(n), CASE WHEN n %% 1000 = 7 THEN 'dead' ELSE 'finished' END,
			    CASE WHEN n %% 1000 = 7 THEN 'infra_error' WHEN n %% 20 = 0 THEN 'timeout' ELSE 'ok' END, 1, 1, made_at(n) + interval '1 second', 1, 'w'
			FROM generate_series(1, %[2]d) n`, madeBatch, jobs),
		fmt.Sprintf(`INSERT INTO attempts (job, number, generation, worker, backend, outcome, started_at, ended_at, status, value, value_json, stdout, stdout_bytes,
			    exit_code, tool_calls, usage, facts, facts_json, audit_head)
			SELECT made_id(n), 1, 1, 'host-a-1234', 'bubblewrap', 'finished', made_at(n), made_at(n) + interval '1 second', 'ok', '42', '42', 'hello', 5, 0, %[2]d,
			    '{"wall": 0.1, "cpu": 0.05, "peak_memory": 12345678, "queue_wait": 0.01}', '{"isolation":{"backend":"bubblewrap","kernel":"6.1"}}',
			    '{"isolation":{"backend":"bubblewrap","kernel":"6.1"}}', repeat('0', 64)
			FROM generate_series(1, %[1]d) n`, jobs, calls),
		fmt.Sprintf(`INSERT INTO tool_calls (job, attempt, seq, namespace, name, arguments, arguments_json, state, answer, answer_json, started_at, ended_at,
			    provider, schema_digest, start_link, start_hash, end_link, end_hash)
			SELECT made_id(n), 1, seq, 'math', (ARRAY['add', 'mul', 'div'])[1 + n %% 3], '{"a":1,"b":2}', '{"a":1,"b":2}', CASE WHEN n %% 50 = 0 THEN 'failed' ELSE 'ok' END,
			    '{"sum":3}', '{"sum":3}', made_at(n), made_at(n) + interval '5 milliseconds', 'provider-1', repeat('0', 64), 2 * seq - 1, sha256('x'), 2 * seq, sha256('x')
			FROM generate_series(1, %[1]d) n, generate_series(1, %[2]d) seq`, jobs, calls),
		fmt.Sprintf(`INSERT INTO artifacts (job, attempt, path, content, sha256) SELECT made_id(n), 1, 'out.txt', 'x', sha256('x') FROM generate_series(1, %d, 100) n`, jobs),
		`VACUUM ANALYZE`, // as autovacuum does in time
	} {
		m.exec(sql)
	}
	return m
}

// node is what EXPLAIN tells of one step.
type node struct {
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Loops    float64 `json:"Actual Loops"`
	Hit      int     `json:"Shared Hit Blocks"`
	Read     int     `json:"Shared Read Blocks"`
	Plans    []node  `json:"Plans"`
}

// explained is a query's plan, by what matters.
type explained struct {
	node
	// millis is how long it ran, and blocks what it read, of 8 KiB.
	millis  float64
	blocks  int
	indexes []string // that were used, as the whole tables' are called
	months  []string // of which anything was read
	whole   []string // months' tables that were read from end to end
	text    string
}

func (m made) read(plan string) explained {
	m.t.Helper()
	var found []struct {
		Plan node    `json:"Plan"`
		Took float64 `json:"Execution Time"`
	}
	if err := json.Unmarshal([]byte(plan), &found); err != nil {
		m.t.Fatalf("read plan: %v\n%s", err, plan)
	}
	e := explained{node: found[0].Plan, millis: found[0].Took, blocks: found[0].Plan.Hit + found[0].Plan.Read, text: plan}
	m.walk(e.node, &e)
	for _, list := range []*[]string{&e.indexes, &e.months, &e.whole} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return e
}

func (m made) walk(n node, e *explained) {
	if n.Loops > 0 {
		if n.Index != "" {
			e.indexes = append(e.indexes, value[string](m.fixture, `SELECT coalesce((SELECT inhparent::regclass::text FROM pg_inherits WHERE inhrelid = $1::text::regclass), $1::text)`, n.Index))
		}
		// Of a month to come nothing is there to be read.
		if parent, month, ok := strings.Cut(n.Relation, "_20"); ok && "20"+month <= time.Now().UTC().Format("2006_01") {
			e.months = append(e.months, "20"+month)
			if n.Type == "Seq Scan" || n.Type == "Parallel Seq Scan" {
				e.whole = append(e.whole, parent+"_20"+month)
			}
		}
	}
	for _, child := range n.Plans {
		m.walk(child, e)
	}
}

// historyCase is a query with what its plan must be.
type historyCase struct {
	name, sql string
	args      []string // for the store's; an analyst's is whole
	indexes   []string
	// months is how many may be read, and blocks how much of them.
	months, blocks int
}

func (m made) storeCases() []historyCase {
	n := m.jobs / 2 / madeBatch * madeBatch
	tenant, batch, id := m.tenant(n), m.batch(n), m.id(n+1)
	since := fmt.Sprintf(`'%s'`, value[time.Time](m.fixture, `SELECT made_at($1)`, m.jobs-m.jobs/10).Format(time.RFC3339Nano))
	sql := store.HistorySQL
	return []historyCase{
		{"jobSQL", sql["jobSQL"], []string{tenant, id}, []string{"jobs_pkey|jobs_by_tenant", "attempts_pkey"}, 1, 30},
		{"knownSQL", sql["knownSQL"], []string{tenant, id}, []string{"jobs_pkey|jobs_by_tenant"}, 1, 20},
		{"attemptsSQL", sql["attemptsSQL"], []string{id}, []string{"attempts_pkey"}, 1, 20},
		{"triesSQL", sql["triesSQL"], []string{"ARRAY[" + id + ", " + m.id(n+2) + "]"}, []string{"attempts_pkey"}, 1, 30},
		{"resultSQL", sql["resultSQL"], []string{tenant, id}, []string{"jobs_pkey|jobs_by_tenant", "attempts_pkey"}, 1, 30},
		{"callsSQL", sql["callsSQL"], []string{tenant, id}, []string{"jobs_pkey|jobs_by_tenant", "tool_calls_pkey"}, 1, 30},
		{"artifactSQL", sql["artifactSQL"], []string{tenant, id, `'out.txt'`}, []string{"jobs_pkey|jobs_by_tenant", "artifacts_pkey"}, 1, 30},
		{"factsSQL", sql["factsSQL"], []string{id}, []string{"jobs_pkey", "attempts_pkey"}, 1, 30},
		{"batchCountSQL", sql["batchCountSQL"], []string{tenant, batch}, []string{"jobs_by_batch"}, 3, 1200},
		{"batchResultsSQL", sql["batchResultsSQL"], []string{tenant, batch, m.id(n + 10), "100"}, []string{"jobs_by_batch", "attempts_pkey"}, 2, 1200},
		{"history", store.HistoryQuery(job.Filter{}), []string{tenant, "100"}, []string{"jobs_by_tenant", "attempts_pkey"}, 3, 1200},
		{"history of a batch", store.HistoryQuery(job.Filter{Batch: "b"}), []string{tenant, batch, "100"}, []string{"jobs_by_batch", "attempts_pkey"}, 3, 1200},
		{"history of a status", store.HistoryQuery(job.Filter{Status: "x"}), []string{tenant, `'timeout'`, "100"}, []string{"jobs_by_status", "attempts_pkey"}, 3, 1200},
		{"dead", store.HistoryQuery(job.Filter{Status: "x"}), []string{tenant, `'infra_error'`, "100"}, []string{"jobs_by_status", "attempts_pkey"}, 3, 1200},
		{"history since", store.HistoryQuery(job.Filter{Since: time.Now()}), []string{tenant, since, "100"}, []string{"jobs_by_tenant"}, 2, 1200},
		{"history before", store.HistoryQuery(job.Filter{Before: job.NewID()}), []string{tenant, id, "100"}, []string{"jobs_by_tenant", "attempts_pkey"}, 2, 1200},
		{"history of a status in a batch since", store.HistoryQuery(job.Filter{Batch: "b", Status: "x", Since: time.Now()}),
			[]string{m.tenant(m.jobs - 10), m.batch(m.jobs - 10), `'ok'`, since, "100"}, []string{"jobs_by_batch", "attempts_pkey"}, 2, 1500},
	}
}

// TestHistoryPlans runs each query of the history on a long one: it must use
// its index, read only the months that can have what it asks for, and of them a
// little.
func TestHistoryPlans(t *testing.T) {
	t.Parallel()
	jobs, calls := 40_000, 5
	if *full {
		jobs = 1_000_000
	}
	m := makeHistory(t, jobs, calls)
	for _, c := range m.storeCases() {
		plan, err := m.Explain(t.Context(), c.sql, c.args)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		m.check(c, m.read(plan))
	}
	for _, c := range analystCases(t) {
		plan := value[string](m.fixture, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+m.literal(c.sql))
		m.check(c, m.read(plan))
	}
	if *full {
		m.sizes()
	}
}

func (m made) check(c historyCase, got explained) {
	m.t.Helper()
	for _, index := range c.indexes {
		if !slices.ContainsFunc(strings.Split(index, "|"), func(i string) bool { return slices.Contains(got.indexes, i) }) {
			m.t.Errorf("%s: got indexes %v, want %s:\n%s", c.name, got.indexes, index, got.text)
		}
	}
	if len(got.whole) > 0 || len(got.months) > c.months {
		m.t.Errorf("%s: read months %v, want %d, and whole %v, want none:\n%s", c.name, got.months, c.months, got.whole, got.text)
	}
	if got.blocks > c.blocks {
		m.t.Errorf("%s: read %d blocks, want at most %d:\n%s", c.name, got.blocks, c.blocks, got.text)
	}
	if *full {
		fmt.Printf("| %s | %.2f | %d | %d |\n", c.name, got.millis, got.blocks, len(got.months))
	}
}

// sizes prints what a history takes.
func (m made) sizes() {
	for _, parent := range []string{"jobs", "attempts", "tool_calls"} {
		total := value[int64](m.fixture, `SELECT sum(pg_total_relation_size(inhrelid))::bigint FROM pg_inherits WHERE inhparent = $1::regclass`, parent)
		rows := value[int64](m.fixture, `SELECT count(*) FROM `+parent)
		fmt.Printf("%s: %d rows, %d bytes each with indexes\n", parent, rows, total/max(rows, 1))
	}
}

// TestEachHistoryQueryIsPlanned: no query of queries.go is left out.
func TestEachHistoryQueryIsPlanned(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "queries.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	planned := map[string]bool{"recordColumns": true, "resultColumns": true, "recordsSQL": true, "ofTenant": true} // parts of others
	for name := range store.HistorySQL {
		planned[name] = true
	}
	for _, decl := range file.Decls {
		if group, ok := decl.(*ast.GenDecl); ok && group.Tok == token.CONST {
			for _, spec := range group.Specs {
				if name := spec.(*ast.ValueSpec).Names[0].Name; !planned[name] {
					t.Errorf("%s of queries.go is in no plan's test", name)
				}
			}
		}
	}
	source, err := os.ReadFile("plans_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for name := range store.HistorySQL {
		if !strings.Contains(string(source), `{"`+name+`"`) {
			t.Errorf("%s has no case in storeCases", name)
		}
	}
}

// TestEachIndexNamesItsQuery: an index that nobody can say the use of is only a
// cost. A primary key is there for its constraint and need not.
func TestEachIndexNamesItsQuery(t *testing.T) {
	t.Parallel()
	f := open(t)
	for _, i := range value[[][]string](f, `
		SELECT array_agg(ARRAY[c.relname::text, coalesce(obj_description(c.oid, 'pg_class'), '')])
		FROM pg_index i
		JOIN pg_class c ON c.oid = i.indexrelid
		JOIN pg_class t ON t.oid = i.indrelid
		WHERE t.relnamespace = current_schema()::regnamespace AND NOT c.relispartition AND t.relname <> 'goose_db_version'`) {
		if len(i[1]) < 10 {
			t.Errorf("index %s: got comment %q, want the queries that it serves", i[0], i[1])
		}
	}
}
