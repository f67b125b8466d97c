"""Families of a scope: sessions that were forked from one another, as trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from builders import ELSEWHERE, HERE, said
from treering import InvalidInput, Ledger, Session

if TYPE_CHECKING:
    from treering.views import Family


def opened(ledger: Ledger, name: str, **about: Any) -> Session:
    session = ledger.session(name, **({"scope": HERE, "agent": "lyria"} | about))
    session.open()
    return session


def drawn(family: Family) -> list[Any]:
    """Return a family as nested lists of names."""
    return [family.session.session_id, *(drawn(fork) for fork in family.forks)]


def test_the_families_of_a_scope_are_those_with_forks(ledger: Ledger) -> None:
    opened(ledger, "alone")
    first = opened(ledger, "first")
    first.fork("first-a").fork("first-a-a")
    first.fork("first-b")
    opened(ledger, "second").fork("second-a")
    opened(ledger, "other", scope=ELSEWHERE).fork("other-a")

    page = ledger.families(HERE)

    assert [drawn(family) for family in page.items] == [
        ["second", ["second-a"]],
        ["first", ["first-a", ["first-a-a"]], ["first-b"]],
    ]
    assert page.items[1] == ledger.family(HERE, "first-b")
    assert (page.has_more, page.next_cursor) == (False, None)


def test_a_family_comes_where_its_last_written_member_does(ledger: Ledger) -> None:
    for name in ("one", "two", "three"):
        opened(ledger, name).fork(f"{name}-a")

    ledger.append([said("hello?", session_id="one-a")])
    ledger.append([said("hello?", session_id="two")])

    found = ledger.families(HERE).items
    assert [family.session.session_id for family in found] == ["two", "one", "three"]


@pytest.mark.parametrize("first", [1, 2, 3, 4])
def test_pages_of_families_hold_each_once(ledger: Ledger, first: int) -> None:
    for number in range(4):
        parent = opened(ledger, f"s{number}")
        parent.fork(f"s{number}-a")
        ledger.append([said("hello?", session_id=parent.session_id)])
    found: list[str] = []
    after: str | None = None
    while True:
        page = ledger.families(HERE, limit=first, after=after)
        assert len(page.items) <= first
        found += [family.session.session_id for family in page.items]
        after = page.next_cursor
        if after is None:
            break

    assert found == ["s3", "s2", "s1", "s0"]


def test_a_scope_without_forks_has_no_families(ledger: Ledger) -> None:
    opened(ledger, "alone")

    assert ledger.families(HERE).items == []
    assert ledger.families(ELSEWHERE).items == []


@pytest.mark.parametrize("first", [0, -1, 1_001])
def test_a_page_of_families_has_its_limits(ledger: Ledger, first: int) -> None:
    with pytest.raises(InvalidInput):
        ledger.families(HERE, limit=first)
