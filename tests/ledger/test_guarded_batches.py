"""A guard looks at several events together, and finds what it finds in each alone."""

from __future__ import annotations

import re
from typing import Any

import pytest

import treering
from builders import HERE, said
from treering.ledger.drafts import CHECKED_BYTES_MAX, CHECKED_TOGETHER

TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
EVENTS = 2 * CHECKED_TOGETHER + 3

SECRETS: dict[str, dict[str, Any]] = {
    "payload": {"payload": {"text": f"use {TOKEN}"}},
    "refs": {"refs": {"password": "hunter2hunter3"}},
    "summary": {"summary": f"use {TOKEN}"},
    "key": {"payload": {TOKEN: "value"}},
    "another class of words": {"payload": {"text": "mein Kennwort lautet Grün7Blau#9"}},
}


@pytest.mark.parametrize("guard", ["safe", "mask"])
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_a_secret_is_masked_wherever_it_is_in_a_batch(guard: Any, secret: dict[str, Any]) -> None:
    for position in (0, 1, CHECKED_TOGETHER - 1, CHECKED_TOGETHER, EVENTS - 1):
        events = [said(f"question {at}", event_id=f"e{at}") for at in range(EVENTS)]
        events[position] = said("clean", **({"event_id": f"e{position}"} | secret))

        assert _stored(guard, [events]) == _stored(guard, [[event] for event in events])


@pytest.mark.parametrize("guard", ["safe", "mask"])
def test_large_events_are_looked_at_one_by_one(guard: Any) -> None:
    large = "all is well. " * (CHECKED_BYTES_MAX // 20)
    events = [said("x", event_id=f"e{at}", payload={"text": large}) for at in range(3)]
    events[1] = said(f"use {TOKEN}", event_id="e1", payload={"text": f"{large} {TOKEN}"})

    stored = _stored(guard, [events])

    assert TOKEN not in stored[1][0]
    assert (TOKEN in str(stored[1][2])) is (guard == "safe")


@pytest.mark.parametrize("guard", ["safe", "mask", "reject"])
def test_the_first_bad_event_of_a_batch_is_the_one_that_is_refused(guard: Any) -> None:
    first = said("x", session_id="")
    with treering.open(":memory:", guard=guard) as ledger:
        with pytest.raises(treering.InvalidInput) as alone:
            ledger.append([first])
        with pytest.raises(treering.InvalidInput) as together:
            ledger.append([said("ok"), first, said("y", payload={"text": "\ud800"})])

    assert str(together.value) == str(alone.value)


def test_bytes_in_a_batch_are_recorded_as_alone() -> None:
    events = [said("x", event_id=f"e{at}", payload={"raw": b"\0\1"}) for at in range(3)]

    assert _stored("mask", [events]) == _stored("mask", [[event] for event in events])


def _stored(guard: Any, batches: list[list[treering.NewEvent]]) -> list[Any]:
    with treering.open(":memory:", guard=guard) as ledger:
        # A scope that is known not to be sealed.
        ledger.append([said("before")])
        for batch in batches:
            ledger.append(batch)
        ids = [event.event_id for batch in batches for event in batch]
        found = [ledger.event(HERE, str(event_id)) for event_id in ids]
        return [
            (_unhashed(event.summary), _unhashed(event.refs), _unhashed(event.payload))
            for event in found
        ]


def _unhashed(value: Any) -> str:
    """Return ``value`` without the hashes of masks, which differ from ledger to ledger."""
    return re.sub(r"(\[redacted:[a-z-]+:)[0-9a-f]{8}\]", r"\1]", str(value))
