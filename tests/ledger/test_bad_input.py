"""What cannot be asked or recorded is refused in words, before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import exchange
from treering import Header, InvalidInput, Ledger, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Call = Callable[[Ledger, Session], Any]

SCOPE = "acme/app"
SURROGATE = "\ud800"


@pytest.fixture(scope="module")
def memory() -> Iterator[Ledger]:
    """Return a ledger with one group session of one turn, for all that is refused."""
    with treering.open(":memory:", guard="off") as ledger:
        session = ledger.session("s", scope=SCOPE, agent="bot", mode="group")
        exchange(session, "hello", "good day")
        yield ledger


def _listed(name: str, **wrong: Any) -> Call:
    return lambda ledger, _: getattr(ledger, name)(SCOPE, **wrong)


def _asked(name: str, *given: Any, **wrong: Any) -> Call:
    return lambda _, session: getattr(session, name)(*given, **wrong)


def _opened(**wrong: Any) -> Call:
    return lambda ledger, _: ledger.session("new", scope=SCOPE, agent="bot", **wrong)


COUNTS = {
    f"{name}({field}={value!r})": _asked(name, **{field: value})
    for name, field in (
        ("headers", "first"),
        ("headers", "last"),
        ("events", "first"),
        ("events", "last"),
        ("history", "last"),
        ("turns", "last"),
        ("tool_calls", "last"),
        ("shown", "last"),
        ("undo", "turns"),
        ("compact", "keep"),
        ("compact", "max_tokens"),
        ("context", "reserve_output_tokens"),
    )
    for value in ("x", 1.5, True, -1, 2**70)
}
PAGES = {
    f"{name}({field}={value!r})": _listed(name, **{field: value})
    for name, field, values in (
        ("sessions", "since_ms", ("x", 1.5, True)),
        ("sessions", "until_ms", ("x", 1.5, True)),
        ("sessions", "state", (5, None, "asleep", [5])),
        ("sessions", "agent", (5,)),
        ("sessions", "prefix", (5, b"s")),
        ("sessions", "text", (5, ["s"])),
        ("sessions", "limit", (None, "x", 1.5, True, 0)),
        ("sessions", "after", (5, "é", SURROGATE)),
        ("families", "limit", (None, "x", 1.5, True, 0)),
        ("families", "after", (5, "é", SURROGATE)),
    )
    for value in values
}
CONTEXTS = {
    f"context({field}={value!r})": _asked("context", **{field: value})
    for field, values in (
        ("system", (None, 5, SURROGATE)),
        ("dialect", (None, 5, "klingon")),
        ("tools", (None, "search", {"name": "search"})),
        ("contributors", (None, 5, "notes")),
        ("max_tokens", ("x", 1.5, True, -1)),
        ("reserve_output_tokens", (None,)),
        ("turn", ("x",)),
        ("model", (5, ["m"])),
        ("count", (5,)),
    )
    for value in values
}
SESSIONS = {
    f"session({field}={value!r})": _opened(**{field: value})
    for field, values in (
        ("participants", ("bob", None, [5], [SURROGATE])),
        ("tools", ("search", 5, [5])),
        ("isolation", ("none", {}, {"sandbox": True}, True)),
        ("channel", (5, SURROGATE)),
        ("key", (5, SURROGATE)),
        ("title", ("", SURROGATE)),
    )
    for value in values
}
IDS: dict[str, Call] = {
    f"{name}({value!r})": make(value)
    for value in (5, "", SURROGATE)
    for name, make in (
        ("family", lambda value: lambda ledger, _: ledger.family(SCOPE, value)),
        ("run_headers, session_id", lambda value: lambda ledger, _: _run(ledger, value, "r")),
        ("run_headers, run_id", lambda value: lambda ledger, _: _run(ledger, "s", value)),
        ("main_session", lambda value: lambda ledger, _: _main(ledger, value)),
        ("group_session", lambda value: lambda ledger, _: _group(ledger, value)),
        ("is_addressed, reply_to", lambda value: _asked("is_addressed", "x", reply_to=value)),
        ("shown, run_id", lambda value: _asked("shown", run_id=value)),
        ("fork", lambda value: _asked("fork", value)),
        ("fork, at", lambda value: _asked("fork", at=value)),
        ("fork, agent", lambda value: _asked("fork", agent=value)),
    )
}
OTHERS: dict[str, Call] = {
    "family(None)": lambda ledger, _: ledger.family(SCOPE, None),  # type: ignore[arg-type]
    "main_session(user=None)": lambda ledger, _: _main(ledger, None),
    "group_session(group_id=None)": lambda ledger, _: _group(ledger, None),
    "sessions(None)": lambda ledger, _: ledger.sessions(None),
    "checkpoint(content=5)": _asked("checkpoint", "title", 5),
    "fork(title='')": _asked("fork", title=""),
    "is_addressed(None)": _asked("is_addressed", None),
    "is_addressed(names='bob')": _asked("is_addressed", "x", names="bob"),
    "is_addressed(names=[5])": _asked("is_addressed", "x", names=[5]),
    "shown(turn='x')": _asked("shown", turn="x"),
    "session.append('x')": _asked("append", "x"),
    "session.append(5)": _asked("append", 5),
    "session.append([5])": _asked("append", [5]),
    "session.append(event)": lambda _, session: session.append(
        session.new_event("conversation.user", "hello")  # type: ignore[arg-type]
    ),
    "ledger.append('x')": lambda ledger, _: ledger.append("x"),  # type: ignore[arg-type]
    "ledger.append([5])": lambda ledger, _: ledger.append([5]),  # type: ignore[list-item]
}


def _main(ledger: Ledger, user: Any) -> Session:
    return ledger.main_session("telegram", user, scope=SCOPE, agent="bot")


def _run(ledger: Ledger, session_id: Any, run_id: Any) -> Iterator[Header]:
    return ledger.run_headers(SCOPE, session_id, run_id)


def _group(ledger: Ledger, group_id: Any) -> Session:
    return ledger.group_session("telegram", group_id, scope=SCOPE, agent="bot")


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(call, id=ascii(name))
        for calls in (COUNTS, PAGES, CONTEXTS, SESSIONS, IDS, OTHERS)
        for name, call in calls.items()
    ],
)
def test_bad_input_is_refused_with_a_hint_and_leaves_no_trace(memory: Ledger, call: Call) -> None:
    before = memory.headers(SCOPE).items
    session = memory.session("s", scope=SCOPE, agent="bot")

    with pytest.raises(InvalidInput) as refusal:
        call(memory, session)

    assert refusal.value.hint
    assert memory.headers(SCOPE).items == before


@pytest.mark.parametrize(
    "call",
    [
        lambda ledger, _: ledger.family(SCOPE, SURROGATE),
        _asked("is_addressed", "x", reply_to=SURROGATE),
        _asked("fork", at=SURROGATE),
        _asked("shown", run_id="\0"),
        _asked("headers", last=1.5),
    ],
)
def test_no_database_sees_bad_input(ledger: Ledger, call: Call) -> None:
    session = ledger.session("s", scope=SCOPE, agent="bot")
    session.record("conversation.user", "hello")

    with pytest.raises(InvalidInput):
        call(ledger, session)


def test_events_may_come_from_a_generator(memory: Ledger) -> None:
    session = memory.session("s", scope=SCOPE, agent="bot")

    headers = session.append(session.new_event("conversation.user", text) for text in "ab")  # type: ignore[arg-type]

    assert [header.summary for header in headers] == ["a", "b"]
