"""The system calls that the bootstrap needs.

They come from the module behind os: it is built in, and most jobs do without os itself.
"""

try:
    import posix as _os
except ImportError:
    import nt as _os  # type: ignore[no-redef,import-not-found]

close = _os.close
exit_now = _os._exit
getcwd = _os.getcwd
getpid = _os.getpid
set_inheritable = _os.set_inheritable
stat = _os.stat
# Absent where there is no fork.
register_at_fork = getattr(_os, "register_at_fork", None)
