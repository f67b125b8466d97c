"""Which events a sink hears that names kinds instead of looking at each event itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from builders import HERE
from treering.errors import InvalidKind
from treering.model.kinds import ENVELOPE_KINDS, KINDS, TOOL_FAILED, parse_kinds, stored_kinds
from treering.sinks import Delivery, NatsSink, SafeEvent, WebhookSink
from treering.sinks.webhook import new_secret

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from treering import Ledger
    from treering.spine.ports import Sink

ENVELOPES = sorted({*ENVELOPE_KINDS.values(), TOOL_FAILED})


class Picky:
    """A sink that hears what it names."""

    def __init__(self, accepts: Collection[str], delivery: Delivery | None = None) -> None:
        self.name = "picky"
        self.accepts = accepts
        self.delivery = delivery or Delivery()
        self.heard: list[str] = []

    def handle(self, event: SafeEvent, /) -> None:
        self.heard.append(f"{event.kind} {event.envelope_kind}")


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with treering.open(":memory:") as opened:
        yield opened


def heard(ledger: Ledger, accepts: Collection[str]) -> list[str]:
    """Return what a sink hears of a run that ends well and of one that fails."""
    sink = Picky(accepts)
    ledger.spine([sink])
    session = ledger.session("s1", scope=HERE, agent="lyria")
    with session.turn() as run:
        run.user("look")
        run.delta("I ")
        run.tools.started("look", call_id="c1").finish("found")
        run.tools.started("look", call_id="c2").fail("no")
        run.emit("compaction.phase", {"phase": "start"})
        run.emit("compaction.phase", {"phase": "end"})
        run.emit("warning", {"code": "slow"})
        run.assistant("I looked")
    session.turn().start()
    session.interrupt("stop")
    assert ledger.spine().flush(60)
    return [one.split()[0] for one in sink.heard]


@pytest.mark.parametrize(
    ("accepts", "kinds"),
    [
        (["lifecycle.*"], ["run.started", "run.ended", "run.started", "run.interrupted"]),
        (["lifecycle.started"], ["run.started"] * 2),
        (["lifecycle.failed"], ["run.interrupted"]),
        (["assistant.final"], ["conversation.assistant"]),
        (["assistant.*"], ["assistant.delta", "conversation.assistant"]),
        (["tool.call.started"], ["tool.call"] * 2),
        (["tool.call.finished"], ["tool.result"]),
        (["tool.call.failed"], ["tool.result"]),
        (["tool.call.*"], ["tool.call", "tool.result"] * 2),
        (["tool.result"], ["tool.result"] * 2),
        (["compaction.phase"], ["compaction.started", "compaction.ended"]),
        (["warning"], ["ops.warning"]),
        (["user_message"], ["conversation.user"]),
        (("run.started", " Run.Ended "), ["run.started", "run.ended", "run.started"]),
        ("lifecycle.ended", ["run.ended"]),
        ({"warning"}, ["ops.warning"]),
        (["*_message"], ["conversation.user", "conversation.assistant"]),
        (["USER_*", "warn*"], ["conversation.user", "ops.warning"]),
    ],
)
def test_a_sink_hears_the_kinds_that_it_names_in_any_spelling(
    ledger: Ledger, accepts: Collection[str], kinds: list[str]
) -> None:
    assert heard(ledger, accepts) == kinds


def test_an_outcome_is_heard_by_how_it_ended(ledger: Ledger) -> None:
    sink = Picky(["tool.call.failed"])
    ledger.spine([sink])
    with ledger.session("s1", scope=HERE, agent="lyria").turn() as run:
        run.tools.started("look", call_id="c1").finish("found")
        run.tools.started("look", call_id="c2").fail("no")
        run.tools.started("look", call_id="c3").give_up("timeout")
    assert ledger.spine().flush(60)

    assert sink.heard == ["tool.result tool.call.failed"] * 2


@pytest.mark.parametrize("name", [*sorted(KINDS), *ENVELOPES])
def test_every_name_of_a_kind_and_of_an_envelope_is_a_filter(name: str) -> None:
    assert parse_kinds([name]).kinds


SPELLINGS: Final = [
    (spelling, kind.name) for kind in KINDS.values() for spelling in (kind.name, *kind.spellings)
]


@pytest.mark.parametrize(("spelling", "name"), sorted(SPELLINGS))
def test_every_spelling_is_a_filter_with_a_star_in_it_too(spelling: str, name: str) -> None:
    for written in (spelling, f" {spelling.upper()}\n", f"{spelling[:-1]}*", f"*{spelling[1:]}"):
        assert name in parse_kinds(written).kinds


def test_many_stars_are_answered_at_once() -> None:
    with pytest.raises(InvalidKind):
        parse_kinds("*" * 60 + "x")

    assert parse_kinds("*" * 60) == parse_kinds("*")


@pytest.mark.parametrize(
    "sink",
    [
        WebhookSink("http://localhost:1/", secret=new_secret(), accepts=[]),
        NatsSink("nats://localhost:1", accepts=[]),
    ],
)
def test_a_sender_with_an_empty_filter_does_not_send_everything(ledger: Ledger, sink: Sink) -> None:
    with pytest.raises(InvalidKind, match="no kind is named"):
        ledger.spine([sink])


@pytest.mark.parametrize(
    "accepts",
    [
        ["lifecycle.exploded"], ["lifecycle.started", "nothing.*"], "tool.cal", [], (), [""], [7],
        ["?*"], ["[a-z]*"],
    ],
)  # fmt: skip
def test_a_filter_that_can_match_nothing_is_refused_when_the_sink_is_added(
    ledger: Ledger, accepts: Any
) -> None:
    with pytest.raises(InvalidKind) as refused:
        ledger.spine([Picky(accepts)])

    assert refused.value.hint
    assert ledger.spine().status() == []


def test_a_durable_sink_that_accepts_only_what_is_not_kept_is_refused(ledger: Ledger) -> None:
    durable = Delivery(durable=True, on_error="retry")

    with pytest.raises(InvalidKind, match="does not keep"):
        ledger.spine([Picky(["assistant.delta"], durable)])


def test_queries_know_the_names_of_envelopes_and_of_groups(ledger: Ledger) -> None:
    heard(ledger, ["warning"])

    def kinds(*names: str) -> list[str]:
        return [one.kind for one in ledger.headers(HERE, kinds=list(names)).items]

    assert kinds("lifecycle.*") == ["run.started", "run.ended", "run.started", "run.interrupted"]
    assert kinds("lifecycle.failed") == ["run.interrupted"]
    assert kinds("compaction.phase") == ["compaction.started", "compaction.ended"]
    assert stored_kinds(["warning", "tool.*"]) == ("ops.warning", "tool.call", "tool.result")
    with pytest.raises(InvalidKind):
        kinds("lifecycle.exploded")
