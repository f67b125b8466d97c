"""Commands on a ledger whose pages were swapped: each says that the file is damaged, or works."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from broken.damaged_pages import NAME, SCOPE, lay_out, sound_folder, swapped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from surfaces.command_line import CommandLine

IN: Final = ("--scope", SCOPE)
COMMANDS: Final = [
    ("verify",),
    ("show", "s1", *IN),
    ("search", "thing", *IN),
    ("stats", *IN),
    ("sessions", "list", *IN),
    ("episodes", "query", *IN),
    ("doctor", *IN),
    ("tools", "list", *IN),
    ("trace", "list", *IN),
    ("context", "s1", *IN, "--max-tokens", "4000"),
    ("recall", "thing", *IN),
    ("facts", "list", *IN),
    ("episodes", "redact", *IN, "--session-id", "s2"),
    ("episodes", "gc", *IN),
    ("rebuild",),
]


@pytest.fixture(scope="module")
def sound() -> Iterator[Path]:
    with sound_folder() as folder:
        yield folder


@pytest.mark.parametrize("seed", range(6))
def test_every_command_says_that_the_file_is_damaged_and_blames_nobody_else(
    sound: Path, tmp_path: Path, cli: CommandLine, seed: int
) -> None:
    content, place = (sound / NAME).read_bytes(), tmp_path / "damaged"
    for command in COMMANDS:
        lay_out(sound, place, "", swapped(content, Random(seed)))
        outcome = cli("--db", str(place / NAME), *command)

        assert "bug in treering" not in outcome.err, command
        assert "Traceback" not in outcome.err, command
