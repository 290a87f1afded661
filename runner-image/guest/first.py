"""Starts a container's first process: /airlock/python -I -S -B /airlock/first.py."""

import sys


def main() -> None:
    """Watches over the one guest of this container; does not return."""
    here = __file__.rpartition("/")[0] or "."
    sys.path.insert(0, here)
    from airlock_guest import first, run

    sys.path.remove(here)
    if first.main():
        run.main()  # in the process that is the guest


if __name__ == "__main__":
    main()
