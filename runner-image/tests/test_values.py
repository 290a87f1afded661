"""The encoder, and that nothing an object does can break it."""

import collections
import dataclasses
import datetime
import decimal
import enum
import json
import sys
import typing
import unittest

import support
from airlock_guest import values

LIMIT = 1 << 20


def encode(value: object, limit: int = LIMIT, plain_tuples: bool = False) -> object:
    """Encodes and decodes again, strictly."""
    text, _ = values.encode(value, limit, plain_tuples)
    return json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def _unique(pairs: list) -> dict:
    assert len(dict(pairs)) == len(pairs), f"duplicate keys in {pairs}"
    return dict(pairs)


def lossy(value: object) -> bool:
    return values.encode(value, LIMIT)[1]


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@dataclasses.dataclass
class Node:
    name: str
    next: "Node | None" = None
    kind: "dataclasses.InitVar[int]" = 0
    count: "typing.ClassVar[int]" = 0


class Colour(str, enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


Pair = collections.namedtuple("Pair", "a b")


class PlainTest(unittest.TestCase):
    def test_as_they_are(self) -> None:
        for value in (
            None, True, False, 0, -1, 2**60 + 1, 10**100, -(10**3999), 1.5, -0.0, 1e308, 5e-324, "", "a\"\\\n\x00\x7f",
            "äöü \U0001f378", [], {}, [1, [2, {"a": [None]}]], {"": 1, "b": {"c": []}},
        ):  # fmt: skip
            with self.subTest(value):
                self.assertEqual(repr(encode(value)), repr(value))
                self.assertFalse(lossy(value))

    def test_subclasses(self) -> None:
        cases = [
            (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
            (collections.Counter("aab"), {"a": 2, "b": 1}),
            (collections.defaultdict(list, a=[1]), {"a": [1]}),
            (Level.HIGH, 3),
            (Colour.RED, "red"),
            ({Colour.RED: 1}, {"red": 1}),
            (Pair(1, "x"), {"$airlock": "tuple", "items": [1, "x"]}),
            (type("L", (list,), {})([1]), [1]),
        ]
        for value, want in cases:
            with self.subTest(value):
                self.assertEqual(encode(value), want)
                self.assertFalse(lossy(value))

    def test_digits(self) -> None:
        self.assertEqual(encode(10**4000 - 1), 10**4000 - 1)
        self.assertEqual(encode(-(10**4000) + 1), -(10**4000) + 1)
        self.assertEqual(encode(10**4000), {"$airlock": "int", "hex": f"{10**4000:x}"})
        self.assertEqual(encode(-(10**5000)), {"$airlock": "int", "hex": f"{-(10**5000):x}"})

    @unittest.skipUnless(hasattr(sys, "set_int_max_str_digits"), "this Python does not limit digits")
    def test_digits_with_a_lower_limit(self) -> None:
        before = sys.get_int_max_str_digits()
        number = -(7**4000)
        sys.set_int_max_str_digits(640)
        try:
            text, _ = values.encode(number, LIMIT)
        finally:
            sys.set_int_max_str_digits(before)
        self.assertEqual(int(text), number)

    def test_timedeltas_are_exact(self) -> None:
        cases = [
            (datetime.timedelta(days=999_999_999, microseconds=1), "86399999913600.000001"),
            (datetime.timedelta(microseconds=-1), "-0.000001"),
            (datetime.timedelta(seconds=90), "90.0"),
        ]
        for value, want in cases:
            self.assertEqual(values.encode(value, LIMIT)[0], f'{{"$airlock":"timedelta","seconds":{want}}}')

    def test_sets_are_the_same_in_every_run(self) -> None:
        self.assertEqual(encode({3, 1, 2})["items"], [1, 2, 3])
        self.assertEqual(encode({"b", 1, "a", None})["items"], [None, 1, "a", "b"])

    def test_dates_with_zones(self) -> None:
        zone = datetime.timezone(datetime.timedelta(hours=2))
        value = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, zone)
        self.assertEqual(encode(value), {"$airlock": "datetime", "iso": "2026-01-02T03:04:05.000006+02:00"})

    def test_complex_with_nan(self) -> None:
        got = encode(complex(float("nan"), -0.0))
        self.assertEqual(got, {"$airlock": "complex", "real": {"$airlock": "float", "value": "nan"}, "imag": -0.0})

    def test_keys(self) -> None:
        for key in (1, None, (1, 2), b"k", "$airlock", "\udc00", 1.5, True):
            with self.subTest(key):
                got = encode({"a": 1, key: 2})
                self.assertEqual(got, {"$airlock": "dict", "items": [["a", 1], [encode(key), 2]]})

    def test_dataclasses(self) -> None:
        self.assertEqual(encode(Node("a", Node("b"))), {"name": "a", "next": {"name": "b", "next": None}})
        self.assertTrue(lossy(Node))

    def test_plain_tuples(self) -> None:
        self.assertEqual(encode([(1, (2,)), {1}], plain_tuples=True), [[1, [2]], {"$airlock": "set", "items": [1]}])

    def test_decimals(self) -> None:
        for text in ("1.10", "NaN", "-Infinity", "1E+1000"):
            self.assertEqual(encode(decimal.Decimal(text)), {"$airlock": "decimal", "value": text})


class DepthTest(unittest.TestCase):
    def test_sixty(self) -> None:
        value: object = 0
        for _ in range(60):
            value = [value]
        self.assertEqual(encode(value), value)
        self.assertFalse(lossy(value))
        self.assertTrue(lossy([value]))

    def test_never_deeper_than_the_wire_allows(self) -> None:
        wraps = [lambda v: [v], lambda v: (v,), lambda v: {"k": v}, lambda v: {1: v}, lambda v: Node("n", v)]
        for number, wrap in enumerate(wraps):
            with self.subTest(number):
                value: object = b"x"
                for _ in range(200):
                    value = wrap(value)
                self.assertLessEqual(depth(encode(value)), 62)
                self.assertTrue(lossy(value))

    def test_cycles(self) -> None:
        a: list = []
        a.append(a)
        b: dict = {}
        b["b"] = (b,)
        node = Node("n")
        node.next = node
        for value in (a, b, node):
            self.assertTrue(lossy(value))
            encode(value)

    def test_twice_is_no_cycle(self) -> None:
        one = [1]
        node = Node("n")
        self.assertFalse(lossy([one, one, {"a": one}, node, node]))

    def test_deep_recursion(self) -> None:
        value: list = []
        for _ in range(100_000):
            value = [value]
        encode(value)


class SizeTest(unittest.TestCase):
    def test_limit(self) -> None:
        self.assertEqual(encode("x" * 98, 100), "x" * 98)
        for value, size in (("x" * 99, 101), ("ä" * 50, 102), ([1] * 60, 121), (b"x" * 90, 152)):
            with self.subTest(size), self.assertRaises(values.TooLarge) as caught:
                encode(value, 100)
            self.assertEqual(caught.exception.size, size)

    def test_explosion_ends(self) -> None:
        value: list = [1]
        for _ in range(50):
            value = [value, value]
        with self.assertRaises(values.TooLarge):
            encode(value, 1000)

    def test_large_and_wide(self) -> None:
        with self.assertRaises(values.TooLarge) as caught:
            encode(list(range(100_000)), 1000)
        self.assertEqual(caught.exception.size, len(json.dumps(list(range(100_000)), separators=(",", ":"))))


class Evil:
    """Raises whenever it is looked at."""

    @property
    def __class__(self) -> type:
        raise SystemExit("class")

    def __repr__(self) -> str:
        raise KeyboardInterrupt

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError


class EvilMeta(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise ValueError

    def __getattribute__(cls, name: str) -> object:
        raise SystemExit(name)

    def __hash__(cls) -> int:
        raise ValueError

    def __eq__(cls, other: object) -> bool:
        raise ValueError


class EvilClass(metaclass=EvilMeta):
    pass


class Liar(dict):
    """A dict that claims to be other things."""

    def __iter__(self) -> object:
        raise ValueError

    def items(self) -> object:
        raise ValueError

    def __len__(self) -> int:
        return 10**9

    @property
    def __class__(self) -> type:
        return int


class Name(str):
    """A string that is unequal to its own text."""

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __str__(self) -> str:
        raise ValueError


class EvilList(list):
    def __iter__(self) -> object:
        raise SystemExit


class EvilInt(int):
    def __repr__(self) -> str:
        return "1e999"

    def __index__(self) -> int:
        raise ValueError

    def __int__(self) -> int:
        raise ValueError

    def __str__(self) -> str:
        raise ValueError


class EvilFloat(float):
    def __repr__(self) -> str:
        return "NaN"


class EvilZone(datetime.tzinfo):
    def utcoffset(self, _: object) -> datetime.timedelta:
        raise ValueError("offset")


@dataclasses.dataclass
class EvilData:
    x: int = 1

    def __getattribute__(self, name: str) -> object:
        raise SystemExit(name)


class FakeData:
    __dataclass_fields__ = 5


class LongRepr:
    def __repr__(self) -> str:
        return "ab" * 10**6


class SurrogateRepr:
    def __repr__(self) -> str:
        return "\ud800\x00"


class HostileTest(unittest.TestCase):
    def test_hostile_objects_become_reprs(self) -> None:
        generator = (i for i in range(3))
        for value in (
            Evil(), EvilClass(), EvilData(), FakeData(), LongRepr(), SurrogateRepr(), object, EvilClass, generator, print,
            datetime.datetime(2026, 1, 2, tzinfo=EvilZone()), range(3), memoryview(b"x"), Ellipsis, NotImplemented,
        ):  # fmt: skip
            with self.subTest(type.__repr__(type(value))):
                got = encode([value, 1])
                self.assertEqual(got[0]["$airlock"], "repr")
                self.assertLessEqual(len(got[0]["text"].encode()), 4096)
                self.assertEqual(got[1], 1)
                self.assertTrue(lossy(value))
        self.assertEqual(list(generator), [0, 1, 2])

    def test_hostile_subclasses_are_read_as_what_they_are(self) -> None:
        for value, want in (
            (Liar(a=1), {"a": 1}),
            (EvilList([1, 2]), [1, 2]),
            (EvilInt(5), 5),
            (EvilFloat(1.5), 1.5),
            (Name("n"), "n"),
            ({Name("k"): 1}, {"k": 1}),
        ):
            with self.subTest(type(value).__name__):
                self.assertEqual(encode(value), want)

    def test_no_duplicate_keys(self) -> None:
        got = encode({Name("k"): 1, Name("k"): 2})
        self.assertEqual(got, {"$airlock": "dict", "items": [["k", 1], ["k", 2]]})

    def test_evil_members_of_sets(self) -> None:
        self.assertEqual(encode({Evil()})["items"][0]["$airlock"], "repr")

    def test_half_written_values_are_taken_back(self) -> None:
        @dataclasses.dataclass
        class Outer:
            good: list
            bad: object

            def __getattribute__(self, name: str) -> object:
                if name == "bad":
                    raise ValueError
                return object.__getattribute__(self, name)

        got = encode({"a": Outer([1, 2], 3), "b": 2})
        self.assertEqual((got["a"]["$airlock"], got["b"]), ("repr", 2))


class GuestTest(unittest.TestCase):
    def test_lossy_is_said(self) -> None:
        self.assertEqual(support.run("object").result["lossy"], True)
        self.assertNotIn("lossy", support.run("1").result)

    def test_nan_everywhere(self) -> None:
        nan = {"$airlock": "float", "value": "nan"}
        source = "x = (await echo(v=float('nan')))['v']\n[type(x) is float and x != x, float('nan')]"
        ended = support.run(source)
        self.assertEqual(ended.value, [True, nan])
        self.assertEqual(ended.requests[0]["params"]["arguments"], {"v": nan})

    def test_low_recursion_limit(self) -> None:
        source = "import sys\nx = 1\nfor _ in range(40): x = [x]\nsys.setrecursionlimit(60)\nx"
        self.assertNotIn("lossy", support.run(source).result)
        failing = "import sys\nsys.setrecursionlimit(40)\n1 / 0"
        self.assertIn("line 3, in <module>\n    1 / 0", support.run(failing).error["traceback"])


if __name__ == "__main__":
    unittest.main()
