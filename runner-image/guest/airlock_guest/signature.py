"""A tool's signature, from its schema. It is made when somebody looks: importing inspect costs 8 ms."""

import inspect
from keyword import iskeyword

TYPE_CHECKING = False  # typing itself costs 5 ms
if TYPE_CHECKING:
    from typing import Any

_TYPES = {
    "integer": int,
    "number": float,
    "string": str,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": None,
}


class _Absent:
    """Stands for the default that only the provider knows."""

    def __repr__(self) -> str:
        return "..."


def signature_of(schema: "Any") -> inspect.Signature:
    """Returns how the tool may be called: every call that fits the signature has names that the schema knows."""
    schema = schema if type(schema) is dict else {}
    properties = schema.get("properties")
    properties = properties if type(properties) is dict else {}
    required = schema.get("required")
    required = required if type(required) is list else []
    parameters, kind, optional, surplus = [], inspect.Parameter.POSITIONAL_OR_KEYWORD, False, False
    for name, described in properties.items():
        if not name.isidentifier() or iskeyword(name):
            surplus = True  # only ** reaches it, and what follows has another position
            kind = inspect.Parameter.KEYWORD_ONLY
            continue
        if name in required and optional:
            kind = inspect.Parameter.KEYWORD_ONLY  # Python has no positional one without a default here
        default = inspect.Parameter.empty
        if name not in required:
            optional = True
            default = described.get("default", _Absent()) if type(described) is dict else _Absent()
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=_annotation(described)))
    if surplus or schema.get("additionalProperties", True) is not False and not _closed(schema):
        parameters.append(inspect.Parameter(_free("arguments", properties), inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(parameters)


def _closed(schema: dict) -> bool:
    return schema.get("additionalProperties") == {"not": {}}


def _free(name: str, taken: dict) -> str:
    while name in taken:
        name += "_"
    return name


def _annotation(described: "Any") -> "Any":
    kinds = described.get("type") if type(described) is dict else None
    kinds = kinds if type(kinds) is list else [kinds]
    if not kinds or not all(type(kind) is str and kind in _TYPES for kind in kinds):
        return inspect.Parameter.empty
    found = [_TYPES[kind] for kind in kinds]
    annotation = found[0]
    for other in found[1:]:
        annotation = annotation | other if annotation is not None else other | None
    return annotation
