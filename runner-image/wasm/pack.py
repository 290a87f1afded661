"""Packs the standard library and our own modules as bytecode, the same bytes whenever it is run:

    python pack.py <source> <cross> <folder of ours> <stdlib.zip>

It runs under the Python of native.sh, since bytecode is that of one version.
"""

import importlib.util
import marshal
import pathlib
import re
import sys
import zipfile

# Where the modules will be found.
HOME = "/py/stdlib.zip"
# What nobody can use there: the tests, what needs a display, a terminal or a foreign library, and installers.
LEFT_OUT = {
    "__phello__",
    "ctypes",
    "curses",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pip",
    "site-packages",
    "sqlite3",
    "test",
    "tkinter",
    "turtle.py",
    "turtledemo",
    "venv",
}
# The first time that a zip can hold.
EPOCH = (1980, 1, 1, 0, 0, 0)


def main(source: str, cross: str, ours: str, target: str) -> None:
    """Writes the zip."""
    modules = dict(library(pathlib.Path(source, "Lib")))
    modules |= {path.name: path.read_bytes() for path in pathlib.Path(ours).glob("*.py")}
    found = list(pathlib.Path(cross).glob("build/lib.*/_sysconfigdata*.py"))
    if len(found) != 1:
        raise SystemExit(f"pack.py: {cross} has {len(found)} files _sysconfigdata*.py where there should be one: build it again")
    modules[found[0].name] = without_paths(found[0].read_bytes(), pathlib.Path(cross).parent)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(modules):
            entry = zipfile.ZipInfo(name.removesuffix(".py") + ".pyc", EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, bytecode(name, modules[name]))


def library(root: pathlib.Path) -> "list[tuple[str, bytes]]":
    """Returns the modules' names and sources."""
    paths = (path.relative_to(root) for path in root.rglob("*.py"))
    wanted = (path for path in paths if path.parts[0] not in LEFT_OUT and "__pycache__" not in path.parts)
    return [(path.as_posix(), (root / path).read_bytes()) for path in wanted]


def without_paths(source: bytes, folder: pathlib.Path) -> bytes:
    """Takes the folder of the build out of what the configuration says of it."""
    return re.sub(re.escape(str(folder.resolve()).encode()), b"/build", source)


def bytecode(name: str, source: bytes) -> bytes:
    """Compiles a module to a file that Python takes without looking for its source."""
    code = compile(source, f"{HOME}/{name}", "exec", dont_inherit=True, optimize=0)
    unchecked = (1).to_bytes(4, "little")
    # A marshalled copy of a copy does not depend on who else holds an object.
    body = marshal.dumps(marshal.loads(marshal.dumps(code)))
    return importlib.util.MAGIC_NUMBER + unchecked + importlib.util.source_hash(source) + body


if __name__ == "__main__":
    main(*sys.argv[1:])
