"""The folder of keys: what its files hold, who may read them, and what becomes of old ones."""

from __future__ import annotations

import json
import os
import stat
import sys
from typing import TYPE_CHECKING, Any

import pytest

from concurrency.processes import colleagues
from treering.errors import Corrupt, KeyMissing, StorageError, Unsupported
from treering.storage.keys import KeyFolder
from treering.storage.sealing import Opener, generation_of, seal_blob, seal_content

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

LEDGER = "01a1df21-e243-7225-9b46-79cf9e231d5e"
SCOPE = "acme/app"
EVENT = bytes(range(16))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "keys"


@pytest.fixture
def vault(folder: Path) -> KeyFolder:
    return vault_of(folder)


def vault_of(folder: Path, ledger: str = LEDGER) -> KeyFolder:
    return KeyFolder(lambda: folder, lambda: ledger)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != "lock")


def written(folder: Path) -> dict[str, Any]:
    (path,) = files(folder)
    content: dict[str, Any] = json.loads(path.read_bytes())
    return content


def material(folder: Path) -> list[str | None]:
    return [one["key"] for one in written(folder)["generations"]]


def test_a_file_says_whose_keys_it_holds_and_is_named_by_a_hash(
    vault: KeyFolder, folder: Path
) -> None:
    vault.create("ac:me/ä", at_ms=5)
    vault.confirm("ac:me/ä")

    (path,) = files(folder)
    content = written(folder)
    assert path.stem.isalnum()
    assert path.stem.isascii()
    assert (content["format"], content["ledger"]) == ("treering.keys.v1", LEDGER)
    assert (content["scope"], content["in_use"]) == ("ac:me/ä", 1)
    (made,) = content["generations"]
    assert len(bytes.fromhex(made.pop("key"))) == 32
    assert made == {"generation": 1, "created_ms": 5, "destroyed_ms": None}


def test_files_and_folder_are_their_owners_alone(vault: KeyFolder, folder: Path) -> None:
    vault.create(SCOPE, at_ms=1)
    vault.rotate(SCOPE, at_ms=2)

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_making_a_key_that_is_there_makes_none(vault: KeyFolder, folder: Path) -> None:
    first = vault.create(SCOPE, at_ms=1)
    before = written(folder)

    assert vault.create(SCOPE, at_ms=2) == first == 1
    assert written(folder) == before


def test_generations_count_on_and_none_comes_again(vault: KeyFolder) -> None:
    vault.create(SCOPE, at_ms=1)
    vault.rotate(SCOPE, at_ms=2)
    vault.destroy(SCOPE, [1, 2], at_ms=3)

    assert vault.create(SCOPE, at_ms=4) == 3
    assert [(r.generation, r.destroyed_ms, r.in_use) for r in vault.records(SCOPE)] == [
        (1, 3, False),
        (2, 3, False),
        (3, None, True),
    ]


def test_two_ledgers_with_a_scope_of_the_same_name_have_keys_of_their_own(folder: Path) -> None:
    here, there = vault_of(folder), vault_of(folder, "another")
    here.create(SCOPE, at_ms=1)
    there.create(SCOPE, at_ms=1)

    here.destroy(SCOPE, [1], at_ms=2)

    assert here.find(SCOPE, 1) is None
    assert there.find(SCOPE, 1) is not None


def test_a_destroyed_key_is_in_no_file_and_in_no_file_that_was(
    vault: KeyFolder, folder: Path
) -> None:
    vault.create(SCOPE, at_ms=1)
    vault.rotate(SCOPE, at_ms=2)
    doomed, kept = material(folder)
    (path,) = files(folder)
    # Another name for the same bytes, to see what becomes of them.
    watch = folder.parent / "watch"
    os.link(path, watch)

    assert vault.destroy(SCOPE, [1], at_ms=3) == [1]

    assert material(folder) == [None, kept]
    assert all(str(doomed).encode() not in file.read_bytes() for file in files(folder))
    assert watch.read_bytes().strip(b"\0") == b""
    assert vault.destroy(SCOPE, [1], at_ms=4) == []


def test_rotating_leaves_a_copy_by_a_second_link_alone(vault: KeyFolder, folder: Path) -> None:
    vault.create(SCOPE, at_ms=1)
    (path,) = files(folder)
    backup = folder.parent / "backup"
    os.link(path, backup)
    before = backup.read_bytes()

    vault.rotate(SCOPE, at_ms=2)

    assert backup.read_bytes() == before


def test_what_was_left_by_somebody_who_was_stopped_is_wiped(vault: KeyFolder, folder: Path) -> None:
    vault.create(SCOPE, at_ms=1)
    (path,) = files(folder)
    draft = path.with_suffix(".draft")
    draft.write_bytes(path.read_bytes())
    watch = folder.parent / "watch"
    os.link(draft, watch)

    vault.destroy(SCOPE, [1], at_ms=2)

    assert files(folder) == [path]
    assert watch.read_bytes().strip(b"\0") == b""


def test_a_full_disk_leaves_the_old_file_whole(
    vault: KeyFolder, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault.create(SCOPE, at_ms=1)
    before = written(folder)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StorageError, match="No space left") as refused:
        vault.rotate(SCOPE, at_ms=2)
    monkeypatch.undo()

    assert refused.value.hint
    (path,) = (path for path in files(folder) if path.suffix == ".key")
    assert json.loads(path.read_bytes()) == before
    assert vault.rotate(SCOPE, at_ms=3) == 2
    assert files(folder) == [path]


def test_what_another_process_changes_is_noticed(vault: KeyFolder, folder: Path) -> None:
    other = vault_of(folder)
    vault.create(SCOPE, at_ms=1)
    first = other.in_use(SCOPE)

    vault.rotate(SCOPE, at_ms=2)
    assert (first.generation, other.in_use(SCOPE).generation) == (1, 2)
    vault.destroy(SCOPE, [1], at_ms=3)
    assert other.find(SCOPE, 1) is None
    vault.retire(SCOPE)
    with pytest.raises(KeyMissing, match="no key of scope acme/app is in use"):
        other.in_use(SCOPE)
    assert other.find(SCOPE, 2) is not None


def test_a_key_that_is_not_here_is_missing(vault: KeyFolder, folder: Path) -> None:
    with pytest.raises(KeyMissing, match="is not in") as missing:
        vault.in_use(SCOPE)
    with pytest.raises(KeyMissing):
        vault.rotate(SCOPE, at_ms=1)
    with pytest.raises(KeyMissing):
        vault.retire(SCOPE)
    vault.create(SCOPE, at_ms=1)
    with pytest.raises(KeyMissing, match="generation 2"):
        vault.find(SCOPE, 2)

    assert "TREERING_KEYS" in (missing.value.hint or "")
    assert not vault.seals("other")
    assert vault.seals(SCOPE)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 300, b"{}", b'{"format":"treering.keys.v9"}', None],
    ids=["empty", "overwritten", "foreign", "newer", "of another scope"],
)
def test_a_file_that_holds_no_keys_of_the_scope_is_refused(
    vault: KeyFolder, folder: Path, content: bytes | None
) -> None:
    vault.create(SCOPE, at_ms=1)
    (path,) = files(folder)
    path.write_bytes(path.read_bytes().replace(b"acme", b"acmf") if content is None else content)

    with pytest.raises(KeyMissing, match="does not hold the keys of scope acme/app"):
        vault.in_use(SCOPE)
    with pytest.raises(KeyMissing):
        vault.create(SCOPE, at_ms=2)


def test_without_the_package_it_says_what_to_install(
    vault: KeyFolder, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)

    with pytest.raises(Unsupported, match="cryptography") as refused:
        vault.create(SCOPE, at_ms=1)

    assert refused.value.hint == "install it: pip install 'treering[encryption]'"
    assert not folder.exists()


def test_processes_that_change_keys_at_once_lose_none_of_them(
    vault: KeyFolder, folder: Path
) -> None:
    vault.create(SCOPE, at_ms=1)
    with colleagues(3, _rotate, folder, 20) as others:
        made = [number for other in others for number in other.hear()]

    assert sorted(made) == list(range(2, 62))
    assert len({key for key in material(folder) if key}) == 61


def _rotate(pipe: Connection, folder: Path, count: int, _: int) -> None:
    vault = vault_of(folder)
    pipe.send([vault.rotate(SCOPE, at_ms=1) for _ in range(count)])


# What is sealed.


def test_what_is_sealed_opens_again_and_says_its_generation(vault: KeyFolder) -> None:
    vault.create(SCOPE, at_ms=1)
    vault.rotate(SCOPE, at_ms=2)
    salt, content = bytes(16), b'{"text":"hello"}'

    box = seal_content(vault.in_use(SCOPE), SCOPE, EVENT, salt, content)

    assert (box[0], generation_of(box)) == (1, 2)
    assert len(box) == 1 + 4 + 12 + len(salt) + len(content) + 16
    assert content not in box
    assert Opener(vault).content(SCOPE, EVENT, box) == (salt, content)
    assert box != seal_content(vault.in_use(SCOPE), SCOPE, EVENT, salt, content)


@pytest.mark.parametrize("at", [0, 5, 17, 40, -1])
def test_a_changed_byte_is_noticed(vault: KeyFolder, at: int) -> None:
    vault.create(SCOPE, at_ms=1)
    box = bytearray(seal_content(vault.in_use(SCOPE), SCOPE, EVENT, bytes(16), b'"hello"'))
    box[at] ^= 1

    with pytest.raises(Corrupt):
        Opener(vault).content(SCOPE, EVENT, bytes(box))


def test_what_is_sealed_opens_nowhere_else(vault: KeyFolder) -> None:
    vault.create(SCOPE, at_ms=1)
    vault.create("other", at_ms=1)
    key, opener = vault.in_use(SCOPE), Opener(vault)
    box = seal_content(key, SCOPE, EVENT, bytes(16), b'"hello"')

    for scope, event in ((SCOPE, bytes(16)), ("other", EVENT)):
        with pytest.raises(Corrupt):
            opener.content(scope, event, box)
    with pytest.raises(Corrupt):
        opener.blob(SCOPE, key.digest(b"x"), seal_blob(key, SCOPE, key.digest(b"y"), b"body"))


def test_equal_payloads_cannot_be_told_without_the_key(vault: KeyFolder) -> None:
    vault.create(SCOPE, at_ms=1)
    first = vault.in_use(SCOPE).digest(b"a large payload")
    vault.rotate(SCOPE, at_ms=2)

    assert vault.in_use(SCOPE).digest(b"a large payload") != first
