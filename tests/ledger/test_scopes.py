"""The scopes of a ledger at a glance, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import treering
from treering.views import ScopeOutline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering import Ledger


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with treering.open(":memory:") as opened:
        yield opened


def talk(ledger: Ledger, scope: str, session_id: str) -> treering.Header:
    """Record two events: that a session was opened, and a decision."""
    return ledger.session(session_id, scope=scope, agent="lyria").record("ops.decision", "hello")


def test_an_empty_ledger_has_no_scopes(ledger: Ledger) -> None:
    assert ledger.scopes() == treering.Page(items=[], has_more=False, next_cursor=None)


def test_scopes_come_by_name_with_counts_and_last_activity(ledger: Ledger) -> None:
    talk(ledger, "b/app", "s1")
    talk(ledger, "a/app", "s1")
    talk(ledger, "a/app", "s2")
    last = talk(ledger, "a/app", "s1")
    only = ledger.event("b/app", ledger.headers("b/app", last=1).items[0].event_id)

    assert ledger.scopes().items == [
        ScopeOutline(scope="a/app", session_count=2, event_count=5, updated_ms=last.recorded_ms),
        ScopeOutline(scope="b/app", session_count=1, event_count=2, updated_ms=only.recorded_ms),
    ]


def test_a_fork_counts_its_own_events_only(ledger: Ledger) -> None:
    talk(ledger, "a/app", "s1")
    ledger.session("s1", scope="a/app", agent="lyria").fork("s2")

    (outline,) = ledger.scopes().items

    assert outline.session_count == 2
    assert outline.event_count == len(ledger.headers("a/app", first=100).items)


def test_the_memory_of_a_scope_is_not_one_of_its_sessions(ledger: Ledger) -> None:
    evidence = talk(ledger, "a/app", "s1")
    ledger.memory("a/app").learn("Prefers tea", user="jo", evidence=[evidence.event_id])

    (outline,) = ledger.scopes().items

    assert outline.session_count == 1
    assert outline.event_count == len(ledger.headers("a/app", first=100).items)


def test_pages_of_scopes_follow_one_another(ledger: Ledger) -> None:
    for name in "edcba":
        talk(ledger, name, "s1")
    pages = [ledger.scopes(limit=2)]
    while pages[-1].next_cursor is not None:
        pages.append(ledger.scopes(limit=2, after=pages[-1].next_cursor))

    assert [[one.scope for one in page.items] for page in pages] == [["a", "b"], ["c", "d"], ["e"]]
    assert [page.has_more for page in pages] == [True, True, False]


@pytest.mark.parametrize("options", [{"limit": 0}, {"limit": 1_001}, {"after": "nonsense"}])
def test_what_no_page_of_scopes_can_be_is_refused(ledger: Ledger, options: dict[str, int]) -> None:
    with pytest.raises(treering.InvalidInput):
        ledger.scopes(**options)  # type: ignore[arg-type]


def test_several_scopes_may_be_given_as_a_set_and_nothing_else_is_a_scope(ledger: Ledger) -> None:
    talk(ledger, "a", "s1")

    assert [outline.scope for outline in ledger.sessions({"a"}).items] == ["a"]  # type: ignore[arg-type]
    for wrong in (3, 0, b"x"):
        with pytest.raises(treering.InvalidInput):
            ledger.sessions(wrong)  # type: ignore[arg-type]
