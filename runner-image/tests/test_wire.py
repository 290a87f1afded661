"""Framing and strict JSON."""

import socket
import unittest

import support
from airlock_guest import wire


class DecodeTest(unittest.TestCase):
    def test_accepted(self) -> None:
        cases = [
            (b"{}", {}),
            (b' {"a": [1, 2.5, "x", null, true]}\n', {"a": [1, 2.5, "x", None, True]}),
            (b'{"a": 1152921504606846977}', {"a": 2**60 + 1}),
            (b'{"a": "\\ud83c\\udf78"}', {"a": "\U0001f378"}),
            ('{"ä": "\U0001f378"}'.encode(), {"ä": "\U0001f378"}),
            (b'{"a":' + b"[" * 65 + b"]" * 65 + b"}", None),
        ]
        for body, want in cases:
            with self.subTest(body[:40]):
                got = wire.decode(body)
                self.assertEqual(got, want if want is not None else got)

    def test_integers_of_any_length(self) -> None:
        for digits in (4299, 4300, 4301, 4400):
            for sign in ("", "-"):
                text = sign + "7" * digits
                with self.subTest(digits):
                    got = wire.decode(f'{{"a":[1,{text}]}}'.encode())["a"][1]
                    want = 7 * (10**digits - 1) // 9
                    self.assertTrue(got == (want if not sign else -want))

    def test_refused(self) -> None:
        for body in (
            b"", b"[]", b"1", b"null", b'{"a":1,"a":1}', b'{"x":{"a":1,"a":1}}', b'{"a":NaN}', b'{"a":-Infinity}', b'{"a":1}{}',
            b'{"a":1}x', b'{"a":"\\ud800"}', b'{"a":{"\\udc00":1}}', b'{"a":["\\ud83c"]}', b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}',
            b'{"a":"\n"}', b"{'a':1}", b'{"a":01}', b'{"a":+1}', b'{"a":1,}', b'{"a"}', b"{", b'{"a":' + b"[" * 66 + b"]" * 66 + b"}",
            b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'\xef\xbb\xbf{"a":1}', b'\x00{"a":1}',
        ):  # fmt: skip
            with self.subTest(body[:40]), self.assertRaises(wire.ProtocolError):
                wire.decode(body)


class LargeTest(unittest.TestCase):
    """What is decoded in another way for its size is decoded to the same, and refused for the same."""

    padding = b"[" + b",".join([b'{"name":"add","of":[{"x":1}]}'] * 2000) + b"]"

    def test_same_values(self) -> None:
        for text in (
            b"1", b"[]", b'"a:b"', b'"a\\\\"', b'"\\":"', b'"\\":\\":"', b'"\\u00e4"', b'"\\ud83c\\udf78"', b'{"a" : 1}', b'{"a"\n:1}',
            b'{"a\\\\":1}', b"1e5", b"7" * 4400, b"[" * 65 + b"]" * 65,
        ):  # fmt: skip
            with self.subTest(text[:40]):
                small = wire.decode(b'{"b":' + text + b"}")
                large = wire.decode(b'{"b":' + text + b',"p":' + self.padding + b"}")
                self.assertEqual(large.pop("p"), [{"name": "add", "of": [{"x": 1}]}] * 2000)
                self.assertTrue(large == small)

    def test_is_decoded_in_the_other_way(self) -> None:
        text = '{"b":[[{"c":1}],{"d":{"e":[{}]}}],"p":' + self.padding.decode() + "}"
        self.assertIsNotNone(wire._scan_large(text), "all would be decoded the slow way")

    def test_refused(self) -> None:
        for text in (
            b'{"a":1,"a":1}', b'{"a":1,"a":"\\":"}', b'{"a":1,"a" :1}', b'{"a":1,"a"\n:1}', b'{"a":1,"a"\n:"\\":"}', b'[[{"b":{"a":1,"b":2,"a":3}}]]',
            b"NaN", b"-Infinity", b'"\\ud800"', b'{"\\udc00":1}', b'["\\uD83c"]', b'"\xff"', b'"\n"', b"01", b"[1,]", b"[" * 66 + b"]" * 66,
            b"[" * 100_000 + b"]" * 100_000,
        ):  # fmt: skip
            with self.subTest(text[:40]), self.assertRaises(wire.ProtocolError):
                wire.decode(b'{"b":' + text + b',"p":' + self.padding + b"}")
        for body in (b'{"p":' + self.padding + b"}{}", self.padding):
            with self.subTest(body[-4:]), self.assertRaises(wire.ProtocolError):
                wire.decode(body)


class ChannelTest(unittest.TestCase):
    def setUp(self) -> None:
        self.worker, self.guest = socket.socketpair()
        self.addCleanup(self.worker.close)
        self.addCleanup(self.guest.close)
        self.channel = wire.Channel(self.guest.fileno())

    def test_pieces(self) -> None:
        body = b'{"a":1}'
        data = (len(body).to_bytes(4, "big") + body) * 3
        for at in range(len(data) - 1):
            self.worker.sendall(data[at : at + 1])
            self.channel.fill()
        frames = [self.channel.next_frame() for _ in range(3)]
        self.assertEqual(frames, [{"a": 1}, {"a": 1}, None])
        self.worker.sendall(data[-1:])
        self.assertEqual(self.channel.receive(), {"a": 1})

    def test_send(self) -> None:
        self.channel.send('{"ä":1}')
        self.assertEqual(self.worker.recv(100), b"\x00\x00\x00\x08" + '{"ä":1}'.encode())

    def test_never_sends_what_is_too_long(self) -> None:
        with self.assertRaises(wire.ProtocolError):
            self.channel.send('"' + "x" * wire.MAX_FRAME + '"')
        self.worker.setblocking(False)
        self.assertRaises(BlockingIOError, self.worker.recv, 1)

    def test_end(self) -> None:
        self.worker.sendall(b"\x00\x00")
        self.worker.close()
        self.assertRaises(ConnectionError, self.channel.receive)
        self.assertRaises(ConnectionError, self.channel.send, "{}")

    def test_is_not_inherited(self) -> None:
        self.guest.set_inheritable(True)
        wire.Channel(self.guest.fileno())
        self.assertFalse(self.guest.get_inheritable())


if __name__ == "__main__":
    unittest.main()
