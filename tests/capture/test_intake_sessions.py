"""Sessions that hang together in logs: forks, resumed copies, rewinds, subagents, compactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from capture.intake_logs import (
    EVERYWHERE,
    add,
    check_sums,
    claude_log,
    every_event,
    lines,
    said_in,
    session_in,
    told_by,
    write,
)
from formats.logs import codex, pi
from formats.logs.claude_code import OTHER_SESSION, SESSION, Log, call, used, uuid_of
from treering.app import import_logs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from treering import Ledger

CHILD = "0199aaaa-0000-7000-8000-00000000beef"


def take(ledger: Ledger, *paths: Path) -> None:
    """Import logs, one after the other."""
    for path in paths:
        check_sums(import_logs(ledger, [path], scope=EVERYWHERE))


class Pair:
    """The logs of a session and of one that continues from its second turn."""

    def __init__(self, folder: Path, parent: list[Any], child: list[Any], ids: list[str]) -> None:
        self.parent = write(folder / "parent" / f"{ids[0]}.jsonl", parent)
        self.child = write(folder / "child" / f"{ids[1]}.jsonl", child)
        self.ids = ids


def claude_pair(folder: Path, rename: Callable[[dict[str, Any]], dict[str, Any]]) -> Pair:
    parent = claude_log("one", "two")
    child = Log(OTHER_SESSION, first=30)
    child.lines = [rename(line) for line in parent.lines]
    child.user("three", parentUuid=child.lines[-1]["uuid"])
    child.answer("about three", id="msg_30", usage=used(5), requestId="req_30")
    parent.user("four")
    parent.answer("about four", id="msg_31", usage=used(5), requestId="req_31")
    return Pair(folder, parent.lines, child.lines, [SESSION, OTHER_SESSION])


def named_anew(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line as a fork writes it that gives all lines new ids."""

    def anew(uuid: str | None) -> str | None:
        return None if uuid is None else uuid.replace("11111111", "22222222")

    origin = {"sessionId": SESSION, "messageUuid": line["uuid"]}
    ids = {"uuid": anew(line["uuid"]), "parentUuid": anew(line["parentUuid"])}
    return {**line, **ids, "sessionId": OTHER_SESSION, "forkedFrom": origin}


def claude_resumed(folder: Path) -> Pair:
    return claude_pair(folder, lambda line: {**line, "sessionId": OTHER_SESSION})


def claude_kept(folder: Path) -> Pair:
    return claude_pair(folder, lambda line: line)


def claude_named_anew(folder: Path) -> Pair:
    return claude_pair(folder, named_anew)


def codex_pair(folder: Path) -> Pair:
    past = [
        codex.opened(), *codex.turn("one", "about one"), *codex.turn("two", "about two"),
    ]  # fmt: skip
    later = [{**record, "timestamp": "2031-01-01T00:00:00Z"} for record in past]
    first = codex.opened(CHILD, forked_from_id=codex.SESSION)
    child = [first, *later, *codex.turn("three", "about three")]
    parent = [*past, *codex.turn("four", "about four")]
    return Pair(folder, parent, child, [codex.SESSION, CHILD])


def pi_pair(folder: Path, name: str = "parentSession") -> Pair:
    past = [
        pi.said(1, "one"), pi.answered(2, "about one"),
        pi.said(3, "two"), pi.answered(4, "about two"),
    ]  # fmt: skip
    came_from = f"/home/ada/.pi/2026-09-21T14-13-20-000Z_{pi.SESSION}.jsonl"
    first = pi.header(id=pi.PARENT, **{name: came_from})
    child = [first, *past, pi.said(5, "three"), pi.answered(6, "about three")]
    parent = [pi.header(), *past, pi.said(7, "four", 4), pi.answered(8, "about four")]
    return Pair(folder, parent, child, [pi.SESSION, pi.PARENT])


def pi_branched(folder: Path) -> Pair:
    return pi_pair(folder, "branchedFrom")


PAIRS = [
    claude_resumed, claude_kept, claude_named_anew, codex_pair, pi_pair, pi_branched,
]  # fmt: skip
PAST = ["one", "about one", "two", "about two"]


def check_told_once(ledger: Ledger, logs: Pair) -> None:
    """Check that both sessions are whole, and nothing was recorded twice for that."""
    parent, child = (session_in(ledger, one) for one in logs.ids)
    assert said_in(child) == [*PAST, "three", "about three"]
    assert said_in(parent) == [*PAST, "four", "about four"]
    spoken = [one.payload["text"] for one in every_event(ledger) if "conversation" in one.kind]
    assert sorted(spoken) == sorted({*PAST, "three", "about three", "four", "about four"})
    assert ledger.admin.verify().intact


@pytest.mark.parametrize("pair", PAIRS)
def test_a_session_that_goes_on_from_another_is_its_fork(
    here: Ledger, tmp_path: Path, pair: Callable[[Path], Pair]
) -> None:
    logs = pair(tmp_path)

    take(here, logs.parent, logs.child)

    parent, child = (session_in(here, one) for one in logs.ids)
    assert (child.outline().parent, parent.outline().parent) == (logs.ids[0], None)
    check_told_once(here, logs)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_session_that_comes_before_the_one_it_goes_on_from_loses_nothing(
    here: Ledger, tmp_path: Path, pair: Callable[[Path], Pair]
) -> None:
    logs = pair(tmp_path)

    take(here, logs.child, logs.parent)

    check_told_once(here, logs)
    again = import_logs(here, [logs.parent, logs.child], scope=EVERYWHERE, again=True)
    assert again.events == 0


@pytest.mark.parametrize("pair", PAIRS)
def test_a_folder_is_taken_in_with_the_parents_first(
    here: Ledger, tmp_path: Path, pair: Callable[[Path], Pair]
) -> None:
    logs = pair(tmp_path / "logs")

    receipt = import_logs(here, [tmp_path / "logs"], scope=EVERYWHERE)
    before = told_by(here)
    again = import_logs(here, [tmp_path / "logs"], scope=EVERYWHERE, again=True)

    assert session_in(here, logs.ids[1]).outline().parent == logs.ids[0]
    assert (receipt.sessions, again.events) == (2, 0)
    assert told_by(here) == before


@pytest.mark.parametrize("pair", PAIRS)
def test_both_can_go_on_and_only_the_new_lines_are_told(
    here: Ledger, tmp_path: Path, pair: Callable[[Path], Pair]
) -> None:
    logs = pair(tmp_path)
    whole = {path: path.read_bytes() for path in (logs.parent, logs.child)}
    for path, content in whole.items():
        path.write_bytes(b"".join(content.splitlines(keepends=True)[:-2]))
    take(here, logs.parent, logs.child)
    for path, content in whole.items():
        add(path, b"".join(content.splitlines(keepends=True)[-2:]))

    take(here, logs.child, logs.parent)

    parent, child = (session_in(here, one) for one in logs.ids)
    assert said_in(child) == [*PAST, "three", "about three"]
    assert said_in(parent) == [*PAST, "four", "about four"]


def test_a_fork_that_says_the_same_as_its_parent_later_says_it_itself(
    here: Ledger, tmp_path: Path
) -> None:
    past = [pi.said(1, "one"), pi.answered(2, "about one")]
    first = pi.header(id=pi.PARENT, parentSession=f"/x/{pi.SESSION}.jsonl")
    # Ids of entries are short: both sessions may well draw the same one later.
    parent = write(
        tmp_path / "p.jsonl", [pi.header(), *past, pi.said(3, "parent's"), pi.said(4, "x")]
    )
    child = write(
        tmp_path / "c.jsonl", [first, *past, pi.said(9, "own", 2), pi.said(3, "child's", 9)]
    )

    take(here, parent, child)

    assert said_in(session_in(here, pi.PARENT)) == ["one", "about one", "own", "child's"]


def test_a_family_of_three_generations_has_one_past(here: Ledger, tmp_path: Path) -> None:
    sessions = [f"5e551011-0000-4000-8000-00000000010{n}" for n in range(3)]
    log = claude_log("one", session=sessions[0])
    files = [write(tmp_path / "0.jsonl", log.lines)]
    for n in (1, 2):
        grown = Log(sessions[n], first=n * 20)
        grown.lines = [{**line, "sessionId": sessions[n]} for line in log.lines]
        grown.user(f"from {n}", parentUuid=grown.lines[-1]["uuid"])
        files.append(write(tmp_path / f"{n}.jsonl", grown.lines))
        log = grown

    take(here, *files)

    assert said_in(session_in(here, sessions[2])) == ["one", "about one", "from 1", "from 2"]
    assert session_in(here, sessions[2]).outline().parent == sessions[1]


# Going back.


def claude_rewound() -> list[Any]:
    log = claude_log("one", "two")
    log.user("two, but better", parentUuid=uuid_of(2))
    log.answer("about that", id="msg_9")
    return log.lines


def codex_rewound() -> list[Any]:
    return [
        codex.opened(), *codex.turn("one", "about one"), *codex.turn("two", "about two"),
        codex.event("thread_rolled_back", num_turns=1),
        *codex.turn("two, but better", "about that"),
    ]  # fmt: skip


def pi_rewound() -> list[Any]:
    return [
        pi.header(), pi.said(1, "one"), pi.answered(2, "about one"),
        pi.said(3, "two"), pi.answered(4, "about two"),
        pi.said(5, "two, but better", 2), pi.answered(6, "about that"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("log", "session"),
    [(claude_rewound, SESSION), (codex_rewound, codex.SESSION), (pi_rewound, pi.SESSION)],
)
def test_what_was_rewound_is_hidden_and_not_lost(
    here: Ledger, tmp_path: Path, log: Callable[[], list[Any]], session: str
) -> None:
    take(here, write(tmp_path / "a.jsonl", log()))

    handle = session_in(here, session)
    assert said_in(handle) == ["one", "about one", "two, but better", "about that"]
    kept = [one.payload["text"] for one in handle.events() if "conversation" in one.kind]
    assert kept == ["one", "about one", "two", "about two", "two, but better", "about that"]
    assert "session.undone" in [one.kind for one in handle.headers()]


def test_a_fork_of_what_was_rewound_before_has_the_same_past(here: Ledger, tmp_path: Path) -> None:
    log = claude_rewound()
    child = Log(OTHER_SESSION, first=40)
    child.lines = [{**line, "sessionId": OTHER_SESSION} for line in log]
    child.user("three", parentUuid=log[-1]["uuid"])

    take(here, write(tmp_path / "a.jsonl", log), write(tmp_path / "b.jsonl", child.lines))

    expected = ["one", "about one", "two, but better", "about that"]
    assert said_in(session_in(here, SESSION)) == expected
    assert said_in(session_in(here, OTHER_SESSION)) == [*expected, "three"]


# Subagents.


def claude_with_subagent(folder: Path) -> list[Path]:
    log = Log()
    log.user("Mend the lamp.")
    log.answer(call("toolu_1", "Task", prompt="find the fuse", subagent_type="electrician"))
    log.result("toolu_1", "It is blown.", toolUseResult={"agentId": "a1"})
    log.answer("It was the fuse.", id="msg_2")
    sub = Log(SESSION, first=60, isSidechain=True, agentId="a1")
    sub.user("find the fuse")
    sub.answer("It is blown.", id="msg_60", usage=used(4), requestId="req_60")
    return [
        write(folder / f"{SESSION}.jsonl", log.lines),
        write(folder / SESSION / "subagents" / "agent-a1.jsonl", sub.lines),
    ]


@pytest.mark.parametrize("turned", [False, True])
def test_a_subagent_is_a_session_of_its_own_and_no_part_of_its_parents(
    here: Ledger, tmp_path: Path, *, turned: bool
) -> None:
    files = claude_with_subagent(tmp_path / "logs")
    take(here, *(reversed(files) if turned else files))

    child = session_in(here, f"{SESSION}/agent-a1")
    assert child.settings.spawned_by == SESSION
    assert said_in(child) == ["find the fuse", "It is blown."]
    assert said_in(session_in(here, SESSION)) == ["Mend the lamp.", "It was the fuse."]
    assert child.outline().parent is None


def test_a_subagent_of_codex_is_known_by_who_spawned_it(here: Ledger, tmp_path: Path) -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": codex.SESSION, "depth": 1}}}
    parent = [codex.opened(), *codex.turn("one", "about one")]
    child = [codex.opened(CHILD, source=source), *codex.turn("look", "seen")]

    take(here, write(tmp_path / "p.jsonl", parent), write(tmp_path / "c.jsonl", child))

    assert session_in(here, CHILD).settings.spawned_by == codex.SESSION
    assert said_in(session_in(here, codex.SESSION)) == ["one", "about one"]
    receipt = import_logs(here, [tmp_path], scope=EVERYWHERE, again=True)
    assert (receipt.sessions, receipt.subagents) == (1, 1)


# Compactions.


def claude_compacted() -> list[Any]:
    log = claude_log("one", "two")
    last = log.lines[-1]["uuid"]
    told = {"trigger": "auto", "preTokens": 900}
    log.line("system", subtype="compact_boundary", content="Conversation compacted",
             parentUuid=None, logicalParentUuid=last, compactMetadata=told)  # fmt: skip
    log.user("They spoke of one and two.", isCompactSummary=True)
    log.user("three")
    return log.lines


def codex_compacted() -> list[Any]:
    return [
        codex.opened(), *codex.turn("one", "about one"), *codex.turn("two", "about two"),
        codex.line("compacted", {"message": "They spoke of one and two."}),
        codex.user_item("three"),
    ]  # fmt: skip


def pi_compacted() -> list[Any]:
    return [
        pi.header(), pi.said(1, "one"), pi.answered(2, "about one"),
        pi.entry(3, "compaction", summary="They spoke of one and two.", tokensBefore=900,
                 firstKeptEntryId=pi.ident(4)),
        pi.said(4, "three"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("log", "session"),
    [(claude_compacted, SESSION), (codex_compacted, codex.SESSION), (pi_compacted, pi.SESSION)],
)
def test_a_compacted_session_goes_on_from_its_summary(
    here: Ledger, tmp_path: Path, log: Callable[[], list[Any]], session: str
) -> None:
    take(here, write(tmp_path / "a.jsonl", log()))

    handle = session_in(here, session)
    shown = str(handle.context(100_000).messages)
    assert "They spoke of one and two." in shown
    assert "about one" not in shown
    assert "three" in shown
    assert {"one", "about one", "three"} <= set(said_in(handle))


def test_a_compaction_that_keeps_the_last_messages_keeps_them(here: Ledger, tmp_path: Path) -> None:
    take(here, write(tmp_path / "v.jsonl", pi.voyage()))

    shown = str(session_in(here, pi.SESSION).context(100_000).messages)

    assert "They asked for the tide." in shown
    assert "At 14:10." in shown
    assert "When is high tide in Bergen?" not in shown


def test_the_usage_of_a_fork_is_that_of_its_own_calls_and_its_past_once(
    here: Ledger, tmp_path: Path
) -> None:
    logs = claude_resumed(tmp_path)
    take(here, logs.parent, logs.child)

    reports = [one for one in every_event(here) if one.kind == "usage.reported"]
    assert len(reports) == 4
    for one in logs.ids:
        total = session_in(here, one).usage().total
        assert (total.calls, total.output_tokens) == (3, 15)


def test_a_title_is_the_sessions(here: Ledger, tmp_path: Path) -> None:
    log = claude_log("one")
    log.note("custom-title", customTitle="Lamps and horns", sessionId=SESSION)
    take(here, write(tmp_path / "a.jsonl", log.lines))

    assert session_in(here, SESSION).outline().title == "Lamps and horns"


def test_a_session_of_a_channel_is_known_by_its_key(here: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / ".openclaw" / "agents" / "lyria" / "sessions"
    write(folder / f"{pi.SESSION}.jsonl", [
        pi.header(cwd="/home/ada/.openclaw/workspace"),
        pi.entry(1, "custom", customType="model-snapshot", data={"modelId": "m"}), pi.said(2, "hi"),
    ])  # fmt: skip
    (folder / "sessions.json").write_bytes(
        lines([{"agent:lyria:telegram:1": {"sessionId": pi.SESSION, "channel": "telegram"}}])
    )

    receipt = import_logs(here, [tmp_path / ".openclaw"], scope=EVERYWHERE)

    assert session_in(here, pi.SESSION).key == "agent:lyria:telegram:1"
    refused = {one.file: one.reason for one in receipt.sources if one.state == "refused"}
    assert refused == {str(folder / "sessions.json"): "an index of sessions"}
