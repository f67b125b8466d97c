"""``treering view`` as a process: where it opens, and that it opens nothing unasked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import HERE, said
from effort import PATIENCE_S
from served import PROGRAM, Caller

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Return a ledger with two sessions whose ids begin alike, in two scopes."""
    path = tmp_path / "ledger.db"
    with treering.open(path) as ledger:
        ledger.append([said(session_id="abcdef01-one"), said(session_id="abcdef02-two")])
        ledger.append([said(session_id="abcdef02-two", scope="acme/other")])
    return path


def viewed(database: Path, *arguments: str) -> dict[str, Any]:
    """Start it, return what it says at its start, and end it."""
    command = [PROGRAM, "--db", str(database), "view", "--no-open", "--json", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stdout is not None
    said: dict[str, Any] = json.loads(process.stdout.readline())
    if said["ok"]:
        with Caller(said["url"].partition("#")[0], said["token"]) as caller:
            said["page"] = caller.get(said["url"].partition("#")[0].partition(str(said["port"]))[2])
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    said["status"] = process.returncode
    return said


def test_it_serves_the_page_of_a_session_by_its_short_id(database: Path) -> None:
    said = viewed(database, "abcdef01")

    assert said["url"].endswith(
        f":{said['port']}/sessions/abcdef01-one?scope=acme%2Fapp#token={said['token']}"
    )
    assert said["page"].status == 200
    assert b"<h1" in said["page"].body
    assert said["status"] == 0


def test_a_session_of_two_scopes_needs_the_scope(database: Path) -> None:
    refused = viewed(database, "abcdef02")
    found = viewed(database, "abcdef02", "--scope", HERE)

    assert refused["error"] == "2 scopes have a session abcdef02"
    assert "--scope" in refused["hint"]
    assert f"scope={HERE.replace('/', '%2F')}" in found["url"]


def test_without_a_ledger_it_says_so_and_makes_none(tmp_path: Path) -> None:
    said = viewed(tmp_path / "none.db")

    assert said["code"] == "not_found"
    assert not (tmp_path / "none.db").exists()
