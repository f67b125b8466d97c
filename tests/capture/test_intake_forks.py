"""Forks that are imported before, between and after their origins, and dry runs of them."""

from __future__ import annotations

import os
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from capture.intake_logs import (
    EVERYWHERE,
    check_sums,
    claude_log,
    every_event,
    lines,
    said_in,
    session_in,
    write,
)
from capture.test_intake_sessions import (
    CHILD,
    PAIRS,
    check_told_once,
    claude_named_anew,
    claude_with_subagent,
    codex_pair,
    pi_branched,
    pi_pair,
    take,
)
from formats.logs import codex, pi
from formats.logs.claude_code import OTHER_SESSION, SESSION
from treering.app import import_logs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from capture.test_intake_sessions import Pair
    from treering import Ledger
    from treering.model.intakes import ImportReceipt

GRANDCHILD = "0199aaaa-0000-7000-8000-00000000cafe"
STATING = [claude_named_anew, codex_pair, pi_branched, pi_pair]
"""Pairs of which the child says which session it continues from."""


@pytest.mark.parametrize("pair", STATING)
def test_a_fork_comes_behind_its_parent_whichever_was_written_last(
    here: Ledger, tmp_path: Path, pair: Callable[[Path], Pair]
) -> None:
    logs = pair(tmp_path / "logs")
    os.utime(logs.child, (1_000, 1_000))

    check_sums(import_logs(here, [tmp_path / "logs"], scope=EVERYWHERE))

    assert session_in(here, logs.ids[1]).outline().parent == logs.ids[0]
    check_told_once(here, logs)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_parent_that_comes_late_can_go_on_and_is_read_again_for_nothing(
    here: Ledger, tmp_path: Path, pair: Callable[[Path], Pair]
) -> None:
    logs = pair(tmp_path)
    whole = {path: path.read_bytes() for path in (logs.parent, logs.child)}
    for path, content in whole.items():
        path.write_bytes(b"".join(content.splitlines(keepends=True)[:-1]))
    take(here, logs.child, logs.parent)
    for path, content in whole.items():
        path.write_bytes(content)

    take(here, logs.parent, logs.child)

    check_told_once(here, logs)


def generations(folder: Path) -> list[Path]:
    """Write three rollouts, each of which continues from the one before."""
    sessions = [codex.SESSION, CHILD, GRANDCHILD]
    records: list[Any] = []
    found = []
    for n, session in enumerate(sessions):
        origin = {"forked_from_id": sessions[n - 1]} if n else {}
        said = [codex.user_item(f"said {n}"), codex.answer_item(f"about {n}")]
        used = codex.counted(1_000 * (n + 1), 1_000)
        records = [codex.opened(session, **origin), *records, *said, used]
        found.append(write(folder / f"{n}.jsonl", records))
    return found


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_generations_have_one_past_in_whichever_order_they_come(
    here: Ledger, tmp_path: Path, order: tuple[int, ...]
) -> None:
    files = generations(tmp_path)

    take(here, *(files[n] for n in order))

    for n, session in enumerate([codex.SESSION, CHILD, GRANDCHILD]):
        expected = [text for m in range(n + 1) for text in (f"said {m}", f"about {m}")]
        assert said_in(session_in(here, session)) == expected
        assert session_in(here, session).usage().total.calls == n + 1
    if order not in {(0, 2, 1), (2, 0, 1)}:  # What links the first to the last comes too late.
        kinds = [one.kind for one in every_event(here)]
        assert [kinds.count(kind) for kind in ("conversation.user", "usage.reported")] == [3, 3]
    assert import_logs(here, files, scope=EVERYWHERE, again=True).events == 0


def test_two_forks_of_a_session_that_is_not_there_share_what_both_repeat(
    here: Ledger, tmp_path: Path
) -> None:
    past = [codex.opened(), *codex.turn("one", "about one"), *codex.turn("two", "about two")]
    first = [codex.opened(CHILD, forked_from_id=codex.SESSION), *past, *codex.turn("a", "b")]
    second = [
        codex.opened(GRANDCHILD, forked_from_id=codex.SESSION),
        *past[: 1 + len(past) // 2],
        *codex.turn("c", "d"),
    ]
    files = [write(tmp_path / f"{n}.jsonl", log) for n, log in enumerate([first, second, past])]

    take(here, *files)

    assert said_in(session_in(here, CHILD)) == ["one", "about one", "two", "about two", "a", "b"]
    assert said_in(session_in(here, GRANDCHILD)) == ["one", "about one", "c", "d"]
    users = [one for one in every_event(here) if one.kind == "conversation.user"]
    assert len(users) == 4


@pytest.mark.parametrize("turned", [False, True])
def test_words_that_both_say_at_different_places_are_said_by_both(
    here: Ledger, tmp_path: Path, *, turned: bool
) -> None:
    past = [codex.opened(), *codex.turn("one", "about one")]
    parent = [*past, *codex.turn("two", "about two"), *codex.turn("yes", "done")]
    child = [codex.opened(CHILD, forked_from_id=codex.SESSION), *past, *codex.turn("yes", "done")]
    files = [write(tmp_path / "p.jsonl", parent), write(tmp_path / "c.jsonl", child)]

    take(here, *(reversed(files) if turned else files))

    assert said_in(session_in(here, CHILD)) == ["one", "about one", "yes", "done"]
    assert said_in(session_in(here, codex.SESSION)) == [
        "one", "about one", "two", "about two", "yes", "done",
    ]  # fmt: skip


def test_a_copied_past_that_comes_in_pieces_before_its_parent_is_whole(
    here: Ledger, tmp_path: Path
) -> None:
    log = claude_log("one", "two")
    copied = [{**line, "sessionId": OTHER_SESSION} for line in log.lines]
    child = write(tmp_path / "child.jsonl", copied[:2])
    take(here, child, write(tmp_path / "parent.jsonl", log.lines))

    take(here, write(child, [*copied, *claude_log("three", session=OTHER_SESSION, first=50).lines]))

    assert said_in(session_in(here, SESSION)) == ["one", "about one", "two", "about two"]
    assert said_in(session_in(here, OTHER_SESSION)) == [
        "one", "about one", "two", "about two", "three", "about three",
    ]  # fmt: skip
    reports = [one for one in every_event(here) if one.kind == "usage.reported"]
    assert len(reports) == 3


# Dry runs.


def check_foretold(foretold: ImportReceipt, done: ImportReceipt) -> None:
    for name in ("lines", "imported", "duplicates", "skipped", "errors", "events", "sessions",
                 "sessions_new", "subagents", "by_scope", "by_format", "bytes"):  # fmt: skip
        assert getattr(foretold, name) == getattr(done, name), name


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("turned", [False, True])
def test_a_dry_run_knows_forks_among_what_it_meets(
    here: Ledger, tmp_path: Path, pair: Callable[[Path], Pair], *, turned: bool
) -> None:
    logs = pair(tmp_path / "logs")
    if turned:
        os.utime(logs.child, (1_000, 1_000))

    foretold = import_logs(here, [tmp_path / "logs"], scope=EVERYWHERE, dry_run=True)

    check_foretold(foretold, import_logs(here, [tmp_path / "logs"], scope=EVERYWHERE))


def test_a_dry_run_knows_forks_of_what_is_there(here: Ledger, tmp_path: Path) -> None:
    files = generations(tmp_path / "logs")
    take(here, files[1])

    foretold = import_logs(here, [tmp_path / "logs"], scope=EVERYWHERE, dry_run=True, again=True)

    done = import_logs(here, [tmp_path / "logs"], scope=EVERYWHERE, again=True)
    check_foretold(foretold, done)
    assert done.events > 0


def test_a_dry_run_knows_where_the_parents_of_subagents_go(here: Ledger, tmp_path: Path) -> None:
    _, sub = claude_with_subagent(tmp_path / "logs")
    sub.write_bytes(sub.read_bytes().replace(b"lighthouse", b"elsewhere"))

    foretold = import_logs(here, [tmp_path / "logs"], dry_run=True)

    assert list(foretold.by_scope) == ["lighthouse"]
    check_foretold(foretold, import_logs(here, [tmp_path / "logs"]))


def test_a_session_of_pi_that_is_forked_by_a_later_turn_is_told_to_its_end(
    here: Ledger, tmp_path: Path
) -> None:
    past = [pi.said(1, "one"), pi.answered(2, "about one")]
    child = write(tmp_path / "c.jsonl", [
        pi.header(id=pi.PARENT, parentSession=f"/x/{pi.SESSION}.jsonl"), *past,
    ])  # fmt: skip
    parent = write(tmp_path / "p.jsonl", [pi.header(), *past])

    take(here, child, parent)
    with parent.open("ab") as file:
        file.write(lines([pi.said(3, "two")]))
    take(here, parent)

    assert said_in(session_in(here, pi.SESSION)) == ["one", "about one", "two"]
    assert said_in(session_in(here, pi.PARENT)) == ["one", "about one"]
