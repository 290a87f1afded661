"""What a container's first process says of itself and of the guest's end. The rest of it is tested in containers."""

import os
import subprocess
import sys
import unittest

import support
from airlock_guest import first

# A process whose only child is the guest, and which is not the first of its container: it must not kill_all().
WATCH = """
import os, sys
sys.path.insert(0, sys.argv[1])
from airlock_guest import first
watch = first.First()
watch.guest = os.fork()
if watch.guest == 0:
    {guest}
    os._exit(3)
watch.status = os.waitpid(watch.guest, 0)[1]
first._last_pid = lambda: {last}
first._full = lambda: {full}
sys.stdout.buffer.write(watch.ending())
"""


def ending(guest: str, last: str = "watch.guest", full: bool = False) -> "tuple[int, int, float, int, int]":
    """Returns the status, the flags, the seconds, the bytes of memory, and the length of the report."""
    script = WATCH.format(guest=guest, last=last, full=full)
    command = [sys.executable, "-I", "-S", "-B", "-c", script, str(support.GUEST)]
    body = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=support.TIMEOUT).stdout
    number = int.from_bytes
    return number(body[:4], "big"), body[4], number(body[5:13], "big") / 1e6, number(body[13:21], "big"), len(body)


class EndingTest(unittest.TestCase):
    def test_usage(self) -> None:
        burn = "import time\n    while time.process_time() < 0.3: pass"
        status, flags, cpu, memory, length = ending(burn)
        self.assertEqual((status, flags, length), (3 << 8, 0, 21))
        self.assertTrue(0.3 <= cpu < 30, cpu)
        self.assertTrue(1 << 20 < memory < 1 << 30, memory)

    def test_memory(self) -> None:
        self.assertGreater(ending("x = b'x' * (90 << 20)")[3], 90 << 20)

    def test_grandchild(self) -> None:
        child = "import time\n    if os.fork() == 0:\n        while time.process_time() < 0.3: pass\n        os._exit(0)\n    os.wait()"
        self.assertGreaterEqual(ending(child)[2], 0.3)

    def test_own_time_is_not_the_guests(self) -> None:
        parent = "os._exit(3)\nimport time\nwhile time.process_time() < 1: pass\nif watch.guest == 0:\n    pass"
        self.assertLess(ending(parent)[2], 0.9)

    def test_flags(self) -> None:
        self.assertEqual(ending("pass", last="watch.guest + 1")[1], 2)
        self.assertEqual(ending("pass", last="0")[1], 2)  # the kernel does not say
        self.assertEqual(ending("pass", full=True)[1], 1)
        self.assertEqual(ending("pass", last="0", full=True)[1], 3)


class GreetingTest(unittest.TestCase):
    def test_lines(self) -> None:
        lines = dict(line.split(":", 1) for line in first._posture(1234).decode().splitlines())
        self.assertEqual(lines["Airlock"], str(first.VERSION))
        self.assertEqual(lines["CPU"], "1234")
        self.assertEqual(lines["Python"], ".".join(map(str, sys.version_info[:3])))
        self.assertEqual(lines["Uid"].split()[0], str(os.getuid()))

    def test_last_pid(self) -> None:
        self.assertGreaterEqual(first._last_pid(), 0)


if __name__ == "__main__":
    unittest.main()
