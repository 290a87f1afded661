"""The job frame."""

from .calls import MAX_PARALLEL
from .wire import MAX_FRAME, ProtocolError

TYPE_CHECKING = False  # typing itself costs 5 ms
if TYPE_CHECKING:
    from typing import Any

DEFAULT_RESULT = 1024 * 1024
DEFAULT_ARTIFACTS = 16 * 1024 * 1024


class Job:
    """What the worker asks for. Fields that are absent are empty."""

    def __init__(self, frame: dict) -> None:
        if frame.keys() != {"method", "params"} or frame["method"] != "job" or type(frame["params"]) is not dict:
            raise ProtocolError("the first frame is no job")
        params = _Fields(frame["params"])
        self.code: str = params.take("code", str, None)
        self.vars: dict = params.take("vars", dict, {})
        self.args: list = params.take("args", list, [])
        self.env: dict = params.take("env", dict, {})
        self.files: list = params.take("files", list, [])
        self.collect: "list[str]" = params.take("collect", list, [])
        self.tools: "list[dict]" = params.take("tools", list, [])
        # A pinned namespace needs nothing here: tools are only those of it, and calls name theirs.
        params.take("namespace", str, "")
        limits = _Fields(params.take("limits", dict, {}))
        params.end()
        self.result_limit: int = limits.take("result", int, DEFAULT_RESULT)
        self.frame_limit: int = limits.take("frame", int, MAX_FRAME)
        self.artifact_limit: int = limits.take("artifacts", int, DEFAULT_ARTIFACTS)
        self.parallel: int = limits.take("parallel", int, MAX_PARALLEL)
        limits.end()


class _Fields:
    """Takes typed fields out of an object."""

    def __init__(self, fields: dict) -> None:
        self._fields = dict(fields)

    def take(self, name: str, kind: type, default: "Any") -> "Any":
        value = self._fields.pop(name, default)
        if type(value) is not kind:
            raise ProtocolError(f"the job's {name} is missing or of a wrong type")
        return value

    def end(self) -> None:
        if self._fields:
            raise ProtocolError(f"the job has an unknown field {min(self._fields)}")
