"""A copy or restore that is cut off, at whichever commit, is incomplete and not tampered with."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from builders import DAY, HERE, NOON, called, said
from ports import store_of
from treering.ledger import restoring

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Ledger


class Killed(BaseException):
    """Stands for the end of a process: nobody catches it."""


def stop_after(ledger: Ledger, commits: int) -> None:
    """Have a ledger die behind so many commits of what is copied into it."""
    store: Any = store_of(ledger)
    restore, left = store.restore, [commits]

    def restoring(*values: Any) -> int:
        added: int = restore(*values)
        left[0] -= 1
        if left[0] == 0:
            raise Killed
        return added

    store.restore = restoring


def erased(ledger: Ledger) -> None:
    """Fill a ledger with events of which some were redacted, expired or forgotten, late."""
    for n in range(4):
        ledger.append([said(f"a{n}", event_id=f"a{n}"), called(session_id="s2", ts_ms=NOON)])
        ledger.append([said(f"u{n}", session_id="u", user_id="ann", event_id=f"u{n}")])
    ledger.redact(HERE, event_id="a1")
    ledger.append([said("between")])
    ledger.expire(HERE, now_ms=NOON + 45 * DAY)
    ledger.forget(HERE, user="ann")
    ledger.append([said("last")])
    ledger.redact(HERE, session_id="s1")


def copy(source: Ledger, target: Ledger) -> None:
    source.admin.copy_to(target)


def restore(source: Ledger, target: Ledger) -> None:
    stream = io.BytesIO()
    source.admin.export(HERE, stream, payloads="included")
    stream.seek(0)
    target.admin.restore(stream)


@pytest.mark.parametrize("way", [copy, restore])
def test_a_copy_that_is_cut_off_reads_as_incomplete_and_can_go_on(
    open_ledger: Callable[[], Ledger],
    monkeypatch: pytest.MonkeyPatch,
    way: Callable[[Ledger, Ledger], None],
) -> None:
    # Few events are committed together, so that there are many moments to be killed at.
    monkeypatch.setattr(restoring, "PAGE", 3)
    source = open_ledger()
    erased(source)
    assert source.admin.verify().intact
    faults, commits = set(), 0
    while True:
        commits += 1
        target = open_ledger()
        stop_after(target, commits)
        try:
            way(source, target)
        except Killed:
            proof = target.admin.verify()
            faults.add(None if proof.first_broken is None else proof.first_broken.fault)
            stop_after(target, 0)
            way(source, target)
            assert target.admin.verify().intact, commits
        else:
            break
    assert commits > 5
    assert faults == {None, "incomplete"}


def test_an_export_that_was_cut_off_reads_as_incomplete(open_ledger: Callable[[], Ledger]) -> None:
    source = open_ledger()
    erased(source)
    stream = io.BytesIO()
    source.admin.export(HERE, stream, payloads="included")
    lines = stream.getvalue().splitlines(keepends=True)
    target = open_ledger()

    target.admin.restore(io.BytesIO(b"".join(lines[:-6])))
    found = target.admin.verify().first_broken
    target.admin.restore(io.BytesIO(b"".join(lines)))

    assert found is not None
    assert found.fault == "incomplete"
    assert target.admin.verify().intact


def test_an_erasure_that_nobody_vouches_for_when_the_copy_has_ended_is_a_fault(
    open_ledger: Callable[[], Ledger],
) -> None:
    source = open_ledger()
    erased(source)
    stream = io.BytesIO()
    source.admin.export(HERE, stream, payloads="included")
    lines = stream.getvalue().splitlines(keepends=True)
    last = max(n for n, line in enumerate(lines) if b"ledger.redacted" in line)
    end = json.loads(lines[-1])
    end["events"] -= 1
    rest = [line for n, line in enumerate(lines[:-1]) if n != last]
    target = open_ledger()
    target.admin.restore(io.BytesIO(b"".join(rest) + json.dumps(end).encode() + b"\n"))

    found = target.admin.verify().first_broken

    assert found is not None
    assert found.fault == "erasure"
