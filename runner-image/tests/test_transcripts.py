"""Plays the worker of every conversation in broker/testdata/wire to a real guest."""

import json
import pathlib
import unittest

import support

WIRE = pathlib.Path(__file__).resolve().parents[2] / "broker" / "testdata" / "wire"
# What the guest's process must end with, by the job's status.
EXIT_CODES = {"ok": 0, "result_limit": 0, "guest_error": 1}


def sections(text: str) -> "list[tuple[str, list[str]]]":
    """Splits a txtar archive into its sections' names and lines."""
    found: "list[tuple[str, list[str]]]" = []
    for line in text.splitlines():
        if line.startswith("-- ") and line.endswith(" --"):
            found.append((line[3:-3], []))
        elif found:
            found[-1][1].append(line)
    return found


class TranscriptTest(unittest.TestCase):
    def test_all(self) -> None:
        paths = sorted(WIRE.glob("conversation-*.txtar"))
        self.assertGreater(len(paths), 12, f"transcripts below {WIRE}")
        for path in paths:
            with self.subTest(path.name):
                self.play(sections(path.read_text(encoding="utf-8")))

    def play(self, conversation: "list[tuple[str, list[str]]]") -> None:
        *talk, (last, verdict) = conversation
        self.assertEqual(last, "verdict")
        with support.Guest() as guest:
            for who, lines in talk:
                for line in lines:
                    if who == "host":
                        guest.send_bytes(line.encode())
                    else:
                        self.compare(guest.receive(), json.loads(line))
            self.assertIsNone(guest.receive(), "a frame after the last one of the transcript")
            code, _, err = guest.wait()
        self.assertEqual(code, EXIT_CODES[verdict[0]], err.decode())

    def compare(self, got: "dict | None", want: dict) -> None:
        assert got is not None, f"the guest ended, want {want}"
        params = want.get("params", {})
        if "python" in params:
            params["python"] = got["params"]["python"]
        trace = params.get("error", {}).get("traceback")
        if trace is not None:
            said = got["params"]["error"]["traceback"]
            self.assertIn(trace, said)
            params["error"]["traceback"] = said
        self.assertEqual(got, want)
        # Equal is not enough: True equals 1, and 1.0 equals 1.
        self.assertEqual(json.dumps(got, sort_keys=True), json.dumps(want, sort_keys=True))


if __name__ == "__main__":
    unittest.main()
