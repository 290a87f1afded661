"""The start of a guest: hello, the job, and what execution.py makes of it."""

import sys

from . import streams, system
from .wire import Channel, ProtocolError

TYPE_CHECKING = False  # typing itself costs 5 ms
if TYPE_CHECKING:
    from .calls import Conversation
    from .execution import Execution
    from .job import Job

    Ahead = tuple[Channel, Conversation, type[Job], type[Execution], "tuple | None"]

CHANNEL = 3
_VERSION = ".".join(str(part) for part in sys.version_info[:3])
_HELLO = f'{{"method":"hello","params":{{"protocol":1,"python":"{_VERSION}"}}}}'
# Beyond the number of any descriptor that a worker could have handed down.
_MANY = 1 << 16
# The exit code when there is no job.
_NO_WORKER = 70


def main(ahead: "Ahead | None" = None) -> None:
    """Runs one job and exits. A fork of a process that has called prepare is given what that returned."""
    if ahead is None:
        # A worker marks what it has open before it starts a guest; this is for what another of its threads opened since.
        system.closerange(CHANNEL + 1, _MANY)
    system.exit_now(serve(ahead))


def serve(ahead: "Ahead | None") -> int:
    """Runs one job and returns the exit code."""
    try:
        channel = Channel(CHANNEL) if ahead is None else ahead[0]
        channel.send(_HELLO)
        # Much is loaded while the worker answers hello.
        return _run(prepare(channel) if ahead is None else ahead)
    except (ConnectionError, ProtocolError) as error:
        streams.complain(f"airlock: {error}")
        return _NO_WORKER


def prepare(channel: Channel) -> "Ahead":
    """Makes all that a guest needs before it knows its job."""
    from .calls import Conversation
    from .execution import Execution, at_exit
    from .job import Job

    streams.set_up()
    return channel, Conversation(channel), Job, Execution, at_exit()


def _run(ahead: "Ahead") -> int:
    channel, conversation, read_job, execute, idle = ahead
    job = read_job(channel.receive())
    conversation.stay_here()
    execution = execute(job, conversation, idle)
    execution.run()
    return execution.finish()
