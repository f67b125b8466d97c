"""What all steps share: the console, the checks, and the program run as a user runs it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering import Header

FOLDER: Final = Path("demo-output")
HOME: Final = FOLDER / "home"
INDENT: Final = " " * 3
WIDTH: Final = 100
"""Of what is not printed to a terminal."""

plain = bool(os.environ.get("NO_COLOR")) or not sys.stdout.isatty()
console = Console(
    highlight=False,
    force_terminal=not plain,
    no_color=plain,
    width=None if sys.stdout.isatty() else WIDTH,
)
steps: list[str] = []
failures: list[str] = []


def prepare() -> None:
    """Begin with an empty folder, without the user's own settings and logs."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    for name in [name for name in os.environ if name.startswith("TREERING_")]:
        del os.environ[name]
    # The key of the masks is kept in the user's folder; the demo has one of its own.
    home = str(HOME.absolute())
    os.environ.update(HOME=home, XDG_CONFIG_HOME=home, XDG_DATA_HOME=home)


def chapter(title: str, why: str) -> None:
    """Begin a chapter."""
    console.print()
    console.rule(Text(title, style="bold magenta"), align="left", style="magenta")
    console.print(Text(why, style="dim"))


def step(title: str, why: str) -> None:
    """Begin a step."""
    steps.append(title)
    console.print()
    console.print(Text.assemble((f"{len(steps)}. {title}. ", "bold"), why))


def line(text: str, style: str = "") -> None:
    """Print one line of evidence."""
    console.print(Text(INDENT + text if text else "", style=style), soft_wrap=True)


def code(*lines: str) -> None:
    """Print code, as it was run."""
    for text in lines:
        line(text, style="cyan")


def check(holds: bool, what: str) -> None:  # noqa: FBT001  (reads as an assertion)
    """Print whether something holds, and remember if it does not."""
    mark = ("✓ ", "green") if holds else ("✗ FAILED: ", "bold red")
    console.print(Text.assemble(INDENT, mark, what), soft_wrap=True)
    if not holds:
        failures.append(what)


def first_of(headers: Iterable[Header], kind: str) -> Header:
    """Return the first header of a kind."""
    return next(header for header in headers if header.kind == kind)


def choose(database: Path, scope: str) -> None:
    """Use one scope of one ledger for the following commands."""
    code(f"$ export TREERING_DB={database} TREERING_SCOPE={scope}")
    os.environ.update(TREERING_DB=str(database), TREERING_SCOPE=scope)


def treering_command(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the ``treering`` program, and show what was typed and what it said."""
    code(f"$ {shlex.join(['treering', *words])}")
    done = run_python("-m", "treering", *words)
    for text in (done.stdout + done.stderr).splitlines():
        line(text)
    return done


def occurrences(text: str, database: Path) -> int:
    """Count ``text`` in the raw bytes of a ledger, and of its companion files.

    In another process: opening and closing the file here would drop SQLite's locks on it.
    """
    script = (
        "import pathlib, sys; print(sum(p.read_bytes().count(sys.argv[1].encode())"
        " for p in map(pathlib.Path, sys.argv[2:])))"
    )
    files = sorted(map(str, database.parent.glob(f"{database.name}*")))
    return int(run_python("-c", script, text, *files).stdout)


def run_python(*words: str) -> subprocess.CompletedProcess[str]:
    """Run this Python with some arguments."""
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "NO_COLOR": "1", "PYTHONUTF8": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
