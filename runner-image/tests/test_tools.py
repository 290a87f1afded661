"""Tools as the user's code sees them."""

import textwrap
import threading
import time
import unittest
from collections.abc import Callable

import support
from airlock_guest import calls, tools, wire

ADD, ECHO = support.MATH


def run(source: str, **params: object) -> support.Ended:
    return support.run(textwrap.dedent(source), **params)


def called(ended: support.Ended) -> "list[dict]":
    return [frame["params"] for frame in ended.requests if frame["method"] == "call_tool"]


class NameTest(unittest.TestCase):
    def test_namespaces(self) -> None:
        ended = run("[await tools.math.add(a=1, b=2), tools.math.add.__name__, tools.math.add.__doc__]")
        self.assertEqual(ended.value, [{"sum": 3}, "add", "Adds two numbers."])

    def test_same_name_twice(self) -> None:
        ended = run("await tools.other.add(x=1)\n'add' in globals()", tools=[ADD, {"namespace": "other", "name": "add"}])
        self.assertEqual(ended.value, False)
        self.assertEqual(called(ended), [{"namespace": "other", "name": "add", "arguments": {"x": 1}}])

    def test_what_a_tool_never_hides(self) -> None:
        names = ["print", "tools", "ToolError", "x", "class", "None", "__name__"]
        offered = [{"namespace": "n", "name": name} for name in names]
        source = "[x, callable(tools.call), issubclass(ToolError, Exception), print(1), __name__]"
        ended = run(source, tools=offered, vars={"x": 5})
        self.assertEqual(ended.value, [5, True, True, None, "__main__"])
        self.assertEqual(ended.out, "1\n")
        self.assertEqual(called(run("await getattr(tools.n, 'class')(y=1)", tools=offered))[0]["name"], "class")

    def test_variables_win(self) -> None:
        ended = run("[add, tools, ToolError]", vars={"add": 1, "tools": 2, "ToolError": 3})
        self.assertEqual(ended.value, [1, 2, 3])

    def test_namespaces_named_like_methods(self) -> None:
        offered = [{"namespace": name, "name": "x"} for name in ("call", "list", "call_sync")]
        ended = run("await tools.call('list', 'x', {'a': 1}, b=2)", tools=offered)
        self.assertEqual(called(ended), [{"namespace": "list", "name": "x", "arguments": {"a": 1, "b": 2}}])

    def test_names_that_are_no_identifiers(self) -> None:
        ended = run("await tools.call('my-math', 'add-two', n=1)", tools=[{"namespace": "my-math", "name": "add-two"}])
        self.assertEqual(ended.value, {"n": 1})

    def test_unknown(self) -> None:
        for source, want in (("tools.math.sub", "add, echo"), ("tools.maths", "math"), ("sub", "sub")):
            with self.subTest(source):
                self.assertIn(want, run(source).error["message"])


class ArgumentTest(unittest.TestCase):
    def test_positions(self) -> None:
        ended = run("[await add(1, 2), await add(1, b=2), await add(b=1, a=2)]")
        self.assertEqual(ended.value, [{"sum": 3}] * 3)
        self.assertEqual(called(ended)[2]["arguments"], {"a": 2, "b": 1})

    def test_names_that_functions_use_themselves(self) -> None:
        ended = run("await echo(self=1, namespace=2, name=3)\nawait tools.call('math', 'echo', namespace=4, name=5, self=6)")
        want = [{"self": 1, "namespace": 2, "name": 3}, {"namespace": 4, "name": 5, "self": 6}]
        self.assertEqual([call["arguments"] for call in called(ended)], want)

    def test_type_errors(self) -> None:
        cases = [
            ("add(1, 2, 3)", "takes 2 positional arguments but 3"),
            ("add(1, a=2)", "multiple values for argument 'a'"),
            ("echo(1)", "takes keyword arguments only"),
            ("await tools.call('math', 'echo', {1: 2})", "must be a string"),
            ("await tools.call('math', 5)", "strings"),
            ("await tools.call(None, 'echo')", "strings"),
            ("await tools.call('math', 'echo', [1])", "mapping"),
        ]
        for source, want in cases:
            with self.subTest(source):
                ended = run(source)
                self.assertEqual(ended.error["type"], "TypeError")
                self.assertIn(want, ended.error["message"])
                self.assertEqual(called(ended), [])

    def test_forms(self) -> None:
        ended = run("await echo(v=[(1, 2), {1}, float('inf'), b'x', 2**70])")
        inf = {"$airlock": "float", "value": "inf"}
        one = {"$airlock": "set", "items": [1]}
        want = [[1, 2], one, inf, {"$airlock": "bytes", "base64": "eA=="}, 2**70]
        self.assertEqual(called(ended)[0]["arguments"], {"v": want})

    def test_no_mistake_is_a_breach(self) -> None:
        """Whatever is asked for, the frame stays one that the worker reads."""
        for source in (
            "await tools.call('\\ud800', 'x' * 10**6, {'\\udc00': 1})",
            "await tools.call('', '\\0')",
            "await echo(v='\\ud800')",
            "x = []\nfor _ in range(500): x = (x,)\nawait echo(v=x)",
        ):
            with self.subTest(source):
                self.assertEqual(len(called(run(source))), 1)

    def test_too_large(self) -> None:
        source = "try:\n    await echo(v='x' * 200_000)\nexcept ToolError as e:\n    code = e.code\ncode"
        ended = run(source, limits={"frame": 100_000})
        self.assertEqual((ended.value, called(ended)), ("too_large", []))


class ErrorTest(unittest.TestCase):
    @staticmethod
    def refuse(request: dict) -> dict:
        return {"id": request["id"], "ok": False, "error": {"code": "not_granted", "message": "no \0 ü"}}

    def test_fields(self) -> None:
        ended = run(
            """
            import pickle
            try:
                await add(a=1, b=2)
            except ToolError as error:
                again = pickle.loads(pickle.dumps(error))
                __result__ = [again.code, again.message, again.namespace, again.name, str(again)]
            """,
            answer=self.refuse,
        )
        self.assertEqual(ended.value, ["not_granted", "no \0 ü", "math", "add", "not_granted: no \0 ü"])

    def test_traceback_ends_at_the_users_line(self) -> None:
        alone = "async def f():\n    await add(a=1, b=2)\nawait f()"
        gathered = "import asyncio\nawait asyncio.gather(\n add(a=1, b=2))"
        for source in (alone, gathered):
            with self.subTest(source):
                error = run(source, answer=self.refuse).error
                self.assertEqual(error["type"], "ToolError")
                self.assertIn('File "main.py", line 2', error["traceback"])
                self.assertNotIn("airlock_guest", error["traceback"])

    def test_list(self) -> None:
        listed = [{"namespace": "a", "name": "b"}]
        ended = run("await tools.list()", answer=lambda r: {"id": r["id"], "ok": True, "value": listed})
        self.assertEqual(ended.value, listed)
        self.assertEqual(ended.requests[0], {"id": 1, "method": "list_tools"})


class ParallelTest(unittest.TestCase):
    def play(self, source: str, limits: dict, order: object) -> "tuple[dict, list[int]]":
        """Answers calls in batches: order chooses from the open ones. Returns the result and how many were open."""
        open_calls: "list[dict]" = []
        counts = []
        with support.Guest() as guest:
            guest.receive()
            params = {"code": textwrap.dedent(source), "tools": support.MATH, "limits": limits}
            guest.send({"method": "job", "params": params})
            while (frame := guest.receive()) is not None:
                if frame["method"] == "result":
                    guest.send({"id": frame["id"], "ok": True})
                    result = frame["params"]
                    continue
                open_calls.append(frame)
                counts.append(len(open_calls))
                if len(open_calls) == min(limits["parallel"], 10):
                    for call in order(open_calls):
                        guest.send(support.answer(call))
                    open_calls = []
            guest.wait()
        return result, counts

    def test_gather_out_of_order(self) -> None:
        source = "import asyncio\n[r['sum'] for r in await asyncio.gather(*(add(a=i, b=0) for i in range(10)))]"
        result, counts = self.play(source, {"parallel": 64}, lambda calls: reversed(calls))
        self.assertEqual(result["value"], list(range(10)))
        self.assertEqual(max(counts), 10)

    def test_more_than_may_be_open(self) -> None:
        source = "import asyncio\n[r['sum'] for r in await asyncio.gather(*(add(a=i, b=0) for i in range(30)))]"
        result, counts = self.play(source, {"parallel": 3}, lambda calls: reversed(calls))
        self.assertEqual(result["value"], list(range(30)))
        self.assertEqual(max(counts), 3)

    def test_threads(self) -> None:
        source = """
            from concurrent.futures import ThreadPoolExecutor
            with ThreadPoolExecutor(5) as pool:
                sums = list(pool.map(lambda i: tools.call_sync("math", "add", a=i, b=i)["sum"], range(50)))
            sums == [2 * i for i in range(50)]
            """
        result, _ = self.play(source, {"parallel": 5}, lambda calls: reversed(calls))
        self.assertEqual(result["value"], True)

    def test_threads_beside_a_loop(self) -> None:
        source = """
            import asyncio
            def sync(i):
                return tools.call_sync("math", "add", a=i, b=1)["sum"]
            async def main():
                mixed = [asyncio.to_thread(sync, i) if i % 2 else add(a=i, b=1) for i in range(40)]
                return [r if type(r) is int else r["sum"] for r in await asyncio.gather(*mixed)]
            asyncio.run(main()) == list(range(1, 41))
            """
        result, _ = self.play(source, {"parallel": 1}, lambda calls: calls)
        self.assertEqual(result["value"], True)

    def test_two_loops(self) -> None:
        source = """
            import asyncio, threading
            seen = []
            async def main(n):
                for i in range(20):
                    seen.append((await add(a=n, b=i))["sum"])
            threads = [threading.Thread(target=lambda n=n: asyncio.run(main(n))) for n in (0, 100)]
            for t in threads: t.start()
            for t in threads: t.join()
            sorted(seen) == [*range(20), *range(100, 120)]
            """
        result, _ = self.play(source, {"parallel": 1}, lambda calls: calls)
        self.assertEqual(result["value"], True)

    def test_blocking_call_inside_a_loop(self) -> None:
        ended = run("import asyncio\n[tools.call_sync('math', 'add', a=1, b=2), await add(a=3, b=4)]")
        self.assertEqual(ended.value, [{"sum": 3}, {"sum": 7}])

    def test_blocking_call_beside_calls_of_the_loop(self) -> None:
        """It gets its turn behind them, and reads their answers while it waits."""
        source = """
            import asyncio
            tasks = [asyncio.ensure_future(add(a=i, b=1)) for i in range(20)]
            await asyncio.sleep(0)
            alone = tools.call_sync("math", "add", a=1, b=2)["sum"]
            [alone, [r["sum"] for r in await asyncio.gather(*tasks)] == list(range(1, 21))]
            """
        result, counts = self.play(source, {"parallel": 3}, lambda calls: reversed(calls))
        self.assertEqual(result["value"], [3, True])
        self.assertEqual(max(counts), 3)

    def test_cancelled_call(self) -> None:
        """A reply that nobody waits for any more is dropped, and its place is free again."""
        late = []

        def answer(request: dict) -> dict:
            if request["params"]["arguments"].get("slow"):
                late.append(request)
                return {"id": request["id"], "ok": True, "value": "late"}
            return support.answer(request)

        ended = run(
            """
            import asyncio
            slow = asyncio.ensure_future(echo(slow=1))
            await asyncio.sleep(0)
            slow.cancel()
            queued = asyncio.ensure_future(echo(slow=2))
            await asyncio.sleep(0)
            queued.cancel()
            (await add(a=1, b=2))["sum"]
            """,
            answer=answer,
            limits={"parallel": 1},
        )
        self.assertEqual(ended.value, 3)
        self.assertEqual(len(late), 1)

    def test_signal_handlers_reach_the_awaiting_code(self) -> None:
        with support.Guest() as guest:
            guest.receive()
            source = """
                import signal
                def ring(*_): raise TimeoutError("rung")
                signal.signal(signal.SIGALRM, ring)
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                try:
                    await echo(v=1)
                except TimeoutError as error:
                    seen = str(error)
                [seen, await echo(v=2)]
                """
            guest.send({"method": "job", "params": {"code": textwrap.dedent(source), "tools": support.MATH}})
            first, second = guest.receive(), guest.receive()
            guest.send({"id": first["id"], "ok": True, "value": 1})
            guest.send({"id": second["id"], "ok": True, "value": 2})
            self.assertEqual(guest.receive()["params"]["value"], ["rung", 2])


class UnawaitedTest(unittest.TestCase):
    def test_reported(self) -> None:
        ended = run("add(a=1, b=2)\nx = echo(v=1)\ntools.list()\nawait add(a=1, b=1)\n1")
        self.assertEqual(ended.result["unawaited"], ["math.add", "math.echo", "tools.list"])
        self.assertIn("airlock: a call of math.echo was never awaited", ended.err)
        self.assertEqual(len(called(ended)), 1)

    def test_bounded(self) -> None:
        ended = run("for i in range(300): add(a=i, b=1)\nx = tools.call('x' * 10**6, 'y')")
        self.assertEqual(len(ended.result["unawaited"]), 100)

    def test_with_an_error(self) -> None:
        self.assertEqual(run("x = add(a=1, b=2)\n1 / 0").result["unawaited"], ["math.add"])

    def test_none(self) -> None:
        self.assertNotIn("unawaited", run("await add(a=1, b=2)").result)


class ConversationTest(unittest.TestCase):
    """The conversation without a guest's process."""

    def setUp(self) -> None:
        import socket

        self.worker, guest = socket.socketpair()
        self.conversation = calls.Conversation(wire.Channel(guest.fileno()))
        self.addCleanup(guest.close)
        self.addCleanup(self.worker.close)

    def test_worker_goes_away(self) -> None:
        """Every thread that waits is told, and so is who asks later."""
        caller = tools._Caller(self.conversation, wire.MAX_FRAME)
        seen = []

        def ask() -> None:
            try:
                caller.call_sync("math", "echo", {})
            except ConnectionError as error:
                seen.append(str(error))

        threads = [threading.Thread(target=ask) for _ in range(5)]
        for thread in threads:
            thread.start()
        self.worker.recv(1 << 16)
        self.worker.close()
        for thread in threads:
            thread.join(support.TIMEOUT)
            self.assertFalse(thread.is_alive())
        ask()
        self.assertEqual(len(seen), 6)

    def test_reply_to_nothing(self) -> None:
        request = self.started()
        self.reply(99)
        self.conversation.wait(request)
        self.assertRaisesRegex(ConnectionError, "no request", request.result)

    def test_bound(self) -> None:
        """No more than the allowed number is ever sent; the next goes out when one is answered."""
        self.conversation.parallel = 3
        requests = [self.started() for _ in range(10)]
        self.assertEqual(self.sent(), 3)
        self.reply(2)
        self.conversation.wait(requests[1])
        self.assertEqual(self.sent(), 1)

    def test_reading_is_passed_on(self) -> None:
        """The thread that reads for all has its reply; another one, asleep so far, must read from then on."""
        requests = [self.started() for _ in range(3)]
        wait = self.conversation.wait
        threads = [threading.Thread(target=wait, args=(request,), daemon=True) for request in requests]
        for number, thread in enumerate(threads, 1):
            thread.start()
            self.until(lambda: self.conversation._reading.locked() and len(self.conversation._sleepers) == number)
        for number, thread in enumerate(threads, 1):
            self.reply(number)
            thread.join(support.TIMEOUT)
            self.assertFalse(thread.is_alive(), f"thread {number} waits for ever")

    def test_nothing_to_read(self) -> None:
        """A loop that was told to read what a thread has read since must not wait."""
        thread = threading.Thread(target=self.conversation.read_ready, daemon=True)
        thread.start()
        thread.join(support.TIMEOUT)
        self.assertFalse(thread.is_alive())

    def started(self) -> calls.Request:
        request = self.conversation.request('"method":"list_tools"')
        self.conversation.start(request)
        return request

    def reply(self, number: int) -> None:
        body = f'{{"id":{number},"ok":true}}'.encode()
        self.worker.sendall(len(body).to_bytes(4, "big") + body)

    def sent(self) -> int:
        """Counts the requests that have been sent and not been counted yet."""
        return self.worker.recv(1 << 16).count(b"list_tools")

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + support.TIMEOUT
        while not condition():
            self.assertLess(time.monotonic(), deadline, "waited in vain")
            time.sleep(0.001)


if __name__ == "__main__":
    unittest.main()
