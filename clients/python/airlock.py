"""Airlock over HTTP: run Python that nobody trusts, from Python.

One file that needs the standard library only (Python 3.10 or later): copy it to
where you need it.

    from airlock import Airlock

    with Airlock() as box:                      # AIRLOCK_HTTP and AIRLOCK_TOKEN
        print(box.run("return x ** 2", vars={"x": 12}).value)
        for result in box.map(["return 1", "1/0"], concurrency=8):
            print(result.ok, result.value, result.error)

What a job failed of is a Result that is not ok; an exception is for what kept
Airlock from telling. An Airlock may be used by several threads at once.

Each job is submitted under an idempotency key, one that is made if you give
none, so that a request that is sent again never runs a job twice.
"""

from __future__ import annotations

import base64
import collections
import datetime
import decimal
import hashlib
import http.client
import json
import os
import random
import socket
import ssl
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Airlock", "AirlockError", "BatchReceipt", "Event", "JobFailed", "Problem", "Result", "StillRunning", "Unreachable", "decode"]

_SLICE = 20.0  # seconds that one request waits for a job
_POLL = 0.05, 1.0  # first and longest pause between looks at a job
_SETTLE = 30.0  # seconds that a batch may take into the history
_PATIENCE = 30.0  # seconds that an answer may take, beyond what it waits for
_MAX_ANSWER = 256 << 20  # bytes that are taken of an answer
_MAX_EVENT = 4 << 20  # bytes that are taken of a line of events
_CHUNK = 1000, 8 << 20  # lines and bytes of a batch in one request
_PASSING = {429, 502, 503, 504}


class AirlockError(Exception):
    """All that this module raises."""


class Unreachable(AirlockError):
    """The gateway could not be reached, or its answer made no sense."""


class Problem(AirlockError):
    """The gateway refused; code is the problem's stable name."""

    def __init__(self, document: Mapping[str, Any], status: int, retry_after: float | None = None) -> None:
        self.status = status
        self.code: str = str(document.get("code", "unknown"))
        self.detail: str = str(document.get("detail", ""))
        self.errors: list[dict[str, Any]] = list(document.get("errors") or [])
        self.line: int | None = document.get("line")
        self.retry_after = retry_after
        reasons = "; ".join(f"{e.get('field', '')}: {e.get('reason', '')}" for e in self.errors[:3])
        super().__init__(f"{status} {self.code}: {self.detail}" + (f" ({reasons})" if reasons else ""))


class StillRunning(AirlockError):
    """The job had not ended in time. It goes on: wait(job) again, or cancel(job)."""

    def __init__(self, job: str) -> None:
        self.job = job
        super().__init__(f"job {job} has not ended in time: wait again, or cancel it")


class JobFailed(AirlockError):
    """raise_for_status met a result that is not ok."""

    def __init__(self, result: Result) -> None:
        self.result = result
        what = result.error or {}
        why = f": {what.get('type', '')}: {what.get('message', '')}" if what else ""
        super().__init__(f"job {result.job} ended as {result.status}{why}")


@dataclass(frozen=True)
class Result:
    """What a job gave. Everything in it but the status is the guest's word."""

    job: str
    status: str
    value: Any = None
    error: dict[str, Any] | None = None
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    tool_calls: int = 0
    usage: dict[str, Any] = field(default_factory=dict)
    # raw is the whole document, with bytes that are no text as they were.
    raw: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def ok(self) -> bool:
        """Whether the job gave a value and ended inside its limits."""
        return self.status == "ok"

    def raise_for_status(self) -> Result:
        """Return this result if it is ok, else raise JobFailed."""
        if not self.ok:
            raise JobFailed(self)
        return self

    @classmethod
    def of(cls, raw: dict[str, Any]) -> Result:
        """The result that a document of the gateway tells."""
        return cls(
            job=raw["job"], status=raw["status"], value=decode(raw.get("value")), error=raw.get("error"),
            stdout=_text(raw.get("stdout", "")), stderr=_text(raw.get("stderr", "")), exit_code=raw.get("exit_code"),
            tool_calls=raw.get("tool_calls", 0), usage=raw.get("usage", {}), raw=raw,
        )


@dataclass(frozen=True)
class BatchReceipt:
    """What became of the lines of a batch."""

    batch: str
    accepted: int = 0
    known: int = 0
    rejected: int = 0
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True)
class Event:
    """What happened to a job. With its id the stream can be gone on with."""

    id: str
    type: str
    data: Any


class Airlock:
    """A gateway. url and token are AIRLOCK_HTTP and AIRLOCK_TOKEN by default.

    retry_for is how many seconds a request is tried again that met a full
    queue, a quota, or a gateway that was away; context is for HTTPS.
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, retry_for: float = 60.0, context: ssl.SSLContext | None = None) -> None:
        url = url or os.environ.get("AIRLOCK_HTTP") or "http://127.0.0.1:8080"
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no URL such as http://127.0.0.1:8080: give url, or set AIRLOCK_HTTP")
        self._secure, self._host, self._base = parts.scheme == "https", parts.netloc.rpartition("@")[2], parts.path.rstrip("/")
        self._token = token if token is not None else os.environ.get("AIRLOCK_TOKEN", "")
        self._retry_for, self._context = retry_for, context
        self._here = threading.local()
        self._lock = threading.Lock()
        self._open: set[http.client.HTTPConnection] = set()
        self._reached = False

    def __enter__(self) -> Airlock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. What is under way in other threads fails."""
        self._drop(list(self._open))

    def run(self, code: str, *, wait: float | None = None, park: bool = False, **fields: Any) -> Result:
        """Run code and return what came of it; after wait seconds raise StillRunning.

        fields are those of a job, such as vars, limits, labels or batch. files
        may be a mapping of paths to text or bytes, tools a list such as
        ["math.add", "search.*"].
        """
        until = None if wait is None else time.monotonic() + wait
        receipt = self._post(_job(code, fields), park, _slice(until))
        if "result" in receipt:
            return Result.of(receipt["result"])
        return self._await(receipt["id"], until)

    def submit(self, code: str, *, park: bool = False, **fields: Any) -> str:
        """Put a job into the queue and return its id."""
        return str(self._post(_job(code, fields), park, 0)["id"])

    def wait(self, job: str, timeout: float | None = None) -> Result:
        """Return the job's result; after timeout seconds raise StillRunning."""
        return self._await(job, None if timeout is None else time.monotonic() + timeout)

    def job(self, job: str) -> dict[str, Any]:
        """Where a job stands, and its result once it has ended."""
        return self._ask("GET", f"/v1/jobs/{_quoted(job)}")

    def calls(self, job: str) -> list[dict[str, Any]]:
        """The job's tool calls, those that were refused among them."""
        return self._ask("GET", f"/v1/jobs/{_quoted(job)}/calls")["calls"] or []

    def cancel(self, job: str) -> dict[str, int]:
        """Cancel a job; it may be asked again."""
        return self._ask("DELETE", f"/v1/jobs/{_quoted(job)}")

    def map(
        self,
        codes: Iterable[str | Mapping[str, Any]],
        *,
        concurrency: int = 16,
        progress: Callable[[int], None] | None = None,
        **fields: Any,
    ) -> Iterator[Result]:
        """Run many jobs and yield their results in the order of codes.

        A code is a text, or a mapping of a job's fields; fields are those of
        all. At most concurrency are under way, and not many more are kept that
        wait for their turn to be yielded: codes may be without end. progress is
        told how many have ended, one call at a time but from other threads.
        An exception, or leaving the iterator, starts no further ones; those that run
        go on.
        """
        done, counting, leaving = 0, threading.Lock(), threading.Event()

        def one(job: dict[str, Any]) -> Result:
            nonlocal done
            receipt = self._post(job, False, _SLICE)
            result = Result.of(receipt["result"]) if "result" in receipt else self._await(receipt["id"], None, leaving)
            with counting:
                done += 1
                if progress is not None:
                    progress(done)
            return result

        window: collections.deque[Future[Result]] = collections.deque()
        theirs: list[http.client.HTTPConnection] = []
        pool = ThreadPoolExecutor(concurrency, "airlock", initializer=lambda: theirs.append(self._connection(_PATIENCE)))
        try:
            for code in codes:
                job = _job(code, fields) if isinstance(code, str) else _job(code["code"], {**fields, **{k: v for k, v in code.items() if k != "code"}})
                window.append(pool.submit(one, job))
                while len(window) >= 4 * concurrency or (window and window[0].done()):
                    yield window.popleft().result()
            while window:
                yield window.popleft().result()
        finally:
            leaving.set()
            pool.shutdown(cancel_futures=True)
            self._drop(theirs)

    def batch(self, lines: Iterable[str | Mapping[str, Any]], name: str | None = None, *, park: bool = False) -> BatchReceipt:
        """Submit jobs that stand one a line, as texts of JSON or as mappings.

        Any number of them: they are sent a thousand at a time. The same lines
        under the same name again submit nothing twice. When it returns, summary
        and results know the batch.
        """
        name = name or uuid.uuid4().hex
        total = BatchReceipt(name)
        for first, chunk in _chunks(_keyed(lines, name)):
            total = self._send(total, chunk, first, park)
        if total.accepted:
            self._settle(name)
        return total

    def summary(self, batch: str) -> dict[str, Any]:
        """How many jobs of a batch stand where."""
        return self._ask("GET", f"/v1/batches/{_quoted(batch)}")

    def results(self, batch: str) -> Iterator[Result]:
        """The results of a batch so far, in the order of the jobs' ids."""
        after, limit = "", 500
        while True:
            page = self._ask("GET", f"/v1/batches/{_quoted(batch)}/results?limit={limit}{after}", lines=True)
            if not page:
                return
            for raw in page:
                yield Result.of(raw)
            after = f"&after={page[-1]['job']}"

    def cancel_batch(self, batch: str) -> dict[str, int]:
        """Cancel all jobs of a batch."""
        return self._ask("DELETE", f"/v1/batches/{_quoted(batch)}")

    def events(self, job: str, last_id: str = "") -> Iterator[Event]:
        """What happens to a job, until it has ended.

        A stream that breaks is gone on with after the last event. last_id is
        that of an event that you had before.
        """
        path, until = f"/v1/jobs/{_quoted(job)}/events", time.monotonic() + self._retry_for
        pauses = _pauses()
        while True:
            try:
                for event in self._stream(path, last_id):
                    last_id = event.id or last_id
                    until, pauses = time.monotonic() + self._retry_for, _pauses()
                    yield event
                    if event.type == "finished":
                        return
                if "result" in self.job(job):
                    return
            except (OSError, http.client.HTTPException, Problem) as err:
                if isinstance(err, Problem) and err.status not in _PASSING:
                    raise
                if time.monotonic() > until:
                    raise err if isinstance(err, Problem) else Unreachable(f"follow job {job}: {err}") from err
            time.sleep(next(pauses))

    # Below is how requests are made.

    def _post(self, job: dict[str, Any], park: bool, wait: float) -> dict[str, Any]:
        query = urllib.parse.urlencode({"wait": f"{max(wait, 0):.3f}s"} | ({"park": "true"} if park else {}))
        return self._ask("POST", f"/v1/jobs?{query}", _dump(job), wait=wait)

    def _await(self, job: str, until: float | None, leaving: threading.Event | None = None) -> Result:
        pause, longest = _POLL
        while True:
            wait = _slice(until)
            view = self._ask("GET", f"/v1/jobs/{_quoted(job)}?wait={wait:.3f}s", wait=wait)
            if "result" in view:
                return Result.of(view["result"])
            if until is not None and time.monotonic() >= until or leaving is not None and leaving.is_set():
                raise StillRunning(job)
            time.sleep(pause if until is None else max(0.0, min(pause, until - time.monotonic())))
            pause = min(2 * pause, longest)

    def _send(self, total: BatchReceipt, chunk: list[str], first: int, park: bool) -> BatchReceipt:
        """Send some lines of a batch, again while something passing stops it."""
        path = f"/v1/batches?{urllib.parse.urlencode({'name': total.batch} | ({'park': 'true'} if park else {}))}"
        until = time.monotonic() + self._retry_for
        for pause in _pauses():
            got = self._ask("POST", path, "\n".join(chunk).encode(), media="application/x-ndjson", wait=_SLICE * 6)
            stopped = got.get("incomplete")
            if not stopped:
                break
            problem = Problem(stopped, int(stopped.get("status", 0)))
            if problem.status not in _PASSING or time.monotonic() > until:
                raise problem
            time.sleep(pause)
        problems = [Problem({**p, "line": p.get("line", 1) + first - 1}, int(p.get("status", 0))) for p in got.get("problems") or []]
        return BatchReceipt(
            total.batch, total.accepted + got["accepted"], total.known + got["known"], total.rejected + got["rejected"], total.problems + problems
        )

    def _settle(self, batch: str) -> None:
        """Wait until a batch has come from the queue into the history."""
        until, pauses = time.monotonic() + _SETTLE, _pauses()
        while True:
            try:
                self.summary(batch)
                return
            except Problem as err:
                if err.code != "not_found" or time.monotonic() > until:
                    raise
            time.sleep(next(pauses))

    def _ask(self, method: str, path: str, body: bytes = b"", *, media: str = "application/json", wait: float = 0, lines: bool = False) -> Any:
        """Send a request until it is answered by what does not pass by itself.

        Each can be sent again: jobs bear keys, and the rest changes nothing
        the second time.
        """
        until = time.monotonic() + self._retry_for
        for pause in _pauses():
            try:
                status, header, text = self._once(method, path, body, media, wait)
            except (OSError, http.client.HTTPException) as err:
                hopeless = not self._reached and isinstance(err, (ConnectionRefusedError, socket.gaierror, ssl.SSLError))
                if hopeless or time.monotonic() > until:
                    raise Unreachable(f"{method} {path}: {err or type(err).__name__}: is a gateway at {self._host}?") from err
            else:
                if status < 300:
                    return [_load(line) for line in text.splitlines() if line] if lines else _load(text)
                problem = _problem(status, header, text)
                if status not in _PASSING or time.monotonic() > until:
                    raise problem
                # The jitter is so that those who were sent away together do not come back so.
                pause = max(pause, (problem.retry_after or 0) * random.uniform(1, 1.3))
            time.sleep(pause)
        raise AssertionError("there is always another pause")

    def _once(self, method: str, path: str, body: bytes, media: str, wait: float) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = self._connection(_PATIENCE + wait)
        headers = self._headers() | ({"Content-Type": media} if body else {})
        try:
            connection.request(method, self._base + path, body or None, headers)
            answer = connection.getresponse()
            text = answer.read(_MAX_ANSWER + 1)
            if len(text) > _MAX_ANSWER:
                raise http.client.HTTPException(f"the answer is larger than {_MAX_ANSWER} bytes")
        except BaseException:
            connection.close()  # what comes next on it belongs to this request
            raise
        self._reached = True
        return answer.status, answer.headers, text

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        """This thread's, which is kept from one request to the next."""
        connection: http.client.HTTPConnection | None = getattr(self._here, "connection", None)
        if connection is None:
            connection = self._here.connection = self._new(timeout)
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        with self._lock:
            self._open.add(connection)
        return connection

    def _drop(self, connections: list[http.client.HTTPConnection]) -> None:
        with self._lock:
            self._open.difference_update(connections)
        for connection in connections:
            connection.close()

    def _new(self, timeout: float) -> http.client.HTTPConnection:
        if self._secure:
            return http.client.HTTPSConnection(self._host, timeout=timeout, context=self._context)
        return http.client.HTTPConnection(self._host, timeout=timeout)

    def _stream(self, path: str, last_id: str) -> Iterator[Event]:
        """The events of one connection, which is the stream's own."""
        connection = self._new(_PATIENCE * 2)
        headers = self._headers() | {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
        try:
            connection.request("GET", self._base + path, headers=headers)
            answer = connection.getresponse()
            if answer.status == 204:
                return  # it has ended, and all was told before
            if answer.status != 200:
                raise _problem(answer.status, answer.headers, answer.read(_MAX_EVENT))
            self._reached = True
            yield from _parse_events(iter(lambda: answer.readline(_MAX_EVENT), b""))
        finally:
            connection.close()


def _parse_events(lines: Iterator[bytes]) -> Iterator[Event]:
    """Server-sent events, whose data is JSON. One that breaks off is dropped."""
    event, kind, data = "", "", []
    for line in lines:
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if not text:
            if data:
                yield Event(event, kind or "message", _load("\n".join(data)))
            kind, data = "", []
        elif name == "id":
            event = value
        elif name == "event":
            kind = value
        elif name == "data":
            data.append(value)


def decode(value: Any) -> Any:
    """The Python value that a result's JSON stands for.

    What is not quite one of the forms that Airlock documents stays a dict, as
    does a repr: nothing that a guest wrote is run or looked up.
    """
    if isinstance(value, list):
        return [decode(v) for v in value]
    if not isinstance(value, dict):
        return value
    form = _FORMS.get(value["$airlock"]) if isinstance(value.get("$airlock"), str) else None
    if form is None:
        return {k: decode(v) for k, v in value.items()}
    try:
        return form(value)
    except (ValueError, TypeError, KeyError, ArithmeticError):
        return value


def _hashed(members: list[Any]) -> list[Any]:
    # A guest can choose integers that share their hash, of which a set of many
    # takes hours to make.
    if len(members) > 1000 and 2 * len({str(hash(m)) for m in members}) < len(members):
        raise ValueError("the hashes collide")
    return members


def _dict(form: dict[str, Any]) -> dict[Any, Any]:
    pairs = [(decode(k), decode(v)) for k, v in form["items"]]
    _hashed([k for k, _ in pairs])
    return dict(pairs)


def _special(text: str) -> float:
    return {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}[text]


_FORMS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "float": lambda v: _special(v["value"]),
    "bytes": lambda v: base64.b64decode(v["base64"], validate=True),
    "tuple": lambda v: tuple(decode(v["items"])),
    "set": lambda v: frozenset(_hashed(decode(v["items"]))),
    "datetime": lambda v: datetime.datetime.fromisoformat(v["iso"]),
    "date": lambda v: datetime.date.fromisoformat(v["iso"]),
    "time": lambda v: datetime.time.fromisoformat(v["iso"]),
    "timedelta": lambda v: datetime.timedelta(seconds=v["seconds"]),
    "decimal": lambda v: decimal.Decimal(v["value"]),
    "complex": lambda v: complex(v["real"], v["imag"]),
    "int": lambda v: int(v["hex"], 16),
    "str": lambda v: base64.b64decode(v["base64"], validate=True).decode("utf-8", "surrogatepass"),
    "dict": _dict,
}


def _job(code: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A job as the gateway takes it, with a key of its own if it has none."""
    job = {"code": code, "key": uuid.uuid4().hex, **fields}
    if isinstance(job.get("files"), Mapping):
        job["files"] = [{"path": path, "content": _content(data)} for path, data in job["files"].items()]
    if "tools" in job:
        job["tools"] = [_grant(t) if isinstance(t, str) else t for t in job["tools"]]
    if isinstance(job.get("stdin"), bytes):
        job["stdin"] = _content(job["stdin"])
    return job


def _grant(tool: str) -> dict[str, str]:
    namespace, dot, name = tool.partition(".")
    if not dot:
        raise ValueError(f"tool {tool!r}: want its namespace and name, such as math.add or math.*")
    return {"namespace": namespace, "name": name}


def _content(data: str | bytes) -> str | dict[str, str]:
    return data if isinstance(data, str) else {"base64": base64.b64encode(data).decode()}


def _text(data: Any) -> str:
    if isinstance(data, dict):
        return base64.b64decode(data.get("base64", "")).decode("utf-8", "replace")
    return str(data)


def _keyed(lines: Iterable[str | Mapping[str, Any]], batch: str) -> Iterator[str]:
    """Lines with keys of their batch, content, and how often that came before.

    A text that is no job is passed on for the gateway to say so.
    """
    seen: collections.Counter[bytes] = collections.Counter()
    for line in lines:
        text = line if isinstance(line, str) else json.dumps(dict(line), sort_keys=True, allow_nan=False)
        text = text.strip().replace("\n", " ")
        try:
            job = json.loads(text)
        except (ValueError, RecursionError):
            job = None
        if isinstance(job, dict) and "key" not in job and text.startswith("{") and len(job) > 0:
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
            seen[digest[:8]] += 1
            text = f'{{"key": {json.dumps(f"{batch}/{digest[:16].hex()}/{seen[digest[:8]]}")}, {text[1:]}'
        yield text


def _chunks(lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """Lines in requests of a bounded size, with the number of the first."""
    chunk: list[str] = []
    first, size = 1, 0
    for line in lines:
        if chunk and (len(chunk) >= _CHUNK[0] or size + len(line) > _CHUNK[1]):
            yield first, chunk
            first, chunk, size = first + len(chunk), [], 0
        chunk.append(line)
        size += len(line)
    if chunk:
        yield first, chunk


def _slice(until: float | None) -> float:
    return _SLICE if until is None else max(0.0, min(_SLICE, until - time.monotonic()))


def _pauses() -> Iterator[float]:
    """Longer and longer ones, without end."""
    pause = 0.1
    while True:
        yield pause * random.uniform(0.5, 1)
        pause = min(2 * pause, 5.0)


def _dump(document: Any) -> bytes:
    return json.dumps(document, allow_nan=False).encode()


def _load(text: str | bytes) -> Any:
    try:
        return json.loads(text, parse_int=_integer)
    except (ValueError, RecursionError) as err:
        raise Unreachable(f"the answer is no JSON: {err}") from err


def _integer(digits: str) -> int | decimal.Decimal:
    # Python refuses to read longer ones, which take a time that grows with their square.
    return int(digits) if len(digits) <= 4000 else decimal.Decimal(digits)


def _quoted(name: str) -> str:
    return urllib.parse.quote(str(name), safe="")


def _problem(status: int, header: Mapping[str, str], text: bytes) -> Problem:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        document = {"code": "unknown", "detail": text[:200].decode("utf-8", "replace")}
    after = header.get("Retry-After") or ""
    return Problem(document, status, float(after) if after.isdigit() else None)
