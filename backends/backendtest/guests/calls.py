# Makes every system call there may be, each in a child of its own.
def outcome(number):
    # One that waits is told by its silence. So is a child on a busy machine,
    # but hardly twice.
    return attempt(number, 0.3) or attempt(number, 3) or "allow"


def attempt(number, patience):
    answer, tell = os.pipe()
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_REAL, patience)
        ctypes.set_errno(0)
        result = libc.syscall(number, 0, 0, 0, 0, 0, 0)
        code = ctypes.get_errno() if result == -1 else 0
        os.write(tell, errno.errorcode.get(code, "allow").encode())
        os._exit(0)
    os.close(tell)
    said = os.read(answer, 20)
    os.close(answer)
    _, status = os.waitpid(child, 0)
    return "kill" if status & 127 == signal.SIGSYS else said.decode()


def reap():
    """The children of calls that fork."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


found = {}
for number in range(601):
    found[str(number)] = outcome(number)
    reap()
return found
