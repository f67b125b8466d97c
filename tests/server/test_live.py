"""Live streams: complete, in order, resumed exactly, for many clients at once."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
import time
from collections import defaultdict
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import treering
from builders import ELSEWHERE, HERE, said
from effort import LONG, PATIENCE_S, rounds
from served import Caller, ServerProcess, ThreadServer, at, follow, follow_until
from treering.model.queries import pack
from treering.surfaces.server.problems import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering import Ledger
    from treering.surfaces.server.grants import TokenFile

FAULTS = (OSError, HTTPException, ValueError)
"""What a caller meets while a server is away."""
STREAM = at("scopes", HERE, "stream")


@pytest.fixture
def live(ledger: Ledger, file: TokenFile) -> Iterator[ThreadServer]:
    """Return a server with a quick heartbeat."""
    with ThreadServer(ledger, file=file, limits=Limits(heartbeat_s=0.05)) as server:
        yield server


def heard(messages: Iterator[dict[str, str]], count: int) -> list[str]:
    """Return the summaries of the next messages."""
    return [msgspec.json.decode(next(messages)["data"])["summary"] for _ in range(count)]


def test_a_stream_gives_what_is_there_then_what_comes(live: ThreadServer, ledger: Ledger) -> None:
    ledger.append([said("one"), said("two")])
    stream = live.caller().stream(STREAM)

    assert heard(stream, 2) == ["one", "two"]
    ledger.append([said("three")])
    assert heard(stream, 1) == ["three"]


def test_a_client_that_comes_back_continues_exactly_where_it_was(
    live: ThreadServer, ledger: Ledger
) -> None:
    ledger.append([said("one"), said("two")])
    with contextlib.closing(live.caller().stream(STREAM)) as stream:  # type: ignore[type-var]
        first = next(stream)
    ledger.append([said("three")])

    again = live.caller().stream(STREAM, last_event_id=first["id"])
    by_argument = live.caller().stream(at("scopes", HERE, "stream", after=first["id"]))

    assert heard(again, 2) == ["two", "three"]
    assert heard(by_argument, 2) == ["two", "three"]
    assert first["id"] != ledger.end_cursor(HERE)


def test_a_stream_from_the_end_gives_only_what_comes(live: ThreadServer, ledger: Ledger) -> None:
    ledger.append([said("before")])
    streams = [
        live.caller().stream(path)
        for path in (at("scopes", HERE, "stream", after="end"), at("stream", after="end"))
    ]
    ledger.append([said("after")])

    assert [heard(stream, 1) for stream in streams] == [["after"], ["after"]]


def test_filters_choose_sessions_and_kinds_and_payloads_come_on_request(
    live: ThreadServer, ledger: Ledger
) -> None:
    ledger.append([
        said("a", session_id="s1"), said("b", session_id="s2"),
        said("c", session_id="s2", kind="ops.alert"), said("d", session_id="s2"),
    ])  # fmt: skip
    chosen = live.caller().stream(at("scopes", HERE, "stream", session_id="s2"))
    kinds = live.caller().stream(at("scopes", HERE, "stream", kinds=["ops.alert"]))
    private = live.caller().stream(at("scopes", HERE, "stream", payloads=True))

    assert heard(chosen, 3) == ["b", "c", "d"]
    assert heard(kinds, 1) == ["c"]
    message = next(private)
    assert message["event"] == "conversation.user"
    assert msgspec.json.decode(message["data"])["payload"] == {"text": "a"}
    assert "payload" not in msgspec.json.decode(next(live.caller().stream(STREAM))["data"])


@pytest.mark.parametrize("name", ["lifecycle.failed", "run.int*"])
def test_a_filter_knows_the_names_of_envelopes_and_of_groups(
    live: ThreadServer, ledger: Ledger, name: str
) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    session.turn().start()
    session.interrupt("stop")

    stream = live.caller().stream(at("scopes", HERE, "stream", kinds=[name]))

    assert next(stream)["event"] == "run.interrupted"


def test_a_heartbeat_carries_the_cursor_past_what_a_filter_hides(
    live: ThreadServer, ledger: Ledger
) -> None:
    ledger.append([said("hidden")])
    caller = live.caller()
    caller.connection.request(
        "GET", at("scopes", HERE, "stream", session_id="none"),
        headers={"authorization": f"Bearer {live.token}"},
    )  # fmt: skip
    answer = caller.connection.getresponse()

    lines = [answer.readline().decode().strip() for _ in range(7)]

    place = f"id: {ledger.end_cursor(HERE)}"
    assert lines == ["retry: 1000", "", ": caught up", place, "", ":", place]
    caller.close()


def test_one_stream_follows_all_scopes_new_ones_too_and_resumes(
    live: ThreadServer, ledger: Ledger
) -> None:
    ledger.append([said("here"), said("there", scope=ELSEWHERE)])
    with contextlib.closing(live.caller().stream("/v1/stream")) as stream:  # type: ignore[type-var]
        first = [next(stream), next(stream)]
        assert {msgspec.json.decode(m["data"])["summary"] for m in first} == {"here", "there"}
        ledger.append([said("new", scope="acme/new")])
        cursor = next(stream)["id"]
    ledger.append([said("later"), said("later new", scope="acme/new")])

    again = live.caller().stream("/v1/stream", last_event_id=cursor)

    assert set(heard(again, 2)) == {"later", "later new"}


def test_a_stream_over_all_scopes_keeps_to_those_that_the_token_covers(
    live: ThreadServer, ledger: Ledger, file: TokenFile
) -> None:
    token, _ = file.add(name="", rights=["read"], scopes=[ELSEWHERE], expires_ms=None, now_ms=1)
    ledger.append([said("private"), said("mine", scope=ELSEWHERE)])
    forged = pack([(HERE, ()), (ELSEWHERE, ())])

    for headers in ({}, {"last_event_id": forged}):
        stream = live.caller(token).stream("/v1/stream", **headers)
        assert heard(stream, 1) == ["mine"]
        ledger.append([said("private again"), said("mine again", scope=ELSEWHERE)])
        assert heard(stream, 1) == ["mine again"]


def test_a_stream_ends_when_its_token_is_removed(
    live: ThreadServer, ledger: Ledger, file: TokenFile
) -> None:
    token, stored = file.add(name="", rights=["read"], scopes=[], expires_ms=None, now_ms=1)
    ledger.append([said("one")])
    stream = live.caller(token).stream(STREAM)
    assert heard(stream, 1) == ["one"]

    file.remove(stored.id)

    assert list(stream) == []


def test_a_cursor_of_another_scope_is_refused_before_the_stream_begins(
    live: ThreadServer, ledger: Ledger
) -> None:
    with live.caller() as caller:
        answer = caller.get(STREAM, last_event_id=ledger.end_cursor(ELSEWHERE))

    assert (answer.status, answer.json["code"]) == (400, "invalid_cursor")


def test_too_many_clients_are_refused_and_may_come_later(ledger: Ledger) -> None:
    ledger.append([said("one")])
    with ThreadServer(ledger, limits=Limits(streams_max=1)) as server, server.caller() as caller:
        with contextlib.closing(caller.stream(STREAM)) as stream:  # type: ignore[type-var]
            assert heard(stream, 1) == ["one"]
            refused = caller.get(STREAM)
        assert (refused.status, refused.json["code"]) == (503, "busy")
        assert refused.headers["retry-after"] == "1"


def test_a_slow_client_is_dropped_and_resumes_without_a_gap(ledger: Ledger) -> None:
    server = ThreadServer(ledger, limits=Limits(queue_events_max=50))
    # The system may hold megabytes between them, all of which the client could read in the end.
    server.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    with server:
        seen = asyncio.run(_read_slowly(server, ledger))

    assert seen == [f"{number:04} {'x' * 900}" for number in range(2_000)]


async def _read_slowly(server: ThreadServer, ledger: Ledger) -> list[str]:
    """Follow and read nothing while much is recorded; then resume."""
    seen: list[str] = []
    cursor: str | None = None
    ledger.append([said(f"{0:04} {'x' * 900}")])
    async with asyncio.timeout(PATIENCE_S):
        stream = follow(server.port, server.token, STREAM)
        cursor, event = await anext(stream)
        seen.append(event["summary"])
        _await(
            lambda: any(one.listeners for one in list(server.application.hub._channels.values()))
        )
        for begin in range(1, 2_000, 100):
            batch = range(begin, min(begin + 100, 2_000))
            ledger.append([said(f"{number:04} {'x' * 900}") for number in batch])
        # In this thread, so that the client reads nothing.
        _await(lambda: all(one.is_over for one in list(server.application.hub._subscriptions)))
        # It ends by itself, since the queue of this client was full.
        async for place, event in stream:
            cursor = place
            seen.append(event["summary"])
        async for _, event in follow(server.port, server.token, STREAM, last_event_id=cursor):
            seen.append(event["summary"])
            if len(seen) == 2_000:
                return seen
    raise AssertionError(len(seen))


def _await(is_reached: Callable[[], bool]) -> None:
    """Return when the server is where a test wants it."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_many_clients_and_writers_cost_queues_and_not_threads(database: Path) -> None:
    clients, writers, batches = (200, 4, 300) if LONG else (60, 4, 15)
    with ServerProcess(database) as process:
        before = _footprint(process)
        seen = asyncio.run(_crowd(process, clients, writers, batches))
        after = _footprint(process)

    expected = writers * batches * 10
    assert len(seen) == clients
    for order in seen:
        assert len(order) == expected
        assert order == seen[0]
    by_writer: dict[str, list[int]] = defaultdict(list)
    for event_id in seen[0]:
        writer, _, number = event_id.partition("-")
        by_writer[writer].append(int(number))
    assert all(numbers == sorted(numbers) for numbers in by_writer.values())
    assert after["Threads"] <= 48, "they would be one for each client"
    assert after["VmHWM"] - before["VmRSS"] < 300_000, "kilobytes"


def _footprint(process: ServerProcess) -> dict[str, int]:
    """Return the threads and the kilobytes of a server, now and at most."""
    lines = Path(f"/proc/{process.process.pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {name: int(fields[name].split()[0]) for name in ("Threads", "VmRSS", "VmHWM")}


async def _crowd(
    process: ServerProcess, clients: int, writers: int, batches: int
) -> list[list[str]]:
    """Return the ids that each client saw, in order."""
    assert process.token is not None
    expected = writers * batches * 10

    def write(writer: int) -> None:
        with process.caller() as caller:
            for batch in range(batches):
                _post(caller, [f"{writer}-{batch * 10 + number}" for number in range(10)])

    async with asyncio.timeout(rounds(PATIENCE_S)):
        listening = [
            asyncio.create_task(follow_until(process.port, process.token, STREAM, expected))
            for _ in range(clients)
        ]
        await asyncio.gather(*(asyncio.to_thread(write, writer) for writer in range(writers)))
        return await asyncio.gather(*listening)


def _post(caller: Caller, ids: list[str]) -> None:
    session = f"s{ids[0].partition('-')[0]}"
    events = [said(event_id, event_id=event_id, session_id=session) for event_id in ids]
    assert caller.post("/v1/events", {"events": events}).status == 200


def test_a_restart_under_load_loses_doubles_and_skips_nothing(
    database: Path, file: TokenFile
) -> None:
    """Writers repeat by id, followers resume by cursor, while the server is ended and killed."""
    token, _ = file.add(name="", rights=["read", "write"], scopes=[], expires_ms=None, now_ms=1)
    with ServerProcess(database, "--token-file", str(file.path)) as process:
        ids, followed = asyncio.run(_restarted(process, token, rounds(2), rounds(40)))

    with treering.open(database) as ledger:
        recorded = [header.event_id for header in ledger.follow(HERE, idle_s=0)]
        assert ledger.admin.verify().intact
    assert sorted(recorded) == sorted(ids)
    for order in followed:
        assert order == recorded


async def _restarted(
    process: ServerProcess, token: str, restarts: int, batches: int
) -> tuple[list[str], list[list[str]]]:
    """Return the ids that were written, and what each follower saw."""
    port = process.port
    writers, expected = 3, 3 * batches * 10
    done = threading.Event()

    def write(writer: int) -> None:
        for batch in range(batches):
            ids = [f"{writer}-{batch * 10 + number}" for number in range(10)]
            while True:
                try:
                    with ServerProcess.at(port, token) as caller:
                        _post(caller, ids)
                    break
                except (*FAULTS, AssertionError):
                    assert not done.wait(0.02)

    def restart() -> None:
        for number in range(restarts):
            _await_progress(port, token, (number + 1) * expected // (restarts + 2), done)
            process.restart(signal.SIGKILL if number % 2 else signal.SIGTERM)

    try:
        async with asyncio.timeout(rounds(PATIENCE_S)):
            listening = [
                asyncio.create_task(follow_until(port, token, STREAM, expected)) for _ in range(3)
            ]
            writing = [asyncio.to_thread(write, writer) for writer in range(writers)]
            await asyncio.gather(asyncio.to_thread(restart), *writing)
            followed = await asyncio.gather(*listening)
    finally:
        done.set()
    ids = [f"{writer}-{number}" for writer in range(writers) for number in range(batches * 10)]
    return ids, followed


def _await_progress(port: int, token: str, count: int, done: threading.Event) -> None:
    """Return when that many events are recorded. Fail if all is over before."""
    while True:
        with contextlib.suppress(*FAULTS), ServerProcess.at(port, token) as caller:
            scopes: list[Any] = caller.get("/v1/scopes").json["items"]
            if scopes and scopes[0]["event_count"] >= count:
                return
        assert not done.wait(0.02)
