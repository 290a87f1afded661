"""The system calls that the bootstrap needs.

They come from the module behind os: it is built in, and most jobs do without os itself.
"""

try:
    import posix as _os
except ImportError:
    import nt as _os  # type: ignore[no-redef,import-not-found]

close = _os.close
closerange = _os.closerange
exit_now = _os._exit
fstat = _os.fstat
getcwd = _os.getcwd
getpid = _os.getpid
open = _os.open  # noqa: A001
remove = _os.remove
set_inheritable = _os.set_inheritable
stat = _os.stat
write = _os.write
NEW_FILE = _os.O_WRONLY | _os.O_CREAT | _os.O_EXCL | getattr(_os, "O_NOFOLLOW", 0) | getattr(_os, "O_BINARY", 0)
# Absent where there is no fork.
register_at_fork = getattr(_os, "register_at_fork", None)
