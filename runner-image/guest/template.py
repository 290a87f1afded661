"""Starts a template: python -I -S -B template.py, with its order on descriptor 4. See airlock_guest/forks."""

import sys


def main() -> None:
    """Serves forks of this interpreter; goes on as a guest in those that are one."""
    here = __file__.rpartition("/")[0] or "."
    sys.path.insert(0, here)
    from airlock_guest import run
    from airlock_guest.forks import template

    sys.path.remove(here)
    template.serve()
    run.main()  # in a process that is a guest


if __name__ == "__main__":
    main()
