"""A session of any agent, exported as a log of Claude Code's, is the same in a fresh ledger."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from capture.intake_logs import every_event, write
from formats.logs.claude_code import Log, call
from formats.test_laws import SAMPLES as LINES
from formats.test_stores import SAMPLES as STORES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from surfaces.command_line import CommandLine
    from treering import Ledger, Session
    from treering.importing.testing import LogSample
    from treering.model.events import Event

SCOPE: Final = "harbour"
SAMPLES: Final[dict[str, LogSample]] = {**LINES, **STORES}
OPENING: Final = {"session.opened", "session.imported", "session.forked"}
"""What an import writes itself."""


def import_into(database: Path, paths: Iterable[Path]) -> None:
    """Import logs, all of which can be read."""
    with treering.open(database) as ledger:
        assert treering.import_logs(ledger, list(paths), scope=SCOPE).errors == 0


def export_all(cli: CommandLine, folder: Path) -> tuple[list[Path], int]:
    """Export every session of a ledger; return the files, and how many events are left out."""
    with treering.open(cli.database) as ledger:
        names = [one.session_id for one in ledger.sessions(SCOPE).items]
    files, left_out = [], 0
    for number, name in enumerate(names):
        files.append(folder / f"{number}.jsonl")
        done = cli("export", name, "--scope", SCOPE, "--format", "claude-code", "--json", "--out",
                   str(files[-1]))  # fmt: skip
        assert done.status == 0, done.err
        left_out += done.receipt["left_out"]
    return files, left_out


def sessions_of(ledger: Ledger) -> list[Session]:
    """Return all sessions, those of subagents as well."""
    return [
        ledger.session(one.session_id, scope=SCOPE, agent=one.agent)
        for one in ledger.sessions(SCOPE, subagents=True).items
    ]


def fields_of(value: Any) -> Any:
    """Return a value without numbers of events: every ledger numbers its own."""
    if not isinstance(value, dict):
        return value
    return {name: field for name, field in value.items() if name != "through_seq"} or None


def record_of(event: Event) -> tuple[Any, ...]:
    return event.kind, event.ts_ms, event.summary, fields_of(event.payload), fields_of(event.refs)


def events_of(ledger: Ledger) -> dict[str, tuple[Any, ...]]:
    """Return what every event says, by its id."""
    return {
        one.event_id: record_of(one)
        for one in every_event(ledger, SCOPE)
        if one.kind not in OPENING
    }


def undone_in(ledger: Ledger) -> set[str]:
    """Return the ids of events that were undone, and of the marks that say so."""
    undone = set()
    for session in sessions_of(ledger):
        shown = {event.event_id for event in session.live_events()}
        undone |= {
            event.event_id
            for event in session.events()
            if event.kind == "session.undone" or event.event_id not in shown
        }
    return undone


def views_of(ledger: Ledger) -> list[str]:
    """Return what a model is shown of each session, what it used, and which call started it."""
    return sorted(
        json.dumps([one.settings.spawned_call, one.history(), str(one.usage().total)])
        for one in sessions_of(ledger)
    )


@pytest.mark.parametrize("sample", SAMPLES)
def test_an_export_is_the_whole_session_in_a_fresh_ledger(
    cli: CommandLine, tmp_path: Path, sample: str
) -> None:
    for name, content in SAMPLES[sample].files.items():
        path = tmp_path / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    import_into(cli.database, [tmp_path / "home" / SAMPLES[sample].log])

    files, left_out = export_all(cli, tmp_path)
    import_into(tmp_path / "fresh.db", files)

    with treering.open(cli.database) as ledger, treering.open(tmp_path / "fresh.db") as fresh:
        before, after = events_of(ledger), events_of(fresh)
        lost = before.keys() - after.keys()
        assert {key: before[key] for key in after} == after
        assert lost <= undone_in(ledger)
        assert left_out == len(lost)
        assert views_of(fresh) == views_of(ledger)


def test_an_export_holds_a_truncation_and_a_result_without_a_call(
    cli: CommandLine, tmp_path: Path
) -> None:
    log = Log()
    log.user("Light the lamp.")
    log.result("toolu_0", "of nobody")
    log.line("system", subtype="compact_boundary", compactMetadata={"preTokens": 900})
    log.answer("Lit.", call("toolu_1"))
    log.result("toolu_1", "lit")
    import_into(cli.database, [write(tmp_path / "log.jsonl", log.lines)])

    files, left_out = export_all(cli, tmp_path)
    import_into(tmp_path / "fresh.db", files)

    with treering.open(cli.database) as ledger, treering.open(tmp_path / "fresh.db") as fresh:
        events = events_of(fresh)
        assert events == events_of(ledger)
        assert left_out == 0
        kinds = [kind for kind, *_ in events.values()]
        assert {kind: kinds.count(kind) for kind in ("tool.result", "compaction.ended")} == {
            "tool.result": 2,
            "compaction.ended": 1,
        }


def test_an_export_says_what_it_leaves_out(cli: CommandLine, tmp_path: Path) -> None:
    with treering.open(cli.database) as ledger:
        session = ledger.session("s1", scope=SCOPE, agent="lyria")
        for said in ("Keep this.", "Take this back."):
            with session.turn() as turn:
                turn.user(said)
        session.undo()
    out = tmp_path / "s1.jsonl"

    done = cli("export", "s1", "--scope", SCOPE, "--format", "claude-code", "--out", str(out))

    aside = cli("export", "s1", "--scope", SCOPE, "--format", "claude-code")
    assert "are not in it: undone or erased, or of runs, memory and state\n" in done.out
    assert "are not in it: undone or erased, or of runs, memory and state\n" in aside.err
    assert json.loads(aside.out.splitlines()[0])["type"] == "user"
    assert "Take this back." not in out.read_text()


def test_a_subagent_of_a_subagent_stays_its_own(cli: CommandLine, tmp_path: Path) -> None:
    with treering.open(cli.database) as ledger:
        ledger.session("watch", scope=SCOPE, agent="lyria").record("conversation.user", "Look.")
        for name, parent in (("scout", "watch"), ("diver", "scout")):
            child = ledger.session(name, scope=SCOPE, agent="lyria", spawned_by=parent)
            child.record("conversation.user", f"Look, {name}.")
    out = tmp_path / "watch.jsonl"
    cli("export", "watch", "--scope", SCOPE, "--format", "claude-code", "--out", str(out))
    import_into(tmp_path / "fresh.db", [out])

    with treering.open(tmp_path / "fresh.db") as fresh:
        parents = {
            one.session_id: one.spawned_by for one in fresh.sessions(SCOPE, subagents=True).items
        }
        watch = next(name for name, parent in parents.items() if parent is None)
        assert parents == {
            watch: None,
            f"{watch}/agent-scout": watch,
            f"{watch}/agent-scout/agent-diver": f"{watch}/agent-scout",
        }
