"""The demo: its chapters in order, and what to try next."""

from __future__ import annotations

import io
import sys
import time

from rich.text import Text

from . import logs, recording, taking_in
from .asking import show_asking
from .killing import show_kills
from .proving import show_proof
from .recording import show_recording
from .remembering import show_memory
from .serving import show_server
from .stage import FOLDER, code, console, failures, line, prepare
from .taking_in import show_logs


def main() -> int:
    """Run every step; return 1 if one of them did not hold."""
    started = time.monotonic()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # Not every locale has every character.
    prepare()
    show_logs()
    show_asking()
    show_recording()
    show_memory()
    show_server()
    show_proof()
    show_kills()
    farewell(time.monotonic() - started)
    return 1 if failures else 0


def farewell(seconds: float) -> None:
    """Say what happened and what to try."""
    console.print()
    if failures:
        line(f"{len(failures)} of the checks failed: {'; '.join(failures)}", style="bold red")
        return
    console.print(Text(f"Every check held, in {seconds:.1f} s. What next:", style="bold green"))
    taken_in = f"--db {taking_in.LEDGER}"
    recorded = f"--db {recording.LEDGER}"
    of_session = f"{recording.SESSION} --scope {recording.SCOPE}"
    code(
        "treering import --dry-run   # your own logs; without --dry-run, it takes them in",
        f"treering {taken_in} sessions list --scope {logs.SCOPE}",
        f"treering {recorded} show {of_session} --payload",
        f"treering {recorded} context {of_session} --max-tokens 250 --explain",
        f"treering --db {FOLDER}/tampered-0.db verify",
        f"treering {recorded} serve",
        "treering --help",
    )
    line(
        "docs/tutorial/quickstart.md has the first steps, docs/reference/python.md the whole API",
        style="dim",
    )


if __name__ == "__main__":
    sys.exit(main())
