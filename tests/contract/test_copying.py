"""What every database promises about export and import."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

import treering
from builders import DAY, ELSEWHERE, HERE, NOON, called, run_of, said

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Event, Ledger


def exported(ledger: Ledger, **options: str) -> bytes:
    stream = io.BytesIO()
    ledger.export(HERE, stream, **({"payloads": "included"} | options))  # type: ignore[arg-type]
    return stream.getvalue()


def contents(ledger: Ledger) -> list[Event]:
    return list(ledger.follow_events(HERE, idle_seconds=0))


@pytest.fixture
def source(open_ledger: Callable[[], Ledger]) -> Ledger:
    """Return a ledger with all that can happen to events."""
    ledger = open_ledger()
    ledger.append(run_of("r1", "a", "b", ts_ms=NOON))
    ledger.append([called(session_id="s2", ts_ms=NOON), said("x", scope=ELSEWHERE)])
    ledger.append([said("large", event_id="big", payload={"t": "long " * 5_000})])
    ledger.append([said("named", event_id="mine", refs={"é": [1]}, user_id="u1", origin="kernel")])
    ledger.redact(HERE, event_id="mine")
    ledger.expire(HERE, now_ms=NOON + 45 * DAY)
    ledger.append([said("after", session_id="s2")])
    return ledger


def test_a_copy_is_the_same_events_in_the_same_order_with_the_same_chain(
    source: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    target = open_ledger()

    receipt = target.restore(io.BytesIO(exported(source)))

    assert receipt.complete
    assert (receipt.errors, receipt.duplicates) == (0, 0)
    ours, theirs = contents(source), contents(target)
    assert [(e.session_id, e.seq, e.link, e.payload) for e in ours] == [
        (e.session_id, e.seq, e.link, e.payload) for e in theirs
    ]
    assert target.verify() == source.verify(HERE)
    assert exported(target).split(b"\n")[1:] == exported(source).split(b"\n")[1:]


def test_importing_twice_adds_nothing(source: Ledger, open_ledger: Callable[[], Ledger]) -> None:
    target, file = open_ledger(), exported(source)
    first = target.restore(io.BytesIO(file))

    second = target.restore(io.BytesIO(file))

    assert (second.imported, second.duplicates) == (0, first.imported)
    assert second.complete
    assert source.restore(io.BytesIO(file)).imported == 0


def test_an_import_goes_on_where_the_last_one_ended(
    source: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    target = open_ledger()
    target.restore(io.BytesIO(exported(source)))
    source.append([said("more"), said("and more", session_id="s2")])

    receipt = target.restore(io.BytesIO(exported(source)))

    assert receipt.imported == 2
    assert target.verify().intact


def test_the_id_of_an_expired_event_is_known_in_the_copy(
    open_ledger: Callable[[], Ledger],
) -> None:
    source, target = open_ledger(), open_ledger()
    source.append([called(event_id="old", ts_ms=NOON)])
    source.expire(HERE, now_ms=NOON + 45 * DAY)
    target.restore(io.BytesIO(exported(source)))

    assert target.append([called(event_id="old", ts_ms=NOON)])[0].expired


def test_one_session_can_be_exported(source: Ledger, open_ledger: Callable[[], Ledger]) -> None:
    target = open_ledger()

    target.restore(io.BytesIO(exported(source, session_id="s2")))

    assert {e.session_id for e in contents(target)} == {"s2"}
    assert target.verify().intact


def test_every_line_is_accounted_for_and_bad_ones_are_named(
    source: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    """Promise 11: bad lines are reported with their place and never stop the rest."""
    lines = exported(source, session_id="s2").split(b"\n")
    file = b"\n".join([*lines[:2], b"", b"not json", b'{"record":"mystery"}', *lines[2:-2]])
    target = open_ledger()

    receipt = target.restore(io.BytesIO(file + b'\n{"record":"eve'))

    taken = receipt.imported + receipt.duplicates + receipt.other + receipt.errors
    assert taken == receipt.lines
    assert receipt.errors == 3
    assert not receipt.complete
    first = receipt.errors_sample[0]
    assert (first.line, first.offset) == (4, file.index(b"not json"))
    assert len(contents(target)) == len([e for e in contents(source) if e.session_id == "s2"])


@pytest.mark.parametrize("field", ["summary", "payload", "link", "kind", "ts_ms", "content_digest"])
def test_a_changed_line_is_refused(open_ledger: Callable[[], Ledger], field: str) -> None:
    source, target = open_ledger(), open_ledger()
    source.append([said("one"), said("two"), said("three")])
    lines = exported(source).split(b"\n")
    changed = json.loads(lines[3])
    changed[field] = {"payload": {"text": "lie"}, "ts_ms": 5}.get(field, "00" * 32)
    lines[3] = json.dumps(changed).encode()

    receipt = target.restore(io.BytesIO(b"\n".join(lines)))

    assert receipt.errors >= 1
    assert receipt.errors_sample[0].line == 4
    assert [e.summary for e in contents(target)] == ["one"]


def test_a_dropped_line_is_noticed(source: Ledger, open_ledger: Callable[[], Ledger]) -> None:
    lines = exported(source).split(b"\n")

    receipt = open_ledger().restore(io.BytesIO(b"\n".join(lines[:3] + lines[4:])))

    assert not receipt.complete
    assert receipt.errors


def test_a_session_of_the_same_name_is_not_mixed_up(open_ledger: Callable[[], Ledger]) -> None:
    one, other = open_ledger(), open_ledger()
    one.append([said("mine")])
    other.append([said("theirs")])

    receipt = other.restore(io.BytesIO(exported(one)))

    assert (receipt.imported, receipt.errors) == (0, 1)
    assert [e.summary for e in contents(other)] == ["theirs"]


def test_an_export_without_payloads_shows_no_content_and_says_it_cannot_be_restored(
    source: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    source.append([said("header", payload={"text": "PRIVATE"})])

    file = exported(source, payloads="withheld")

    assert b"PRIVATE" not in file
    with pytest.raises(treering.InvalidInput, match="no payloads") as refused:
        open_ledger().restore(io.BytesIO(file))
    assert "--include-payload" in (refused.value.hint or "")


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe\x00",
        b'{"record":"event","seq":99999999999999999999999}',
        b'{"record":"session","session_id":"s","salt":"zz","genesis":"","scope_key":""}',
        b'{"record":"session","session_id":"s","salt":"","genesis":"","scope_key":""}',
        b"null",
        b"\0" * 100,
    ],
)
def test_a_line_that_is_nonsense_stops_nothing(
    source: Ledger, open_ledger: Callable[[], Ledger], line: bytes
) -> None:
    lines = exported(source).split(b"\n")
    target = open_ledger()

    receipt = target.restore(io.BytesIO(b"\n".join([*lines[:1], line, *lines[1:]])))

    assert receipt.errors == 1
    assert receipt.errors_sample[0].line == 2
    assert len(contents(target)) == len(contents(source))


def test_an_export_keeps_to_its_scope(source: Ledger) -> None:
    """Promise 3: no export of scope A holds a byte of scope B."""
    assert ELSEWHERE.encode() not in exported(source)
