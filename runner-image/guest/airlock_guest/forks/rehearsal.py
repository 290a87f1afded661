"""Runs jobs in a template, as its guests will.

What is made when it is first used is there then, and the interpreter has rewritten its instructions for what they
meet, which it does in the place where they are. A guest that did either would have to copy the pages.
"""

import os
import sys
from _socket import AF_UNIX, SOCK_STREAM, socketpair

from ..calls import Conversation
from ..execution import Execution
from ..job import Job
from ..wire import Channel

# An instruction is rewritten after eight rounds or so.
_ROUNDS = 12
_TOOL = '"tools":[{"namespace":"a","name":"b","input_schema":{"type":"object","properties":{"c":{}}}}]'
_LIMITS = '"limits":{"result":1048576,"frame":8388608,"parallel":16}'
# The jobs' frames.
_JOBS = tuple(
    f'{{"method":"job","params":{{"code":"{source}",{_TOOL},{_LIMITS}}}}}'
    for source in (
        r"print('')",
        r"import json\nx = json.dumps({'a': [1, 2.5, None]})\nif x:\n    return x",
        r"import asyncio\nawait asyncio.sleep(0)\n{'a': [1, 'b']}",
        r"x = await b(c=1)\nx",
        r"import asyncio\nawait asyncio.gather(b(c=1), tools.a.b(c=2))",
    )
)


def rehearse() -> None:
    """Runs each job some times. What a job changes of its process is put back."""
    guest, worker = socketpair(AF_UNIX, SOCK_STREAM)
    child = os.fork()
    if child == 0:
        guest.close()
        _play_worker(worker.detach())
    worker.close()
    main, arguments, path = sys.modules["__main__"], sys.argv, list(sys.path)
    for job in range(len(_JOBS) * _ROUNDS):
        error = _run(guest.fileno(), job % len(_JOBS))
        sys.modules["__main__"], sys.argv, sys.path[:] = main, arguments, path
        if error:
            raise RuntimeError(f"a job that was rehearsed failed: {_JOBS[job % len(_JOBS)]}")
    guest.close()
    try:
        os.waitpid(child, 0)
    except ChildProcessError:
        pass  # where the signal of its end is ignored, one waits and is told nothing
    sys.modules["asyncio"].set_event_loop_policy(None)


def _run(descriptor: int, job: int) -> int:
    """Runs one job to its result and returns its exit code."""
    channel = Channel(descriptor)
    channel.send(f'{{"job":{job}}}')
    execution = Execution(Job(channel.receive()), Conversation(channel))
    execution.run()
    return execution.report()


def _play_worker(descriptor: int) -> None:
    """Sends the job that is asked for, and a reply to whatever has a number. Does not return."""
    channel = Channel(descriptor)
    try:
        while True:
            frame = channel.receive()
            answer = '{"id":%d,"ok":true,"value":[1]}' % frame["id"] if "id" in frame else _JOBS[frame["job"]]
            channel.send(answer)
    finally:
        os._exit(0)
