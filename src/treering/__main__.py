"""The ``treering`` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] == ["--version"]:
        from treering.version import __version__  # noqa: PLC0415  (nothing else is needed)

        sys.stdout.write(f"treering {__version__}\n")
        return
    try:
        from treering.surfaces.cli.main import run  # noqa: PLC0415

        run()
    except KeyboardInterrupt:
        # Before the command line is there to say so; afterwards it does.
        sys.exit(130)


if __name__ == "__main__":
    main()
