"""The start of a guest: hello, the job, and what execution.py makes of it."""

import sys

from . import streams, system
from .wire import Channel, ProtocolError

CHANNEL = 3
# Beyond the number of any descriptor that a worker could have handed down.
_MANY = 1 << 16
# The exit code when there is no job.
_NO_WORKER = 70


def main() -> None:
    """Runs one job and exits."""
    # A worker marks what it has open before it starts a guest; this is for what another of its threads opened since.
    system.closerange(CHANNEL + 1, _MANY)
    channel = Channel(CHANNEL)
    try:
        channel.send(f'{{"method":"hello","params":{{"protocol":1,"python":"{_version()}"}}}}')
        system.exit_now(_run(channel))
    except (ConnectionError, ProtocolError) as error:
        streams.complain(f"airlock: {error}")
        system.exit_now(_NO_WORKER)


def _run(channel: Channel) -> int:
    # Loaded while the worker answers hello.
    from .calls import Conversation
    from .execution import Execution
    from .job import Job

    job = Job(channel.receive())
    streams.set_up()
    execution = Execution(job, Conversation(channel))
    execution.run()
    return execution.finish()


def _version() -> str:
    return ".".join(str(part) for part in sys.version_info[:3])
