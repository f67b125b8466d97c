"""A ledger that is opened by the address of a server: the same calls, over HTTP."""

from __future__ import annotations

import inspect
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import treering
from builders import ELSEWHERE, HERE, said
from effort import PATIENCE_S
from served import ServerProcess, ThreadServer
from treering.client.connection import ServerConnection
from treering.client.ledger import RemoteLedger
from treering.clock import now_ms
from treering.errors import (
    NotAuthenticated,
    NotFound,
    NotPermitted,
    OutcomeUnknown,
    Unavailable,
    Unsupported,
)
from treering.ledger.following import cursor_at
from treering.model.scopes import Scope
from treering.surfaces.server import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from treering import Ledger, Session
    from treering.surfaces.server.grants import TokenFile


@pytest.fixture
def remote(ledger: Ledger, file: TokenFile) -> Iterator[Ledger]:
    """Return the ledger of the test as a client has it."""
    with (
        ThreadServer(ledger, file=file) as server,
        treering.open(server.url, token=server.token) as remote,
    ):
        yield remote


def work(session: Session) -> None:
    """Record turns with everything that an agent does."""
    with session.turn(model="small-1", entry_point="chat") as turn:
        turn.user("How many tests?", channel="terminal")
        turn.thinking("Let me look")
        with turn.tool("count", {"folder": "tests"}) as call:
            call.finish(["one", "two"])
        with pytest.raises(ZeroDivisionError), turn.tool("divide", {"by": 0}):
            raise ZeroDivisionError("by zero")
        turn.delta("Tw")
        turn.assistant("Two.", tokens=3)
    failing = session.turn()
    failing.start()
    failing.user("Fail")
    failing.fail(KeyError("x"))
    session.checkpoint("Halfway")
    session.rename("Counting tests")
    session.record("ops.decision", "Two are enough", payload={"why": "cheap"})


def test_turns_over_http_leave_the_events_that_turns_here_leave(
    remote: Ledger, ledger: Ledger
) -> None:
    for where, session_id in ((remote, "there"), (ledger, "here")):
        work(where.session(session_id, scope=HERE, agent="lyria", user="mina"))

    there, here = (
        [
            (event.kind, event.agent_id, event.user_id, event.run_seq, event.source, event.seq)
            for event in ledger.session(session_id, scope=HERE, agent="x").events()
        ]
        for session_id in ("there", "here")
    )
    assert there == here
    views = [ledger.session(name, scope=HERE, agent="x") for name in ("there", "here")]
    roles = [[message["role"] for message in view.history()] for view in views]
    assert roles[0] == roles[1]
    assert [turn.state for turn in views[0].turns()] == [turn.state for turn in views[1].turns()]
    assert views[0].outline().title == "Counting tests"
    assert ledger.admin.verify().intact


def test_a_run_over_http_goes_on_when_others_add_to_it(remote: Ledger, ledger: Ledger) -> None:
    session = remote.session("s1", scope=HERE, agent="lyria")
    with session.turn() as turn:
        turn.user("hello")
        ledger.append([said("a", run_id=turn.run_id), said("b", run_id=turn.run_id)])
        with turn.tool("count", {}) as call:
            ledger.append([said("c", run_id=turn.run_id)])
            call.finish(1)
        turn.assistant("hi")

    told = [header.run_seq for header in session.headers() if header.run_id == turn.run_id]
    assert told == list(range(1, 10))


def test_what_does_not_fit_has_the_number_over_http_that_it_has_here(
    remote: Ledger, ledger: Ledger
) -> None:
    for where, session_id in ((remote, "there"), (ledger, "here")):
        session = where.session(session_id, scope=HERE, agent="lyria")
        with session.turn() as turn:
            turn.delta("Tw")
            turn.emit("ops.observation", {"a": 1}, summary="long", refs={"x": "y" * 9_000})

    there, here = (
        [header.run_seq for header in ledger.session(name, scope=HERE, agent="x").headers()]
        for name in ("there", "here")
    )
    assert there == here


def test_what_a_session_says_about_itself_is_the_same_there_and_here(
    remote: Ledger, ledger: Ledger
) -> None:
    work(ledger.session("s", scope=HERE, agent="lyria", user="mina"))
    there = remote.session("s", scope=HERE, agent="lyria", user="mina")
    here = ledger.session("s", scope=HERE, agent="lyria", user="mina")

    for read in (
        lambda one: list(one.headers()),
        lambda one: list(one.events(last=3)),
        lambda one: list(one.headers(first=2, after_seq=1)),
        lambda one: one.history(),
        lambda one: list(one.turns()),
        lambda one: list(one.tool_calls()),
        lambda one: one.summary(),
        lambda one: one.usage(),
        lambda one: one.goals(),
        lambda one: one.outline(),
        lambda one: one.context(4_000, system="Be brief."),
    ):
        assert read(there) == read(here)


def test_sessions_are_forked_undone_and_closed_over_http(remote: Ledger, ledger: Ledger) -> None:
    session = remote.session("s", scope=HERE, agent="lyria")
    for text in ("one", "two"):
        with session.turn() as turn:
            turn.user(text)

    fork = session.fork("other", title="Another way")
    session.undo()
    undone = [message["content"] for message in session.history()]
    session.redo()
    closed = session.close("done")

    assert [message["content"] for message in fork.history()] == ["one", "two"]
    assert undone == ["one"]
    assert closed.kind == "session.closed"
    assert ledger.family(HERE, "s") == remote.family(HERE, "s")


def test_a_follower_over_http_gives_what_is_there_and_what_comes(
    remote: Ledger, ledger: Ledger
) -> None:
    ledger.append([said("one"), said("two")])
    follower = remote.follow(HERE, idle_s=0)

    assert [header.summary for header in follower] == ["one", "two"]
    assert follower.cursor == ledger.end_cursor(HERE) == remote.end_cursor(HERE)

    stop = threading.Event()
    later = remote.follow_events(HERE, after=follower.cursor, stop=stop)
    ledger.append([said("three")])
    assert next(later).payload == {"text": "three"}
    stop.set()
    assert list(later) == []


def test_a_client_survives_a_restart_and_records_nothing_twice(
    database: Path, file: TokenFile
) -> None:
    token, _ = file.add(name="", rights=["read", "write"], scopes=[], expires_ms=None, now_ms=1)
    with (
        ServerProcess(database, "--token-file", str(file.path)) as process,
        RemoteLedger(ServerConnection(process.url, token, patience_s=PATIENCE_S), now_ms) as remote,
    ):
        restarting = threading.Thread(target=process.restart, args=(signal.SIGKILL,))
        remote.append([said("0")])
        restarting.start()
        session = remote.session("talk", scope=HERE, agent="lyria")
        with session.turn() as turn:
            for number in range(1, 40):
                turn.user(str(number))
        restarting.join(PATIENCE_S)
        seen = [header.summary for header in remote.follow(HERE, idle_s=0)]

    assert [text for text in seen if text.isdigit()] == [str(number) for number in range(40)]


def test_what_cannot_be_repeated_is_done_after_a_pause_in_which_the_server_hung_up(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "KEEP_ALIVE_S", 0)
    with ThreadServer(ledger) as server, treering.open(server.url, token=server.token) as remote:
        session = remote.session("s", scope=HERE, agent="lyria")
        for _ in range(3):
            with session.turn() as turn:
                turn.user("hello")
            deadline = time.monotonic() + PATIENCE_S
            while server.server.server_state.connections:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            session.undo()

    assert ledger.session("s", scope=HERE, agent="x").history() == []


def test_the_memory_is_asked_and_taught_over_http(remote: Ledger, ledger: Ledger) -> None:
    evidence = remote.append([said("I prefer short answers", user_id="mina")])[0].event_id
    memory = remote.memory(HERE)

    learnt = memory.learn("Mina prefers short answers", user="mina", evidence=[evidence])
    assert learnt.fact_id is not None
    found = memory.recall("How long should answers be?", user="mina")

    assert found.fact_hits[0].fact.text == memory.fact(learnt.fact_id).text
    assert found.event_id is not None, "its use is recorded"
    assert memory.facts(state="current") == ledger.memory(HERE).facts()
    assert memory.doubts() == []
    with pytest.raises(NotFound, match="nothing to decide"):
        memory.settle(memory.facts().items[0].id, ended=True)
    assert memory.reject(learnt.fact_id, reason="no").state == "forgotten"
    assert len(memory.history(learnt.fact_id)) == 2


def test_erasing_over_http_erases(remote: Ledger, ledger: Ledger) -> None:
    remote.append([said("a", event_id="e1"), said("b", user_id="mina", session_id="m")])

    assert remote.redact(HERE, event_id="e1").redacted_count == 1
    assert remote.forget(HERE, user="mina", dry_run=True).dry_run
    assert not remote.forget(HERE, user="mina").dry_run

    assert "m" not in ledger.session_ids(HERE)
    assert remote.admin.verify().intact


def test_a_token_that_may_only_read_is_enough_to_read(ledger: Ledger, file: TokenFile) -> None:
    token, _ = file.add(name="", rights=["read"], scopes=[HERE], expires_ms=None, now_ms=1)
    ledger.append([said("one")])
    with (
        ThreadServer(ledger, file=file) as server,
        treering.open(server.url, token=token) as remote,
    ):
        assert [header.summary for header in remote.headers(HERE).items] == ["one"]
        assert remote.memory(HERE).recall("anything").fact_hits == []
        with pytest.raises(NotPermitted):
            remote.append([said("two")])
        with pytest.raises(NotPermitted):
            remote.headers(ELSEWHERE)
    with (
        ThreadServer(ledger) as server,
        treering.open(server.url) as nobody,
        pytest.raises(NotAuthenticated),
    ):
        nobody.headers(HERE)


def test_whatever_cannot_be_done_over_http_says_so(remote: Ledger) -> None:
    session, memory = remote.session("s", scope=HERE, agent="a"), remote.memory(HERE)
    refused: dict[str, Any] = {
        "ledger.keys": lambda: remote.keys,
        "ledger.importing": lambda: remote.importing,
        "ledger.expire": lambda: remote.expire(HERE),
        "ledger.sweep": lambda: remote.sweep(HERE),
        "ledger.main_session": lambda: remote.main_session("c", "u", scope=HERE, agent="a"),
        "ledger.spine": remote.spine,
        "admin.rebuild": remote.admin.rebuild,
        "session.compact": session.compact,
        "session.post": lambda: session.post("hi"),
        "memory.extract": memory.extract,
        "memory.users": lambda: memory.users,
        "committed": lambda: remote.follow(HERE, committed=True),
    }

    for name, call in refused.items():
        with pytest.raises(Unsupported, match=f"{name} cannot be used over HTTP"):
            call()


def test_no_public_call_of_a_ledger_is_forgotten(remote: Ledger) -> None:
    """Each is made over HTTP or refused; none reaches for a store that is not there."""
    names = {name for name in dir(treering.Ledger) if not name.startswith("_")}

    assert names <= {name for name in vars(RemoteLedger) if not name.startswith("_")}
    assert isinstance(remote, treering.Ledger)
    assert inspect.isfunction(RemoteLedger.append)


@pytest.mark.parametrize("url", ["http://", "https:///x", "http://127.0.0.1:1/v1"])
def test_an_address_that_is_not_one_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(treering.InvalidInput, match="is not the address of a server"):
        treering.open(url)


def test_over_http_only_a_token_is_chosen_and_a_token_is_for_http(tmp_path: Path) -> None:
    with pytest.raises(treering.InvalidInput, match="pass only a token"):
        treering.open("http://127.0.0.1:1", guard="mask")
    with pytest.raises(treering.InvalidInput, match="a token only works with a server"):
        treering.open(tmp_path / "a.db", token="x")


def test_a_server_that_is_not_there_is_waited_for_and_then_missed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    remote = RemoteLedger(
        ServerConnection(f"http://127.0.0.1:{port}", None, patience_s=0.1), lambda: 1
    )

    with pytest.raises(Unavailable, match="no answer from"):
        remote.headers(HERE)
    with pytest.raises(Unavailable, match="no answer from"):
        next(remote.follow(HERE))


def test_what_may_have_been_done_and_cannot_be_repeated_is_in_doubt() -> None:
    with socket.create_server(("127.0.0.1", 0)) as rude:

        def hang_up() -> None:
            connection, _ = rude.accept()
            connection.recv(10_000)
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        url = f"http://127.0.0.1:{rude.getsockname()[1]}"
        remote = RemoteLedger(ServerConnection(url, None, patience_s=0.1), lambda: 1)
        with pytest.raises(OutcomeUnknown):
            remote.session("s", scope=HERE, agent="a").undo()
        thread.join(PATIENCE_S)


def test_the_cursor_of_an_event_that_did_not_arrive_does_not_count() -> None:
    """A stream may break between the id of an event and the event."""
    first, second = (cursor_at(Scope(HERE), (position,)) for position in (1, 2))
    with treering.open(":memory:") as ledger:
        event = msgspec.json.encode(ledger.append([said("one")])[0]).decode()
    begin = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nretry: 1000\n\n"
    answers = [f"{begin}id: {first}\nevent: x\ndata: {event}\n\nid: {second}\n", begin, begin]
    resumed: list[str] = []
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                request = connection.recv(10_000).decode()
                resumed.append(request.partition("Last-Event-ID: ")[2].partition("\r")[0])
                if len(resumed) == len(answers):
                    stop.set()  # Before it can ask once more, and wait.
                connection.sendall(answer.encode())
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        remote = RemoteLedger(ServerConnection(url, None, patience_s=0.1), lambda: 1)
        seen = [header.summary for header in remote.follow(HERE, stop=stop)]
        thread.join(PATIENCE_S)

    assert seen == ["one"]
    assert resumed[1:] == [first, first]


def test_a_closed_client_says_so(remote: Ledger) -> None:
    remote.close()

    with pytest.raises(treering.errors.Closed):
        remote.headers(HERE)
