"""Forks a warm interpreter for each job, with nothing around it: fork.py COUNT CODE. Prints the nanoseconds that each took."""

import asyncio  # noqa: F401, loaded for the jobs, as is what follows
import gc
import json  # noqa: F401
import os
import socket  # noqa: F401
import sys
import time


def job(code: str) -> None:
    """Runs the code as a guest would, and ends the process."""
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
    exec(compile(code, "<job>", "exec"), {"__name__": "__main__"})
    sys.stdout.flush()
    os._exit(0)


def main() -> None:
    """Forks, waits and measures, job after job."""
    count, code = int(sys.argv[1]), sys.argv[2]
    took = []
    gc.collect()
    gc.freeze()
    for _ in range(count):
        began = time.perf_counter_ns()
        child = os.fork()
        if child == 0:
            try:
                job(code)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        if status != 0:
            sys.exit("a job ended with wait status %d" % status)
        took.append(time.perf_counter_ns() - began)
    print("\n".join(map(str, took)))


main()
