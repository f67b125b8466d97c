"""The ``treering`` command."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line."""
    try:
        if sys.argv[1:] == ["--version"] and _print_version():
            return
        # Little of what a command makes is in cycles. To look for those every 700 objects, as is
        # Python's default, takes a tenth of the time of an import.
        gc.set_threshold(50_000)
        from treering.surfaces.cli.main import run  # noqa: PLC0415

        run()
    except KeyboardInterrupt as stopped:
        # Either before the command line handles interrupts, or after it has handled one.
        sys.exit(getattr(stopped, "status", 130))
    finally:
        # Python looks for cycles in all that is left before it exits, an eighth of a short command.
        gc.freeze()


def _print_version() -> bool:
    from treering.version import __version__  # noqa: PLC0415  (nothing else is needed)

    try:
        sys.stdout.write(f"treering {__version__}\n")
        sys.stdout.flush()
    except (AttributeError, OSError):
        # Closed or full: the command line reports the error.
        return False
    return True


if __name__ == "__main__":
    main()
