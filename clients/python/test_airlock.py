"""Tests of airlock.py: against a gateway that plays, and against the real one.

The real one is at AIRLOCK_HTTP; without it those tests are skipped.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import http.server
import json
import math
import os
import threading
import time
import unittest
from collections.abc import Callable
from typing import Any

import airlock
from airlock import Airlock, decode

OK = {"status": "ok", "value": 1, "stdout_bytes": 0}


class Played:
    """A gateway whose answers are a function of the request's number."""

    def __init__(self, answer: Callable[[int, http.server.BaseHTTPRequestHandler, bytes], None]) -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.peers: set[Any] = set()
        played, lock = self, threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with lock:
                    played.requests.append((self.command, self.path, dict(self.headers), body))
                    played.peers.add(self.client_address)
                    number = len(played.requests)
                answer(number, self, body)

            do_GET = do_POST = do_DELETE = _serve

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def send(h: http.server.BaseHTTPRequestHandler, status: int, document: Any, **headers: str) -> None:
    body = json.dumps(document).encode()
    h.send_response(status)
    h.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        h.send_header(name.replace("_", "-"), value)
    h.end_headers()
    h.wfile.write(body)


class Plays(unittest.TestCase):
    def play(self, answer: Callable[[int, http.server.BaseHTTPRequestHandler, bytes], None], **options: Any) -> tuple[Played, Airlock]:
        played = Played(answer)
        self.addCleanup(played.close)
        box = Airlock(played.url, "airlock_secret", **options)
        self.addCleanup(box.close)
        return played, box

    def test_what_passes_is_tried_again_under_the_same_key(self) -> None:
        started = time.monotonic()

        def answer(number: int, h: http.server.BaseHTTPRequestHandler, body: bytes) -> None:
            if number == 1:
                send(h, 429, {"code": "over_quota", "status": 429}, Retry_After="1")
            elif number == 2:
                h.connection.close()  # cut off, with no word about whether the job was taken
                h.close_connection = True
            elif number == 3:
                send(h, 503, {"code": "unavailable", "status": 503})
            else:
                send(h, 200, {"id": "j", "result": {"job": "j", **OK}})

        played, box = self.play(answer)
        self.assertEqual(box.run("return 1").value, 1)
        keys = {json.loads(body)["key"] for _, _, _, body in played.requests}
        self.assertEqual((len(played.requests), len(keys)), (4, 1))
        self.assertGreaterEqual(time.monotonic() - started, 1.0)
        self.assertEqual(played.requests[0][2]["Authorization"], "Bearer airlock_secret")

    def test_what_does_not_pass_is_raised_with_its_code(self) -> None:
        played, box = self.play(lambda n, h, b: send(h, 422, {
            "code": "invalid_job", "status": 422, "detail": "no", "errors": [{"field": "limits.wall", "reason": "is too long"}]}))
        with self.assertRaises(airlock.Problem) as caught:
            box.submit("1")
        self.assertEqual((caught.exception.code, caught.exception.status), ("invalid_job", 422))
        self.assertIn("limits.wall: is too long", str(caught.exception))
        self.assertEqual(len(played.requests), 1)

    def test_tries_end(self) -> None:
        _, box = self.play(lambda n, h, b: send(h, 503, {"code": "queue_full", "status": 503}), retry_for=0.3)
        with self.assertRaises(airlock.Problem) as caught:
            box.submit("1")
        self.assertEqual(caught.exception.code, "queue_full")

    def test_nobody_there(self) -> None:
        with Airlock("http://127.0.0.1:1") as box, self.assertRaisesRegex(airlock.Unreachable, "is a gateway at 127.0.0.1:1"):
            box.submit("1")
        with self.assertRaises(ValueError):
            Airlock("127.0.0.1:8080")

    def test_answers_that_make_no_sense(self) -> None:
        def answer(_: int, h: http.server.BaseHTTPRequestHandler, __: bytes) -> None:
            h.send_response(200)
            h.send_header("Content-Length", "100000")
            h.end_headers()
            h.wfile.write(b"[" * 100_000)

        _, box = self.play(answer)
        with self.assertRaises(airlock.Unreachable):
            box.submit("1")

    def test_one_thread_keeps_its_connection(self) -> None:
        played, box = self.play(lambda n, h, b: send(h, 202, {"id": str(n)}))
        self.assertEqual([box.submit("1") for _ in range(5)], ["1", "2", "3", "4", "5"])
        self.assertEqual(len(played.peers), 1)

    def test_map_is_in_order_and_takes_no_more_than_it_may(self) -> None:
        busy, most, lock = 0, 0, threading.Lock()

        def answer(_: int, h: http.server.BaseHTTPRequestHandler, body: bytes) -> None:
            nonlocal busy, most
            with lock:
                busy += 1
                most = max(most, busy)
            job = json.loads(body)
            time.sleep(0.02 if int(job["code"]) % 3 == 0 else 0.001)
            with lock:
                busy -= 1
            send(h, 200, {"id": "j", "result": {"job": "j", **OK, "value": int(job["code"])}})

        taken, told = [], []

        def endless() -> Any:
            for i in range(10**9):
                taken.append(i)
                yield str(i)

        _, box = self.play(answer)
        results = box.map(endless(), concurrency=4, progress=told.append)
        self.assertEqual([next(results).value for _ in range(100)], list(range(100)))
        results.close()
        self.assertLessEqual(most, 4)
        self.assertLess(len(taken), 120)
        self.assertEqual(told, list(range(1, len(told) + 1)))

    def test_waiting_has_an_end(self) -> None:
        def answer(_: int, h: http.server.BaseHTTPRequestHandler, __: bytes) -> None:
            send(h, 202, {"id": "j"}) if h.command == "POST" else send(h, 200, {"job": {"id": "j"}})

        _, box = self.play(answer)
        with self.assertRaises(airlock.StillRunning) as caught:
            box.run("1", wait=0.2)
        self.assertEqual(caught.exception.job, "j")

    def test_events_go_on_after_a_break(self) -> None:
        streams = [
            b"retry: 10\n\n: hello\n\nid: 1\nevent: queued\ndata: {\"n\": 1}\n\nid: 2\nevent: output\ndata: {\"text\":\ndata: \"a\\u0000b\"}\n\nid: 3\nevent: brok",
            b"id: 3\r\nevent: finished\r\ndata: {\"status\": \"ok\"}\r\n\r\n",
        ]
        seen: list[str | None] = []

        def answer(_: int, h: http.server.BaseHTTPRequestHandler, __: bytes) -> None:
            if not h.path.endswith("/events"):
                return send(h, 200, {"job": {"id": "j"}})
            seen.append(h.headers.get("Last-Event-ID"))
            if len(seen) == 2:
                return send(h, 503, {"code": "unavailable", "status": 503})
            h.send_response(200)
            h.send_header("Content-Type", "text/event-stream")
            h.end_headers()
            h.wfile.write(streams.pop(0))
            h.close_connection = True

        _, box = self.play(answer)
        got = [(e.id, e.type, e.data) for e in box.events("j")]
        self.assertEqual(got, [("1", "queued", {"n": 1}), ("2", "output", {"text": "a\0b"}), ("3", "finished", {"status": "ok"})])
        self.assertEqual(seen, [None, "2", "2"])

    def test_events_of_a_job_that_has_told_all(self) -> None:
        def answer(_: int, h: http.server.BaseHTTPRequestHandler, __: bytes) -> None:
            if h.path.endswith("/events"):
                self.assertEqual(h.headers.get("Last-Event-ID"), "1.end")
                h.send_response(204)
                h.end_headers()
            else:
                send(h, 200, {"job": {"id": "j"}, "result": {"job": "j", **OK}})

        _, box = self.play(answer)
        self.assertEqual(list(box.events("j", last_id="1.end")), [])

    def test_a_batch_is_sent_in_parts_with_its_own_line_numbers(self) -> None:
        looks = 0

        def answer(number: int, h: http.server.BaseHTTPRequestHandler, body: bytes) -> None:
            nonlocal looks
            lines = body.splitlines()
            if h.command == "GET":  # the history hears of it a moment later
                looks += 1
                return send(h, 404, {"code": "not_found", "status": 404}) if looks == 1 else send(h, 200, {"batch": "b"})
            if number == 1:
                return send(h, 202, {"batch": "b", "accepted": 1, "known": 0, "rejected": 0, "incomplete": {"code": "queue_full", "status": 503}})
            wrong = [i + 1 for i, line in enumerate(lines) if b"wrong" in line]
            send(h, 202, {"batch": "b", "accepted": len(lines) - len(wrong), "known": 0, "rejected": len(wrong),
                          "problems": [{"code": "invalid_job", "status": 422, "line": n} for n in wrong]})

        played, box = self.play(answer)
        same = [{"code": "1"}] * 1500
        got = box.batch([*same, "wrong", '{"code": "2", "key": "mine"}'], name="b")
        self.assertEqual((got.accepted, got.rejected, got.problems[0].line), (1501, 1, 1501))
        self.assertEqual(looks, 2)
        keys = [json.loads(line)["key"] for request in played.requests[1:] for line in request[3].splitlines() if line != b"wrong"]
        self.assertEqual((len(keys), len(set(keys)), keys[-1]), (1501, 1501, "mine"))
        self.assertEqual(played.requests[0][3], played.requests[1][3])


class Decodes(unittest.TestCase):
    def test_forms(self) -> None:
        def form(name: str, **rest: Any) -> dict[str, Any]:
            return {"$airlock": name, **rest}

        for doc, want in [
            (form("bytes", base64="aGk="), b"hi"),
            (form("tuple", items=[1, form("tuple", items=[])]), (1, ())),
            (form("set", items=[1, 2]), {1, 2}),
            (form("datetime", iso="2026-01-02T03:04:05"), datetime.datetime(2026, 1, 2, 3, 4, 5)),
            (form("date", iso="2026-01-02"), datetime.date(2026, 1, 2)),
            (form("time", iso="03:04:05"), datetime.time(3, 4, 5)),
            (form("timedelta", seconds=1.5), datetime.timedelta(seconds=1.5)),
            (form("decimal", value="1.10"), decimal.Decimal("1.10")),
            (form("complex", real=1.0, imag=2.0), 1 + 2j),
            (form("int", hex="-ff"), -255),
            (form("str", base64="7bCA"), "\udc00"),
            (form("dict", items=[[1, "a"], [form("tuple", items=[1]), "b"]]), {1: "a", (1,): "b"}),
            (form("float", value="inf"), math.inf),
            ([{"a": form("float", value="-inf")}], [{"a": -math.inf}]),
            # What is not quite one stays as it is.
            (form("repr", type="Foo", text="<Foo>"), form("repr", type="Foo", text="<Foo>")),
            (form("set", items=[[1]]), form("set", items=[[1]])),
            (form("bytes", base64="?"), form("bytes", base64="?")),
            (form("timedelta", seconds=1e300), form("timedelta", seconds=1e300)),
            (form("tuple"), form("tuple")),
            ({"$airlock": ["tuple"]}, {"$airlock": ["tuple"]}),
        ]:
            with self.subTest(doc=doc):
                self.assertEqual(decode(doc), want)
        self.assertTrue(math.isnan(decode(form("float", value="nan"))))

    def test_a_set_made_to_be_slow(self) -> None:
        clash = {"$airlock": "set", "items": [i * ((1 << 61) - 1) for i in range(200_000)]}
        self.assertEqual(decode(clash), clash)
        self.assertEqual(decode({"$airlock": "dict", "items": [[i, 0] for i in clash["items"]]})["$airlock"], "dict")
        many = list(range(5000))
        self.assertEqual(decode({"$airlock": "set", "items": many}), set(many))


@unittest.skipUnless(os.environ.get("AIRLOCK_HTTP"), "AIRLOCK_HTTP names no gateway")
class Real(unittest.TestCase):
    def setUp(self) -> None:
        self.box = Airlock()
        self.addCleanup(self.box.close)

    def test_run(self) -> None:
        result = self.box.run("print('hello'); return (x, b'\\xff', {1: 2})", vars={"x": 2**70}, limits={"wall": "20s"})
        self.assertEqual((result.value, result.stdout, result.exit_code), ((2**70, b"\xff", {1: 2}), "hello\n", 0))
        self.assertIs(result.raise_for_status(), result)

    def test_a_guests_failure_is_a_result(self) -> None:
        result = self.box.run("1/0")
        self.assertFalse(result.ok)
        self.assertEqual(result.error and result.error["type"], "ZeroDivisionError")
        with self.assertRaisesRegex(airlock.JobFailed, "guest_error: ZeroDivisionError"):
            result.raise_for_status()

    def test_files_and_tools(self) -> None:
        code = "return [open('/workspace/a.txt').read(), open('/workspace/b', 'rb').read(), await add(a=1, b='2')]"
        result = self.box.run(code, files={"a.txt": "text", "b": b"\xff"}, tools=["math.add"]).raise_for_status()
        self.assertEqual(result.value[:2], ["text", b"\xff"])
        self.assertEqual(result.tool_calls, 1)
        self.assertEqual([call["tool"] if "tool" in call else call["name"] for call in self.box.calls(result.job)], ["add"])

    def test_hostile_output(self) -> None:
        result = self.box.run("import os; os.write(1, bytes(range(256))); os.write(2, b'\\r\\n\\x1b]0;x\\x07')")
        self.assertEqual(result.raw["stdout"], {"base64": base64.b64encode(bytes(range(256))).decode()})
        self.assertEqual(result.stderr, "\r\n\x1b]0;x\x07")

    def test_submit_wait_cancel(self) -> None:
        quick = self.box.submit("return 1", key=f"quick-{time.time_ns()}")
        self.assertEqual(self.box.wait(quick).value, 1)
        slow = self.box.submit("import time; time.sleep(600)", limits={"wall": "11m"})
        with self.assertRaises(airlock.StillRunning):
            self.box.wait(slow, timeout=0.2)
        self.box.cancel(slow)
        self.assertEqual(self.box.wait(slow, timeout=60).status, "cancelled")

    def test_a_key_names_one_job(self) -> None:
        key = f"once-{time.time_ns()}"
        first = self.box.submit("return 1", key=key)
        self.assertEqual(self.box.submit("return 1", key=key), first)
        self.box.wait(first)  # what differs is told of jobs that the history knows
        with self.assertRaises(airlock.Problem) as caught:
            self.box.submit("return 2", key=key)
        self.assertEqual(caught.exception.code, "conflict")
        self.assertEqual(caught.exception.errors[0]["field"], "code")

    def test_events(self) -> None:
        job = self.box.submit("print('x'); return 1")
        if "/v1/jobs/{id}/events" not in self.box._ask("GET", "/openapi.json")["paths"]:
            with self.assertRaises(airlock.Problem):
                next(self.box.events(job))
            return
        got = list(self.box.events(job))
        self.assertEqual((got[0].type, got[-1].type), ("queued", "finished"))
        self.assertEqual(got[-1].data["result"]["value"], 1)
        self.assertEqual([e.type for e in self.box.events(job, last_id=got[0].id)][-1], "finished")
        self.assertEqual(list(self.box.events(job, last_id=got[-1].id)), [])

    def test_a_thousand_jobs(self) -> None:
        told: list[int] = []
        codes = [f"return {i} ** 2" if i % 100 else "1/0" for i in range(1000)]
        results = list(self.box.map(codes, concurrency=16, progress=told.append, batch=f"map-{time.time_ns()}"))
        self.assertEqual([r.value for r in results], [i**2 if i % 100 else None for i in range(1000)])
        self.assertEqual([r.status for r in results], ["ok" if i % 100 else "guest_error" for i in range(1000)])
        self.assertEqual((told, len({r.job for r in results})), (list(range(1, 1001)), 1000))

    def test_batch(self) -> None:
        name = f"batch-{time.time_ns()}"
        lines: list[Any] = [{"code": "return 5"}] * 3 + ['{"code": "return 6"}', '{"code": 7}', "no json"]
        got = self.box.batch(lines, name)
        self.assertEqual((got.accepted, got.known, got.rejected, [p.line for p in got.problems]), (4, 0, 2, [5, 6]))
        self.assertEqual(self.box.batch(lines, name).known, 4)
        deadline = time.monotonic() + 60
        while len(values := sorted(r.value for r in self.box.results(name))) < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(values, [5, 5, 5, 6])
        self.assertEqual(self.box.summary(name)["total"], 4)


if __name__ == "__main__":
    unittest.main()
