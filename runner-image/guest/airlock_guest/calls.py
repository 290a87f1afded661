"""Requests to the worker and their replies.

Any thread may ask, with or without an event loop, and replies come in any order. There is no reader thread: whoever
waits reads. Of the threads that wait, one reads for all and passes that duty on when its own reply is there; an event
loop reads when the descriptor is ready.
"""

import sys
from _thread import allocate_lock, get_ident

from . import system
from .wire import Channel, ProtocolError

TYPE_CHECKING = False  # typing itself costs 5 ms
if TYPE_CHECKING:
    from typing import Any

MAX_PARALLEL = 64
_NOT_OURS = "only the guest's first process has tools"


class Request:
    """A request and what has become of it.

    Awaited under an event loop it suspends the task; otherwise it goes up to whoever drives the coroutine, which is
    drive.py's loop.
    """

    def __init__(self, conversation: "Conversation", text: str) -> None:
        self.conversation = conversation
        self.text = text  # everything behind the id
        self.reply: "dict | None" = None
        self.failure: "str | None" = None
        self._arrived = allocate_lock()
        self._arrived.acquire()
        self._loop: "Any" = None
        self._thread = 0
        self._future: "Any" = None

    @property
    def done(self) -> bool:
        """Whether there is nothing left to wait for."""
        return self.reply is not None or self.failure is not None

    def __await__(self) -> "Any":
        loop = running_loop()
        if loop is None:
            self.conversation.start(self)
            yield self
        else:
            self._loop, self._thread, self._future = loop, get_ident(), loop.create_future()
            with self.conversation.attached(loop):
                self.conversation.start(self)
                yield from self._future
        return self.result()

    def result(self) -> dict:
        """Returns the reply that has arrived, or raises ConnectionError if none will."""
        if self.failure is not None:
            raise ConnectionError(self.failure)
        assert self.reply is not None
        return self.reply

    @property
    def given_up(self) -> bool:
        """Whether the task that awaited it was cancelled."""
        return self._future is not None and self._future.cancelled()

    def arrive(self, reply: "dict | None", failure: "str | None" = None) -> None:
        """Hands over the reply or why there is none, in whatever thread learned it."""
        self.reply, self.failure = reply, failure
        self.wake()
        if self._future is None:
            return
        if self._thread == get_ident():
            self._settle()
            return
        try:
            self._loop.call_soon_threadsafe(self._settle)
        except RuntimeError:
            pass  # that loop has ended, and the task with it

    def wake(self) -> None:
        """Makes the thread that sleeps on this request look around, if there is one."""
        try:
            self._arrived.release()
        except RuntimeError:
            pass  # it was told already

    def sleep(self) -> None:
        """Waits for wake."""
        self._arrived.acquire()

    def _settle(self) -> None:
        if not self._future.done():  # a cancelled task's call goes on; its reply is dropped
            self._future.set_result(None)


class Conversation:
    """The guest's end of one conversation. Its methods may be called from any thread."""

    def __init__(self, channel: Channel) -> None:
        self.parallel = MAX_PARALLEL
        # The calls that were made and not awaited so far, by number.
        self.unawaited: "dict[int, str]" = {}
        self.closed = False  # whether this process has given up the channel
        self._channel = channel
        self._make_locks()
        self._last_id = 0
        self._open: "dict[int, Request]" = {}
        self._queue: "list[Request]" = []
        self._sleepers: "list[Request]" = []
        self._loops: "dict[object, int]" = {}

    def _make_locks(self) -> None:
        self._state = allocate_lock()  # guards _last_id, _open, _queue, _sleepers and _loops
        self._sending = allocate_lock()  # held while a frame is written
        self._reading = allocate_lock()  # held by the thread that reads for all

    def stay_here(self) -> None:
        """Has forks of this process abandon the conversation: the worker knows one guest, and another must not speak."""
        if system.register_at_fork:
            system.register_at_fork(after_in_child=self.abandon)

    def abandon(self) -> None:
        """Closes the channel in a forked child; its parent keeps it."""
        self._make_locks()  # another thread may have held one when the process forked
        self.closed = True
        self._channel.close()

    def request(self, text: str) -> Request:
        """Returns a request that is sent when it is awaited or waited for; text is all of it behind the id."""
        return Request(self, text)

    def start(self, request: Request) -> None:
        """Sends the request, or keeps it until fewer than the allowed number are open."""
        if self.closed:
            request.arrive(None, _NOT_OURS)
            return
        with self._state:
            self._queue.append(request)
        self._send_queued()

    def wait(self, request: Request) -> None:
        """Blocks until the reply to a request that was started is there."""
        with self._state:
            self._sleepers.append(request)
        try:
            while not request.done:
                if not self._lead(request):
                    request.sleep()
        finally:
            with self._state:
                self._sleepers.remove(request)
            self._pass_on()

    def ask(self, text: str) -> dict:
        """Sends a request, blocks until its reply is there, and returns that."""
        request = self.request(text)
        self.start(request)
        self.wait(request)
        return request.result()

    def tell(self, text: str) -> None:
        """Sends a frame that has no reply; text is all of it but the braces."""
        self._send(f"{{{text}}}")

    def finish(self, text: str) -> None:
        """Sends the result and waits for its reply. It waits for no open call, and queued ones are dropped."""
        request = self.request(text)
        with self._state:
            self._queue[:] = [request]
            self.parallel = len(self._open) + 1
        self._send_queued()
        self.wait(request)
        request.result()

    def attached(self, loop: "Any") -> "_Attached":
        """Returns a context in which the loop reads replies."""
        return _Attached(self, loop)

    def fileno(self) -> int:
        """The channel's descriptor."""
        return self._channel.descriptor

    def read_ready(self) -> None:
        """Reads what is there without waiting. An event loop calls it when the descriptor is ready."""
        if not self._reading.acquire(False):
            return  # a thread is reading at this moment
        try:
            if self._channel.readable():
                self._read()
        finally:
            self._reading.release()
        self._pass_on()

    def count(self, loop: "Any", change: int) -> int:
        """Adds to the number of requests that wait in the loop, and returns it."""
        with self._state:
            total = self._loops.pop(loop, 0) + change
            if total:
                self._loops[loop] = total
            return total

    def _lead(self, request: Request) -> bool:
        """Reads for everybody until this request has its reply; False if another thread does."""
        if not self._reading.acquire(False):
            return False
        try:
            while not request.done:
                self._read()
        finally:
            self._reading.release()
        return True

    def _pass_on(self) -> None:
        """Wakes a thread that may have found the channel taken, so that it reads from now on."""
        with self._state:
            waiting = next((request for request in self._sleepers if not request.done), None)
        if waiting is not None:
            waiting.wake()

    def _read(self) -> None:
        """Reads at least a byte and delivers the replies that are complete. The caller holds _reading."""
        try:
            self._channel.fill()
            while (frame := self._channel.next_frame()) is not None:
                self._deliver(frame)
        except (ConnectionError, ProtocolError) as error:
            self._fail(str(error))
            return
        self._send_queued()

    def _deliver(self, frame: dict) -> None:
        check_reply(frame)
        if self._channel.tagged:
            frame["tagged"] = True  # which no reply can say itself
        with self._state:
            request = self._open.pop(frame["id"], None)
        if request is None:
            raise ProtocolError("a reply to no request")
        request.arrive(frame)

    def _send_queued(self) -> None:
        while True:
            with self._state:
                if not self._queue or len(self._open) >= self.parallel:
                    return
                request = self._queue.pop(0)
                if request.given_up:
                    continue
                self._last_id += 1
                number = self._last_id
                self._open[number] = request
            try:
                self._send(f'{{"id":{number},{request.text}}}')
            except (ConnectionError, ProtocolError) as error:
                self._fail(str(error))

    def _send(self, text: str) -> None:
        with self._sending:
            self._channel.send(text)

    def _fail(self, why: str) -> None:
        """Ends every request: nothing can be said any more."""
        with self._state:
            requests = [*self._open.values(), *self._queue]
            self._open.clear()
            self._queue.clear()
        for request in requests:
            request.arrive(None, why)


class _Attached:
    """Makes a loop read while at least one of its tasks waits; afterwards the loop is as it was."""

    def __init__(self, conversation: Conversation, loop: "Any") -> None:
        self._conversation = conversation
        self._loop = loop

    def __enter__(self) -> None:
        if self._conversation.count(self._loop, +1) > 1:
            return
        try:
            self._loop.add_reader(self._conversation.fileno(), self._conversation.read_ready)
        except BaseException:  # the user's code closed the descriptor
            self._conversation.count(self._loop, -1)
            raise

    def __exit__(self, *_: "Any") -> None:
        if self._conversation.count(self._loop, -1) == 0 and not self._loop.is_closed():
            self._loop.remove_reader(self._conversation.fileno())


def running_loop() -> "Any":
    """Returns the event loop that runs in this thread, without importing asyncio for the answer None."""
    asyncio = sys.modules.get("_asyncio")
    return asyncio and asyncio._get_running_loop()


def check_reply(frame: dict) -> None:
    """Refuses what is no reply."""
    ok = frame.get("ok")
    if type(ok) is not bool or type(frame.get("id")) is not int or not frame.keys() <= {"id", "ok", "value", "error"}:
        raise ProtocolError("not a reply")
    if ok:
        return
    error = frame.get("error")
    if type(error) is not dict or not all(type(error.get(key)) is str for key in ("code", "message")):
        raise ProtocolError("an error without code and message")
