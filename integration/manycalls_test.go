package integration_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"airlock/job"
)

// A thousand calls of one guest at once all arrive, and each is recorded once.
func TestAThousandCallsOfOneGuest(t *testing.T) {
	t.Parallel()
	const code = `
import asyncio
got = await asyncio.gather(*[add(a=i, b=1) for i in range(1000)])
return [r["sum"] for r in got] == list(range(1, 1001))
`
	r := runJob(t, code, "--tools", "math.add", "--tool-calls", "1000", "--wall", "120s", "--cpu", "60s", "--tool-time", "300s")
	if string(r.Value) != "true" || r.ToolCalls != 1000 {
		t.Errorf("got %s with %d calls (%+v), want true with 1000", r.Value, r.ToolCalls, r.Error)
	}
	db, err := pgx.Connect(t.Context(), standaloneEnv(t)["AIRLOCK_POSTGRES"])
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	var rows, seqs int
	const query = `SELECT count(*), count(DISTINCT seq) FROM tool_calls WHERE job = $1 AND state = 'ok'`
	if err := db.QueryRow(t.Context(), query, r.Job.String()).Scan(&rows, &seqs); err != nil {
		t.Fatal(err)
	}
	if rows != 1000 || seqs != 1000 {
		t.Errorf("got %d rows of %d calls, want 1000 of 1000", rows, seqs)
	}
}

// What JSON lacks goes to a provider and back without loss, with and without
// await, inside an event loop too.
func TestValuesCrossBothWays(t *testing.T) {
	t.Parallel()
	const code = `
import asyncio, datetime as d
from decimal import Decimal
sent = [2**200, -10**4500, 0.1, 5e-324, float("inf"), b"\x00\xff", "\u2028\U0001f600\x00", True, None, {1, 2}, Decimal("1.10"), 1+2j,
    d.datetime(2026, 1, 2, 3, 4, 5, 6, d.timezone.utc), d.date(2026, 1, 2), d.timedelta(days=-1, microseconds=7), {3: "x"}, {"$airlock": "int"}]
def same(got):
    return [type(v) for v in got] == [type(v) for v in sent] and got == sent
async def main():
    late = [asyncio.ensure_future(echo(text=i)) for i in range(100)]
    await asyncio.sleep(0)
    inside = tools.call_sync("math", "echo", text=sent)
    return same(inside) and await asyncio.gather(*late) == list(range(100))
return [same(await echo(text=sent)), same(tools.call_sync("math", "echo", text=sent)), await main()]
`
	r := runJob(t, code, "--tools", "math.echo", "--tool-calls", "200", "--wall", "60s", "--tool-time", "60s")
	if string(r.Value) != "[true,true,true]" {
		t.Errorf("got %s (%+v), want [true,true,true]", r.Value, r.Error)
	}
}

// Ten megabytes of answers go through one guest, and what no message carries
// is said to be too large, to this call alone.
func TestLargeAnswersOfOneGuest(t *testing.T) {
	t.Parallel()
	const code = `
import asyncio
text = "x" * 1_000_000
got = await asyncio.gather(*[echo(text=text) for _ in range(10)])
try:
    await echo(text="x" * 2_000_000)
except ToolError as e:
    code, message = e.code, e.message
return [sum(map(len, got)), code, message]
`
	r := runJob(t, code, "--tools", "math.echo", "--wall", "60s", "--tool-time", "60s")
	if r.Status != job.StatusOK || string(r.Value) != `[10000000,"too_large","the arguments are 2000011 bytes, one message carries 1047552"]` {
		t.Errorf("got %s (%+v), want 10 MB, and a clear refusal", r.Value, r.Error)
	}
}
