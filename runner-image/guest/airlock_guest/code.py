"""From source to a code object.

The source is compiled as it stands, so that lines, names and scopes are the user's own. What a module lacks is done
on its syntax tree: the last expression statement becomes an assignment, and a top-level return becomes a value and a
break out of a loop that runs once. A break, unlike an exception, passes through try, with and finally exactly as a
return does, and the body stays a module's.
"""

import _ast
import sys

TYPE_CHECKING = False  # typing itself costs 5 ms
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

NAME = "main.py"
# The names that the tree assigns to. They are no identifiers, so that no user has them.
VALUE = "<value>"
RETURNED = "<returned>"

_AWAIT = _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_SCOPES = (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.ClassDef)
_LOOPS = (_ast.For, _ast.AsyncFor, _ast.While)


def compile_job(source: str) -> "CodeType":
    """Compiles the user's code. What it raises is for the user: usually SyntaxError."""
    source = source[1:] if source.startswith("\ufeff") else source
    tree = _compile(source, _AWAIT | _ast.PyCF_ONLY_AST)
    returns = _Returns()
    body = returns.rewrite(_keep_last(tree.body), 0)
    if returns.count:
        head = _head_length(body)
        body[head:] = _once(body[head:], tree.body)
    elif not tree.body or type(tree.body[-1]) is not _ast.Expr:
        return _compile(source, _AWAIT)
    tree.body = body
    try:
        return _compile(tree, _AWAIT)
    except RecursionError:
        # A tree may nest less deep than a text, such as 1 + 1 + … with 2,000 terms.
        if returns.count:
            raise
        return _compile(source, _AWAIT)


def needs_loop(source: str) -> bool:
    """Reports whether awaiting in this code may need an event loop.

    Code that can only wait for tools, because nothing it mentions could make a future, is driven without one and
    spares the import of asyncio, several times the interpreter's own start. In doubt it needs one.
    """
    if "asyncio" in source or "yield" in source:
        return True
    return not all(_harmless_import(line.strip()) for line in source.splitlines() if "import" in line)


def _compile(source: "Any", flags: int) -> "Any":
    # dont_inherit: this file's own future statements are not the user's.
    return compile(source, NAME, "exec", flags, True)


def _harmless_import(line: str) -> bool:
    """Reports whether a line with the word import only imports from the standard library."""
    words = line.split()
    if line.startswith("#"):
        return True
    if line.count("import") != 1 or ";" in line or len(words) < 2:
        return False
    if words[0] == "from":
        modules = [words[1]]
    elif words[0] == "import":
        modules = [part.split()[0] for part in line[len("import") :].split(",") if part.split()]
    else:
        return False
    return all(module.partition(".")[0] in sys.stdlib_module_names for module in modules)


def _keep_last(body: list) -> list:
    """Returns the body with its last expression statement assigned to VALUE."""
    if not body or type(body[-1]) is not _ast.Expr:
        return list(body)
    return [*body[:-1], _assign(VALUE, body[-1].value, body[-1])]


def _head_length(body: list) -> int:
    """Counts the statements that must stay first: the docstring and the future imports."""
    count = 0
    for node in body:
        docstring = count == 0 and type(node) is _ast.Expr and type(node.value) is _ast.Constant
        future = type(node) is _ast.ImportFrom and node.module == "__future__"
        if not docstring and not future:
            break
        count += 1
    return count


def _once(body: list, original: list) -> list:
    first, last = original[0], original[-1]
    loop = _at(_ast.While(_at(_ast.Constant(True), first), [*body, _at(_ast.Break(), last)], []), first)
    return [_assign(RETURNED, _at(_ast.Constant(False), first), first), loop]


class _Returns:
    """Rewrites the returns outside functions and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def rewrite(self, block: list, loops: int) -> list:
        """Returns the block's new statements; it stands inside that many loops of the user's."""
        result = []
        for node in block:
            if type(node) is _ast.Return:
                result += self._returned(node)
            elif type(node) in (_ast.Break, _ast.Continue) and loops == 0:
                raise _outside_loop(node)
            elif type(node) in _SCOPES:
                result.append(node)
            else:
                result += self._compound(node, loops)
        return result

    def _returned(self, node: "_ast.Return") -> list:
        self.count += 1
        value = node.value or _at(_ast.Constant(None), node)
        returned = _assign(RETURNED, _at(_ast.Constant(True), node), node)
        return [_assign(VALUE, value, node), returned, _at(_ast.Break(), node)]

    def _compound(self, node: "Any", loops: int) -> list:
        before = self.count
        is_loop = isinstance(node, _LOOPS)
        if isinstance(getattr(node, "body", None), list):
            node.body = self.rewrite(node.body, loops + is_loop)
        inside = self.count > before
        for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            part.body = self.rewrite(part.body, loops)
        for field in ("orelse", "finalbody"):
            if isinstance(getattr(node, field, None), list):
                setattr(node, field, self.rewrite(getattr(node, field), loops))
        if not (is_loop and inside):
            return [node]
        # The break left this loop only.
        returned = _at(_ast.Name(RETURNED, _ast.Load()), node)
        return [node, _at(_ast.If(returned, [_at(_ast.Break(), node)], []), node)]


def _outside_loop(node: "Any") -> SyntaxError:
    text = "'break' outside loop" if type(node) is _ast.Break else "'continue' not properly in loop"
    return SyntaxError(text, (NAME, node.lineno, node.col_offset + 1, None, node.end_lineno, node.end_col_offset + 1))


def _assign(name: str, value: "Any", place: "Any") -> "_ast.Assign":
    return _at(_ast.Assign([_at(_ast.Name(name, _ast.Store()), place)], value), place)


def _at(node: "Any", place: "Any") -> "Any":
    node.lineno, node.col_offset = place.lineno, place.col_offset
    node.end_lineno, node.end_col_offset = place.end_lineno, place.end_col_offset
    return node
