"""Prints as JSON what this interpreter is made of: what a sandbox must hold."""
import json
import os
import site
import sys
import sysconfig


def extensions():
    return sysconfig.get_config_var("DESTSHARED") or ""


def mapped(directory):
    """The files that are mapped once every extension module is loaded."""
    try:
        import ctypes
    except ImportError:
        ctypes = None
    for name in sorted(os.listdir(directory)) if ctypes and os.path.isdir(directory) else []:
        if name.endswith(".so") and not name.startswith(("_tkinter", "_test", "xx")):
            try:
                ctypes.CDLL(os.path.join(directory, name))
            except OSError:
                pass  # a module whose library is not installed cannot be imported inside either
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            lines = maps.readlines()
    except OSError:
        return []
    return sorted({line[line.index("/"):].rstrip("\n") for line in lines if "/" in line and " (deleted)" not in line})


def zones():
    try:
        import zoneinfo
    except ImportError:
        return []
    return list(zoneinfo.TZPATH)


json.dump(
    {
        "version": "%d.%d.%d" % sys.version_info[:3],
        "executable": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
        "libraries": [p for p in (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), extensions()) if p],
        "packages": site.getsitepackages(),
        "mapped": mapped(extensions()),
        "zones": zones(),
    },
    sys.stdout,
)
