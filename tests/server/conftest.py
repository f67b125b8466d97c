"""Ledgers and servers that the tests of the server ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from served import InProcess, ServerProcess
from treering.surfaces.server.grants import TokenFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from treering import Ledger


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    """Return an empty file of tokens."""
    return TokenFile(tmp_path / "tokens.json")


@pytest.fixture
def server(ledger: Ledger, file: TokenFile) -> InProcess:
    """Return an application over an empty ledger."""
    return InProcess(ledger, file=file)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Return where the ledger of a process is."""
    return tmp_path / "served.db"


@pytest.fixture
def process(database: Path) -> Iterator[ServerProcess]:
    """Return a real server over an empty ledger."""
    with ServerProcess(database) as process:
        yield process
