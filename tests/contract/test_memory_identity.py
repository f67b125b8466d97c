"""Who is who, on every database: handles, users merged and told apart, all of it events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builders import ELSEWHERE, HERE
from treering import InvalidInput, NotFound

if TYPE_CHECKING:
    from clocks import Clock
    from treering import Ledger
    from treering.memory.memory import Memory

pytestmark = pytest.mark.usefixtures("clock")


def knows(memory: Memory, user: str, query: str = "dark mode") -> bool:
    return bool(memory.recall(query, user=user, record=False).ids)


def test_a_handle_is_one_user_from_the_first_time_on(ledger: Ledger, memory: Memory) -> None:
    first = memory.resolve("telegram", "@john")

    assert memory.resolve("telegram", "@john") == first
    assert memory.resolve("whatsapp", "@john") != first
    assert ledger.memory(ELSEWHERE).resolve("telegram", "@john") != first


def test_what_is_learnt_on_one_channel_is_recalled_on_the_other(memory: Memory) -> None:
    on_whatsapp = memory.resolve("whatsapp", "+49123")
    memory.learn("Prefers dark mode", user=on_whatsapp)

    memory.link(on_whatsapp, "telegram", "@john")

    on_telegram = memory.resolve("telegram", "@john")
    assert knows(memory, on_telegram)
    handles = {(one.channel, one.handle) for one in memory.handles(on_whatsapp)}
    assert handles == {("whatsapp", "+49123"), ("telegram", "@john")}


def test_a_handle_is_taken_from_its_user_before_another_has_it(memory: Memory) -> None:
    memory.link("ann", "telegram", "@john")
    with pytest.raises(InvalidInput, match="belongs to another user"):
        memory.link("bob", "telegram", "@john")

    assert memory.unlink("telegram", "@john") == "ann"

    assert memory.link("bob", "telegram", "@john").user == "bob"
    assert memory.resolve("telegram", "@john") == "bob"
    with pytest.raises(NotFound, match="no user has the handle"):
        memory.unlink("telegram", "@jane")


def test_merged_users_share_what_is_known_until_they_are_told_apart(
    ledger: Ledger, memory: Memory
) -> None:
    memory.link("john", "telegram", "@john")
    memory.learn("Prefers dark mode", user="john")
    memory.learn("Is allergic to peanuts", user="ann")

    receipt = memory.merge("ann", "john")

    assert (receipt.facts, receipt.undone) == (1, False)
    assert all(knows(memory, user) for user in ("ann", "john"))
    assert knows(memory, "john", "peanuts")
    assert memory.resolve("telegram", "@john") == "ann"
    assert set(memory.names("john")) == {"ann", "john"}
    assert {fact.user for fact in memory.facts(user="ann").items} == {"ann", "john"}

    assert memory.unmerge("ann", "john").undone
    assert (knows(memory, "ann"), knows(memory, "john")) == (False, True)
    assert memory.resolve("telegram", "@john") == "john"
    kinds = [
        event.kind for event in ledger.events(HERE, kinds=["user.linked", "user.merged"]).items
    ]
    assert kinds == ["user.linked", "user.merged", "user.merged"]


def test_of_two_answers_of_merged_users_the_later_one_is_recalled(
    clock: Clock, memory: Memory
) -> None:
    memory.learn("Lives in Ghent", user="ann")
    clock.wait(days=1)
    memory.learn("Lives in Porto", user="john")

    memory.merge("ann", "john")

    assert memory.recall("where do I live", user="ann").facts == "- Lives in Porto (personal)"
    clock.wait(days=1)
    moved = memory.learn("Lives in Bremen", user="ann")
    assert len(moved.superseded) == 2
    assert memory.recall("where do I live", user="john").facts == "- Lives in Bremen (personal)"


def test_no_merger_undoes_another(memory: Memory) -> None:
    memory.learn("Prefers dark mode", user="john")
    memory.merge("ann", "john")

    with pytest.raises(InvalidInput, match="john was merged into ann") as refused:
        memory.merge("bea", "john")

    assert refused.value.hint == "merge ann instead"
    memory.merge("bea", "ann")
    assert all(knows(memory, user) for user in ("ann", "bea", "john"))
    with pytest.raises(InvalidInput, match="the same person already"):
        memory.merge("john", "bea")
    with pytest.raises(InvalidInput, match="with themselves"):
        memory.merge("ann", "ann")
    with pytest.raises(NotFound, match="was not merged"):
        memory.unmerge("bea", "john")
