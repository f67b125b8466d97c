"""What a safe sink is handed holds no private byte, whatever the kind."""

from __future__ import annotations

import gc
from itertools import product
from typing import Any

import msgspec
import pytest

import treering
from builders import exchange
from listeners import SCOPE, SOON, Listener, PrivateListener
from treering import Ledger, NewEvent
from treering.model.kinds import ERASURE_KINDS, KINDS
from treering.model.parts import PARTS
from treering.spine.ports import Delivery

CANARY = "canary-7f3a"
DURABLE = Delivery(durable=True, on_error="retry")


KEPT = sorted(name for name, kind in KINDS.items() if kind.durable and name not in ERASURE_KINDS)
VISIBILITIES = (None, "private", "safe")
Told = dict[tuple[str, str | None], list[Any]]


@pytest.fixture(scope="module")
def told() -> Told:
    """Return what a live, a durable and a private sink hear of events full of canaries."""
    sinks: list[Listener | PrivateListener] = [
        Listener("live"),
        Listener("durable", delivery=DURABLE),
        PrivateListener(),
    ]
    with treering.open(":memory:") as ledger:
        spine = ledger.spine(sinks)
        spine.follow(SCOPE)
        for number, (kind, visibility) in enumerate(product(KEPT, VISIBILITIES)):
            ledger.append([full_of_canaries(kind, visibility, f"e{number}")])
        assert spine.flush(SOON)
    heard = [{event.event_id: event for event in sink.heard} for sink in sinks]
    return {
        place: [events[f"e{number}"] for events in heard]
        for number, place in enumerate(product(KEPT, VISIBILITIES))
    }


def full_of_canaries(kind: str, visibility: str | None, event_id: str) -> NewEvent:
    names = PARTS.get(kind, msgspec.Struct).__struct_fields__
    secret = {"text": CANARY, "list": [CANARY, {CANARY: CANARY}], **dict.fromkeys(names, CANARY)}
    is_private = (visibility or KINDS[kind].visibility) == "private"
    return NewEvent(
        scope=SCOPE,
        session_id="s",
        kind=kind,
        agent_id="lyria",
        summary=CANARY if is_private else "said in public",
        payload=secret,
        refs=secret if is_private else {"said": "in public"},
        visibility=visibility,
        event_id=event_id,
        run_id=f"run of {event_id}",
        run_seq=1,
    )


@pytest.mark.parametrize("visibility", VISIBILITIES)
@pytest.mark.parametrize("kind", KEPT)
def test_no_private_byte_reaches_a_safe_sink(kind: str, visibility: str | None, told: Told) -> None:
    """A safe sink gets a private event's header without summary and refs."""
    live, durable, private = told[kind, visibility]

    for event in (live, durable):
        assert CANARY not in traces(event)
        assert CANARY not in traces(event.envelope())
    assert private.payload["text"] == CANARY
    assert CANARY in traces(private)
    assert (live.envelope() is None) == (private.envelope() is None)


def test_deltas_are_told_to_safe_sinks_by_their_size(book: Ledger) -> None:
    sink, private = Listener(), PrivateListener()
    spine = book.spine([sink, private])

    with book.session("s", scope=SCOPE, agent="lyria").turn() as turn:
        turn.delta(CANARY, model=CANARY, more=[CANARY])
    spine.flush(SOON)

    [event] = [event for event in sink.heard if event.kind == "assistant.delta"]
    assert CANARY not in traces(event) + traces(event.envelope())
    assert event.part.as_refs() == {"characters": len(CANARY)}
    [full] = [event for event in private.heard if event.kind == "assistant.delta"]
    assert full.payload == {"text": CANARY, "model": CANARY, "more": [CANARY]}


def test_the_sizes_of_private_events_are_told(book: Ledger) -> None:
    sink = Listener()
    spine = book.spine([sink])

    exchange(book.session("s", scope=SCOPE, agent="lyria"), "hello", "hello yourself")
    spine.flush(SOON)

    told = [event.part.as_refs() for event in sink.heard if event.visibility == "private"]
    assert told == [{"characters": 5}, {"characters": 14}]


def traces(thing: Any) -> str:
    """Return all texts that can be reached from ``thing``, and how it shows itself."""
    found = [repr(thing), msgspec.json.encode(thing).decode()]
    known: set[int] = set()
    left = [thing]
    while left:
        one = left.pop()
        if id(one) in known or isinstance(one, type):
            continue
        known.add(id(one))
        if isinstance(one, str | bytes):
            found.append(str(one))
        left.extend(gc.get_referents(one))
    return "\n".join(found)


def test_the_search_for_traces_finds_what_is_hidden() -> None:
    class Box(msgspec.Struct):
        content: Any

    assert CANARY in traces(Box({"a": [{CANARY: 1}]}))
    assert CANARY in traces(Box(CANARY.encode()))
    assert CANARY not in traces(Box("other"))


@pytest.mark.parametrize("visibility", ["Private", "PRIVATE", True, None, "all"])
def test_only_the_one_word_opens_private_content(book: Ledger, visibility: object) -> None:
    sink = Listener()
    sink.visibility = visibility  # type: ignore[attr-defined]

    with pytest.raises(treering.InvalidInput, match="visibility"):
        book.spine([sink])

    assert book.spine().status() == []
