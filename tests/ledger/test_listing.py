"""Sessions at a glance: which there are, what they are called, what became of them.

A list goes from the last written to. What is promised to somebody who pages through it while
others write: no session twice, and every one that nobody wrote to meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import treering
from builders import ELSEWHERE, HERE, called, run_of, said
from ledger.counted import Counted
from ports import store_of
from treering import InvalidInput, Ledger, NotFound, Session
from treering.ledger import outlines
from treering.ledger.outlines import Sketch, head_of
from treering.ledger.pruning import PRUNED
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.model.sessions import SessionOutline

MINUTE = 60_000


def opened(ledger: Ledger, name: str, **about: Any) -> Session:
    """Return a session that has been opened."""
    session = ledger.session(name, **({"scope": HERE, "agent": "lyria"} | about))
    session.open()
    return session


def take_turn(session: Session, text: str = "hello?", **about: Any) -> None:
    with session.turn(**about) as turn:
        turn.user(text)
        turn.assistant("hello!")


def pages(
    ledger: Ledger, first: int, between: Callable[[], object] = lambda: None, **asked: Any
) -> list[list[str]]:
    """Return the names on each page, after doing something ``between`` them."""
    found: list[list[str]] = []
    after: str | None = None
    while True:
        page = ledger.sessions(HERE, limit=first, after=after, **asked)
        found.append([one.session_id for one in page.items])
        assert page.has_more == (page.next_cursor is not None)
        if page.next_cursor is None:
            return found
        after = page.next_cursor
        between()


def listed(ledger: Ledger, **asked: Any) -> list[str]:
    return [name for page in pages(ledger, 1_000, **asked) for name in page]


def seen_after(ledger: Ledger, name: str, minutes: float) -> SessionOutline:
    """Return a session as it looks after so many minutes."""
    head = head_of(store_of(ledger), Scope(HERE), name)
    assert head is not None
    now_ms = head.updated_ms + round(minutes * MINUTE)
    return Sketch(store_of(ledger), Scope(HERE), now_ms).outline(head)


# Pages.


def test_the_last_written_to_comes_first(ledger: Ledger) -> None:
    for name in ("s1", "s2", "s3"):
        opened(ledger, name)
    take_turn(opened(ledger, "s2"))

    assert listed(ledger) == ["s2", "s3", "s1"]


def test_sessions_of_other_scopes_are_not_listed(ledger: Ledger) -> None:
    opened(ledger, "s1")
    opened(ledger, "s2", scope=ELSEWHERE)

    assert listed(ledger) == ["s1"]
    assert ledger.sessions("acme/nowhere").items == []


@pytest.mark.parametrize("first", [1, 2, 3, 7])
def test_pages_of_any_size_are_complete_and_without_doubles(ledger: Ledger, first: int) -> None:
    names = [f"s{number}" for number in range(7)]
    for name in names:
        opened(ledger, name)

    found = pages(ledger, first)

    assert [name for page in found for name in page] == names[::-1]
    assert all(len(page) == first for page in found[:-1])


def test_a_session_that_is_written_to_meanwhile_is_never_listed_twice(ledger: Ledger) -> None:
    for number in range(9):
        opened(ledger, f"s{number}")
    seen: list[str] = []

    def between() -> None:
        # One that was listed comes to the front, and a new one as well.
        take_turn(opened(ledger, "s8"))
        opened(ledger, f"new-{len(seen)}")
        seen.append("page")

    found = [name for page in pages(ledger, 2, between) for name in page]

    assert len(found) == len(set(found))
    assert set(found) == {f"s{number}" for number in range(9)}


def test_who_is_written_to_before_it_is_reached_may_be_missed_and_no_other(ledger: Ledger) -> None:
    for number in range(9):
        opened(ledger, f"s{number}")

    found = pages(ledger, 2, lambda: take_turn(opened(ledger, "s0")))

    names = [name for page in found for name in page]
    assert len(names) == len(set(names))
    assert set(names) >= {f"s{number}" for number in range(1, 9)}
    assert listed(ledger)[0] == "s0"


@given(
    writes=st.lists(st.lists(st.integers(0, 11), max_size=4), min_size=1, max_size=8),
    first=st.integers(1, 4),
)
def test_paging_while_others_write_doubles_none_and_misses_only_what_was_written_to(
    writes: list[list[int]], first: int
) -> None:
    with treering.open(":memory:", guard="off") as ledger:
        ledger.append([said(session_id=f"s{number}") for number in range(10)])
        written: set[str] = set()
        left = iter(writes)

        def between() -> None:
            for number in next(left, []):
                ledger.append([said(session_id=f"s{number}")])
                written.add(f"s{number}")

        found = [name for page in pages(ledger, first, between) for name in page]

    assert len(found) == len(set(found))
    assert set(found) >= {f"s{number}" for number in range(10)} - written


def test_a_thousand_sessions_are_listed_by_pages(ledger: Ledger) -> None:
    for start in range(0, 1_000, 100):
        ledger.append(
            [
                said(f"question {number}", session_id=f"s{number}", agent_id=f"a{number % 2}")
                for number in range(start, start + 100)
            ]
        )

    found = pages(ledger, 90)
    even = pages(ledger, 90, agent="a0")

    assert [name for page in found for name in page] == [f"s{n}" for n in range(999, -1, -1)]
    assert [name for page in even for name in page] == [f"s{n}" for n in range(998, -1, -2)]
    assert listed(ledger, text="question 77") == [
        "s779",
        *(f"s{n}" for n in range(778, 769, -1)),
        "s77",
    ]


@pytest.mark.parametrize(
    "asked", [{"limit": 0}, {"limit": 1_001}, {"state": "asleep"}, {"after": "no cursor"}]
)
def test_a_list_that_cannot_be_is_refused(ledger: Ledger, asked: dict[str, Any]) -> None:
    opened(ledger, "s1")

    with pytest.raises(InvalidInput) as refused:
        ledger.sessions(HERE, **asked)

    assert refused.value.hint


# Filters.


def test_sessions_are_found_by_agent(ledger: Ledger) -> None:
    for number in range(6):
        opened(ledger, f"s{number}", agent="lyria" if number % 2 else "nova")

    assert pages(ledger, 2, agent="nova") == [["s4", "s2"], ["s0"]]
    assert listed(ledger, agent="nobody") == []


def test_sessions_are_found_by_when_they_were_last_written_to(ledger: Ledger) -> None:
    for number in range(3):
        opened(ledger, f"s{number}")
    times = {one.session_id: one.updated_ms for one in ledger.sessions(HERE).items}

    assert listed(ledger, since_ms=times["s0"], until_ms=times["s2"]) == ["s2", "s1", "s0"]
    assert "s2" in listed(ledger, since_ms=times["s2"])
    assert listed(ledger, since_ms=times["s2"] + MINUTE) == []
    assert listed(ledger, until_ms=times["s0"] - 1) == []


def test_sessions_are_found_by_part_of_their_title_or_id(ledger: Ledger) -> None:
    opened(ledger, "s1", title="Die Straße")
    opened(ledger, "s2").rename("Gardening")
    take_turn(opened(ledger, "s3"), "How do I plant a garden?")
    opened(ledger, "garden-4")

    assert listed(ledger, text="GARDEN") == ["garden-4", "s3", "s2"]
    assert listed(ledger, text="strasse") == ["s1"]
    assert listed(ledger, text="%") == []


def test_sessions_are_found_by_state(ledger: Ledger) -> None:
    opened(ledger, "closed").close()
    opened(ledger, "open")
    run = opened(ledger, "running").turn()
    run.start()

    assert listed(ledger, state="running") == ["running"]
    assert listed(ledger, state=["open", "closed"]) == ["open", "closed"]
    assert listed(ledger) == ["running", "open", "closed"]


def test_filters_narrow_each_other_and_pages_stay_full(ledger: Ledger) -> None:
    for number in range(12):
        session = opened(ledger, f"s{number}", agent="nova" if number % 2 else "lyria")
        session.rename("tea" if number % 3 else "coffee")

    assert pages(ledger, 2, agent="nova", text="tea", state="open") == [["s11", "s7"], ["s5", "s1"]]


# What they are called.


def test_a_session_is_called_as_it_was_last_named(ledger: Ledger) -> None:
    session = opened(ledger, "s1", title="  As\n opened ")
    take_turn(session, "What is it called?")
    assert session.outline().title == "As opened"

    session.rename("First")
    session.rename("Second")

    assert session.outline().title == "Second"
    assert ledger.sessions(HERE).items[0].title == "Second"


def test_a_session_without_a_name_is_called_by_what_was_asked_first(ledger: Ledger) -> None:
    session = opened(ledger, "s1")
    assert session.outline().title is None

    take_turn(session, f"What\n  is {'very ' * 50}long?")
    take_turn(session, "And then?")

    title = session.outline().title
    assert title is not None
    assert title.startswith("What is very very")
    assert (len(title), title[-1]) == (80, "…")


def test_a_name_that_was_erased_is_not_shown(ledger: Ledger) -> None:
    session = opened(ledger, "s1", title="opened")
    first, second = session.rename("first"), session.rename("second")

    ledger.redact(HERE, event_id=second.event_id)
    assert session.outline().title == "first"
    ledger.redact(HERE, event_id=first.event_id)
    assert session.outline().title == "opened"
    ledger.redact(HERE, session_id="s1")
    assert session.outline().title is None
    assert listed(ledger, text="first") == listed(ledger, text="opened") == []


def test_a_question_that_was_erased_names_no_session(ledger: Ledger) -> None:
    [first, _] = ledger.append([said("secret?"), said("open?")])

    ledger.redact(HERE, event_id=first.event_id)

    assert ledger.sessions(HERE).items[0].title == "open?"


@pytest.mark.parametrize("title", ["", "  ", None])
def test_a_name_is_a_text(ledger: Ledger, title: Any) -> None:
    with pytest.raises(InvalidInput):
        opened(ledger, "s1").rename(title)


def test_names_are_found_however_many_there_are(ledger: Ledger) -> None:
    titled = {"kind": "session.titled"}
    ledger.append(
        [
            said("titled", session_id=f"s{number % 5}", payload={"title": str(number)}, **titled)
            for number in range(2_500)
        ]
    )

    assert [one.title for one in ledger.sessions(HERE).items] == [
        str(number) for number in range(2_499, 2_494, -1)
    ]


# What became of them.


def test_a_session_is_open_and_after_half_an_hour_idle(ledger: Ledger) -> None:
    take_turn(opened(ledger, "s1"))

    assert seen_after(ledger, "s1", 29.9).state == "open"
    assert seen_after(ledger, "s1", 30).state == "idle"


def test_a_session_is_running_while_a_turn_is_under_way(ledger: Ledger) -> None:
    session = opened(ledger, "s1")
    with session.turn():
        assert session.outline().state == "running"
        assert seen_after(ledger, "s1", 1_000).state == "running"

    assert session.outline().state == "open"


def test_a_closed_session_is_open_again_when_something_is_recorded(ledger: Ledger) -> None:
    session = opened(ledger, "s1")
    session.close("done")
    assert session.outline().state == "closed"
    assert seen_after(ledger, "s1", 1_000).state == "closed"

    take_turn(session)

    assert session.outline().state == "open"


def test_what_is_done_to_a_closed_session_does_not_open_it(ledger: Ledger) -> None:
    session = opened(ledger, "s1")
    found = ledger.append([said(f"{number}?") for number in range(60)])
    session.close()

    session.write_episode()
    session.rename("Closed")
    for header in found:
        ledger.redact(HERE, event_id=header.event_id)

    assert session.outline().state == "closed"


def test_what_is_erased_of_an_idle_session_does_not_wake_it(ledger: Ledger) -> None:
    session = opened(ledger, "s1")
    take_turn(session)
    state = store_of(ledger)
    head = head_of(state, Scope(HERE), "s1")
    assert head is not None

    ledger.redact(HERE, session_id="s1")
    later = head_of(state, Scope(HERE), "s1")
    assert later is not None
    sketch = Sketch(state, Scope(HERE), head.updated_ms + 30 * MINUTE)

    assert sketch.outline(later).state == "idle"
    assert sketch.quiet_ms(later) == head.updated_ms


def test_a_pruned_session_is_listed_only_when_asked_for(ledger: Ledger) -> None:
    pruned = opened(ledger, "s1")
    pruned.close(PRUNED)
    opened(ledger, "s2")

    assert listed(ledger) == ["s2"]
    assert listed(ledger, state="pruned") == ["s1"]


def test_a_session_shows_the_model_that_was_named_last(ledger: Ledger) -> None:
    session = opened(ledger, "s1")
    assert session.outline().model is None
    take_turn(session, model="opus")
    assert session.outline().model == "opus"
    with session.turn() as turn:
        turn.user("again?")
        turn.emit("usage.reported", {"model": "haiku", "input_tokens": 1})

    assert session.outline().model == "haiku"


def test_a_session_counts_its_own_events_and_knows_its_times(ledger: Ledger) -> None:
    session = opened(ledger, "s1", user="u1", mode="group")
    take_turn(session)
    child = session.fork("branch")
    take_turn(child)

    outline, forked = session.outline(), child.outline()
    headers = list(session.headers())

    assert outline.event_count == len(headers)
    assert (outline.created_ms, outline.updated_ms) == (headers[0].ts_ms, headers[-1].recorded_ms)
    assert (outline.mode, outline.agent, outline.user) == ("group", "lyria", "u1")
    assert (forked.event_count, forked.mode) == (5, "group")
    assert (forked.parent, forked.forked_seq) == ("s1", len(headers))


def test_a_session_that_was_never_opened_is_shown_by_what_it_holds(ledger: Ledger) -> None:
    ledger.append([called(session_id="s1"), *run_of("r1", "hello?")])

    outline = ledger.sessions(HERE).items[0]

    assert (outline.title, outline.mode, outline.agent) == ("hello?", "main", "lyria")
    assert outline.event_count == 4


def test_a_session_without_a_past_has_no_outline(ledger: Ledger) -> None:
    with pytest.raises(NotFound):
        ledger.session("s1", scope=HERE, agent="lyria").outline()
    with pytest.raises(NotFound):
        ledger.family(HERE, "s1")


def test_the_outline_of_one_session_costs_no_look_at_the_titles_of_others(ledger: Ledger) -> None:
    for number in range(50):
        opened(ledger, f"s{number}").rename(f"Title {number}")
    session = ledger.session("s7", scope=HERE, agent="lyria")
    session.rename("Another title")
    store = Counted(store_of(ledger))
    session._store = cast("Any", store)

    assert session.outline().title == "Another title"
    assert store.items["events"] <= 2


def test_titles_are_listed_however_many_were_given_since(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlines, "TITLES_MAX", 10)
    opened(ledger, "old").rename("Old title")
    opened(ledger, "untitled")
    for number in range(30):
        opened(ledger, "busy").rename(f"Title {number}")

    found = {one.session_id: one.title for one in ledger.sessions(HERE, limit=4).items}

    assert found == {"old": "Old title", "untitled": None, "busy": "Title 29"}
    assert listed(ledger, text="old title") == ["old"]


def test_an_erased_title_gives_way_to_the_one_before(ledger: Ledger) -> None:
    session = opened(ledger, "s1", title="First")
    session.rename("Second")
    third = session.rename("Third")

    ledger.redact(HERE, event_id=third.event_id)

    assert session.outline().title == "Second"
    assert [one.title for one in ledger.sessions(HERE).items] == ["Second"]
