"""A ledger notices that the key which hides its ids is gone, or another one.

Without that, logs would be recorded twice, and what was erased could come back, in silence.
"""

from __future__ import annotations

from contextlib import ExitStack
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pytest

import treering
from builders import HERE
from capture.intake_logs import EVERYWHERE, every_event, write
from formats.logs import codex
from treering import NewEvent
from treering.errors import KeyMissing
from treering.ledger.records import mark_of_key
from treering.storage.keys import KeyFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from postgres_server import Places
    from treering import Ledger

DAY_MS: Final = 86_400_000
OLD_MS: Final = 1_700_000_000_000


@pytest.fixture(params=["file", "postgres"])
def reopened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Ledger]]:
    """Return what opens the same ledger again and again, each time as another process would."""
    if request.param == "postgres":
        places: Places = request.getfixturevalue("postgres")
        location = places.fresh()
    else:
        location = str(tmp_path / "agents.db")
    with ExitStack() as stack:

        def open_again() -> Ledger:
            return stack.enter_context(treering.open(location, keys=tmp_path / "keys"))

        yield open_again


def ordered(event_id: str | None, summary: str = "ordered", **fields: Any) -> NewEvent:
    stated = {"scope": HERE, "session_id": "orders", "kind": "conversation.user",
              "agent_id": "lyria", "ts_ms": OLD_MS, **fields}  # fmt: skip
    return NewEvent(**stated, summary=summary, event_id=event_id)


def expire(ledger: Ledger) -> int:
    return ledger.expire(
        HERE, policy={"conversation.user": 1}, now_ms=OLD_MS + 9 * DAY_MS
    ).deleted_total


def swap_key(folder: Path) -> None:
    (folder / "ids.secret").write_text("ab" * 32)


def remove_key(folder: Path) -> None:
    (folder / "ids.secret").unlink()


@pytest.mark.parametrize("lose", [swap_key, remove_key])
def test_an_import_under_another_key_is_refused_instead_of_doubling(
    reopened: Callable[[], Ledger], tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    log = write(tmp_path / "logs" / "rollout.jsonl", [codex.opened(), *codex.turn("Hi", "Hello")])
    treering.import_logs(reopened(), [log], scope=EVERYWHERE)
    told = len(every_event(reopened()))
    lose(tmp_path / "keys")
    ledger = reopened()

    with pytest.raises(KeyMissing, match=r"ids\.secret"):
        treering.import_logs(ledger, [log], scope=EVERYWHERE, again=True)

    assert len(every_event(ledger)) == told
    assert not ledger.keys.fits_id_key(EVERYWHERE)
    ledger.keys.accept_id_key(EVERYWHERE)
    assert reopened().keys.fits_id_key(EVERYWHERE)
    assert treering.import_logs(reopened(), [log], scope=EVERYWHERE).events > 0


@pytest.mark.parametrize("lose", [swap_key, remove_key])
def test_an_id_that_was_erased_does_not_come_back_under_another_key(
    reopened: Callable[[], Ledger], tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    first = reopened()
    first.append([ordered("order-1")])
    assert expire(first) == 1
    lose(tmp_path / "keys")
    ledger = reopened()

    for together in (1, 9):
        with pytest.raises(KeyMissing):
            ledger.append([ordered("order-1" if n == 0 else f"new-{n}") for n in range(together)])
    with pytest.raises(KeyMissing):
        ledger.find_ids(HERE, ["order-1"])

    # Ids that nobody can guess need no key.
    ledger.append([ordered(None), ordered(str(uuid4()))])
    ledger.append([ordered(f"order-{n}", scope="elsewhere") for n in range(2)])
    ledger.append([ordered("late", scope="elsewhere")])
    assert len(ledger.events(HERE, kinds=["conversation.user"]).items) == 2
    assert ledger.admin.verify().intact


def test_what_is_erased_is_hidden_under_one_key_only(
    reopened: Callable[[], Ledger], tmp_path: Path
) -> None:
    first = reopened()
    first.append([ordered("order-1")])
    expire(first)
    first.append([ordered("order-2")])
    swap_key(tmp_path / "keys")
    ledger = reopened()
    ledger.append([ordered(None)])

    with pytest.raises(KeyMissing):
        expire(ledger)

    assert len(ledger.events(HERE, kinds=["conversation.user"]).items) == 2
    assert ledger.admin.verify().intact


def test_a_copy_notices_that_the_key_was_left_behind(
    reopened: Callable[[], Ledger], tmp_path: Path
) -> None:
    first = reopened()
    first.append([ordered("order-1"), ordered(None)])
    expire(first)
    with treering.open(tmp_path / "copy.db", keys=tmp_path / "keys") as copied:
        first.admin.copy_to(copied)
        copied.append([ordered("order-1")])
        assert copied.events(HERE, kinds=["conversation.user"]).items == []

    with treering.open(tmp_path / "copy.db", keys=tmp_path / "elsewhere") as moved:
        assert not moved.keys.fits_id_key(HERE)
        with pytest.raises(KeyMissing):
            moved.append([ordered("order-1")])
        assert moved.admin.verify().intact


def test_a_restored_export_notices_that_the_key_was_left_behind(
    reopened: Callable[[], Ledger], tmp_path: Path
) -> None:
    first = reopened()
    first.append([ordered("order-1"), ordered(None)])
    expire(first)
    file = BytesIO()
    first.admin.export(HERE, file, payloads="included")
    file.seek(0)
    with treering.open(tmp_path / "restored.db", keys=tmp_path / "elsewhere") as moved:
        assert moved.admin.restore(file).complete

        assert not moved.keys.fits_id_key(HERE)
        with pytest.raises(KeyMissing):
            moved.append([ordered("order-1")])
        assert moved.admin.verify().intact


def test_an_export_is_not_restored_beside_ids_that_another_key_hides(
    reopened: Callable[[], Ledger], tmp_path: Path
) -> None:
    first = reopened()
    first.append([ordered("order-1")])
    expire(first)
    file = BytesIO()
    first.admin.export(HERE, file, payloads="included")
    file.seek(0)
    with treering.open(tmp_path / "other.db", keys=tmp_path / "elsewhere") as other:
        other.append([ordered("order-2", session_id="others")])
        expire(other)

        receipt = other.admin.restore(file)

    assert receipt.imported == 0
    assert "different keys" in receipt.errors_sample[0].reason


def test_a_key_that_another_makes_while_it_is_looked_for_is_found(tmp_path: Path) -> None:
    here, there = (KeyFolder(lambda: tmp_path, lambda: "the ledger") for _ in range(2))

    key = here.find_id_key(HERE, lambda _: mark_of_key(there.id_key()), "id-key:made")

    assert key == there.id_key()
