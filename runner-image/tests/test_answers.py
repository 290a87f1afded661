"""What the user's code gets back from tools: Python values, errors with what one may do about them."""

import datetime
import decimal
import math
import textwrap
import unittest

import support
from airlock_guest import revive, values


def run(source: str, **params: object) -> support.Ended:
    return support.run(textwrap.dedent(source), **params)


def answering(value: object) -> object:
    return lambda request: {"id": request["id"], "ok": True, "value": value}


class ReviveTest(unittest.TestCase):
    def test_every_form_comes_back(self) -> None:
        """What is encoded and revived is what it was."""
        zone = datetime.timezone(datetime.timedelta(hours=2))
        for at, value in enumerate((
            1, 2**70, 10**4001, -(10**5000), 0.1, 5e-324, 1.7976931348623157e308, -0.0, math.inf, -math.inf,
            b"", b"\x00\xff", "\ud800", "a\x00b", (1, (2,)), {1, 2}, {1: "a", (1, 2): "b"}, {"$airlock": "bytes"},
            1 + 2j, decimal.Decimal("1.10"), datetime.date(2026, 1, 2), datetime.time(3, 4, 5, 6),
            datetime.datetime(2026, 1, 2, 3, 4, 5, 6), datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=zone),
            datetime.timedelta(days=-1, microseconds=7), [{"a": (b"x", {"b": {3}})}], True, None,
        )):  # fmt: skip
            with self.subTest(at):
                text, lossy = values.encode(value, 1 << 20)
                got = revive.revive(support.json.loads(text))
                self.assertFalse(lossy)
                self.assertIs(type(got), type(value))
                self.assertTrue(got == value)
                if type(value) is not int:  # repr refuses long ones
                    self.assertEqual(repr(got), repr(value))

    def test_what_is_no_form_stays(self) -> None:
        for value in (
            {"$airlock": "nonsense"}, {"$airlock": 5}, {"$airlock": ["bytes"]}, {"$airlock": "bytes"},
            {"$airlock": "bytes", "base64": "!"}, {"$airlock": "bytes", "base64": 5}, {"$airlock": "bytes", "base64": "", "x": 1},
            {"$airlock": "set", "items": [[1]]}, {"$airlock": "set", "items": "abc"}, {"$airlock": "tuple", "items": {"a": 1}},
            {"$airlock": "dict", "items": [[1, 2, 3]]}, {"$airlock": "datetime", "iso": "yesterday"}, {"$airlock": "int", "hex": "xyz"},
            {"$airlock": "float", "value": "1"}, {"$airlock": "decimal", "value": "x"}, {"$airlock": "timedelta", "seconds": 1e300},
            {"$airlock": "repr", "type": "Foo", "text": "<Foo>"}, {"$airlock": "__import__", "value": "os"},
        ):  # fmt: skip
            with self.subTest(value):
                self.assertEqual(revive.revive(support.json.loads(support.json.dumps(value))), value)

    def test_in_a_guest(self) -> None:
        """Both ways, through the guest's own encoder and its own frames."""
        ended = run(
            """
            from datetime import datetime, timezone
            sent = [2**70, 10**4500, 0.1, b"\\x00\\xff", datetime(2026, 1, 2, 3, 4, 5, 6, timezone.utc), {1, 2}]
            got = (await echo(v=sent))["v"]
            sync = tools.call_sync("math", "echo", v=sent)["v"]
            [got == sent, [type(v) for v in got] == [type(v) for v in sent], sync == sent]
            """
        )
        self.assertEqual(ended.value, [True, True, True])

    def test_escaped_tags_count(self) -> None:
        with support.Guest() as guest:
            guest.receive()
            guest.send({"method": "job", "params": {"code": "await echo()", "tools": support.MATH}})
            request = guest.receive()
            body = '{"id":%d,"ok":true,"value":{"\\u0024airlock":"bytes","base64":"aGk="}}' % request["id"]
            guest.send_bytes(body.encode())
            self.assertEqual(guest.receive()["params"]["value"], {"$airlock": "bytes", "base64": "aGk="})

    def test_a_reply_cannot_pretend(self) -> None:
        with support.Guest() as guest:
            guest.receive()
            guest.send({"method": "job", "params": {"code": "await echo()", "tools": support.MATH}})
            request = guest.receive()
            guest.send({"id": request["id"], "ok": True, "value": 1, "tagged": True})
            self.assertIsNone(guest.receive().get("params", {}).get("value"))

    def test_deep_answers(self) -> None:
        deep: object = {"$airlock": "bytes", "base64": "aGk="}
        for _ in range(60):
            deep = [deep]
        ended = run("x = await echo()\nwhile type(x) is list: x = x[0]\nx == b'hi'", answer=answering(deep))
        self.assertEqual(ended.value, True)


class SignatureTest(unittest.TestCase):
    SCHEMA = {
        "type": "object",
        "properties": {
            "place": {"type": "string", "description": "a city"},
            "days": {"type": "integer", "default": 3},
            "unit": {"type": ["string", "null"]},
            "exact": {"type": "boolean"},
        },
        "required": ["place", "exact"],
        "additionalProperties": False,
    }

    def offered(self, schema: object, name: str = "forecast") -> "list[dict]":
        return [{"namespace": "geo", "name": name, "description": "Degrees.", "input_schema": schema}]

    def test_help(self) -> None:
        out = run("help(forecast)", tools=self.offered(self.SCHEMA)).out
        self.assertIn("async forecast(place: str, days: int = 3, unit: str | None = ..., *, exact: bool)", out)
        self.assertIn("Degrees.", out)
        self.assertIn("place: a city", out)

    def test_they_are_async_functions(self) -> None:
        source = """
            import asyncio, inspect
            [inspect.iscoroutinefunction(forecast), inspect.isroutine(forecast), callable(forecast),
             inspect.iscoroutine(c := forecast(place="x", exact=True)), c.close(), forecast.__name__, repr(forecast),
             tools.geo.forecast is forecast]
            """
        ended = run(source, tools=self.offered(self.SCHEMA))
        want = [True, True, True, True, None, "forecast", "<async function geo.forecast>", True]
        self.assertEqual(ended.value, want)

    def test_signatures(self) -> None:
        closed = {"additionalProperties": False}
        cases = [
            (None, "(**arguments)"),
            ({}, "(**arguments)"),
            ({"properties": {}, **closed}, "()"),
            ({"properties": {"a": {}}, "required": ["a"]}, "(a, **arguments)"),
            ({"properties": {"arguments": {}}, "required": ["arguments"]}, "(arguments, **arguments_)"),
            ({"properties": {"class": {}, "b": {}}, "required": ["b"], **closed}, "(*, b, **arguments)"),
            ({"properties": {"a b": {}, "é": {}}, **closed}, "(*, é=..., **arguments)"),
            ({"properties": [1], "required": 5, **closed}, "()"),
            ({"properties": {"a": 5, "b": {"type": "what"}, "c": {"type": [[]]}}, **closed}, "(a=..., b=..., c=...)"),
            ({"properties": {"self": {}, "a": {"default": [1]}}, "required": ["self"], **closed}, "(self, a=[1])"),
        ]
        for schema, want in cases:
            with self.subTest(schema):
                offered = self.offered(schema) if schema is not None else [{"namespace": "geo", "name": "forecast"}]
                ended = run("import inspect\nstr(inspect.signature(forecast))", tools=offered)
                self.assertEqual(ended.value, want)

    def test_nothing_is_imported_for_it(self) -> None:
        source = "import sys\nawait echo(v=1)\n[m for m in ('inspect', 'airlock_guest.signature', 'airlock_guest.revive') if m in sys.modules]"
        self.assertEqual(run(source).value, [])

    def test_in_a_class(self) -> None:
        source = "class C: tool = echo\nawait C().tool(v=1)"
        self.assertEqual(run(source).value, {"v": 1})


class ListToolsTest(unittest.TestCase):
    def test_schemas(self) -> None:
        listed = [{"namespace": "a", "name": "b", "input_schema": {"const": {"$airlock": "bytes", "base64": "aGk="}}}]
        ended = run("x = await list_tools()\n[x == await tools.list(), x[0]['input_schema']['const']['base64']]", answer=answering(listed))
        self.assertEqual(ended.value, [True, "aGk="])

    def test_the_name_is_the_users_first(self) -> None:
        self.assertEqual(run("list_tools", vars={"list_tools": 5}).value, 5)
        offered = [{"namespace": "n", "name": "list_tools"}]
        ended = run("x = await tools.n.list_tools(v=1)\n[x, await list_tools()]", tools=offered)
        self.assertEqual([request["method"] for request in ended.requests], ["call_tool", "list_tools", "result"])


class FailureTest(unittest.TestCase):
    @staticmethod
    def failing(code: str, **more: object) -> object:
        def answer(request: dict) -> dict:
            if request["method"] == "call_tool" and request["params"]["arguments"].get("bad"):
                return {"id": request["id"], "ok": False, "error": {"code": code, "message": "m", **more}}
            return support.answer(request)

        return answer

    def test_retryable(self) -> None:
        source = """
            import pickle
            try:
                await echo(bad=1)
            except ToolError as error:
                again = pickle.loads(pickle.dumps(error))
                __result__ = [error.code, error.message, error.retryable, again.retryable]
            """
        for more, want in (({}, False), ({"retryable": True}, True), ({"retryable": "yes"}, False)):
            ended = run(source, answer=self.failing("no_provider", **more))
            self.assertEqual(ended.value, ["no_provider", "m", want, want])

    def test_a_failed_call_leaves_its_siblings_alone(self) -> None:
        source = """
            import asyncio
            kept = [asyncio.ensure_future(add(a=i, b=1)) for i in range(5)]
            try:
                await asyncio.gather(*kept[:3], echo(bad=1), *kept[3:])
            except ToolError as error:
                seen = error.code
            sums = [(await each)["sum"] for each in kept]
            both = await asyncio.gather(echo(bad=1), add(a=1, b=2), return_exceptions=True)
            [seen, sums, type(both[0]).__name__, both[1]]
            """
        ended = run(source, answer=self.failing("timeout"))
        self.assertEqual(ended.value, ["timeout", [1, 2, 3, 4, 5], "ToolError", {"sum": 3}])

    def test_a_call_outlives_nothing(self) -> None:
        """What is open or queued when the program ends holds up neither it nor its result."""
        source = """
            import asyncio
            open_calls = [asyncio.ensure_future(echo(v=i)) for i in range(3)]
            await asyncio.sleep(0.01)
            "done"
            """
        with support.Guest() as guest:
            guest.receive()
            limits = {"parallel": 2}
            guest.send({"method": "job", "params": {"code": textwrap.dedent(source), "tools": support.MATH, "limits": limits}})
            frames = [guest.receive(), guest.receive(), guest.receive()]
            self.assertEqual([frame["method"] for frame in frames], ["call_tool", "call_tool", "result"])
            self.assertEqual(frames[2]["params"]["value"], "done")
            for frame in frames[:2]:
                error = {"code": "cancelled", "message": "the job is ending"}
                guest.send({"id": frame["id"], "ok": False, "error": error})
            guest.send({"id": frames[2]["id"], "ok": True})
            self.assertEqual(guest.wait()[0], 0)

    def test_call_sync_fails_alike(self) -> None:
        source = """
            def plain():
                try:
                    tools.call_sync("math", "echo", bad=1)
                except ToolError as error:
                    return [error.code, error.retryable]
            plain()
            """
        self.assertEqual(run(source, answer=self.failing("timeout", retryable=True)).value, ["timeout", True])


if __name__ == "__main__":
    unittest.main()
