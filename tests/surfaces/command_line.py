"""The command line in this process, on a ledger of its own."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.surfaces.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

VARIABLES: Final = ("TREERING_DB", "TREERING_EPISODES", "TREERING_TRACEBACK", "FORCE_COLOR")
SCHEMA: Final = "openclaw-mem.episodic.v0"


class Outcome(msgspec.Struct, frozen=True):
    """What one command line did."""

    status: int
    out: str
    err: str

    @property
    def receipt(self) -> dict[str, Any]:
        """Return the one JSON object that was printed."""
        value: dict[str, Any] = json.loads(self.out)
        return value

    @property
    def body(self) -> dict[str, Any]:
        """Return the receipt without what every receipt has."""
        opening = {"kind", "ts", "version", "ok"}
        return {name: value for name, value in self.receipt.items() if name not in opening}


class CommandLine:
    """Runs command lines on one ledger."""

    def __init__(
        self, database: Path, capture: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.database = database
        self._capture = capture
        self._monkeypatch = monkeypatch
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("TREERING_TZ", "UTC")
        monkeypatch.setenv("XDG_CONFIG_HOME", str(database.parent / "config"))
        monkeypatch.setenv("XDG_DATA_HOME", str(database.parent / "home"))

    def __call__(self, *arguments: str, stdin: str = "") -> Outcome:
        """Carry out ``treering --db … arguments``."""
        return self.bare("--db", str(self.database), *arguments, stdin=stdin)

    def bare(self, *arguments: str, stdin: str = "") -> Outcome:
        """Carry out ``treering arguments``, with nothing added."""
        self._monkeypatch.setattr(
            sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
        )
        self._capture.readouterr()
        status = main(arguments)
        printed = self._capture.readouterr()
        return Outcome(status, printed.out, printed.err)

    def append(self, **options: str) -> Outcome:
        """Record an event, filling in what the test is not about."""
        given = {
            "scope": "s",
            "session_id": "a",
            "agent_id": "x",
            "type": "tool.call",
            "summary": "hi",
            **options,
        }
        flags = [
            part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", value)
        ]
        return self("episodes", "append", *flags, "--json")

    def ids(self, *arguments: str) -> list[str]:
        """Return the event ids that a query or replay gives."""
        return [item["event_id"] for item in self(*arguments, "--json").receipt["items"]]
