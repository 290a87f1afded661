"""Starts the guest's side of the channel: python -I -S -B main.py, with the channel as descriptor 3."""

import sys


def main() -> None:
    """Runs the one job of this interpreter; does not return."""
    here = __file__.replace("\\", "/").rpartition("/")[0] or "."
    sys.path.insert(0, here)
    from airlock_guest import run

    # The package stays loaded and finds its own modules; the path is the user's.
    sys.path.remove(here)
    run.main()


if __name__ == "__main__":
    main()
