"""Readers of agents in the terminal: what they tell is what the raw log holds, counted apart."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

import treering
from capture.intake_logs import VOYAGES, write
from formats.logs.terminals import (
    COPILOT_SESSION,
    DROID_SETTINGS,
    GROK_SESSION,
    GROK_SIGNALS,
    KIMI_SESSION,
    LOGS,
    OMP_SESSION,
    PRIME_SESSION,
    QWEN_SESSION,
    RECORDS,
    content,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering import Event, Ledger
    from treering.model.intakes import ImportReceipt

SCOPE: Final = "acme/harbour"
BOOKKEEPING: Final = {"session.opened", "session.imported", "session.forked"}


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a log tells, counted."""

    user: list[str]
    assistant: list[str]
    thoughts: int
    calls: list[str]
    results: int
    failures: int
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


class Taken:
    """A log of ours, imported."""

    def __init__(self, ledger: Ledger, receipt: ImportReceipt) -> None:
        self.ledger = ledger
        self.receipt = receipt
        self.events: list[Event] = []
        after: str | None = None
        while True:
            page = ledger.events(SCOPE, after=after)
            self.events += page.items
            after = page.next_cursor
            if after is None:
                break

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.kind == kind]

    def told(self) -> Told:
        """Return what the ledger holds, counted."""
        results = self.of("tool.result")
        sessions = {event.session_id for event in self.events}
        handles = [self.ledger.session(one, scope=SCOPE, agent="x") for one in sessions]
        totals = [handle.usage().total for handle in handles]
        return Told(
            user=[event.payload["text"] for event in self.of("conversation.user")],
            assistant=[event.payload["text"] for event in self.of("conversation.assistant")],
            thoughts=sum((one.refs or {}).get("observed") == "thinking" for one in self.events),
            calls=[event.payload["name"] for event in self.of("tool.call")],
            results=len(results),
            failures=sum(event.payload["status"] == "failed" for event in results),
            input_tokens=sum(total.input_tokens for total in totals),
            output_tokens=sum(total.output_tokens for total in totals),
            cached_tokens=sum(total.cached_tokens for total in totals),
        )


def take(folder: Path, sample: str) -> Taken:
    _, log, beside = LOGS[sample]
    for name, held in {**beside, log: content(RECORDS[sample])}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(held)
    ledger = treering.open(folder / f"{sample}.db")
    receipt = treering.import_logs(ledger, [folder / log], scope=SCOPE)
    return Taken(ledger, receipt)


# Counting by other means: on the raw values, without the readers.


def walk(value: Any) -> Iterator[dict[str, Any]]:
    """Give every object in a value."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from walk(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner)


def of_copilot(log: list[dict[str, Any]]) -> Told:
    by_type: dict[str, list[dict[str, Any]]] = {}
    for line in log:
        by_type.setdefault(line["type"], []).append(line["data"])
    ends = by_type["tool.execution_complete"]
    metrics = [one["usage"] for one in walk(by_type["session.shutdown"]) if "usage" in one]
    return Told(
        user=[one["content"] for one in by_type["user.message"]],
        assistant=[one["content"] for one in by_type["assistant.message"] if one["content"]],
        thoughts=len({one["content"] for one in by_type["assistant.reasoning"]}),
        calls=[one["name"] for one in walk(by_type["assistant.message"]) if "arguments" in one],
        results=len(ends),
        failures=sum(not one["success"] for one in ends),
        input_tokens=sum(one["inputTokens"] for one in metrics),
        output_tokens=sum(one["outputTokens"] for one in metrics),
        cached_tokens=sum(one["cacheReadTokens"] for one in metrics),
    )


def of_qwen(log: list[dict[str, Any]]) -> Told:
    users = [one for one in log if one["type"] == "user" and one.get("subtype") != "notification"]
    parts = [part for one in log if one["type"] == "assistant" for part in one["message"]["parts"]]
    results = [one for one in walk(log) if "functionResponse" in one]
    usage = [one["usageMetadata"] for one in log if "usageMetadata" in one]
    return Told(
        user=[one["message"]["parts"][0]["text"] for one in users],
        assistant=[one["text"] for one in parts if "text" in one and not one.get("thought")],
        thoughts=sum(bool(one.get("thought")) for one in parts),
        calls=[one["functionCall"]["name"] for one in parts if "functionCall" in one],
        results=len(results),
        failures=sum("error" in one["functionResponse"]["response"] for one in results),
        input_tokens=sum(one["promptTokenCount"] for one in usage),
        output_tokens=sum(
            one["candidatesTokenCount"] + one.get("thoughtsTokenCount", 0) for one in usage
        ),
        cached_tokens=sum(one.get("cachedContentTokenCount", 0) for one in usage),
    )


def of_droid_store(log: list[dict[str, Any]]) -> Told:
    blocks = [
        (line["message"]["role"], block)
        for line in log
        if line["type"] == "message"
        for block in line["message"]["content"]
    ]
    texts = [(role, block["text"]) for role, block in blocks if block["type"] == "text"]
    kinds = Counter(block["type"] for _, block in blocks)
    usage: Any = DROID_SETTINGS["tokenUsage"]
    return Told(
        user=[
            text.partition("</system-reminder>")[2].strip()
            for role, text in texts
            if role == "user"
        ],
        assistant=[text for role, text in texts if role == "assistant"],
        thoughts=kinds["thinking"],
        calls=[block["name"] for _, block in blocks if block["type"] == "tool_use"],
        results=kinds["tool_result"],
        failures=sum(
            "failed" in str(block) for _, block in blocks if block["type"] == "tool_result"
        ),
        input_tokens=usage["inputTokens"] + usage["cacheReadTokens"],
        output_tokens=usage["outputTokens"] + usage["thinkingTokens"],
        cached_tokens=usage["cacheReadTokens"],
    )


def of_droid_stream(log: list[dict[str, Any]]) -> Told:
    said = [(one["role"], one["text"]) for one in log if one["type"] == "message"]
    results = [one for one in log if one["type"] == "tool_result"]
    (usage,) = (one["usage"] for one in log if "usage" in one)
    return Told(
        user=[text for role, text in said if role == "user"],
        assistant=[text for role, text in said if role == "assistant"],
        thoughts=0,
        calls=[one["toolName"] for one in log if one["type"] == "tool_call"],
        results=len(results),
        failures=sum(one["isError"] for one in results),
        input_tokens=usage["input_tokens"] + usage["cache_read_input_tokens"],
        output_tokens=usage["output_tokens"],
        cached_tokens=usage["cache_read_input_tokens"],
    )


def of_grok(log: list[dict[str, Any]]) -> Told:
    users = [one for one in log if one["type"] == "user" and "prompt_index" in one]
    own = [call["name"] for one in log for call in one.get("tool_calls", [])]
    theirs = [one["kind"]["tool_type"] for one in log if one["type"] == "backend_tool_call"]
    results = [one for one in log if one["type"] == "tool_result"]
    return Told(
        user=[block["text"] for one in users for block in one["content"] if "text" in block],
        assistant=[one["content"] for one in log if one["type"] == "assistant"],
        thoughts=sum(one["type"] == "reasoning" for one in log),
        calls=[*own, *theirs],
        results=len(results) + len(theirs),
        failures=sum(one["content"].startswith("Error") for one in results),
        input_tokens=GROK_SIGNALS["totalInputTokens"],
        output_tokens=GROK_SIGNALS["totalOutputTokens"],
    )


def of_kimi(log: list[dict[str, Any]]) -> Told:
    prompts = [
        one["input"][0]["text"] for one in log if one["type"] in {"turn.prompt", "turn.steer"}
    ]
    parts = [one["part"] for one in walk(log) if "part" in one]
    usage = [one["usage"] for one in log if one["type"] == "usage.record"]
    results = [one["result"] for one in walk(log) if "result" in one]
    return Told(
        user=prompts,
        assistant=[one["text"] for one in parts if one["type"] == "text"],
        thoughts=sum(one["type"] == "think" for one in parts),
        calls=[one["name"] for one in walk(log) if one.get("type") == "tool.call"],
        results=len(results),
        failures=sum(one["isError"] for one in results),
        input_tokens=sum(sum(one.values()) - one["output"] for one in usage),
        output_tokens=sum(one["output"] for one in usage),
        cached_tokens=sum(one["inputCacheRead"] for one in usage),
    )


def of_kimi_older(log: list[dict[str, Any]]) -> Told:
    wrapped = [one for one in walk(log) if isinstance(one.get("payload"), dict)]
    parts = [one["payload"] for one in wrapped if one["type"] == "ContentPart"]
    usage = [one["token_usage"] for one in walk(log) if "token_usage" in one]
    return Told(
        user=[one["user_input"][0]["text"] for one in walk(log) if "user_input" in one],
        assistant=[one["text"] for one in parts if one["type"] == "text"],
        thoughts=sum(one["type"] == "think" for one in parts),
        calls=[one["function"]["name"] for one in walk(log) if "function" in one],
        results=sum("return_value" in one for one in walk(log)),
        failures=0,
        input_tokens=sum(one["input_other"] + one["input_cache_read"] for one in usage),
        output_tokens=sum(one["output"] for one in usage),
        cached_tokens=sum(one["input_cache_read"] for one in usage),
    )


def of_antigravity(log: list[dict[str, Any]]) -> Told:
    done = [one for one in log if one["source"] == "MODEL" and one["type"] != "PLANNER_RESPONSE"]
    plans = [one for one in log if one["type"] == "PLANNER_RESPONSE"]
    asked = [call["name"] for one in plans for call in one.get("tool_calls", [])]
    return Told(
        user=[one["content"].splitlines()[1] for one in log if one["type"] == "USER_INPUT"],
        assistant=[one["content"] for one in plans if "content" in one],
        thoughts=sum("thinking" in one for one in plans),
        calls=[*asked, *(one["type"].lower() for one in done[len(asked) :])],
        results=len(done),
        failures=sum(one["status"] == "ERROR" for one in done),
    )


def of_codex_exec(log: list[dict[str, Any]]) -> Told:
    items = [one["item"] for one in log if one["type"] == "item.completed"]
    usage = [one["usage"] for one in log if "usage" in one]
    kinds = Counter(one["type"] for one in items)
    return Told(
        user=[],
        assistant=[one["text"] for one in items if one["type"] == "agent_message"],
        thoughts=kinds["reasoning"],
        calls=["shell"] * kinds["command_execution"] + ["sea.tide"] * kinds["mcp_tool_call"],
        results=kinds["command_execution"] + kinds["mcp_tool_call"],
        failures=sum(bool(one.get("exit_code")) for one in items),
        input_tokens=sum(one["input_tokens"] for one in usage),
        output_tokens=sum(one["output_tokens"] for one in usage),
        cached_tokens=sum(one["cached_input_tokens"] for one in usage),
    )


def of_pi(log: list[dict[str, Any]]) -> Told:
    """Count a log of pi's grammar: that of OMP and Prime."""
    messages = [line["message"] for line in log if line["type"] == "message"]
    blocks = [block for one in messages if one["role"] == "assistant" for block in one["content"]]
    run = {"bashExecution": "bash", "pythonExecution": "python"}
    ran = [one for one in messages if one["role"] in run]
    results = [one for one in messages if one["role"] == "toolResult"]
    usage = [one["usage"] for one in walk(log) if "usage" in one]
    users = [one["content"] for one in messages if one["role"] == "user"]
    return Told(
        user=[one if isinstance(one, str) else one[0]["text"] for one in users],
        assistant=[block["text"] for block in blocks if block["type"] == "text"],
        thoughts=sum(block["type"] == "thinking" for block in blocks),
        calls=[
            *(block["name"] for block in blocks if block["type"] == "toolCall"),
            *(run[one["role"]] for one in ran),
        ],
        results=len(results) + len(ran),
        failures=sum(one["isError"] for one in results) + sum(one["exitCode"] > 0 for one in ran),
        input_tokens=sum(one["input"] + one["cacheRead"] + one["cacheWrite"] for one in usage),
        output_tokens=sum(one["output"] for one in usage),
        cached_tokens=sum(one["cacheRead"] for one in usage),
    )


def of_trae(log: list[dict[str, Any]]) -> Told:
    items = [line["payload"] for line in log if line["type"] == "response_item"]
    said = [(one["role"], one["content"][0]["text"]) for one in items if one["type"] == "message"]
    kinds = Counter(one["type"] for one in items)
    total = [one["total_token_usage"] for one in walk(log) if "total_token_usage" in one][-1]
    outputs = [one["output"] for one in items if "output" in one]
    return Told(
        user=[text for role, text in said if role == "user"],
        assistant=[text for role, text in said if role == "assistant"],
        thoughts=kinds["reasoning"],
        calls=[one["name"] for one in items if one["type"] == "function_call"],
        results=kinds["function_call_output"],
        failures=sum('"exit_code": 2' in one for one in outputs),
        input_tokens=total["input_tokens"],
        output_tokens=total["output_tokens"],
        cached_tokens=total["cached_input_tokens"],
    )


COUNTERS: Final[dict[str, Callable[[list[dict[str, Any]]], Told]]] = {
    "copilot": of_copilot,
    "qwen": of_qwen,
    "droid store": of_droid_store,
    "droid stream": of_droid_stream,
    "grok": of_grok,
    "kimi": of_kimi,
    "kimi older": of_kimi_older,
    "antigravity": of_antigravity,
    "codex exec": of_codex_exec,
    "omp": of_pi,
    "prime": of_pi,
    "trae": of_trae,
}


@pytest.mark.parametrize("sample", COUNTERS)
def test_what_is_told_is_what_the_raw_log_holds(tmp_path: Path, sample: str) -> None:
    raw = [json.loads(line) for line in content(RECORDS[sample]).splitlines()]

    taken = take(tmp_path, sample)

    found, expected = taken.told(), COUNTERS[sample](raw)
    assert sorted(found.calls) == sorted(expected.calls)
    assert msgspec.structs.replace(found, calls=[]) == msgspec.structs.replace(expected, calls=[])
    assert [source.format for source in taken.receipt.sources] == [LOGS[sample][0]]
    assert taken.receipt.lines == len(raw)
    assert taken.receipt.errors == 0


@pytest.mark.parametrize("sample", sorted(COUNTERS))
def test_every_call_is_named_by_its_result(tmp_path: Path, sample: str) -> None:
    taken = take(tmp_path, sample)

    calls = {event.payload["call_id"]: event.payload["name"] for event in taken.of("tool.call")}
    results = {event.payload["call_id"]: event.payload["name"] for event in taken.of("tool.result")}

    assert calls == results


@pytest.mark.parametrize("sample", ["copilot", "qwen", "droid store", "grok", "kimi"])
def test_the_project_of_a_log_is_its_scope(tmp_path: Path, sample: str) -> None:
    _, log, beside = LOGS[sample]
    for name, held in {**beside, log: content(RECORDS[sample])}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(held)

    whole = (tmp_path / log).read_bytes()
    (tmp_path / log).write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 1])

    with treering.open(tmp_path / "l.db") as ledger:
        receipt = treering.import_logs(ledger, [tmp_path / log], live=True)
        (tmp_path / log).write_bytes(whole)
        grown = treering.import_logs(ledger, [tmp_path / log], live=True)

    named = {"copilot": "acme/harbour", "grok": "acme/harbour"}
    assert set(receipt.by_scope) == set(grown.by_scope) == {named.get(sample, "harbour")}
    assert grown.sessions_new == 0


def test_what_is_unknown_is_kept_whole(tmp_path: Path) -> None:
    for sample in COUNTERS:
        taken = take(tmp_path, sample)
        kept = [json.dumps(event.payload) for event in taken.of("ops.observation")]
        of_tomorrow = [one for one in walk(list(RECORDS[sample])) if "mood" in one]

        assert sum("calm" in one for one in kept) == len(of_tomorrow) + (sample == "antigravity")


def test_a_subagent_of_copilot_is_a_session_that_names_its_call(tmp_path: Path) -> None:
    taken = take(tmp_path, "copilot")

    child = taken.ledger.session(f"{COPILOT_SESSION}/c2", scope=SCOPE, agent="x")
    opened = next(iter(child.events()))

    assert child.outline().spawned_by == COPILOT_SESSION
    assert opened.payload["spawned_call"] == "c2"
    assert [one["content"] for one in child.history()] == ["At noon, says the keeper."]


def test_a_call_that_the_user_asks_copilot_for_has_its_result(tmp_path: Path) -> None:
    given = {"toolCallId": "u1", "toolName": "bash", "arguments": {"command": "tide"}}
    told: list[tuple[str, dict[str, Any]]] = [
        ("session.start", {"sessionId": "s1", "version": 1}),
        ("tool.user_requested", given),
        ("tool.execution_start", given),
        ("tool.execution_complete", {"toolCallId": "u1", "success": True, "result": "14:10"}),
    ]
    path = write(
        tmp_path / ".copilot/session-state/s1/events.jsonl",
        [
            {"type": sort, "data": data, "id": f"e{n}", "timestamp": f"2026-10-01T10:00:0{n}.000Z"}
            for n, (sort, data) in enumerate(told)
        ],
    )

    with treering.open(":memory:") as ledger:
        taken = Taken(ledger, treering.import_logs(ledger, [path], scope=SCOPE))

    (call,), (result,) = taken.of("tool.call"), taken.of("tool.result")
    assert (call.source, call.refs["tool"], result.refs["tool"]) == ("user", "bash", "bash")


def test_compactions_are_told_with_their_summaries_or_without(tmp_path: Path) -> None:
    for sample in ("copilot", "qwen", "droid store", "kimi", "antigravity"):
        taken = take(tmp_path, sample)

        (summary,) = taken.of("context.compacted")

        assert summary.payload["summary"] == "They ask for the tide."

    (cut,) = take(tmp_path, "copilot").of("compaction.ended")
    assert (cut.refs or {})["tokens_before"] == 8


def test_what_copilot_and_qwen_rewind_is_hidden(tmp_path: Path) -> None:
    for sample, session, hidden in (
        ("copilot", COPILOT_SESSION, "At midnight."),
        ("qwen", QWEN_SESSION, "Nobody knows."),
    ):
        taken = take(tmp_path, sample)
        history = taken.ledger.session(session, scope=SCOPE, agent="x").history()

        assert hidden not in json.dumps(history)
        assert "At noon." in json.dumps(history)


def test_subagents_of_kimi_are_sessions_of_their_own(tmp_path: Path) -> None:
    taken = take(tmp_path, "kimi older")
    main = tmp_path / LOGS["kimi"][1]
    child = main.parents[1] / "agent-0" / "wire.jsonl"
    for path in (main, child):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(RECORDS["kimi"]))

    receipt = treering.import_logs(taken.ledger, [child], scope="other")

    inside = taken.ledger.session(f"{KIMI_SESSION}/k1", scope=SCOPE, agent="x")
    beside = taken.ledger.session(f"{KIMI_SESSION}/agent-0", scope="other", agent="x").outline()
    assert inside.outline().spawned_by == KIMI_SESSION
    assert next(iter(inside.events())).payload["spawned_call"] == "k1"
    assert beside.spawned_by == KIMI_SESSION
    assert receipt.subagents == 1


def test_a_subagent_of_antigravity_knows_who_started_it(tmp_path: Path) -> None:
    step = {"source": "MODEL", "status": "DONE", "created_at": "2026-10-01T10:00:00Z"}
    started = 'Created the following subagents:\n{\n  "conversationId": "child"\n}'
    steps = {
        "parent": {**step, "step_index": 0, "type": "INVOKE_SUBAGENT", "content": started},
        "child": {**step, "step_index": 0, "type": "PLANNER_RESPONSE", "content": "Looked."},
    }
    brain = tmp_path / ".gemini/antigravity/brain"
    for conversation, record in steps.items():
        write(brain / conversation / ".system_generated/logs/transcript.jsonl", [record])

    with treering.open(":memory:") as ledger:
        treering.import_logs(ledger, [brain], scope=SCOPE)
        outlines = {one.session_id: one for one in ledger.sessions(SCOPE, subagents=True).items}

    assert outlines["parent"].spawned_by is None
    assert (outlines["child"].spawned_by, outlines["child"].agent) == (
        "parent", "antigravity:subagent",
    )  # fmt: skip


def test_arguments_that_antigravity_encodes_twice_are_decoded(tmp_path: Path) -> None:
    calls: list[dict[str, Any]] = [
        {"name": "list_dir", "args": {"DirectoryPath": '"/srv/harbour"', "Depth": "2"}},
        {"name": "run_command", "args": {"cmd": "date", "Depth": "2"}},
        {"name": "view_file", "args": {"path": '"quoted"', "line": 2}},
    ]
    step = {"step_index": 0, "source": "MODEL", "status": "DONE", "created_at": "2026-10-01"}
    log = [{**step, "type": "PLANNER_RESPONSE", "tool_calls": calls}]
    path = write(tmp_path / "transcript.jsonl", log)

    with treering.open(":memory:") as ledger:
        taken = Taken(ledger, treering.import_logs(ledger, [path], scope=SCOPE))

        assert [event.payload["input"] for event in taken.of("tool.call")] == [
            {"DirectoryPath": "/srv/harbour", "Depth": 2},
            calls[1]["args"],
            calls[2]["args"],
        ]


def test_times_that_a_log_does_not_tell_are_marked_as_approximate(tmp_path: Path) -> None:
    for sample in ("grok", "codex exec"):
        told = [event for event in take(tmp_path, sample).events if event.kind not in BOOKKEEPING]

        assert {(event.refs or {}).get("time") for event in told} == {"approximate"}

    timed = [event for event in take(tmp_path, "copilot").events if event.kind not in BOOKKEEPING]
    assert not any("time" in (event.refs or {}) for event in timed)


def test_a_session_of_grok_has_what_the_files_beside_it_say(tmp_path: Path) -> None:
    taken = take(tmp_path, "grok")

    (imported,) = taken.of("session.imported")
    outline = taken.ledger.session(GROK_SESSION, scope=SCOPE, agent="x").outline()

    assert outline.title == "Tides"
    assert (imported.payload["cwd"], imported.payload["branch"]) == ("/srv/harbour", "tides")


@pytest.mark.parametrize(
    ("agent", "form", "folder"),
    [
        ("iflow", "claude-code", ".iflow/projects/harbour"),
        ("trae", "codex", ".trae/cli/sessions/2026/10/01"),
        ("prime", "pi", ".prime/agent/sessions/harbour"),
        ("omp", "pi", ".omp/agent/sessions/harbour"),
        (
            "claude-cowork",
            "claude-code",
            "Library/Application Support/Claude/local-agent-mode-sessions/a/b/.claude/projects/c",
        ),
    ],
)
def test_an_agent_with_the_format_of_another_is_known_by_its_folder(
    tmp_path: Path, agent: str, form: str, folder: str
) -> None:
    name, records = VOYAGES[form]
    path = write(tmp_path / folder / PurePath(name).name, records)
    copy = write(tmp_path / PurePath(name).name, records)

    with treering.open(tmp_path / "l.db") as ledger:
        receipt = treering.import_logs(ledger, [path], scope=SCOPE)
        again = treering.import_logs(ledger, [path], scope=SCOPE, again=True)
        outlines = ledger.sessions(SCOPE, subagents=True).items
        elsewhere = treering.import_logs(ledger, [copy], scope="other")

    assert (receipt.by_format, again.events) == ({agent: 1}, 0)
    assert {one.agent.partition(":")[0] for one in outlines} == {agent}
    assert elsewhere.by_format == {form: 1}


def test_a_session_of_omp_has_its_title_its_folder_and_its_subagents(tmp_path: Path) -> None:
    _, log, _ = LOGS["omp"]
    path, records = tmp_path / log, RECORDS["omp"]
    child = [one | {"id": "child"} if one["type"] == "session" else one for one in records]
    write(path, [one for one in records if one["type"] not in {"session_init", "title_change"}])
    write(path.with_suffix("") / "0-Scout.jsonl", child)

    with treering.open(":memory:") as ledger:
        receipt = treering.import_logs(ledger, [path.parent])
        outlines = {one.session_id: one for one in ledger.sessions("harbour", subagents=True).items}

    assert (receipt.by_format, receipt.errors, set(receipt.by_scope)) == (
        {"omp": 2},
        0,
        {"harbour"},
    )
    assert (outlines[OMP_SESSION].title, outlines[OMP_SESSION].agent) == ("Tides", "omp")
    assert (outlines["child"].spawned_by, outlines["child"].agent) == (OMP_SESSION, "omp:scout")
    assert outlines["child"].title == "Tides of Bergen"


def test_what_prime_delegates_is_a_subagent_and_knows_its_branch(tmp_path: Path) -> None:
    _, log, _ = LOGS["prime"]
    header, *entries = RECORDS["prime"]
    git = {"repoUrl": "https://example.com/acme/harbour.git", "commit": "abc", "branch": "tides"}
    child = {**header, "id": "child", "rlmDepth": 1, "parentSession": f"/x/{PRIME_SESSION}.jsonl"}
    write(tmp_path / log, [{**header, "rlmDepth": 0, "git": git}, *entries])
    write((tmp_path / log).with_name("child.jsonl"), [{**child, "git": git}, *entries])

    with treering.open(":memory:") as ledger:
        treering.import_logs(ledger, [(tmp_path / log).parent], scope=SCOPE)
        outlines = {one.session_id: one for one in ledger.sessions(SCOPE, subagents=True).items}
        taken = Taken(ledger, treering.import_logs(ledger, [tmp_path / log], scope=SCOPE))

    assert (outlines["child"].spawned_by, outlines[PRIME_SESSION].spawned_by) == (
        PRIME_SESSION, None,
    )  # fmt: skip
    assert {one.payload["branch"] for one in taken.of("session.imported")} == {"tides"}


def test_a_project_of_grok_is_told_by_its_folder_if_nothing_else_tells(tmp_path: Path) -> None:
    for number, folder in enumerate(("%2Fsrv%2Fharbour", "C%3A%5CUsers%5Cada%5Charbour", "odd")):
        write(tmp_path / f".grok/sessions/{folder}/s{number}/chat_history.jsonl", RECORDS["grok"])

    with treering.open(":memory:") as ledger:
        receipt = treering.import_logs(ledger, [tmp_path / ".grok"])

    assert receipt.by_scope.keys() == {"harbour", "grok"}
    assert receipt.by_scope["harbour"] == 2 * receipt.by_scope["grok"]


def test_a_result_of_qwen_belongs_to_the_call_that_is_known(tmp_path: Path) -> None:
    """A function's response may have an id of its own; what the program states has the call's."""
    records = [json.loads(json.dumps(one)) for one in RECORDS["qwen"]]
    renamed = 0
    for one in walk(records):
        if "functionResponse" in one:
            one["functionResponse"]["id"] = f"response-{renamed}"
            renamed += 1
    path = write(tmp_path / LOGS["qwen"][1], records)

    with treering.open(":memory:") as ledger:
        taken = Taken(ledger, treering.import_logs(ledger, [path], scope=SCOPE))

    called = {one.payload["call_id"] for one in taken.of("tool.call")}
    assert renamed
    assert {one.payload["call_id"] for one in taken.of("tool.result")} == called


def _line(n: int, sort: str, parent: int | None, content: Any, **more: Any) -> dict[str, Any]:
    return {
        "uuid": f"u{n}",
        "parentUuid": None if parent is None else f"u{parent}",
        "sessionId": "session-7e1",
        "timestamp": f"2026-10-01T10:00:{n:02d}.000Z",
        "type": sort,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/srv/harbour",
        "message": {"role": sort, "content": content},
        **more,
    }


def test_iflow_repeats_calls_while_they_run_and_wraps_what_they_return(tmp_path: Path) -> None:
    """Assistant lines with one parent are snapshots of one answer, not branches."""
    uses = {at: {"type": "tool_use", "id": at, "name": "look", "input": {"at": at}} for at in "abc"}

    def result(call_id: str, **response: str) -> list[dict[str, Any]]:
        part = {"functionResponse": {"id": call_id, "name": "look", "response": response}}
        wrapped = {"callId": call_id, "responseParts": part, "resultDisplay": ""}
        return [{"type": "tool_result", "tool_use_id": call_id, "content": wrapped}]

    ended = {"toolName": "look", "status": "error", "timestamp": 1_790_000_000_000}
    log = [
        _line(1, "user", None, "When is high tide?"),
        _line(2, "assistant", 1, [{"type": "text", "text": "I will look."}, uses["a"]]),
        _line(3, "assistant", 1, [uses["a"], uses["b"]]),
        _line(4, "assistant", 1, [uses["b"], uses["c"]]),
        _line(5, "user", 4, result("a", output="noon")),
        _line(6, "user", 4, result("b", error="no such quay")),
        _line(7, "user", 4, result("c", output="late"), toolUseResult=ended),
        _line(8, "assistant", 7, [{"type": "text", "text": "At noon."}]),
    ]
    path = write(tmp_path / ".iflow/projects/-srv-harbour/session-7e1.jsonl", log)

    with treering.open(":memory:") as ledger:
        receipt = treering.import_logs(ledger, [path], scope=SCOPE)
        taken = Taken(ledger, receipt)

        assert (receipt.by_format, receipt.lines, receipt.errors) == ({"iflow": 1}, len(log), 0)
        assert sorted(one.payload["call_id"] for one in taken.of("tool.call")) == ["a", "b", "c"]
        results = {one.payload["call_id"]: one.payload for one in taken.of("tool.result")}
        assert {at: (one["status"], one["output"]) for at, one in results.items()} == {
            "a": ("ok", "noon"),
            "b": ("failed", "no such quay"),
            "c": ("failed", "late"),
        }
        assert not taken.of("session.undone")
        assert taken.told().assistant == ["I will look.", "At noon."]


def test_a_session_of_cowork_has_its_title_and_folder_and_is_read_once(tmp_path: Path) -> None:
    workspace = tmp_path / ".config/Claude/local-agent-mode-sessions/o/w"
    log = [
        {**_line(1, "user", None, "When is high tide?"), "cwd": "/sessions/x"},
        _line(2, "assistant", 1, [{"type": "text", "text": "At noon."}]),
    ]
    stream = [
        {
            "type": one["type"],
            "message": one["message"],
            "session_id": "c2",
            "uuid": one["uuid"],
            "parent_tool_use_id": None,
            "_audit_timestamp": one["timestamp"],
        }
        for one in log
    ]
    about = {"cliSessionId": "session-7e1", "title": "Tides", "userSelectedFolders": ["/srv/quay"]}
    for name in ("local_1", "local_2"):
        write(workspace / f"{name}/audit.jsonl", stream)
        (workspace / f"{name}.json").write_text(json.dumps(about))
    write(workspace / "local_1/.claude/projects/-sessions-x/session-7e1.jsonl", log)

    with treering.open(":memory:") as ledger:
        receipt = treering.import_logs(ledger, [tmp_path])

        assert receipt.by_format == {"claude-cowork": 2}
        assert set(receipt.by_scope) == {"quay"}
        outlines = {one.session_id: one for one in ledger.sessions("quay").items}
        assert {one.title for one in outlines.values()} == {"Tides"}
        assert outlines.keys() == {"session-7e1", "c2"}
        # Without a transcript, the stream is read, with its own times.
        (asked, answered) = (
            one
            for one in ledger.session("c2", scope="quay", agent="x").events()
            if one.kind.startswith("conversation.")
        )
        assert (asked.ts_ms, answered.ts_ms) == (1_790_848_801_000, 1_790_848_802_000)


def test_files_that_are_read_with_a_log_are_not_read_by_themselves(tmp_path: Path) -> None:
    for sample, (_, log, beside) in LOGS.items():
        for name, held in {**beside, log: content(RECORDS[sample])}.items():
            path = tmp_path / "home" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(held)

    with treering.open(tmp_path / "l.db") as ledger:
        receipt = treering.import_logs(ledger, [tmp_path / "home"])

    assert receipt.errors == 0
    refused = {one.file.rpartition("/")[2] for one in receipt.sources if one.state == "refused"}
    assert refused == {"summary.json", "signals.json", "state.json", "droid-1.settings.json"}
    assert sum(receipt.by_format.values()) == len(LOGS)
