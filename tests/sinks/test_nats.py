"""Events on a stream of a real NATS server: each once, whatever happens on the way."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import nats
import pytest
from nats.js.api import DiscardPolicy, StreamConfig
from nats.js.errors import NotFoundError

import treering
from builders import HERE, said
from effort import PATIENCE_S
from ports import store_of
from receivers import NatsServer, nats_server
from treering.model.scopes import Scope
from treering.sinks import NatsSink, PrivateNatsSink
from treering.sinks.nats import subject_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from treering.ledger.ledger import Ledger
    from treering.spine.dispatcher import Spine


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path / "nats") as running:
        yield running


def ask(server: NatsServer, work: Callable[[Any], Awaitable[Any]]) -> Any:
    """Return what a client of its own gets from the server."""

    async def asked() -> Any:
        client = await nats.connect(server.url)
        try:
            return await work(client.jetstream())
        finally:
            await client.close()

    return asyncio.run(asked())


def messages(server: NatsServer) -> list[Any]:
    """Return all messages of the stream, in order."""

    async def read(stream: Any) -> list[Any]:
        state = (await stream.stream_info("TREERING")).state
        found = []
        for seq in range(state.first_seq, state.last_seq + 1):
            with suppress(NotFoundError):  # It was purged.
                found.append(await stream.get_msg("TREERING", seq))
        return found

    found: list[Any] = ask(server, read)
    return found


def ids_on(server: NatsServer) -> list[str]:
    return [one.headers["Nats-Msg-Id"] for one in messages(server)]


def ids_in(ledger: Ledger) -> list[str]:
    return [one.event_id for one in ledger.follow(HERE, idle_s=0)]


def forward(ledger: Ledger, sink: NatsSink) -> None:
    spine = ledger.spine(sinks=[sink])
    spine.follow(HERE)
    assert spine.flush(PATIENCE_S), spine.status()


def begin_again(ledger: Ledger) -> None:
    """Forget how far the sink came, as a crash does with what it had not saved yet."""
    store_of(ledger).cursors.set(Scope(HERE), "nats", "")


def record(ledger: Ledger, count: int) -> None:
    ledger.append([said(f"word {n}", session_id=f"s.{n % 3}") for n in range(count)])


def test_every_event_is_a_message_with_its_own_subject(server: NatsServer, tmp_path: Path) -> None:
    with treering.open(tmp_path / "a.db") as ledger:
        record(ledger, 6)
        forward(ledger, NatsSink(server.url))
        recorded = ids_in(ledger)

    published = messages(server)
    assert [one.headers["Nats-Msg-Id"] for one in published] == recorded
    assert published[0].subject == "treering.acme/app.s%2E0.conversation%2Euser"
    assert b"word" not in b"".join(one.data for one in published)
    assert subject_of("t", "a.b *>", "ü") == "t.a%2Eb%20%2A%3E.%C3%BC"


def test_nothing_comes_twice_even_after_the_servers_own_window(
    server: NatsServer, tmp_path: Path
) -> None:
    # Two tenths of a second: by then the server has forgotten which ids it has.
    config = StreamConfig(name="TREERING", subjects=["treering.>"], duplicate_window=0.2)
    ask(server, lambda stream: stream.add_stream(config))
    with treering.open(tmp_path / "a.db") as ledger:
        record(ledger, 20)
        forward(ledger, NatsSink(server.url))
    forget_ids(server)
    with treering.open(tmp_path / "a.db") as ledger:
        begin_again(ledger)
        record(ledger, 5)
        forward(ledger, NatsSink(server.url))

        assert ids_on(server) == ids_in(ledger)
        assert len(ids_on(server)) == 25


def forget_ids(server: NatsServer) -> None:
    """Wait until the server takes an id again that it has seen."""

    async def published_again(stream: Any) -> None:
        while True:
            first = await stream.publish("treering.probe", b"", headers={"Nats-Msg-Id": "probe"})
            await asyncio.sleep(0.3)
            again = await stream.publish("treering.probe", b"", headers={"Nats-Msg-Id": "probe"})
            if not again.duplicate:
                break
        await stream.purge_stream("TREERING", subject="treering.probe")
        assert first.seq

    ask(server, lambda stream: asyncio.wait_for(published_again(stream), PATIENCE_S))


def test_a_server_that_is_restarted_gets_the_rest_once(server: NatsServer, tmp_path: Path) -> None:
    with treering.open(tmp_path / "a.db") as ledger:
        record(ledger, 10)
        sink = NatsSink(server.url, timeout_s=1.0)
        forward(ledger, sink)
        server.stop()
        record(ledger, 10)
        assert not ledger.spine().flush(0.5)
        server.start()
        assert ledger.spine().flush(PATIENCE_S)

        assert ids_on(server) == ids_in(ledger)


def test_a_full_stream_holds_events_back_until_there_is_room(
    server: NatsServer, tmp_path: Path
) -> None:
    def config(size: int) -> StreamConfig:
        return StreamConfig(
            name="TREERING", subjects=["treering.>"], max_bytes=size, discard=DiscardPolicy.NEW
        )

    ask(server, lambda stream: stream.add_stream(config(8_000)))
    with treering.open(tmp_path / "a.db") as ledger:
        record(ledger, 40)
        spine = ledger.spine(sinks=[NatsSink(server.url)])
        spine.follow(HERE)
        await_refusal(spine)
        assert 0 < len(ids_on(server)) < 40
        ask(server, lambda stream: stream.update_stream(config(1_000_000)))
        assert spine.flush(PATIENCE_S)

        assert sorted(ids_on(server)) == sorted(ids_in(ledger))


def await_refusal(spine: Spine) -> None:
    """Return when the server has refused an event, since its stream is full."""
    deadline = time.monotonic() + PATIENCE_S
    while "maximum bytes" not in (spine.status()[0].last_error or ""):
        assert not spine.flush(0.05)
        assert time.monotonic() < deadline


def test_an_event_that_is_too_large_is_published_without_its_payload(
    server: NatsServer, tmp_path: Path
) -> None:
    with treering.open(tmp_path / "a.db") as ledger:
        ledger.append([said("x", payload={"text": "x" * 2_000_000}), said("small")])
        forward(ledger, PrivateNatsSink(server.url))

    large, small = messages(server)
    assert (b'"truncated":true' in large.data, len(large.data) < 5_000) == (True, True)
    assert b'{"text":"small"}' in small.data
