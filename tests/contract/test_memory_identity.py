"""Who is who, on every database: handles, users merged and told apart, all of it events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from builders import ELSEWHERE, HERE
from treering import InvalidInput, NotFound

if TYPE_CHECKING:
    from clocks import Clock
    from treering import Ledger, Session
    from treering.memory.memory import Memory

pytestmark = pytest.mark.usefixtures("clock")


def knows(memory: Memory, user: str, query: str = "dark mode") -> bool:
    return bool(memory.recall(query, user=user, record=False).ids)


def test_a_handle_is_one_user_from_the_first_time_on(ledger: Ledger, memory: Memory) -> None:
    first = memory.users.resolve("telegram", "@john")

    assert memory.users.resolve("telegram", "@john") == first
    assert memory.users.resolve("whatsapp", "@john") != first
    assert ledger.memory(ELSEWHERE).users.resolve("telegram", "@john") != first


def test_what_is_learnt_on_one_channel_is_recalled_on_the_other(memory: Memory) -> None:
    on_whatsapp = memory.users.resolve("whatsapp", "+49123")
    memory.learn("Prefers dark mode", user=on_whatsapp)

    memory.users.link(on_whatsapp, "telegram", "@john")

    on_telegram = memory.users.resolve("telegram", "@john")
    assert knows(memory, on_telegram)
    handles = {(one.channel, one.handle) for one in memory.users.handles(on_whatsapp)}
    assert handles == {("whatsapp", "+49123"), ("telegram", "@john")}


def test_a_handle_is_taken_from_its_user_before_another_has_it(memory: Memory) -> None:
    memory.users.link("ann", "telegram", "@john")
    with pytest.raises(InvalidInput, match="belongs to another user"):
        memory.users.link("bob", "telegram", "@john")

    assert memory.users.unlink("telegram", "@john") == "ann"

    assert memory.users.link("bob", "telegram", "@john").user == "bob"
    assert memory.users.resolve("telegram", "@john") == "bob"
    with pytest.raises(NotFound, match="no user has the handle"):
        memory.users.unlink("telegram", "@jane")


def test_merged_users_share_what_is_known_until_they_are_told_apart(
    ledger: Ledger, memory: Memory
) -> None:
    memory.users.link("john", "telegram", "@john")
    memory.learn("Prefers dark mode", user="john")
    memory.learn("Is allergic to peanuts", user="ann")

    receipt = memory.users.merge("ann", "john")

    assert (receipt.facts, receipt.undone) == (1, False)
    assert all(knows(memory, user) for user in ("ann", "john"))
    assert knows(memory, "john", "peanuts")
    assert memory.users.resolve("telegram", "@john") == "ann"
    assert set(memory.users.ids_of("john")) == {"ann", "john"}
    assert {fact.user for fact in memory.facts(user="ann").items} == {"ann", "john"}

    assert memory.users.unmerge("ann", "john").undone
    assert (knows(memory, "ann"), knows(memory, "john")) == (False, True)
    assert memory.users.resolve("telegram", "@john") == "john"
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

    memory.users.merge("ann", "john")

    assert memory.recall("where do I live", user="ann").facts == "- Lives in Porto (personal)"
    clock.wait(days=1)
    moved = memory.learn("Lives in Bremen", user="ann")
    assert len(moved.superseded) == 2
    assert memory.recall("where do I live", user="john").facts == "- Lives in Bremen (personal)"


def test_no_merger_undoes_another(memory: Memory) -> None:
    memory.learn("Prefers dark mode", user="john")
    memory.users.merge("ann", "john")

    with pytest.raises(InvalidInput, match="john was merged into ann") as refused:
        memory.users.merge("bea", "john")

    assert refused.value.hint == "merge ann instead"
    memory.users.merge("bea", "ann")
    assert all(knows(memory, user) for user in ("ann", "bea", "john"))
    with pytest.raises(InvalidInput, match="the same person already"):
        memory.users.merge("john", "bea")
    with pytest.raises(InvalidInput, match="with themselves"):
        memory.users.merge("ann", "ann")
    with pytest.raises(NotFound, match="was not merged"):
        memory.users.unmerge("bea", "john")


# Main sessions.


def main_of(ledger: Ledger, channel: str, handle: str) -> Session:
    session = ledger.main_session(channel, handle, scope=HERE, agent="lyria")
    with session.turn() as turn:
        turn.user("Prefers dark mode.")
    return session


def test_a_main_session_and_resolve_agree_whoever_comes_first(
    ledger: Ledger, memory: Memory
) -> None:
    met = main_of(ledger, "telegram", "@ann")
    resolved = memory.users.resolve("telegram", "@bob")

    assert (met.user, memory.users.resolve("telegram", "@ann")) == ("@ann", "@ann")
    assert main_of(ledger, "telegram", "@bob").user == resolved
    assert memory.users.resolve("telegram", "@bob") == resolved


def test_the_same_handle_on_two_channels_is_two_people(ledger: Ledger, memory: Memory) -> None:
    first = main_of(ledger, "telegram", "@jo")
    second = main_of(ledger, "slack", "@jo")
    memory.learn("Prefers dark mode", user=str(first.user))

    assert (first.session_id, second.session_id) == ("main:telegram:@jo", "main:slack:@jo")
    assert (first.user, second.user) == ("@jo", "slack:@jo")
    assert {header.user_id for header in second.headers()} == {"slack:@jo"}
    assert second.settings.participants == ("slack:@jo",)
    assert [memory.users.resolve(channel, "@jo") for channel in ("telegram", "slack")] == [
        "@jo",
        "slack:@jo",
    ]
    assert knows(memory, "@jo")
    assert not knows(memory, "slack:@jo")
    again = ledger.main_session("slack", "@jo", scope=HERE, agent="lyria")
    assert (again.user, len(again.history())) == ("slack:@jo", 1)


def test_a_linked_handle_is_its_user_as_merged(ledger: Ledger, memory: Memory) -> None:
    main_of(ledger, "telegram", "@jo")
    memory.users.link("@jo", "slack", "U1")
    memory.users.merge("ann", "@jo")

    assert main_of(ledger, "slack", "U1").user == "ann"
    assert (
        main_of(ledger, "telegram", "@jo").user == memory.users.resolve("telegram", "@jo") == "ann"
    )
    memory.users.unmerge("ann", "@jo")
    assert main_of(ledger, "slack", "U1").user == memory.users.resolve("slack", "U1") == "@jo"


def test_a_handle_that_was_linked_on_another_channel_is_not_taken(
    ledger: Ledger, memory: Memory
) -> None:
    memory.users.link("@jo", "telegram", "@jo")

    assert (
        main_of(ledger, "slack", "@jo").user == memory.users.resolve("slack", "@jo") == "slack:@jo"
    )


def test_nobody_becomes_a_known_user_by_a_handle_that_spells_their_id(
    ledger: Ledger, memory: Memory
) -> None:
    memory.users.link("boss", "slack", "U9")

    assert main_of(ledger, "irc", "boss").user == memory.users.resolve("irc", "boss") == "irc:boss"
    memory.users.link("ann", "web", "ann")
    memory.users.link("ann", "telegram", "@ann")
    assert main_of(ledger, "web", "ann").user == "ann"


def test_nobody_takes_the_id_of_another_by_a_clever_handle(ledger: Ledger) -> None:
    main_of(ledger, "telegram", "@jo")
    early = main_of(ledger, "irc", "slack:@jo")
    second = main_of(ledger, "slack", "@jo")
    late = main_of(ledger, "web", "slack:@jo:2")

    users = [early.user, second.user, late.user]
    assert users == ["slack:@jo", "slack:@jo:2", "web:slack:@jo:2"]
    assert main_of(ledger, "xmpp", "slack:@jo").user == "xmpp:slack:@jo"


def test_a_handle_that_was_made_before_sees_who_it_is_when_it_writes(ledger: Ledger) -> None:
    early = ledger.main_session("slack", "@jo", scope=HERE, agent="lyria")
    main_of(ledger, "telegram", "@jo")
    other = main_of(ledger, "slack", "@jo")

    with early.turn() as turn:
        turn.user("hello")
    early.record("conversation.user", "again")

    assert early.user == other.user == "slack:@jo"
    assert {header.user_id for header in early.headers()} == {"slack:@jo"}


def test_who_is_met_on_two_channels_at_the_same_moment_is_two_people(
    ledger: Ledger, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = ledger.main_session("slack", "@jo", scope=HERE, agent="lyria")
    append = ledger._engine.append

    def meanwhile(*events: Any, **more: Any) -> Any:
        monkeypatch.undo()
        main_of(ledger, "telegram", "@jo")
        return append(*events, **more)

    monkeypatch.setattr(ledger._engine, "append", meanwhile)
    with late.turn() as turn:
        turn.user("hello")

    assert late.user == memory.users.resolve("slack", "@jo") == "slack:@jo"
    assert memory.users.resolve("telegram", "@jo") == "@jo"


def test_whoever_is_forgotten_leaves_the_same_handle_elsewhere_alone(
    ledger: Ledger, memory: Memory
) -> None:
    main_of(ledger, "telegram", "@jo")
    other = main_of(ledger, "slack", "@jo")

    ledger.forget(HERE, user="@jo")

    assert len(other.history()) == 1
    again = ledger.main_session("telegram", "@jo", scope=HERE, agent="lyria")
    assert again.history() == []
    ledger.forget(HERE, user="slack:@jo")
    assert other.history() == []
    assert memory.users.resolve("slack", "@jo") not in {"@jo", "slack:@jo"}


def test_users_behind_several_channels_are_told_until_they_are_linked(
    ledger: Ledger, memory: Memory
) -> None:
    for channel in ("telegram", "slack"):
        # As earlier versions opened them.
        old = ledger.session(
            f"main:{channel}:@jo", scope=HERE, agent="lyria", user="@jo", channel=channel
        )
        old.record("conversation.user", "hello")
    main_of(ledger, "irc", "ann")

    assert ledger.admin.joined_users(HERE) == {"@jo": [("slack", "@jo"), ("telegram", "@jo")]}
    assert main_of(ledger, "slack", "@jo").user == memory.users.resolve("slack", "@jo") == "@jo"

    memory.users.link("slack-jo", "slack", "@jo")
    assert ledger.admin.joined_users(HERE) == {}
    assert ledger.admin.relinked_handles(HERE) == [("slack", "@jo", "@jo", "slack-jo")]
    assert main_of(ledger, "slack", "@jo").user == "slack-jo"


def test_a_name_stays_taken_if_the_opening_of_its_session_is_erased(ledger: Ledger) -> None:
    first = main_of(ledger, "telegram", "@jo")
    ledger.redact(HERE, event_id=next(iter(first.headers())).event_id)

    assert main_of(ledger, "slack", "@jo").user == "slack:@jo"
    assert main_of(ledger, "telegram", "@jo").user == "@jo"
