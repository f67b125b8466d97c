"""What every database promises about export and import."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import treering
from builders import DAY, ELSEWHERE, HERE, NOON, called, said

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Event, Ledger


def exported(ledger: Ledger, **options: str) -> bytes:
    stream = io.BytesIO()
    ledger.admin.export(HERE, stream, **({"payloads": "included"} | options))  # type: ignore[arg-type]
    return stream.getvalue()


def written(ledger: Ledger, progress: Callable[[int], object]) -> bytes:
    stream = io.BytesIO()
    ledger.admin.export(HERE, stream, payloads="included", progress=progress)  # type: ignore[arg-type]
    return stream.getvalue()


def contents(ledger: Ledger) -> list[Event]:
    """Return all that a copy has in common with its source: not the positions."""
    found = ledger.follow_events(HERE, idle_s=0)
    return [msgspec.structs.replace(event, position=0) for event in found]


def test_a_copy_is_the_same_events_in_the_same_order_with_the_same_chain(
    source: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    target = open_ledger()

    receipt = target.admin.restore(io.BytesIO(exported(source)))

    assert receipt.complete
    assert (receipt.errors, receipt.duplicates) == (0, 0)
    ours, theirs = contents(source), contents(target)
    assert [(e.session_id, e.seq, e.link, e.payload) for e in ours] == [
        (e.session_id, e.seq, e.link, e.payload) for e in theirs
    ]
    assert target.admin.verify(HERE) == source.admin.verify(HERE)
    assert exported(target).split(b"\n")[1:] == exported(source).split(b"\n")[1:]


def test_importing_twice_adds_nothing(source: Ledger, open_ledger: Callable[[], Ledger]) -> None:
    target, file = open_ledger(), exported(source)
    first = target.admin.restore(io.BytesIO(file))

    second = target.admin.restore(io.BytesIO(file))

    assert (second.imported, second.duplicates) == (0, first.imported)
    assert second.complete
    assert source.admin.restore(io.BytesIO(file)).imported == 0


def test_an_import_goes_on_where_the_last_one_ended(
    source: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    target = open_ledger()
    target.admin.restore(io.BytesIO(exported(source)))
    source.append([said("more"), said("and more", session_id="s2")])

    receipt = target.admin.restore(io.BytesIO(exported(source)))

    assert receipt.imported == 2
    assert target.admin.verify().intact


def test_the_id_of_an_expired_event_is_known_in_the_copy(open_ledger: Callable[[], Ledger]) -> None:
    source, target = open_ledger(), open_ledger()
    source.append([called(event_id="old", ts_ms=NOON)])
    source.expire(HERE, now_ms=NOON + 45 * DAY)
    target.admin.restore(io.BytesIO(exported(source)))

    assert target.append([called(event_id="old", ts_ms=NOON)])[0].expired


def test_an_id_that_was_looked_for_in_vain_is_known_once_it_was_restored(
    open_ledger: Callable[[], Ledger],
) -> None:
    source, target = open_ledger(), open_ledger()
    # More than are looked up one by one.
    events = [said(f"event {n}", event_id=f"e{n}", ts_ms=NOON) for n in range(20)]
    recorded = source.append(events)
    target.append([said("first", session_id="s2")])
    assert target.find_ids(HERE, [event.event_id or "" for event in events]) == {}

    target.admin.restore(io.BytesIO(exported(source)))

    assert [head.link for head in target.append(events)] == [head.link for head in recorded]


def test_one_session_can_be_exported(source: Ledger, open_ledger: Callable[[], Ledger]) -> None:
    target = open_ledger()

    target.admin.restore(io.BytesIO(exported(source, session_id="s2")))

    assert {e.session_id for e in contents(target)} == {"s2"}
    assert target.admin.verify().intact


def test_every_line_is_accounted_for_and_bad_ones_are_named(
    source: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    """Promise 11: bad lines are reported with their place and never stop the rest."""
    lines = exported(source, session_id="s2").split(b"\n")
    file = b"\n".join([*lines[:2], b"", b"not json", b'{"record":"mystery"}', *lines[2:-2]])
    target = open_ledger()

    receipt = target.admin.restore(io.BytesIO(file + b'\n{"record":"eve'))

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

    receipt = target.admin.restore(io.BytesIO(b"\n".join(lines)))

    assert receipt.errors >= 1
    assert receipt.errors_sample[0].line == 4
    assert [e.summary for e in contents(target)] == ["one"]


def test_a_dropped_line_is_noticed(source: Ledger, open_ledger: Callable[[], Ledger]) -> None:
    lines = exported(source).split(b"\n")

    receipt = open_ledger().admin.restore(io.BytesIO(b"\n".join(lines[:3] + lines[4:])))

    assert not receipt.complete
    assert receipt.errors


def test_a_session_of_the_same_name_is_not_mixed_up(open_ledger: Callable[[], Ledger]) -> None:
    one, other = open_ledger(), open_ledger()
    one.append([said("mine")])
    other.append([said("theirs")])

    receipt = other.admin.restore(io.BytesIO(exported(one)))

    assert (receipt.imported, receipt.errors) == (0, 1)
    assert [e.summary for e in contents(other)] == ["theirs"]


def test_an_export_without_payloads_shows_no_content_and_says_it_cannot_be_restored(
    source: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    source.append([said("header", payload={"text": "PRIVATE"})])

    file = exported(source, payloads="withheld")

    assert b"PRIVATE" not in file
    with pytest.raises(treering.InvalidInput, match="no payloads") as refused:
        open_ledger().admin.restore(io.BytesIO(file))
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

    receipt = target.admin.restore(io.BytesIO(b"\n".join([*lines[:1], line, *lines[1:]])))

    assert receipt.errors == 1
    assert receipt.errors_sample[0].line == 2
    assert len(contents(target)) == len(contents(source))


def test_an_export_keeps_to_its_scope(source: Ledger) -> None:
    """Promise 3: no export of scope A holds a byte of scope B."""
    assert ELSEWHERE.encode() not in exported(source)


def test_two_exports_in_one_file_are_complete_when_both_have_their_end(
    source: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    first, second = exported(source, session_id="s1"), exported(source, session_id="s2")

    whole = open_ledger().admin.restore(io.BytesIO(first + second))
    twice = open_ledger().admin.restore(io.BytesIO(first + first))
    cut = open_ledger().admin.restore(io.BytesIO(first[: first.rindex(b"{")] + second))

    assert (whole.complete, whole.errors) == (True, 0)
    assert whole.imported == len(list(source.follow(HERE, idle_s=0))) + 1
    assert (twice.complete, twice.imported) == (True, twice.duplicates)
    assert (cut.complete, cut.errors, cut.imported) == (False, 0, whole.imported)


def test_lines_behind_the_end_belong_to_no_export(
    source: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    lines = exported(source, session_id="s2").splitlines()

    receipt = open_ledger().admin.restore(
        io.BytesIO(b"\n".join([*lines[:-2], lines[-1], lines[-2]]))
    )

    assert (receipt.errors, receipt.complete) == (1, False)
    assert receipt.errors_sample[0].line == len(lines)


def test_an_export_without_payloads_behind_a_full_one_costs_its_own_lines_only(
    source: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    full, withheld = exported(source), exported(source, payloads="withheld")
    target = open_ledger()

    receipt = target.admin.restore(io.BytesIO(full + withheld))

    assert receipt.errors == len(withheld.splitlines())
    assert "no payloads" in receipt.errors_sample[0].reason
    assert [e.link for e in contents(target)] == [e.link for e in contents(source)]


def test_an_export_taken_while_somebody_erases_can_be_restored(
    open_ledger: Callable[[], Ledger],
) -> None:
    source, target = open_ledger(), open_ledger()
    source.append([said(str(n), event_id=f"e{n}") for n in range(1_200)])
    erased = iter(["e10", "e1100", "e20", "e1150"])

    def erase(_: int) -> None:
        for event_id in erased:
            source.redact(HERE, event_id=event_id, replacement="null")
            source.append([said("meanwhile", session_id="s2")])

    file = written(source, progress=erase)
    receipt = target.admin.restore(io.BytesIO(file))

    assert (receipt.complete, receipt.errors_sample) == (True, [])
    assert target.admin.verify().intact
    target.admin.restore(io.BytesIO(exported(source)))
    assert target.admin.verify(HERE) == source.admin.verify(HERE)
    assert contents(target) == contents(source)


def test_an_export_taken_while_events_expire_can_be_restored(
    open_ledger: Callable[[], Ledger],
) -> None:
    source, target = open_ledger(), open_ledger()
    source.append([called(event_id=f"e{n}", ts_ms=NOON) for n in range(700)])

    file = written(source, progress=lambda _: source.expire(HERE, now_ms=NOON + 45 * DAY))
    receipt = target.admin.restore(io.BytesIO(file))

    assert (receipt.complete, receipt.errors_sample) == (True, [])
    assert target.admin.verify().intact
    target.admin.restore(io.BytesIO(exported(source)))
    assert target.admin.verify(HERE) == source.admin.verify(HERE)
    assert target.append([called(event_id="e5", ts_ms=NOON)])[0].expired


@pytest.mark.parametrize("replacement", ["null", "placeholder"])
def test_what_is_redacted_after_it_was_copied_is_redacted_by_the_next_copy(
    open_ledger: Callable[[], Ledger], replacement: Any
) -> None:
    source, target = open_ledger(), open_ledger()
    source.append([said("secret", event_id="e1", payload={"t": "secret " * 3_000}), said("other")])
    target.admin.restore(io.BytesIO(exported(source)))
    source.redact(HERE, event_id="e1", replacement=replacement)

    receipt = target.admin.restore(io.BytesIO(exported(source)))

    assert (receipt.complete, receipt.imported) == (True, 1)
    assert contents(target) == contents(source)
    assert target.admin.verify().intact


def test_what_expired_after_it_was_copied_expires_with_the_next_copy(
    open_ledger: Callable[[], Ledger],
) -> None:
    source, target = open_ledger(), open_ledger()
    source.append([called(event_id="old", ts_ms=NOON), said("kept"), called(ts_ms=NOON)])
    source.redact(HERE, event_id="old")
    target.admin.restore(io.BytesIO(exported(source)))
    source.expire(HERE, now_ms=NOON + 45 * DAY)

    receipt = target.admin.restore(io.BytesIO(exported(source)))

    assert (receipt.complete, receipt.imported) == (True, 1)
    assert contents(target) == contents(source)
    assert target.admin.verify(HERE) == source.admin.verify(HERE)
    assert exported(target).split(b"\n")[1:] == exported(source).split(b"\n")[1:]


def test_a_store_that_fails_ends_an_import_and_refuses_no_line(
    open_ledger: Callable[[], Ledger],
) -> None:
    source, target = open_ledger(), open_ledger()
    source.append([said(str(n)) for n in range(700)])
    target.close()

    with pytest.raises(treering.errors.Closed):
        target.admin.restore(io.BytesIO(exported(source)))
