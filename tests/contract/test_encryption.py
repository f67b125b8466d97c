"""What every database promises about sealed payloads and the keys that open them."""

from __future__ import annotations

import contextlib
import io
import json
import re
import threading
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from builders import DAY, ELSEWHERE, HERE, NOON, called, run_of, said
from effort import PATIENCE_S, rounds
from treering.errors import Corrupt, DuplicateEvent, InvalidInput, KeyMissing, NotFound
from treering.model.codec import PAYLOAD_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from treering import Event, Ledger

LARGE: Final = {"text": "a long story " * 2_000}
REDACTED: Final = "[REDACTED]"


@pytest.fixture(autouse=True)
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every ledger of a test the same folder of keys."""
    folder = tmp_path / "keys"
    monkeypatch.setenv("TREERING_KEYS", str(folder))
    return folder


@pytest.fixture
def sealed(open_ledger: Callable[[], Ledger]) -> Ledger:
    """Return a ledger whose scope HERE is encrypted."""
    ledger = open_ledger()
    ledger.keys.create(HERE)
    return ledger


def payloads(ledger: Ledger, scope: str = HERE) -> list[Any]:
    return [event.payload for event in followed(ledger, scope)]


def followed(ledger: Ledger, scope: str = HERE) -> list[Event]:
    return list(ledger.follow_events(scope, idle_s=0))


def exported(ledger: Ledger, **options: str) -> bytes:
    stream = io.BytesIO()
    ledger.admin.export(HERE, stream, **({"payloads": "included"} | options))  # type: ignore[arg-type]
    return stream.getvalue()


def listed(ledger: Ledger) -> list[tuple[int, str, int]]:
    return [(key.generation, key.state, key.payloads) for key in ledger.keys.list(HERE)]


def key_file(keys: Path) -> Path:
    (found,) = keys.glob("*.key")
    return found


def swap_keys(keys: Path) -> None:
    """Put another key in the place of each, as if it had been made elsewhere."""
    content = json.loads(key_file(keys).read_bytes())
    for generation in content["generations"]:
        generation["key"] = "ab" * 32
    key_file(keys).write_text(json.dumps(content))


def lose_keys(keys: Path) -> None:
    key_file(keys).rename(keys.parent / "elsewhere")


def find_keys(keys: Path, name: Path) -> None:
    (keys.parent / "elsewhere").rename(name)


# Everything reads as before.


def test_every_way_of_reading_gives_what_was_recorded(sealed: Ledger) -> None:
    events = [
        said("first", ts_ms=NOON, event_id="mine"),
        *run_of("r1", "a", "b", ts_ms=NOON + 1),
        said("none", payload=None),
        said("large", payload=LARGE, event_id="large"),
    ]
    headers = sealed.append(events)
    stated = [event.payload for event in events]

    session = sealed.session("s1", scope=HERE, agent="lyria")
    assert payloads(sealed) == stated
    assert [event.payload for event in session.events()] == stated
    assert [event.payload for event in session.events(last=2)] == stated[-2:]
    assert [event.payload for event in sealed.events(HERE, last=7).items] == stated
    assert sealed.event(HERE, "mine").payload == {"text": "first"}
    assert sealed.event(HERE, "large").payload == LARGE
    assert [header.payload_bytes for header in headers] == [
        0 if payload is None else len(json.dumps(payload, separators=(",", ":")))
        for payload in stated
    ]
    assert [header.link for header in session.headers()] == [header.link for header in headers]


def test_a_committed_run_is_followed_with_its_payloads(sealed: Ledger) -> None:
    sealed.append(run_of("r1", "a"))

    delivered = sealed.follow_events(HERE, committed=True, idle_s=0)

    assert [event.payload for event in delivered] == [
        {"text": text} for text in ("run started", "a", "run over")
    ]


def test_what_is_sealed_proves_itself(sealed: Ledger) -> None:
    sealed.append([said("a"), said("b", payload=LARGE), called(session_id="s2")])
    sealed.redact(HERE, session_id="s2")

    proof = sealed.admin.verify()

    assert proof.intact, proof.first_broken
    assert (proof.events, proof.redacted, proof.sealed) == (4, 1, 0)


def test_only_what_comes_later_and_only_the_scope_is_sealed(ledger: Ledger) -> None:
    ledger.append([said("before")])
    ledger.keys.create(HERE)
    ledger.append([said("after"), said("elsewhere", scope=ELSEWHERE)])

    assert listed(ledger) == [(1, "in use", 1)]
    assert [key.scope for key in ledger.keys.list()] == [HERE]
    assert payloads(ledger) == [{"text": "before"}, {"text": "after"}]
    assert payloads(ledger, ELSEWHERE) == [{"text": "elsewhere"}]
    assert ledger.admin.verify().intact


def test_encrypting_twice_is_once(sealed: Ledger) -> None:
    again = sealed.keys.create(HERE)

    assert (again.generation, again.created) == (1, False)
    assert listed(sealed) == [(1, "in use", 0)]


def test_a_retry_is_the_first_and_another_event_is_refused(sealed: Ledger) -> None:
    first = sealed.append([said("hello", event_id="e1"), said("x", payload=LARGE, event_id="e2")])

    again = sealed.append([said("hello", event_id="e1"), said("x", payload=LARGE, event_id="e2")])

    assert again == first
    with pytest.raises(DuplicateEvent):
        sealed.append([said("hello", event_id="e1", payload={"text": "other"})])
    with pytest.raises(DuplicateEvent):
        sealed.append_new(said("hello", event_id="e1"))


def test_an_export_comes_back_and_is_sealed_again_where_the_scope_is(
    sealed: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    sealed.append([said("a"), said("large", payload=LARGE), called(ts_ms=NOON), said("gone")])
    sealed.redact(HERE, event_id=followed(sealed)[3].event_id)
    sealed.expire(HERE, now_ms=NOON + 45 * DAY)
    plain, again = open_ledger(), open_ledger()
    again.keys.create(HERE)

    receipts = [target.admin.restore(io.BytesIO(exported(sealed))) for target in (plain, again)]

    assert [receipt.complete for receipt in receipts] == [True, True]
    assert payloads(plain) == payloads(again) == payloads(sealed)
    assert exported(plain).split(b"\n")[1:] == exported(again).split(b"\n")[1:]
    assert (listed(plain), listed(again)) == ([], [(1, "in use", 2)])
    assert plain.admin.verify() == again.admin.verify() == sealed.admin.verify()


def test_a_large_payload_is_kept_once_for_each_generation(sealed: Ledger) -> None:
    sealed.append([said("a", payload=LARGE, event_id="a"), said("b", payload=LARGE)])
    sealed.keys.rotate(HERE)
    sealed.append([said("c", payload=LARGE)])

    receipt = sealed.redact(HERE, event_id="a")

    assert (receipt.blobs_erased, receipt.blobs_shared) == (0, 1)
    assert payloads(sealed)[1:3] == [LARGE, LARGE]
    assert listed(sealed) == [(1, "kept", 1), (2, "in use", 1)]


# Rotation.


def test_rotating_seals_what_comes_later_under_the_next_key(sealed: Ledger) -> None:
    sealed.append([said("old")])

    receipt = sealed.keys.rotate(HERE)
    sealed.append([said("new"), said("newer")])

    assert (receipt.generation, receipt.created) == (2, True)
    assert listed(sealed) == [(1, "kept", 1), (2, "in use", 2)]
    assert payloads(sealed) == [{"text": text} for text in ("old", "new", "newer")]
    assert sealed.admin.verify().intact


def test_an_old_key_goes_when_nothing_is_sealed_under_it(sealed: Ledger) -> None:
    old = sealed.append([said("old", payload=LARGE)])[0]
    sealed.keys.rotate(HERE)
    sealed.append([said("new")])

    with pytest.raises(InvalidInput, match="1 payload sealed under generation 1"):
        sealed.keys.destroy(HERE, generation=1)
    sealed.redact(HERE, event_id=old.event_id)
    receipt = sealed.keys.destroy(HERE, generation=1)

    assert (receipt.generations, receipt.redacted_count) == ([1], 0)
    assert listed(sealed) == [(1, "destroyed", 0), (2, "in use", 1)]
    assert payloads(sealed)[:2] == [REDACTED, {"text": "new"}]
    assert sealed.keys.destroy(HERE, generation=1).generations == []


def test_the_key_in_use_and_an_unknown_one_are_not_destroyed_alone(sealed: Ledger) -> None:
    with pytest.raises(InvalidInput, match="generation 1 of scope acme/app is in use"):
        sealed.keys.destroy(HERE, generation=1)
    with pytest.raises(NotFound, match="no generation 7"):
        sealed.keys.destroy(HERE, generation=7)

    assert listed(sealed) == [(1, "in use", 0)]


def test_a_key_that_is_rotated_under_writers_loses_nothing(sealed: Ledger) -> None:
    stop = threading.Event()
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            at = 0
            while not stop.is_set():
                at += 1
                sealed.append([said(f"{number}-{at}", session_id=f"s{number}")])
        except BaseException as error:  # noqa: BLE001  (asserted below)
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for generation in range(1, 1 + rounds(2)):
        sealed.keys.rotate(HERE)
        destroyed: list[int] = []
        while not destroyed:
            for number in range(3):
                sealed.redact(HERE, session_id=f"s{number}")
            # Refused as long as a writer that had the old key at hand was not done.
            with contextlib.suppress(InvalidInput):
                destroyed = sealed.keys.destroy(HERE, generation=generation).generations
    stop.set()
    for thread in threads:
        thread.join(PATIENCE_S)

    assert failures == []
    assert sealed.admin.verify().intact
    assert sealed.admin.verify().sealed == 0


# Destruction.


def test_destroying_the_keys_redacts_the_scope_first(sealed: Ledger) -> None:
    sealed.append([said("a"), said("b", session_id="s2", payload=LARGE), said("c", payload=None)])
    sealed.append([said("other", scope=ELSEWHERE)])
    sealed.keys.rotate(HERE)

    receipt = sealed.keys.destroy(HERE)

    assert (receipt.generations, receipt.redacted_count) == ([1, 2], 3)
    assert (receipt.blobs_erased, receipt.physical) == (1, "done")
    assert listed(sealed) == [(1, "destroyed", 0), (2, "destroyed", 0)]
    assert {
        event.summary for event in followed(sealed) if not event.kind.startswith("ledger.")
    } == {REDACTED}
    assert payloads(sealed, ELSEWHERE) == [{"text": "other"}]
    proof = sealed.admin.verify()
    assert (proof.intact, proof.redacted, proof.sealed) == (True, 3, 0)


def test_a_scope_whose_keys_were_destroyed_takes_payloads_under_the_next(sealed: Ledger) -> None:
    sealed.append([said("old")])
    sealed.keys.destroy(HERE)

    with pytest.raises(KeyMissing, match="no key of scope acme/app is in use"):
        sealed.append([said("too late")])
    sealed.append([said("no payload", payload=None)])
    again = sealed.keys.create(HERE)
    sealed.append([said("new")])

    assert (again.generation, again.created) == (2, True)
    assert payloads(sealed)[-1] == {"text": "new"}
    assert sealed.admin.verify().intact


def test_a_scope_without_a_key_is_left_alone(ledger: Ledger) -> None:
    ledger.append([said("a")])

    with pytest.raises(NotFound, match="scope acme/app has no key"):
        ledger.keys.destroy(HERE)
    with pytest.raises(NotFound):
        ledger.keys.rotate(HERE)

    assert payloads(ledger) == [{"text": "a"}]
    assert ledger.keys.list() == []


def test_what_vouches_for_erasures_is_read_without_a_key(sealed: Ledger, keys: Path) -> None:
    events = [said(ts_ms=NOON), called(ts_ms=NOON)] * 1_000
    sealed.append(events)
    # So many stretches that what vouches for them is spilled.
    sealed.expire(HERE, now_ms=NOON + 45 * DAY)
    sealed.keys.destroy(HERE)
    lose_keys(keys)

    proof = sealed.admin.verify()

    assert proof.intact, proof.first_broken
    assert (proof.expired, proof.redacted, proof.sealed) == (1_000, 1_000, 0)
    vouching = [event for event in followed(sealed) if event.kind.startswith("ledger.")]
    assert max(event.payload_bytes for event in vouching) > PAYLOAD_BYTES_MAX
    assert sum(event.payload["count"] for event in vouching) == 2_000


# Keys that are not there, or are others.


def test_without_the_key_headers_are_read_and_payloads_are_not(sealed: Ledger, keys: Path) -> None:
    sealed.append([said("a", event_id="e1"), said("large", payload=LARGE, event_id="e2")])
    name = key_file(keys)
    lose_keys(keys)

    assert [header.summary for header in sealed.headers(HERE).items] == [
        "user message, 1 character",
        "large",
    ]
    for read in (
        lambda: sealed.event(HERE, "e1"),
        lambda: sealed.event(HERE, "e2"),
        lambda: sealed.events(HERE),
        lambda: followed(sealed),
        lambda: sealed.append([said("b")]),
        lambda: sealed.append([said("a", event_id="e1")]),
        lambda: exported(sealed),
        lambda: sealed.keys.create(HERE),
        lambda: sealed.keys.rotate(HERE),
        lambda: sealed.keys.destroy(HERE),
    ):
        with pytest.raises(KeyMissing) as missing:
            read()
        assert missing.value.hint
    assert listed(sealed) == [(1, "missing", 2)]
    find_keys(keys, name)
    assert payloads(sealed) == [{"text": "a"}, LARGE]


def test_without_the_key_the_chain_is_proved_and_payloads_are_counted(
    sealed: Ledger, keys: Path
) -> None:
    sealed.append([said("a"), said("large", payload=LARGE), said("none", payload=None)])
    lose_keys(keys)

    proof = sealed.admin.verify()

    assert proof.intact, proof.first_broken
    assert (proof.events, proof.sealed) == (3, 2)
    assert len(exported(sealed, payloads="withheld").splitlines()) == 6


def test_a_damaged_key_file_is_a_missing_key_and_not_a_damaged_ledger(
    sealed: Ledger, keys: Path
) -> None:
    sealed.append([said("a")])
    (file,) = keys.glob("*.key")
    file.write_bytes(b"0" * 300)

    with pytest.raises(KeyMissing, match="does not hold the keys of scope acme/app"):
        sealed.append([said("b", session_id="s2")])
    proof = sealed.admin.verify()

    assert (proof.intact, proof.events, proof.sealed) == (True, 1, 1)


def test_nothing_is_sealed_under_another_key_of_the_same_generation(
    sealed: Ledger, keys: Path
) -> None:
    sealed.append([said("a")])
    (file,) = keys.glob("*.key")
    right = file.read_bytes()
    file.write_bytes(re.sub(rb'"key":"[0-9a-f]{8}', b'"key":"00000000', right))

    for session in ("s2", "s2", "s3"):
        with pytest.raises(KeyMissing, match="another one than that which sealed"):
            sealed.append([said("b", session_id=session)])

    file.write_bytes(right)
    sealed.append([said("c", session_id="s2")])
    assert payloads(sealed) == [{"text": "a"}, {"text": "c"}]
    assert sealed.admin.verify().intact


def test_a_writer_without_the_key_records_nothing_in_plain_text(sealed: Ledger, keys: Path) -> None:
    lose_keys(keys)

    with pytest.raises(KeyMissing):
        sealed.append([said("a", payload=None), said("b")])

    assert sealed.headers(HERE).items == []
    assert listed(sealed) == [(0, "missing", 0)]


def test_one_callers_missing_key_touches_no_other(sealed: Ledger, keys: Path) -> None:
    lose_keys(keys)
    outcomes: dict[int, object] = {}

    def write(number: int) -> None:
        scope = HERE if number % 2 else ELSEWHERE
        try:
            outcomes[number] = sealed.append([said(scope=scope, session_id=f"s{number}")])[0].seq
        except KeyMissing as error:
            outcomes[number] = error.code

    threads = [threading.Thread(target=write, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)

    assert outcomes == {number: "key_missing" if number % 2 else 1 for number in range(10)}


@pytest.mark.parametrize("payload", [{"text": "a"}, LARGE], ids=["inline", "large"])
def test_another_key_is_not_taken_for_the_right_one(
    sealed: Ledger, keys: Path, payload: Any
) -> None:
    sealed.append([said("fine", payload=None), said("a", payload=payload, event_id="e1")])
    swap_keys(keys)

    with pytest.raises(Corrupt):
        sealed.event(HERE, "e1")
    with pytest.raises(Corrupt):
        exported(sealed)
    broken = sealed.admin.verify().first_broken
    assert broken is not None
    assert (broken.seq, broken.event_id, broken.fault) == (2, "e1", "content")
    assert "sealed" in broken.detail


def test_two_ledgers_do_not_share_keys(open_ledger: Callable[[], Ledger]) -> None:
    here, there = open_ledger(), open_ledger()
    for ledger in (here, there):
        ledger.keys.create(HERE)
        ledger.append([said("a")])

    here.keys.destroy(HERE)

    assert payloads(there) == [{"text": "a"}]
    assert there.admin.verify().intact


def test_a_scope_that_cannot_be_is_refused(sealed: Ledger) -> None:
    with pytest.raises(treering.errors.InvalidScope):
        sealed.keys.create("acme@app")
    with pytest.raises(treering.errors.InvalidScope):
        sealed.keys.list("acme@app")

    assert listed(sealed) == [(1, "in use", 0)]


def test_a_copy_is_sealed_again_and_needs_the_keys(
    sealed: Ledger, open_ledger: Callable[[], Ledger], keys: Path
) -> None:
    sealed.append([said("a"), said("large", payload=LARGE)])
    target, late = open_ledger(), open_ledger()
    target.keys.create(HERE)
    late.keys.create(HERE)

    receipt = sealed.admin.copy_to(target)

    assert (receipt.copied, receipt.complete, receipt.intact) == (2, True, True)
    assert payloads(target) == payloads(sealed)
    assert listed(target) == [(1, "in use", 2)]
    for path in keys.glob("*.key"):
        path.unlink()
    with pytest.raises(KeyMissing):
        sealed.admin.copy_to(late)
    assert late.headers(HERE).items == []
