"""Files are replaced as a whole or not at all, and locked by one at a time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from treering.files import OWNER_FILE, lock, replacing

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_replaced_by_one_that_only_its_owner_reads(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b"old")
    with replacing(path) as stream:
        stream.write(b"new")
        assert path.read_bytes() == b"old"

    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == OWNER_FILE


def write_half(path: Path) -> None:
    with replacing(path) as stream:
        stream.write(b"half")
        raise KeyboardInterrupt


def test_what_was_there_stays_after_an_error(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        write_half(path)

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["n" * 255, "é" * 127])
def test_a_file_with_the_longest_name_is_replaced(tmp_path: Path, name: str) -> None:
    with replacing(tmp_path / name) as stream:
        stream.write(b"new")

    assert (tmp_path / name).read_bytes() == b"new"


def test_a_locked_file_is_refused_until_it_is_closed(tmp_path: Path) -> None:
    first = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    second = os.open(tmp_path / "lock", os.O_RDWR)
    try:
        assert lock(first)
        assert not lock(second, patience_s=0.05)
    finally:
        os.close(first)
    try:
        assert lock(second)
    finally:
        os.close(second)
