"""Whatever a sink does with its events, each is accounted for, and what it took is in order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

import treering
from effort import PATIENCE_S, rounds
from listeners import SCOPE, SOON, Door, Listener, note, status_of
from treering.spine.ports import Delivery
from treering.spine.sink_queue import HUNG_CALLS_MAX

if TYPE_CHECKING:
    from treering.model.carried import SafeEvent

Decision = Literal["take", "decline", "raise", "raise once", "quit", "hang"]
DECISIONS: Final[tuple[Decision, ...]] = ("take", "decline", "raise", "raise once", "quit", "hang")
BRIEF: Final = 0.03
"""A time limit in seconds that hanging breaks; what does not hang has no limit."""


class Fickle(Listener):
    """Does with each event what was decided for it."""

    def __init__(self, decisions: list[Decision], delivery: Delivery) -> None:
        super().__init__("fickle", delivery=delivery)
        self._decisions = decisions
        self.door = Door()
        self.declined = 0
        self._raised: set[int] = set()

    def accepts(self, event: SafeEvent, /) -> bool:
        accepted = self._decided(event) != "decline"
        self.declined += not accepted
        return accepted

    def handle(self, event: SafeEvent, /) -> None:
        match self._decided(event):
            case "raise":
                raise ValueError(event.summary)
            case "quit":
                raise SystemExit(event.summary)
            case "raise once" if int(str(event.summary)) not in self._raised:
                self._raised.add(int(str(event.summary)))
                raise ValueError(event.summary)
            case "hang":
                self.door.wait(PATIENCE_S)
            case _:
                self.remember(event)

    def _decided(self, event: SafeEvent) -> Decision:
        return self._decisions[int(str(event.summary))]


def deliveries() -> st.SearchStrategy[Delivery]:
    return st.builds(
        Delivery,
        on_error=st.sampled_from(["skip", "retry", "fail"]),
        queue_events_max=st.sampled_from([1, 2, 5, 10_000]),
        attempts_max=st.integers(1, 3),
    )


def decisions() -> st.SearchStrategy[list[Decision]]:
    """Return lists in which few events hang: each of those takes its time."""
    usual = st.sampled_from(DECISIONS[:-1])
    return st.tuples(
        st.lists(usual, max_size=10), st.lists(st.just("hang"), max_size=1), st.lists(usual)
    ).map(lambda parts: [*parts[0], *parts[1], *parts[2]])  # type: ignore[list-item]


@given(decisions(), deliveries(), st.booleans())
@example(["hang"] * (HUNG_CALLS_MAX + 2), Delivery(), False)
@example(["take", "hang", "raise", "take"], Delivery(on_error="fail"), True)
@settings(max_examples=rounds(12, times=25))
def test_every_event_is_taken_declined_failed_or_lost_and_none_overtakes_another(
    decided: list[Decision],
    delivery: Delivery,
    flushed: bool,  # noqa: FBT001
) -> None:
    delivery = _with_limit(delivery, BRIEF if "hang" in decided else math.inf)
    sink = Fickle(decided, delivery)
    with treering.open(":memory:") as ledger:
        note(ledger)
        ledger.session("s", scope=SCOPE, agent="lyria").open()
        spine = ledger.spine([sink])

        for number in range(len(decided)):
            note(ledger, str(number))
            if flushed:
                assert spine.flush(SOON)
        assert spine.flush(SOON)
        status = status_of(spine, "fickle")
        heard = [int(str(text)) for text in sink.summaries]
        sink.door.see_off()
        kept = [header.summary for header in ledger.headers(SCOPE, kinds=["ops.decision"]).items]

    event(f"stopped: {status.stopped}, lost: {status.lost > 0}")
    assert kept == [str(number) for number in range(len(decided))]
    assert status.waiting == 0
    if status.timeouts > len(sink.door.threads):
        return  # This machine was too busy to hand over in time what does not hang.
    counted = status.delivered + status.failed + status.lost + sink.declined
    assert counted == len(decided)
    assert len(heard) == status.delivered
    assert heard == sorted(set(heard))
    if not status.lost:
        assert heard == _expected(decided, delivery)


def _expected(decided: list[Decision], delivery: Delivery) -> list[int]:
    tried_again = delivery.on_error == "retry" and delivery.attempts_max > 1
    taken = {"take", "raise once"} if tried_again else {"take"}
    return [number for number, decision in enumerate(decided) if decision in taken]


def _with_limit(delivery: Delivery, timeout_s: float) -> Delivery:
    limits: dict[str, Any] = {
        name: getattr(delivery, name) for name in ("on_error", "queue_events_max", "attempts_max")
    }
    return Delivery(timeout_s=timeout_s, **limits)
