"""Promise 8: what a process was doing when it was killed is found, and closed as it was."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import HERE
from concurrency.processes import begin_together
from concurrency.run_works import Author, call_in_steps, hold_run
from run_records import ends, kinds, results, runs

if TYPE_CHECKING:
    from treering import Ledger, Session

STEPS = ("about to run", "is running", "has run", "has its result")
"""Of a tool call: before its intent is recorded, behind it, before its result, behind that."""
CRASHED = {
    "call_id": "c1", "tool": "pay", "status": "synthetic", "is_synthetic": True,
    "reason": "crashed",
}  # fmt: skip
PAID = {"call_id": "c1", "tool": "pay", "status": "ok"}


def in_step(author: Author, step: str) -> None:
    """Let ``author`` continue until it says that it is in ``step``."""
    for at in STEPS[: STEPS.index(step) + 1]:
        assert author.hear() == at
        if at != step:
            author.tell("on")


def session_of(ledger: Ledger) -> Session:
    return ledger.session("s1", scope=HERE, agent="lyria")


@pytest.mark.parametrize(
    ("step", "called", "outcome"),
    [
        ("about to run", 0, []),
        ("is running", 1, [CRASHED]),
        ("has run", 1, [CRASHED]),
        ("has its result", 1, [PAID]),
    ],
)
def test_a_kill_on_either_side_of_a_tool_call_leaves_what_is_true(
    location: str, step: str, called: int, outcome: list[dict[str, Any]]
) -> None:
    """The intent is durable before the tool runs; what a crash leaves open is closed."""
    with Author(call_in_steps, location) as author:
        in_step(author, step)
        author.kill()

    with treering.open(location) as ledger:
        session = session_of(ledger)
        assert kinds(session).count("tool.call") == called
        assert results(session) == outcome
        assert ends(session) == ["run.interrupted"]
        end = list(session.headers())[-1]
        assert (end.kind, end.refs["reason"], end.refs["tool_calls"]) == (
            "run.interrupted", "crashed", called,
        )  # fmt: skip
        assert "boundary.interrupt" not in kinds(session)
        assert ledger.admin.verify().intact


@pytest.mark.parametrize("step", STEPS)
def test_opening_again_and_again_closes_a_crashed_run_once(location: str, step: str) -> None:
    with Author(call_in_steps, location) as author:
        in_step(author, step)
        author.kill()

    told = []
    for _ in range(3):
        with treering.open(location) as ledger:
            told.append([h.event_id for h in session_of(ledger).headers()])

    assert told[0] == told[1] == told[2]


def test_many_who_open_at_once_close_a_crashed_run_once(location: str) -> None:
    with Author(call_in_steps, location) as author:
        in_step(author, "is running")
        author.kill()

    with Author(open_once, location) as one, Author(open_once, location) as other:
        begin_together((one, other))
        for opener in (one, other):
            assert opener.hear() == "opened"

    with treering.open(location, mode="ro") as ledger:
        assert results(session_of(ledger)) == [CRASHED]
        assert ends(session_of(ledger)) == ["run.interrupted"]


def test_a_ledger_that_is_only_read_leaves_a_crashed_run_as_it_is(location: str) -> None:
    with Author(call_in_steps, location) as author:
        in_step(author, "is running")
        author.kill()

    with treering.open(location, mode="ro") as ledger:
        found = kinds(session_of(ledger))

    assert found == ["session.opened", "run.started", "tool.call"]


# Those who live.


def test_whoever_opens_a_ledger_leaves_the_calls_of_a_living_process_alone(location: str) -> None:
    with Author(hold_run, location) as author:
        assert author.hear() == "at work"
        for _ in range(3):
            with treering.open(location) as ledger:
                assert ledger.recover() == 0
                assert kinds(session_of(ledger))[-1] == "tool.call"
        author.tell("finish")
        refs = author.hear()
        author.tell("end")
        assert author.hear() == "run.ended"

    with treering.open(location) as ledger:
        assert (refs["status"], "late" in refs) == ("ok", False)
        assert ends(session_of(ledger)) == ["run.ended"]


def test_whoever_opens_a_ledger_leaves_the_calls_of_a_stopped_process_alone(location: str) -> None:
    with Author(hold_run, location, is_our_child=True) as author:
        assert author.hear() == "at work"
        with author.stopped(), treering.open(location) as ledger:
            assert ledger.recover() == 0
            assert kinds(session_of(ledger))[-1] == "tool.call"
        author.tell("finish")
        assert author.hear()["status"] == "ok"
        author.tell("end")
        assert author.hear() == "run.ended"


def test_a_living_process_keeps_its_run_when_the_file_of_leases_was_removed(tmp_path: Path) -> None:
    location = str(tmp_path / "ledger.db")
    with Author(hold_run, location) as author:
        assert author.hear() == "at work"
        Path(f"{location}.leases").unlink()

        with treering.open(location) as ledger, pytest.raises(treering.errors.RunActive):
            session_of(ledger).turn().start()


def test_what_a_crash_left_open_is_closed_also_if_the_ledger_was_moved(tmp_path: Path) -> None:
    with Author(hold_run, str(tmp_path / "before.db")) as author:
        assert author.hear() == "at work"
        author.kill()
    for file in tmp_path.glob("before.db*"):
        if file.suffix != ".leases":
            file.rename(tmp_path / file.name.replace("before", "after"))

    with treering.open(tmp_path / "after.db") as ledger:
        assert ends(session_of(ledger)) == ["run.interrupted"]


def test_the_dead_are_told_from_the_living(location: str) -> None:
    """One process with an open run is killed; that of the other is not touched."""
    with Author(call_in_steps, location) as dead:
        in_step(dead, "is running")
        dead.kill()
    with Author(hold_run, location) as alive:
        assert alive.hear() == "at work"
        with treering.open(location) as ledger:
            found = runs(session_of(ledger))
        alive.tell("end")
        assert alive.hear() == "run.ended"

    assert [events[-1].kind for events in found.values()] == ["run.interrupted", "tool.call"]


def test_a_process_that_lives_closes_what_another_left_behind(location: str) -> None:
    """Nobody has to open the ledger again for it."""
    with treering.open(location) as ledger:
        session = session_of(ledger)
        with Author(call_in_steps, location) as author:
            in_step(author, "is running")
            author.kill()

        closed = ledger.recover()

        assert closed == 1
        assert results(session) == [CRASHED]
        assert ledger.recover() == 0


def test_a_dead_process_s_run_is_nothing_to_interrupt(location: str) -> None:
    with treering.open(location) as ledger:
        session = session_of(ledger)
        with Author(hold_run, location) as author:
            assert author.hear() == "at work"
            author.kill()

        assert session.interrupt("stop") is None

        assert list(session.headers())[-1].refs["reason"] == "crashed"


def test_a_fork_server_s_children_have_runs_of_their_own(location: str) -> None:
    """Each child is told from its parent and from the others, and only the dead one's is closed."""
    with Author(fork_two, location) as parent:
        assert parent.hear() == "both at work"
        parent.tell("kill one")
        assert parent.hear() == "killed"
        with treering.open(location) as ledger:
            states = {
                name: list(ledger.session(name, scope=HERE, agent="a").headers())[-1].kind
                for name in ("killed", "living", "parent")
            }
        parent.tell("end")
        assert parent.hear() == "ended"

    assert states == {
        "killed": "run.interrupted", "living": "run.started", "parent": "run.started",
    }  # fmt: skip


def open_once(pipe: Any, location: str) -> None:
    """Open the ledger when told."""
    pipe.send("ready")
    pipe.recv()
    with treering.open(location):
        pipe.send("opened")


def fork_two(pipe: Any, location: str) -> None:
    """Fork two children with a run each, beside one of our own; kill one when told."""
    import os
    import signal

    ledger = treering.open(location)
    ledger.session("parent", scope=HERE, agent="a").turn().start()
    ready_in, ready_out = os.pipe()
    go_in, go_out = os.pipe()
    children = []
    for name in ("killed", "living"):
        child = os.fork()
        if not child:
            os.close(go_out)
            ledger.session(name, scope=HERE, agent="a").turn().start()
            os.write(ready_out, b"x")
            os.read(go_in, 1)
            os._exit(0)
        children.append(child)
        os.read(ready_in, 1)
    pipe.send("both at work")
    pipe.recv()
    os.kill(children[0], signal.SIGKILL)
    os.waitpid(children[0], 0)
    pipe.send("killed")
    pipe.recv()
    os.close(go_out)
    os.waitpid(children[1], 0)
    pipe.send("ended")
