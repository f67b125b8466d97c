"""Promise 3 for the memory: no fact, episode or comparison ever crosses a scope, user or group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from builders import ELSEWHERE, HERE, said
from effort import rounds
from properties.remembering import SENTENCES, Clock, open_at

if TYPE_CHECKING:
    from treering import Ledger, Session
    from treering.model.memories import Fact

GROUP: Final = "group:telegram:"


class Spot(msgspec.Struct, frozen=True):
    """Somewhere that keeps to itself what is learnt there."""

    scope: str
    user: str | None
    group: str | None = None

    @property
    def session_id(self) -> str:
        return f"{GROUP}{self.group}" if self.group else f"s-{self.user}"

    def session(self, ledger: Ledger) -> Session:
        if self.group:
            return ledger.group_session("telegram", self.group, scope=self.scope, agent="lyria")
        return ledger.session(self.session_id, scope=self.scope, agent="lyria", user=self.user)

    def owns(self, fact: Fact) -> bool:
        """Whether a fact may be seen here: one's own, or outside of groups the scope's."""
        where = self.session_id if self.group else None
        mine = fact.user in {self.user, self.second, None}
        return (
            fact.scope == self.scope
            and mine
            and fact.group == (self.group is not None)
            and (where is None or fact.source_session == where)
        )

    @property
    def second(self) -> str:
        """Return another name of the same person."""
        return f"{self.user}-phone"


SPOTS: Final = (
    Spot(HERE, "jo"), Spot(HERE, "kim"), Spot(HERE, "jo", "g1"), Spot(HERE, "jo", "g2"),
    Spot(HERE, "kim", "g1"), Spot(ELSEWHERE, "jo"), Spot(ELSEWHERE, "jo", "g1"),
)  # fmt: skip
DEEDS: Final = ("learn", "learn", "learn_as_second", "say", "recall", "merge", "write_episode")


class Step(msgspec.Struct, frozen=True):
    """One thing that happens somewhere."""

    deed: str
    spot: Spot
    word: str


STEPS: Final = st.builds(
    Step, st.sampled_from(DEEDS), st.sampled_from(SPOTS), st.sampled_from(sorted(SENTENCES))
)


def take(ledger: Ledger, step: Step) -> Any:
    """Have a step happen; return what came of it, without what differs by chance."""
    spot, memory = step.spot, ledger.memory(step.spot.scope)
    spot.session(ledger).open()
    sentence, text = SENTENCES[step.word]
    match step.deed:
        case "learn" | "learn_as_second":
            user = spot.user if step.deed == "learn" else spot.second
            learned = memory.learn(text, user=user, session_id=spot.session_id)
            return learned.outcome, learned.text, len(learned.superseded)
        case "say":
            ledger.append(
                [said(sentence, scope=spot.scope, session_id=spot.session_id, user_id=spot.user)]
            )
            # Others may have said something in the same group that is read with it.
            read = memory.extract(spot.session_id).learned
            return [(one.outcome, one.text, len(one.superseded)) for one in read]
        case "recall":
            session = spot.session_id if spot.group else None
            found = memory.recall(None, user=spot.user, session_id=session, episodes=9)
            assert all(spot.owns(hit.fact) for hit in found.fact_hits)
            assert {hit.session_id for hit in found.episode_hits} <= {spot.session_id}
            return sorted(hit.fact.text for hit in found.fact_hits)
        case "merge":
            if spot.second not in memory.users.ids_of(str(spot.user)):
                memory.users.merge(str(spot.user), spot.second)
            return None
        case _:
            return spot.session(ledger).write_episode() is not None


def believed(ledger: Ledger, spot: Spot) -> list[tuple[str, str, bool]]:
    """Return all that was learnt somewhere, and how it stands."""
    facts = ledger.memory(spot.scope).facts(state=("current", "superseded")).items
    own = [fact for fact in facts if fact.user in {spot.user, spot.second} and spot.owns(fact)]
    return sorted((fact.text, fact.state, fact.group) for fact in own)


def concerns(step: Step, spot: Spot) -> bool:
    """Whether a step has to do with a spot: mergers of its user do, and talk in its group."""
    same_user = (step.spot.scope, step.spot.user) == (spot.scope, spot.user)
    same_talk = (step.spot.scope, step.spot.session_id) == (spot.scope, spot.session_id)
    return (
        step.spot == spot
        or (step.deed == "merge" and same_user)
        or (same_talk and step.deed in {"say", "write_episode"})
    )


@settings(max_examples=rounds(6, times=25))
@given(st.lists(STEPS, min_size=4, max_size=12))
@example(
    [Step("learn", spot, word) for word in ("Boston", "Porto", "Boston") for spot in SPOTS[:6]]
)
@example(
    [Step("say", SPOTS[0], "Boston"), Step("write_episode", SPOTS[0], "dark"),
     Step("recall", SPOTS[2], "dark"), Step("say", SPOTS[2], "Porto"),
     Step("write_episode", SPOTS[2], "dark"), Step("recall", SPOTS[0], "dark"),
     Step("recall", SPOTS[3], "dark"), Step("recall", SPOTS[5], "dark")]
)  # fmt: skip
def test_what_happens_somewhere_is_the_same_whatever_happens_elsewhere(steps: list[Step]) -> None:
    with open_at(":memory:", Clock()) as crowded:
        came = [take(crowded, step) for step in steps]
        for spot in dict.fromkeys(step.spot for step in steps):
            with open_at(":memory:", Clock()) as alone:
                for step, before in zip(steps, came, strict=True):
                    if concerns(step, spot):
                        # What comes of others' talk in the same group is for them to compare.
                        now = take(alone, step)
                        assert step.spot != spot or now == before, step
                assert believed(alone, spot) == believed(crowded, spot)
        for spot in SPOTS:
            take(crowded, Step("recall", spot, "dark"))
