"""Grok's updates: what they tell is what their lines hold, counted by other means."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from formats.logs.grok import CHILD, FILES, FOLDER, LINES, T0, UPDATES
from formats.logs.terminals import GROK_SESSION, RECORDS, content, document
from treering.formats import grok
from treering.importing.testing import LAWS, LogSample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from treering import Event, Ledger

SCOPE: Final = "acme/harbour"
SAMPLE: Final = LogSample(grok.FORMAT[1], UPDATES, FILES)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_the_reader_keeps_the_law(law: Callable[[LogSample], None]) -> None:
    law(SAMPLE)


def put(folder: Path, files: dict[str, bytes]) -> Path:
    for name, held in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(held)
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return put(tmp_path / "home", FILES)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with treering.open(":memory:") as made:
        yield made


def events(ledger: Ledger, session: str = GROK_SESSION) -> list[Event]:
    return [*ledger.session(session, scope=SCOPE, agent="x").events()]


def said(found: list[Event], role: str) -> list[str]:
    return [one.payload["text"] for one in found if one.kind == f"conversation.{role}"]


def test_a_session_is_told_by_its_updates_alone(home: Path, ledger: Ledger) -> None:
    receipt = treering.import_logs(ledger, [home], scope=SCOPE)

    raw = [one["params"]["update"] for one in LINES]
    chunks = [one for one in raw if one["sessionUpdate"].endswith("_chunk")]
    by_message = groupby(
        chunks, lambda one: (one["sessionUpdate"], one.get("messageId"), str(one.get("_meta")))
    )
    texts = [
        (sort, "".join(one["content"].get("text", "") for one in group))
        for (sort, *_), group in by_message
    ]
    found = events(ledger)
    assert receipt.by_format == {"grok": 1}
    assert (receipt.lines, receipt.errors) == (len(LINES), 0)
    assert said(found, "user") == [text for sort, text in texts if sort.startswith("user") and text]
    streamed = [text for sort, text in texts if sort == "agent_message_chunk"]
    assert said(found, "assistant") == [*streamed, raw[-2]["agent_result"]]
    thoughts = [one for one in found if (one.refs or {}).get("observed") == "thinking"]
    assert [one.payload["thinking"] for one in thoughts] == ["A file?"]
    assert sum(one.kind == "tool.call" for one in found) == sum(
        one["sessionUpdate"] == "tool_call" for one in raw
    )
    assert json.dumps([one.payload for one in found]).count("calm") == 1


def test_calls_have_their_inputs_results_and_failures(home: Path, ledger: Ledger) -> None:
    treering.import_logs(ledger, [home], scope=SCOPE)

    found = events(ledger)
    calls = {
        one.payload["call_id"]: (one.payload["name"], one.payload["input"], one.ts_ms)
        for one in found
        if one.kind == "tool.call"
    }
    results = {
        one.payload["call_id"]: (one.payload["status"], one.payload["output"])
        for one in found
        if one.kind == "tool.result"
    }
    assert calls["g1"][:2] == ("read_file", {"path": "tide.py"})
    assert calls["g2"] == ("execute", {"command": "date"}, (T0 + 11) * 1_000 + 5)
    assert calls["g3"][:2] == ("edit", {"title": "Edit tide.py"})
    assert results["g1"] == ("failed", "no file")
    assert results["g2"][0] == "failed"
    assert results["g3"][0] == "ok"


def test_times_usage_cost_title_and_branch_are_known(home: Path, ledger: Ledger) -> None:
    treering.import_logs(ledger, [home], scope=SCOPE)

    session = ledger.session(GROK_SESSION, scope=SCOPE, agent="x")
    total = session.usage().total
    assert (total.input_tokens, total.output_tokens, total.cached_tokens) == (110, 9, 40)
    assert [one.payload.get("cost_usd") for one in events(ledger) if "usage" in one.kind] == [
        0.5,
        None,
    ]
    assert session.outline().title == "Tides"
    (imported,) = (one for one in events(ledger) if one.kind == "session.imported")
    assert imported.payload["branch"] == "tides"
    spoken = [one for one in events(ledger) if one.kind.startswith("conversation.")]
    assert spoken[0].ts_ms == (T0 + 2) * 1_000 + 5
    assert not any("time" in (one.refs or {}) for one in spoken)


def test_what_is_rewound_is_hidden_and_a_summary_is_kept(home: Path, ledger: Ledger) -> None:
    treering.import_logs(ledger, [home], scope=SCOPE)

    history = json.dumps(ledger.session(GROK_SESSION, scope=SCOPE, agent="x").history())
    assert "And now?" not in history
    assert "Later." not in history
    kinds = [one.kind for one in events(ledger)]
    assert (kinds.count("context.compacted"), kinds.count("boundary.interrupt")) == (1, 1)


def test_a_history_adds_nothing_to_updates(home: Path, ledger: Ledger) -> None:
    treering.import_logs(ledger, [home], scope=SCOPE)
    before = events(ledger)

    receipt = treering.import_logs(ledger, [home / FOLDER / "chat_history.jsonl"], scope=SCOPE)

    assert (receipt.events, receipt.duplicates) == (0, len(RECORDS["grok"]))
    assert events(ledger) == before


def test_a_history_is_read_if_the_updates_tell_only_of_turns(
    tmp_path: Path, ledger: Ledger
) -> None:
    ended = [one for one in LINES if one["params"]["update"]["sessionUpdate"] == "turn_completed"]
    home = put(tmp_path, {**FILES, UPDATES: content(ended)})

    receipt = treering.import_logs(ledger, [home], scope=SCOPE)

    assert receipt.by_format == {"grok": 2}
    assert said(events(ledger), "user")[0] == "When is high tide?"


def test_a_subagent_names_the_session_that_began_it(tmp_path: Path, ledger: Ledger) -> None:
    about = {"info": {"id": CHILD}, "session_kind": "subagent", "agent_name": "explore"}
    folder = FOLDER.replace(GROK_SESSION, CHILD)
    home = put(
        tmp_path,
        {
            **FILES,
            f"{folder}/chat_history.jsonl": content(RECORDS["grok"]),
            f"{folder}/summary.json": document(about),
        },
    )

    receipt = treering.import_logs(ledger, [home], scope=SCOPE)

    assert receipt.subagents == 1
    child = ledger.session(CHILD, scope=SCOPE, agent="x").outline()
    assert (child.spawned_by, child.agent) == (GROK_SESSION, "grok:explore")


def test_a_message_that_is_being_written_waits(tmp_path: Path, ledger: Ledger) -> None:
    home = put(tmp_path, {**FILES, UPDATES: content(LINES[:6])})
    log = home / FOLDER / "updates.jsonl"

    early = treering.import_logs(ledger, [log], scope=SCOPE, live=True)
    log.write_bytes(content(LINES))
    treering.import_logs(ledger, [log], scope=SCOPE, live=True)

    assert early.skipped["is still being written"] == 1
    assert "I will " not in said(events(ledger), "assistant")
    assert said(events(ledger), "assistant")[0] == "I will look."


def test_context_around_a_question_is_no_part_of_it(tmp_path: Path, ledger: Ledger) -> None:
    lines: list[dict[str, Any]] = [
        {"type": "user", "content": [{"type": "text", "text": "<user_info>Linux</user_info>"}]},
        {"role": "user", "content": "<user_query>\nTide?\n</user_query>", "prompt_index": 0},
        {"type": "user", "content": "<system-reminder>Brief!</system-reminder>\nNow?"},
        {"type": "assistant", "content": "Noon.", "tool_calls": [], "model_id": "gull-4"},
        {"type": "assistant", "content": "Yes.", "tool_calls": [], "model_id": "gull-4"},
    ]
    path = tmp_path / "chat_history.jsonl"
    path.write_bytes(content(lines))

    receipt = treering.import_logs(ledger, [path], scope=SCOPE)

    found = events(ledger, tmp_path.name)
    assert receipt.errors == 0
    assert said(found, "user") == ["Tide?", "Now?"]
