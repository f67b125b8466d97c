"""Take the README's pictures: one small session, exported as HTML, in light and in dark.

Run it as ``make pictures``. It records into a temporary ledger and needs Chromium (or Chrome) on
the PATH; CHROMIUM names another one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import treering

PICTURES: Final = Path(__file__).parents[1] / "docs" / "pictures"
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
THEMES: Final = {"light": 1, "dark": 0}
"""Blink's number for each preferred colour scheme."""
WIDTH, HEIGHT = 1000, 780
NINE: Final = 1_772_701_200_000
"""2026-03-05 09:00:00 UTC: pictures change only when the page does."""
SCOPE: Final = "acme/app"

TRACEBACK: Final = "sqlite3.OperationalError: no such table: tides"
PATCH: Final = {
    "file_path": "src/tides.py",
    "old_string": 'db = connect(":memory:")',
    "new_string": "db = connect(settings.database)\nmigrate(db)",
}
ANSWER: Final = """\
The app opened an empty in-memory database, so the table was never created.

1. `src/tides.py` now opens the configured database.
2. It runs the migrations before the first query.

All **42 tests** pass."""


def main() -> None:
    """Write one picture for each theme."""
    browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit("no Chromium on the PATH; install one, or set CHROMIUM to its path")
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        page = export(Path(folder))
        for theme, number in THEMES.items():
            photograph(browser, page, PICTURES / f"session-{theme}.png", scheme=number)


def export(folder: Path) -> Path:
    """Record the session into a ledger in ``folder`` and return its HTML page."""
    ledger_file, page = folder / "agents.db", folder / "session.html"
    with treering.open(str(ledger_file)) as ledger:
        record(ledger)
    options = ["--scope", SCOPE, "--format", "html", "--payloads", "included", "--out", str(page)]
    subprocess.run(
        [
            Path(sys.executable).with_name("treering"),
            "--db",
            ledger_file,
            "export",
            "fix-tides",
            *options,
        ],
        check=True,
    )
    return page


def record(ledger: treering.Ledger) -> None:
    """Record two turns: a bug that is found and mended, and a deploy that times out."""
    session = ledger.session(
        "fix-tides", scope=SCOPE, agent="lyria", user="jo", title="Fix the tide table"
    )
    session.open(ts_ms=NINE)
    seconds = 0

    def add(after: int, kind: str, summary: str, payload: object, **refs: object) -> None:
        nonlocal seconds
        seconds += after
        session.record(kind, summary, payload=payload, refs=refs, ts_ms=NINE + 1_000 * seconds)

    def call(
        call_id: str, tool: str, given: object, result: object, *, took: int, **refs: object
    ) -> None:
        same = {"call_id": call_id, "tool": tool}
        add(1, "tool.call", f"{tool} called", {"input": given}, **same)
        add(took, "tool.result", f"{tool} returned", result, **{"status": "ok", **same, **refs})

    def says(after: int, who: str, text: str) -> None:
        add(after, f"conversation.{who}", text, {"text": text})

    says(1, "user", "The tide page fails with `no such table: tides`. Why?")
    call(
        "c1",
        "Bash",
        {"command": "pytest -q tests/test_tides.py"},
        {"output": TRACEBACK},
        took=4,
        status="failed",
        error_class="ExitStatus",
    )
    call("c2", "Read", {"file_path": "src/tides.py"}, {"output": PATCH["old_string"]}, took=1)
    call("c3", "Edit", PATCH, {"output": "1 replacement"}, took=1)
    call("c4", "Bash", {"command": "pytest -q"}, {"output": "42 passed in 3.10s"}, took=6)
    says(3, "assistant", ANSWER)
    says(60, "user", "Deploy it to staging.")
    call(
        "c5", "Deploy", {"host": "staging-1"}, None, took=30, status="failed", error_class="Timeout"
    )
    says(
        2, "assistant", "The deploy timed out after 30 seconds. Nothing was changed on `staging-1`."
    )


def photograph(browser: str, page: Path, picture: Path, *, scheme: int) -> None:
    """Write ``page`` as the browser shows it to ``picture``."""
    subprocess.run(
        [
            browser,
            *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            f"--window-size={WIDTH},{HEIGHT}",
            f"--blink-settings=preferredColorScheme={scheme}",
            f"--screenshot={picture}",
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    print(f"{picture.relative_to(PICTURES.parents[1])}: {picture.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
