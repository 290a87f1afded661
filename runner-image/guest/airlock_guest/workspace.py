"""What the user's code finds when it starts: files, environment, arguments, its module and the way to others."""

import builtins
import sys

from . import system
from .code import NAME
from .job import Job


class FileSetupError(Exception):
    """A file of the job could not be written."""


FileSetupError.__module__ = "builtins"  # the user need not know where it comes from


class _Source:
    """The loader of the user's module: inspect and traceback ask it for the source lines."""

    def __init__(self, source: str) -> None:
        self._source = source

    def get_source(self, name: str) -> str:
        return self._source


def set_up(job: Job) -> "tuple[dict, object]":
    """Prepares the process for the job. The current directory is the workspace.

    It returns the variables of the job's module, and what stat says of the program's file if there is one of ours.
    """
    root = system.getcwd()
    _write_files(job.files)
    program = _write_program(job.code)
    _add_environment(job.env)
    sys.argv = [NAME, *job.args]
    sys.path[:0] = [root]
    sys.path += packages()
    _add_site_builtins()
    return _main_module(job, root), program


def _main_module(job: Job, root: str) -> dict:
    """Makes the module __main__, as it would be for a script."""
    module = type(sys)("__main__")
    sys.modules["__main__"] = module
    variables = module.__dict__
    variables["__file__"] = f"{root}/{NAME}"
    variables["__loader__"] = _Source(job.code)
    variables["__builtins__"] = builtins
    variables.update(job.vars)
    return variables


def _write_files(files: list) -> None:
    for file in files:
        try:
            _write_file(file["path"], file["base64"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            path = file.get("path") if type(file) is dict else file
            raise FileSetupError(f"{path!r}: {error}") from None


def _write_file(path: str, base64: str) -> None:
    import os
    from binascii import a2b_base64

    content = a2b_base64(base64)
    folders = path.split("/")[:-1]
    if path.startswith("/") or ".." in path.split("/") or "\\" in path:
        raise ValueError("not a path below the workspace")
    for end in range(1, len(folders) + 1):
        folder = "/".join(folders[:end])
        if os.path.islink(folder):
            raise ValueError("a folder is a link")
        os.makedirs(folder, exist_ok=True)
    with open(system.open(path, system.NEW_FILE, 0o666), "wb") as file:
        file.write(content)


def _write_program(code: str) -> "object":
    """Puts the program where __file__ says, for the processes that multiprocessing starts, and returns its stat.

    A job's own file of that name stays, and a workspace that is full or read-only does without: then it is None.
    """
    try:
        descriptor = system.open(NAME, system.NEW_FILE, 0o666)
    except OSError:
        return None
    try:
        left = memoryview(code.encode("utf-8", "surrogatepass"))
        while left:
            left = left[system.write(descriptor, left) :]
        return system.fstat(descriptor)
    except OSError:
        system.remove(NAME)
        return None
    finally:
        system.close(descriptor)


def _add_environment(env: dict) -> None:
    if env:
        import os

        os.environ.update(env)


# What packages found, so that a template looks for all of its guests.
_found: "list[str]" = []


def packages() -> "list[str]":
    """Returns the folders of installed packages. -S left them out, and with them the price of scanning them."""
    if _found:
        return list(_found)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    candidates = (
        f"{sys.prefix}/local/lib/{version}/dist-packages",
        f"{sys.prefix}/lib/{version}/site-packages",
        f"{sys.prefix}/lib/python3/dist-packages",
        f"{sys.prefix}/Lib/site-packages",
    )
    _found.extend(folder for folder in candidates if _exists(folder))
    return list(_found)


def _exists(path: str) -> bool:
    try:
        system.stat(path)
    except OSError:
        return False
    return True


def _add_site_builtins() -> None:
    """Adds what -S leaves out of the builtins and scripts use."""
    if hasattr(builtins, "help"):
        return
    from _sitebuiltins import Quitter, _Helper

    for name in ("exit", "quit"):
        setattr(builtins, name, Quitter(name, "Ctrl-D (i.e. EOF)"))
    builtins.help = _Helper()
