"""From a job to its result.

After the user's code the program ends as any Python program does: threads that are no daemons are waited for, atexit
handlers run, the module's variables are dropped, so that forgotten files are written and __del__ runs, and the output
is flushed. Only then are the files sent that the job collects, and the result, so that it means the program has ended. Its reply is waited for, and the
process exits without the interpreter's own finalisation, which takes milliseconds.

There is no result after sys.exit, since the program did not come to its end; the exit code says what it wanted.
"""

import sys
from _thread import _count as count_threads

from . import code, drive, streams, tools, workspace
from .calls import Conversation
from .job import Job
from .values import TooLarge, encode
from .wire import quote

# The exit code when the conversation with the worker fails.
NO_WORKER = 70
_MAX_UNAWAITED = 100
# What the encoder and the report need, whatever the user's code set.
_RECURSION = 1000


class Execution:
    """One job on its way to a result."""

    def __init__(self, job: Job, conversation: Conversation, idle: "tuple | None" = None) -> None:
        """idle is what at_exit returned before the job was known."""
        self._idle = idle
        self._job = job
        self._conversation = conversation
        self._library = list(sys.path)
        self._variables: dict = {}
        self._program: "object" = None  # what stat said of the file that holds the job's code
        self._error: "str | None" = None
        self._exit_code: "int | None" = None
        conversation.parallel = max(1, job.parallel)

    def run(self) -> None:
        """Runs the user's code and keeps how it ended."""
        try:
            self._run()
        except SystemExit as error:
            self._exit_code = _exit_code(error)
        except BaseException as error:
            self._failed(error)

    def finish(self) -> int:
        """Ends the program, sends the result and returns the exit code."""
        _restore_recursion_limit()
        if not self._is_idle():
            _end_program()
        return self.report()

    def report(self) -> int:
        """Sends the result of a program that has ended and returns the exit code."""
        result = self._result() if self._exit_code is None else ""
        if count_threads() == 0:  # daemons would see their variables vanish
            _drop(self._variables)
        streams.flush()
        if self._exit_code is not None:
            return self._exit_code
        if not self._conversation.closed:
            try:
                self._conversation.finish(f'"method":"result","params":{{{result}{self._collect()}}}')
            except ConnectionError as error:
                streams.complain(f"airlock: the result was not delivered: {error}")
                return NO_WORKER
        return 1 if self._error else 0

    def _is_idle(self) -> bool:
        """Reports whether the program has left nothing to be done, which a fork would touch 20 to 60 pages to find."""
        try:
            return self._idle is not None and count_threads() == 0 and at_exit() == self._idle
        except BaseException:  # what is compared may be the user's
            return False

    def _run(self) -> None:
        job = self._job
        self._variables, self._program = workspace.set_up(job)
        tools.bind(tools.Tools(self._conversation, job.frame_limit), job.tools, self._variables)
        program = code.compile_job(job.code)
        drive.run(program, self._variables, self._conversation, job.code)

    def _failed(self, error: BaseException) -> None:
        from . import report

        _restore_recursion_limit()
        self._error = report.describe(error, self._job.code, self._library)
        # Otherwise the result says it, and stderr stays the user's.
        if self._conversation.closed or sys.excepthook is not sys.__excepthook__:
            try:
                sys.excepthook(type(error), error, error.__traceback__)
            except BaseException:
                pass

    def _result(self) -> str:
        """Returns the fields of the result."""
        fields = f'"error":{self._error}' if self._error else self._value()
        return fields + self._unawaited()

    def _value(self) -> str:
        value = self._variables.get(code.VALUE)
        if not self._variables.get(code.RETURNED) and "__result__" in self._variables:
            value = self._variables["__result__"]
        try:
            encoded, lossy = encode(value, self._job.result_limit)
        except TooLarge as error:
            return f'"too_large":{error.size}'
        except BaseException as error:  # want of memory
            self._failed(error)
            return f'"error":{self._error}'
        return f'"value":{encoded}' + (',"lossy":true' if lossy else "")

    def _unawaited(self) -> str:
        """Returns the field of calls that were never awaited, and tells the user."""
        names = list(self._conversation.unawaited.values())
        for name in dict.fromkeys(names):
            streams.complain(f"airlock: a call of {name} was never awaited, so it was not made")
        listed = ",".join(quote(name) for name in names[:_MAX_UNAWAITED])
        return f',"unawaited":[{listed}]' if names else ""


    def _collect(self) -> str:
        """Sends the files that the job collects and returns the result's field of those that were left out."""
        if not self._job.collect:
            return ""
        # A module of the job's own must not be found.
        sys.path[:] = self._library
        from .artifacts import Collector

        collector = Collector(self._job.collect, self._job.artifact_limit, self._conversation.tell)
        try:
            collector.run(code.NAME, self._program)
        except ConnectionError:
            raise
        except BaseException as error:  # the user's code may have changed what is used here
            streams.complain(f"airlock: files were not all collected: {type(error).__name__}")
        return f',"left_out":{collector.left_out}' if collector.left_out else ""


def _restore_recursion_limit() -> None:
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _RECURSION))


def _exit_code(error: SystemExit) -> int:
    """Returns what sys.exit's argument means, and prints it where it is a message."""
    wanted = error.code
    if wanted is None:
        return 0
    if isinstance(wanted, int):
        return int(wanted) & 0xFF
    try:
        streams.complain(str(wanted))
    except BaseException:
        pass
    return 1


def at_exit() -> "tuple | None":
    """Returns what says whether a program has left something to be done at its end; None for what would."""
    threading, atexit, logging = (sys.modules.get(name) for name in ("threading", "atexit", "logging"))
    try:
        calls = atexit._ncallbacks(), tuple(threading._threading_atexits)
        return calls, tuple(logging._handlerList)  # which logging flushes
    except (AttributeError, TypeError):  # not loaded, another version's, or the user's code changed them
        return None


def _end_program() -> None:
    """Does what the interpreter does before its finalisation."""
    steps = []
    if threading := sys.modules.get("threading"):
        steps.append(threading._shutdown)
    if atexit := sys.modules.get("atexit"):
        steps.append(atexit._run_exitfuncs)
    for step in steps:
        try:
            step()
        except BaseException as error:
            streams.complain(f"airlock: at exit: {type(error).__name__}")


def _drop(variables: dict) -> None:
    """Drops a module's variables in the interpreter's own order: those with an underscore first."""
    names = [name for name in variables if not name.startswith("__")]
    for name in sorted(names, key=lambda name: not name.startswith("_")):
        variables[name] = None
