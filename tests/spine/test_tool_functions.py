"""Decorated functions: every call is a tool call, and the caller notices nothing."""

from __future__ import annotations

import asyncio
import inspect
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import treering
from full_disk import FullDisk
from treering import aio
from treering.errors import InvalidInput, StorageFull, ToolDenied

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator

    from treering.ledger.sessions import Session


@pytest.fixture
def session() -> Iterator[Session]:
    with treering.open(":memory:") as ledger:
        yield ledger.session("monday", scope="acme/app", agent="lyria")


def outcomes(session: Session) -> list[tuple[str, Any]]:
    """Return the status and the output, or the reason, of each call."""
    results = [event.payload for event in session.events(kinds=["tool.result"])]
    return [
        (one["status"], one.get("reason", one.get("output", one.get("error")))) for one in results
    ]


def test_a_plain_function_is_recorded_where_it_is_called(session: Session) -> None:
    @treering.tool
    def add(one: int, two: int = 2, *rest: int) -> int:
        """Add."""
        return one + two + sum(rest)

    assert add(1) == 3
    with session.turn() as turn:
        assert add(1, 5, 6) == 12
        mine = turn.tool(add.__wrapped__)  # type: ignore[attr-defined]
        assert mine(one=7) == 9
    assert add(1) == 3

    assert (add.__name__, add.__doc__) == ("add", "Add.")
    assert list(inspect.signature(add).parameters) == ["one", "two", "rest"]
    inputs = [event.payload["input"] for event in session.events(kinds=["tool.call"])]
    assert inputs == [{"one": 1, "two": 5, "rest": [6]}, {"one": 7}]
    assert outcomes(session) == [("ok", 12), ("ok", 9)]


def test_what_a_function_raises_is_recorded_and_raised(session: Session) -> None:
    @treering.tool(name="look-up")
    def look(what: str) -> str:
        raise {"time": TimeoutError, "stop": KeyboardInterrupt}.get(what, LookupError)(what)

    for what, error in (("x", LookupError), ("time", TimeoutError), ("stop", KeyboardInterrupt)):
        with pytest.raises(error), session.turn():
            look(what)
    with pytest.raises(TypeError, match="unexpected"), session.turn():
        look(which="x")  # type: ignore[call-arg]

    statuses = [(call.tool, call.status) for call in session.tool_calls()]
    assert statuses == [("look-up", one) for one in ("failed", "synthetic", "synthetic", "failed")]
    assert [reason for _, reason in outcomes(session)][1:3] == ["timeout", "interrupted"]


def test_a_generator_yields_what_it_yielded_and_takes_what_it_is_sent(session: Session) -> None:
    @treering.tool
    def echo(times: int) -> Generator[Any, Any, str]:
        got = None
        for _ in range(times):
            try:
                got = yield got
            except ValueError as error:
                got = str(error)
        return "done"

    with session.turn():
        talk = echo(4)
        assert [next(talk), talk.send("a"), talk.throw(ValueError("b")), talk.send(None)] == [
            None, "a", "b", None,
        ]  # fmt: skip
        with pytest.raises(StopIteration, match="done"):
            next(talk)
        left = echo(3)
        next(left)
        left.close()

    assert outcomes(session) == [
        ("ok", {"yielded": [None, "a", "b", None], "returned": "done"}),
        ("ok", {"yielded": [None], "left": True}),
    ]


def test_coroutines_and_asynchronous_generators_are_recorded_off_the_loop(session: Session) -> None:
    @treering.tool
    async def sleepy(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "awake"

    @treering.tool
    async def count(to: int) -> AsyncIterator[int]:
        for number in range(to):
            yield number

    async def main() -> None:
        with session.turn():
            assert list(await asyncio.gather(sleepy(0.01), sleepy(0.0))) == ["awake", "awake"]
            assert [number async for number in count(3)] == [0, 1, 2]
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(sleepy(30), 0.1)

    asyncio.run(main())

    assert outcomes(session) == [
        ("ok", "awake"), ("ok", "awake"), ("ok", [0, 1, 2]), ("synthetic", "interrupted"),
    ]  # fmt: skip


def test_a_tool_finds_the_turn_of_a_coroutine() -> None:
    @treering.tool
    async def tide(port: str) -> str:
        return "14:10"

    async def main() -> list[tuple[str, Any]]:
        async with aio.open(":memory:") as ledger:
            session = ledger.session("s", scope="acme/app", agent="lyria")
            async with session.turn():
                assert await tide("Bergen") == "14:10"
            assert await tide("Bergen") == "14:10"
            return outcomes(session.sync)

    assert asyncio.run(main()) == [("ok", "14:10")]


def test_values_that_are_not_json_are_converted_with_a_mark_and_returned_as_they_are(
    session: Session,
) -> None:
    noon, thing = datetime(2026, 11, 16, 12, tzinfo=UTC), object()

    @treering.tool
    def when(at: datetime, of: object) -> tuple[datetime, object]:
        return at, of

    with session.turn():
        assert when(noon, thing) == (noon, thing)

    (result,) = session.events(kinds=["tool.result"])
    assert result.payload["output"][0] == noon.isoformat()
    assert {"at": "/output/0", "type": "datetime.datetime", "as": "iso"} in result.payload[
        "converted"
    ]


def test_a_denied_tool_does_not_run_and_one_after_the_turn_runs_unrecorded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ran = []
    with treering.open(":memory:") as ledger:
        session = ledger.session("s", scope="acme/app", agent="lyria", tools=["fine"])
        with session.turn() as turn:
            with pytest.raises(ToolDenied):
                turn.tool(lambda: ran.append(1))()
            late = treering.tool(name="fine")(ran.append)
            later = turn.tool(late.__wrapped__)  # type: ignore[attr-defined]
        later(2)
        with pytest.raises(InvalidInput, match="a function"):
            treering.tool(5)  # type: ignore[call-overload]

    assert ran == [2]
    assert "not recorded" in caplog.text


def test_a_full_disk_does_not_keep_a_function_from_running(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    with treering.open(":memory:") as ledger:
        disk = FullDisk(ledger, monkeypatch)
        with ledger.session("s", scope="acme/app", agent="lyria").turn():
            disk.is_full = True
            treering.tool(ran.append)(1)
            with pytest.raises(StorageFull):
                treering.tool(name="x", strict=True)(ran.append)(2)
            disk.is_full = False

    assert ran == [1]
    assert "not recorded" in caplog.text


def test_a_gate_may_change_what_a_function_is_called_with(session: Session) -> None:
    class Careful:
        name = "careful"

        def before_tool(self, _: Any, __: str, ___: str, given: Any) -> Any:
            return treering.sinks.Verdict(content={**given, "path": "/safe"})

    with session.turn() as turn:
        turn._run_state.engine.gates.add(Careful())  # type: ignore[arg-type]

        @turn.tool
        def read(path: str, depth: int = 1) -> tuple[str, int]:
            return path, depth

        assert read("/etc", depth=3) == ("/safe", 3)
