"""What was believed at a time, and what held at a time, against a list that is replayed."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from builders import DAY, HERE, NOON
from effort import rounds
from properties.remembering import Clock, open_at

if TYPE_CHECKING:
    from treering.memory.memory import Memory

CITIES: Final = ("Boston", "Porto", "Lima", "Oslo")


class Told(msgspec.Struct, frozen=True):
    """That somebody lives in a city since a day, or that they never did."""

    city: str
    since_day: int
    is_rejected: bool = False

    @property
    def since_ms(self) -> int:
        return NOON - 400 * DAY + self.since_day * DAY


class Home(msgspec.Struct):
    """Where somebody lives, as a list of what was told has it."""

    city: str
    since_ms: int
    until_ms: int | None = None
    state: str = "current"


def replay(told: list[Told]) -> list[Home]:
    """Return all homes, told in this order: of two, the later one holds."""
    homes: list[Home] = []
    for one in told:
        here = next((home for home in homes if home.state == "current"), None)
        if one.is_rejected:
            if here is not None and here.city == one.city:
                here.state = "forgotten"
        elif here is not None and here.city == one.city:
            here.since_ms = min(here.since_ms, one.since_ms)
        elif here is None or one.since_ms >= here.since_ms:
            if here is not None:
                here.state, here.until_ms = "superseded", one.since_ms
            homes.append(Home(one.city, one.since_ms))
        else:
            homes.append(Home(one.city, one.since_ms, here.since_ms, "superseded"))
    return homes


def held(homes: list[Home], at_ms: int) -> list[str]:
    return sorted(
        home.city
        for home in homes
        if home.state in {"current", "superseded"}
        and home.since_ms <= at_ms
        and (home.until_ms is None or at_ms < home.until_ms)
    )


def current(homes: list[Home]) -> list[str]:
    return [home.city for home in homes if home.state == "current"]


def tell(memory: Memory, one: Told) -> None:
    text = f"Lives in {one.city}"
    if not one.is_rejected:
        memory.learn(text, user="jo", valid_from_ms=one.since_ms)
    for fact in memory.facts(user="jo").items if one.is_rejected else ():
        if fact.text == text:
            memory.reject(fact.id)


def cities(memory: Memory, **query: Any) -> list[str]:
    return sorted(fact.text.split()[-1] for fact in memory.facts(user="jo", **query).items)


TOLD: Final = st.builds(
    Told,
    st.sampled_from(CITIES),
    st.integers(min_value=1, max_value=6),
    st.sampled_from([False, False, False, True]),
)


@settings(max_examples=rounds(10, times=25))
@given(st.lists(TOLD, min_size=1, max_size=7))
@example([Told("Boston", 4), Told("Porto", 2), Told("Lima", 6)])
@example([Told("Boston", 4), Told("Boston", 2), Told("Porto", 3)])
def test_every_moment_is_as_the_list_of_what_was_told_has_it(told: list[Told]) -> None:
    clock = Clock()
    with open_at(":memory:", clock) as ledger:
        memory = ledger.memory(HERE)
        moments = [clock()]
        for one in told:
            tell(memory, one)
            moments.append(clock())

        for count, at_ms in enumerate(moments):
            homes = replay(told[:count])
            assert cities(memory, as_of_ms=at_ms) == current(homes)
            recalled = memory.recall("where do I live?", user="jo", as_of_ms=at_ms).fact_hits
            assert {hit.fact.text.split()[-1] for hit in recalled} <= set(current(homes))
            for day in range(8):
                then = Told("", day).since_ms
                assert cities(memory, as_of_ms=at_ms, valid_at_ms=then) == held(homes, then)
        for day in range(8):
            then = Told("", day).since_ms
            assert cities(memory, valid_at_ms=then) == held(replay(told), then)
        assert all(earlier < later for earlier, later in pairwise(moments))
