"""Starts a template: python -I -S -B template.py, with its order on descriptor 4. See airlock_guest/forks."""

import sys


def main() -> None:
    """Serves forks of this interpreter; goes on as a guest in those that are one."""
    ahead = _serve()
    from airlock_guest import run

    run.main(ahead)  # in a process that is a guest


def _serve() -> "object":
    """Returns in a guest, whose code can look at this module's frames: no name of them leads to the template."""
    here = __file__.rpartition("/")[0] or "."
    sys.path.insert(0, here)
    from airlock_guest import run  # noqa: F401
    from airlock_guest.forks import template

    sys.path.remove(here)
    return template.serve()


if __name__ == "__main__":
    main()
