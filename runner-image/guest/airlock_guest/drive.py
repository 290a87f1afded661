"""Runs the user's code object, with an event loop only where it may need one."""

from .calls import Conversation, Request
from .code import needs_loop

TYPE_CHECKING = False  # typing itself costs 5 ms
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

_CO_COROUTINE = 0x80


def run(program: "CodeType", variables: dict, conversation: Conversation, source: str) -> None:
    """Runs the program, made of that source, in its module's variables until it ends."""
    # A program that awaits only makes its coroutine here.
    coroutine = eval(program, variables)
    if not program.co_flags & _CO_COROUTINE:
        return
    if needs_loop(source):
        _run_with_asyncio(coroutine)
    else:
        _run_alone(coroutine, conversation)


def _run_alone(coroutine: "Any", conversation: Conversation) -> None:
    """Drives a coroutine that waits for nothing but tools."""
    step, argument = coroutine.send, None
    while True:
        try:
            waiting = step(argument)
        except StopIteration:
            return
        step, argument = coroutine.send, None
        if type(waiting) is Request:
            try:
                conversation.wait(waiting)
            except BaseException as error:  # a signal handler of the user's raised it, for the user
                step, argument = coroutine.throw, error
        elif waiting is not None:
            step, argument = coroutine.throw, RuntimeError(f"await got {waiting!r}, which needs an event loop")


def _run_with_asyncio(coroutine: "Any") -> None:
    import gc

    gc.disable()  # a third of the import's time would go into collections that find nothing
    import asyncio

    gc.enable()
    asyncio.run(coroutine)
