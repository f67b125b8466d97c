"""Sealed scopes on a server: nothing is in clear, whatever is forgotten, whoever is in the way."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from builders import ELSEWHERE, HERE, called, said
from effort import PATIENCE_S
from postgres_writers import held_open, open_ledger, store_of
from threads import in_threads
from treering.errors import Busy, Corrupt
from treering.ledger import erasure
from treering.ledger.chain import SALT_BYTES
from treering.storage.postgres import batch as batch_module
from treering.storage.postgres import server
from treering.storage.postgres import writer as writer_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from postgres_places import Place
    from treering import Ledger

LARGE: Final = {"text": "a long story " * 2_000}


@pytest.fixture(autouse=True)
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every ledger of a test the same folder of keys."""
    folder = tmp_path / "keys"
    monkeypatch.setenv("TREERING_KEYS", str(folder))
    return folder


@pytest.fixture
def ledger(place: Place) -> Iterator[Ledger]:
    with open_ledger(place.url) as ledger:
        yield ledger


def in_clear(place: Place) -> set[str]:
    """Return the summaries of events whose payloads are legible in the tables."""
    found = place.sql(
        "SELECT summary FROM events WHERE payload IS NOT NULL AND length(salt) <= %s", SALT_BYTES
    )
    return {row[0] for row in found}


class Once:
    """Does something within a call, the first time that it is made."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, moment: str, work: Callable[[], Any]
    ) -> None:
        self._work = work
        self.happened = False
        when, owner, name = MOMENTS[moment]
        original = getattr(owner, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if when == "before":
                self._do()
            result = original(*arguments, **named)
            if when == "behind":
                self._do()
            return result

        monkeypatch.setattr(owner, name, call)

    def _do(self) -> None:
        if not self.happened:
            self.happened = True
            self._work()


MOMENTS: Final[dict[str, tuple[str, Any, str]]] = {
    "when the session is known": ("before", writer_module, "stored_id"),
    "when the seal is known": ("behind", writer_module.Writer, "_values"),
    "when the key of the scope is known": ("behind", writer_module.Writer, "scope_key"),
    "when the locks are held": ("behind", batch_module.Batch, "lock"),
    "when the seal is read": ("behind", batch_module.Batch, "enter"),
    "when all is committed": ("before", batch_module.Batch, "settle"),
    "when all is remembered": ("behind", batch_module.Batch, "settle"),
}
"""Steps of an append: what continues while one is made, and where it is done."""
OF_ONE: Final = ("when the session is known", "when the seal is known")
"""Those of one event in a session that is known; the others are those of a batch."""
BEFORE_THE_SEAL_IS_READ: Final = (
    *OF_ONE,
    "when the key of the scope is known",
    "when the locks are held",
)


def words(moment: str) -> list[Any]:
    """Return events to append, so that the append comes past ``moment``."""
    if moment in OF_ONE:
        return [said("within", payload={"text": "secret"})]
    return [said("within", payload={"text": "secret"}), said("within", payload=LARGE)]


@pytest.mark.parametrize("moment", MOMENTS)
def test_nothing_is_recorded_in_clear_when_all_is_forgotten_between_two_steps(
    place: Place, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    ledger.keys.create(HERE)
    ledger.append([said("before")])
    forgetting = Once(monkeypatch, moment, store_of(ledger)._cache.forget)

    ledger.append(words(moment))
    ledger.append([said("behind")])
    ledger.append([said("behind"), called(session_id="s2")])

    assert forgetting.happened
    assert in_clear(place) == set()
    assert ledger.admin.verify().intact


@pytest.mark.parametrize("moment", MOMENTS)
def test_nothing_is_recorded_in_clear_when_a_scope_is_sealed_between_two_steps(
    place: Place, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    ledger.append([said("before")])
    sealing = Once(monkeypatch, moment, partial(encrypt_elsewhere, ledger))

    ledger.append(words(moment))
    ledger.append([said("behind")])
    ledger.append([said("behind"), said("behind", session_id="s2", payload=LARGE)])

    within = set() if moment in BEFORE_THE_SEAL_IS_READ else {"within"}
    assert sealing.happened
    assert in_clear(place) == {"before"} | within
    assert ledger.admin.verify().intact


def encrypt_elsewhere(ledger: Ledger) -> None:
    """Have another thread seal HERE, and wait until it has."""
    in_threads(partial(ledger.keys.create, HERE))


def test_a_session_that_is_known_without_its_scope_s_seal_is_sealed_all_the_same(
    place: Place, ledger: Ledger
) -> None:
    ledger.keys.create(HERE)
    ledger.append([said("before")])
    known = store_of(ledger)._cache
    sessions = known.sessions
    known.forget()
    known.sessions = sessions

    ledger.append([said("secret")])

    assert in_clear(place) == set()


def test_a_scope_that_is_remembered_as_open_is_sealed_all_the_same(
    place: Place, ledger: Ledger
) -> None:
    ledger.append([said("before")])
    remembered = dict(store_of(ledger)._cache.sealed)
    ledger.keys.create(HERE)
    ledger.append([said("sealed")])

    assert remembered == {HERE: 0}
    store_of(ledger)._cache.sealed.update(remembered)
    ledger.append([said("secret")])
    store_of(ledger)._cache.sealed.update(remembered)
    ledger.append([said("secret"), said("secret", session_id="s2")])

    assert in_clear(place) == {"before"}


def test_threads_that_append_while_a_scope_is_sealed_record_nothing_in_clear_behind_that(
    place: Place, ledger: Ledger
) -> None:
    for number in range(6):
        append_while_sealing(ledger, f"acme/{number}")

    assert "later" not in in_clear(place)
    assert ledger.admin.verify().intact


def append_while_sealing(ledger: Ledger, scope: str) -> None:
    """Seal a scope that threads append to; each continues a little in the session that it knows."""
    sealed, begun = threading.Event(), threading.Barrier(4)

    def append(name: str) -> None:
        begun.wait(PATIENCE_S)
        left = 3
        while left:
            later = sealed.is_set()
            left -= later
            text = "later" if later else "at some time"
            ledger.append([said(text, scope=scope, session_id=name)])

    def seal() -> None:
        begun.wait(PATIENCE_S)
        ledger.keys.create(scope)
        sealed.set()

    in_threads(seal, *(partial(append, name) for name in "abc"))


# Destroying keys.


def test_keys_are_destroyed_although_somebody_holds_a_lock_of_his_own(
    place: Place, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LOCK_PATIENCE", "300ms")
    ledger.keys.create(HERE)
    ledger.append([said("secret")])
    with place.connect() as somebody:
        for lock in (1, 42):
            somebody.execute("SELECT pg_advisory_lock(%s)", (lock,))
        somebody.execute("SELECT pg_advisory_lock_shared(7, 7)")

        receipt = ledger.keys.destroy(HERE)

    assert (receipt.generations, receipt.redacted_count) == ([1], 1)


@pytest.mark.parametrize("others", [[], ["s2"]], ids=["one event", "a batch"])
def test_no_key_is_destroyed_while_somebody_is_sealing_under_it(
    place: Place, monkeypatch: pytest.MonkeyPatch, others: list[str]
) -> None:
    monkeypatch.setattr(server, "LOCK_PATIENCE", "300ms")
    with open_ledger(place.url) as ledger, open_ledger(place.url) as other:
        ledger.keys.create(HERE)
        ledger.append([said("before")])
        ledger.keys.rotate(HERE)
        ledger.append([said("before")])
        with held_open(ledger, *(said("secret", session_id=name) for name in ["s1", *others])):
            for generation in (None, 1):
                with pytest.raises(Busy):
                    other.keys.destroy(HERE, generation=generation)
            kept = [key.state for key in other.keys.list(HERE)]
        within = [event.payload for event in ledger.events(HERE, last=1).items]

        receipt = other.keys.destroy(HERE)

        assert kept == ["kept", "kept"]
        assert within == [{"text": "secret"}]
        assert (receipt.generations, receipt.redacted_count) == ([1, 2], 3 + len(others))
        assert other.admin.verify().intact


def test_whoever_writes_to_another_scope_keeps_no_key_from_being_destroyed(
    place: Place, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LOCK_PATIENCE", "300ms")
    with open_ledger(place.url) as other:
        for scope in (HERE, ELSEWHERE):
            other.keys.create(scope)
            other.append([said("before", scope=scope)])
        with held_open(ledger, said("secret", scope=ELSEWHERE)):
            receipt = other.keys.destroy(HERE)

    assert (receipt.generations, receipt.redacted_count) == ([1], 1)


def test_a_key_that_is_made_while_the_old_ones_are_destroyed_stays(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.keys.create(HERE)
    ledger.append([said("old")])
    redact_all = erasure.redact_all

    def redact_and_begin_anew(*arguments: Any) -> tuple[int, int]:
        redacted = redact_all(*arguments)
        ledger.keys.create(HERE)
        ledger.append([said("new", event_id="new")])
        return redacted

    monkeypatch.setattr(erasure, "redact_all", redact_and_begin_anew)

    receipt = ledger.keys.destroy(HERE)

    assert (receipt.generations, receipt.redacted_count) == ([1], 1)
    assert [key.state for key in ledger.keys.list(HERE)] == ["destroyed", "in use"]
    assert ledger.event(HERE, "new").payload == {"text": "new"}
    assert ledger.admin.verify().intact


def test_a_key_that_is_made_as_soon_as_the_old_ones_are_out_of_use_stays(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.keys.create(HERE)
    ledger.append([said("old")])
    vault = store_of(ledger).vault
    retire = vault.retire

    def retire_and_begin_anew(scope: str) -> None:
        retire(scope)
        ledger.keys.create(HERE)

    monkeypatch.setattr(vault, "retire", retire_and_begin_anew)

    receipt = ledger.keys.destroy(HERE)

    assert receipt.generations == [1]
    assert [key.state for key in ledger.keys.list(HERE)] == ["destroyed", "in use"]


def test_a_mark_that_a_role_sets_to_nothing_is_noticed_and_can_be_put_back(place: Place) -> None:
    role = place.role(None)
    with open_ledger(place.url) as ledger:
        ledger.append([said("before")])
        ledger.keys.create(HERE)
        ledger.append([said("sealed")])
    place.sql("UPDATE seals SET round = 0", role=role, stating=HERE)

    with open_ledger(place.url_of(role)) as ledger:
        with pytest.raises(Corrupt, match="was encrypted"):
            ledger.append([said("after")])
        broken = ledger.admin.verify(HERE).first_broken
        ledger.keys.create(HERE)
        ledger.append([said("put back")])

        assert broken is not None
        assert "not marked as sealed" in broken.detail
        assert ledger.admin.verify(HERE).intact
    assert in_clear(place) == {"before"}
