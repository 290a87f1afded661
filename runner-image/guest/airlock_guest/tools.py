"""What the user's code sees of the tools.

A tool is an async function `tools.<namespace>.<name>`. Where only one namespace has the name it is bound to the bare
name as well, unless that would hide a variable of the job or a builtin: those stay what the user takes them for.
"""

import builtins
from keyword import iskeyword

from .calls import Conversation, Request
from .values import TooLarge, encode
from .wire import MAX_FRAME, quote

TYPE_CHECKING = False  # typing itself costs 5 ms
if TYPE_CHECKING:
    from typing import Any

# What a frame holds besides the arguments: method, id and the names, quoted at worst.
_MAX_NAME = 256
_ENVELOPE = 4096


class ToolError(Exception):
    """A call that was refused or failed.

    code is one of the error codes of broker/PROTOCOL.md; retryable says that the same call may be made again without
    harm.
    """

    def __init__(self, code: str, message: str, namespace: str = "", name: str = "", retryable: bool = False) -> None:
        super().__init__(code, message, namespace, name, retryable)
        self.code = code
        self.message = message
        self.namespace = namespace
        self.name = name
        self.retryable = retryable

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


# It is bound there, where modules of the job find it too.
ToolError.__module__ = "builtins"


class Namespace:
    """The tools of one namespace, as attributes."""

    def __repr__(self) -> str:
        return f"<tools {', '.join(self.__dict__)}>"

    def __getattr__(self, name: str) -> "Any":
        raise AttributeError(f"this job was not offered a tool {name} here; there are: {', '.join(self.__dict__)}")


class Tools:
    """All tools of the job: its attributes are the namespaces."""

    def __init__(self, conversation: Conversation, frame: int) -> None:
        self.__dict__["_caller"] = _Caller(conversation, frame)

    def __repr__(self) -> str:
        return "<the job's tools>"

    def __getattr__(self, name: str) -> "Any":
        known = ", ".join(key for key in self.__dict__ if key != "_caller") or "none"
        raise AttributeError(f"this job was not offered a namespace {name}; there are: {known}")

    def call(self, namespace: str, name: str, arguments: "dict | None" = None, /, **more: "Any") -> "Any":
        """Calls any tool by its names: await tools.call("math", "add", {"a": 1}, b=2)."""
        return self._caller.call(namespace, name, {**({} if arguments is None else arguments), **more})

    def call_sync(self, namespace: str, name: str, arguments: "dict | None" = None, /, **more: "Any") -> "Any":
        """Calls a tool and waits for its answer, for code that cannot await: a callback, a thread, a library's hook.

        Inside a running event loop it holds up the loop's other tasks, but not their calls, whose answers arrive
        meanwhile.
        """
        return self._caller.call_sync(namespace, name, {**({} if arguments is None else arguments), **more})

    def list(self) -> "Any":
        """Asks which tools may be called now, with their schemas: await tools.list(), or await list_tools()."""
        return self._caller.list()


def bind(tools: Tools, descriptions: "list[dict]", variables: dict) -> None:
    """Adds the described tools to tools, and to variables where their names are free."""
    counts: "dict[str, int]" = {}
    for described in descriptions:
        counts[described["name"]] = counts.get(described["name"], 0) + 1
    builtins.ToolError = ToolError
    # Copied, as all of them may be tools; the builtins are not, since that would write to each of their names.
    taken = {*variables, "tools", "list_tools"}
    for described in descriptions:
        namespace, name = described["namespace"], described["name"]
        tool = Tool(tools._caller, described)
        if not hasattr(Tools, namespace):  # tools.call stays a method
            group = tools.__dict__.setdefault(namespace, Namespace())
            group.__dict__[name] = tool
        if counts[name] == 1 and name.isidentifier() and not iskeyword(name) and not (name in taken or hasattr(builtins, name)):
            variables[name] = tool
    variables.setdefault("tools", tools)
    variables.setdefault("list_tools", tools.list)


async def _call() -> None:
    """Lends its code to the tools, by which inspect sees that they are async functions."""


class Tool:
    """One tool: to inspect, pydoc and asyncio an async function with the signature that its schema says."""

    __defaults__ = __kwdefaults__ = None
    __code__ = _call.__code__
    __module__ = "tools"

    def __init__(self, caller: "_Caller", described: dict) -> None:
        self._caller = caller
        self._namespace, self.__name__ = described["namespace"], described["name"]
        self.__qualname__ = f"{self._namespace}.{self.__name__}"
        self.description = described.get("description")
        self.input_schema = described.get("input_schema")
        self._order = _positions(self.input_schema)
        self.__annotations__: dict = {}

    def __call__(self, /, *positional: "Any", **arguments: "Any") -> "Any":
        if positional:
            _place(self.__name__, self._order, positional, arguments)
        return self._caller.call(self._namespace, self.__name__, arguments)

    def __get__(self, instance: "Any", owner: "Any" = None) -> "Any":
        """Makes pydoc take it for a routine. As an attribute of a class it stays itself: a tool has no self."""
        return self

    def __repr__(self) -> str:
        return f"<async function {self.__qualname__}>"

    @property
    def __signature__(self) -> "Any":
        from .signature import signature_of

        return signature_of(self.input_schema)

    @property
    def __doc__(self) -> "str | None":  # type: ignore[override]
        lines = [self.description] if self.description else []
        notes = [f"{name}: {note}" for name, note in _notes(self.input_schema)]
        if notes:
            lines += ["", *notes] if lines else notes
        return "\n".join(lines) or None


def _notes(schema: "Any") -> "list[tuple[str, str]]":
    """Returns the arguments that the schema describes in words."""
    properties = schema.get("properties") if type(schema) is dict else None
    found = []
    for name, described in (properties if type(properties) is dict else {}).items():
        note = described.get("description") if type(described) is dict else None
        if type(note) is str:
            found.append((name, note))
    return found


def _positions(schema: "Any") -> "list[str]":
    """Returns the order of positional arguments: that of the schema's properties."""
    properties = schema.get("properties") if type(schema) is dict else None
    return list(properties) if type(properties) is dict else []


def _place(name: str, order: "list[str]", positional: tuple, arguments: dict) -> None:
    """Adds the positional arguments under their names."""
    if len(positional) > len(order):
        what = f"takes {len(order)} positional arguments" if order else "takes keyword arguments only"
        raise TypeError(f"{name}() {what} but {len(positional)} positional were given")
    for key, value in zip(order, positional):
        if key in arguments:
            raise TypeError(f"{name}() got multiple values for argument {key!r}")
        arguments[key] = value


class _Caller:
    """Makes calls on the conversation."""

    def __init__(self, conversation: Conversation, frame: int) -> None:
        self._conversation = conversation
        self._limit = min(frame, MAX_FRAME) - _ENVELOPE
        self._made = 0

    def call(self, namespace: str, name: str, arguments: dict) -> "Any":
        """Returns a coroutine: nothing is sent before it is awaited."""
        _check_names(namespace, name)
        return self._noted(namespace, name, lambda: self._text(namespace, name, arguments))

    def call_sync(self, namespace: str, name: str, arguments: dict) -> "Any":
        """Calls and blocks this thread."""
        _check_names(namespace, name)
        text = self._text(namespace, name, arguments)
        return _answer(self._conversation.ask(text), namespace, name)

    def list(self) -> "Any":
        """Returns a coroutine."""
        return self._noted("tools", "list", lambda: '"method":"list_tools"', plain=True)

    def _noted(self, namespace: str, name: str, text: "Any", plain: bool = False) -> "Any":
        """Returns a coroutine that is listed as unawaited until it starts; plain leaves the answer as it came."""
        self._made += 1
        number, label = self._made, f"{_clean(namespace)}.{_clean(name)}"
        unawaited = self._conversation.unawaited
        unawaited[number] = label

        async def call() -> "Any":
            unawaited.pop(number, None)
            reply = await self._conversation.request(text())
            if plain and reply["ok"]:
                return reply.get("value")
            return _answer(reply, namespace, name)

        coroutine = call()
        coroutine.__name__ = coroutine.__qualname__ = label
        return coroutine

    def _text(self, namespace: str, name: str, arguments: dict) -> str:
        for key in arguments:
            if not isinstance(key, str):
                raise TypeError(f"the name of an argument must be a string, not {key!r}")
        try:
            encoded, _ = encode(arguments, self._limit, plain_tuples=True)
        except TooLarge as error:
            message = f"the arguments are {error.size} bytes, a message carries {self._limit}"
            raise ToolError("too_large", message, namespace, name) from None
        names = f'"namespace":{quote(_clean(namespace))},"name":{quote(_clean(name))}'
        return f'"method":"call_tool","params":{{{names},"arguments":{encoded}}}'


def _check_names(namespace: "Any", name: "Any") -> None:
    if not isinstance(namespace, str) or not isinstance(name, str):
        raise TypeError("the namespace and the name of a tool are strings")


def _clean(name: str) -> str:
    """Returns a name that fits a frame. What is changed here was no name anyway, which the worker says."""
    return name[:_MAX_NAME].encode("utf-8", "backslashreplace").decode()[:_MAX_NAME]


def _answer(reply: dict, namespace: str, name: str) -> "Any":
    if reply["ok"]:
        return _revived(reply)
    error = reply["error"]
    raise ToolError(error["code"], error["message"], namespace, name, error.get("retryable") is True)


def _revived(reply: dict) -> "Any":
    value = reply.get("value")
    if "tagged" not in reply:
        return value
    from .revive import revive

    return revive(value)
