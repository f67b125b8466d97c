"""Tools of Codex: calls and results of every kind, how they ended and how long they took."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from formats.logs.codex import PATCH, call, event, item, opened, output, read, told


def as_json(**told_by_the_tool: Any) -> str:
    return msgspec.json.encode(told_by_the_tool).decode()


def test_a_call_and_its_result_share_an_id_and_a_tool() -> None:
    asked, given = told(
        call("c1", command=["bash", "-lc", "make tide"], workdir="/srv"),
        output("c1", as_json(output="14:10\n", metadata={"exit_code": 0, "duration_seconds": 1.2})),
    )

    assert asked.payload == {
        "call_id": "c1",
        "name": "shell",
        "input": {"command": ["bash", "-lc", "make tide"], "workdir": "/srv"},
    }
    assert (asked.key, asked.summary) == ("call:c1", "shell: make tide")
    assert given.key == "result:c1"
    assert given.payload == {
        "call_id": "c1",
        "name": "shell",
        "status": "ok",
        "output": "14:10\n",
        "exit_code": 0,
        "duration_ms": 1200,
    }
    assert given.refs == {"call_id": "c1", "tool": "shell", "status": "ok", "duration_ms": 1200}


@pytest.mark.parametrize(
    ("given", "output_told", "error", "duration_ms"),
    [
        (as_json(output="no", metadata={"exit_code": 2, "duration_seconds": 0.5}), "no",
         "ExitCode", 500),
        ("Exit code: 127\nWall time: 0.25 seconds\nOutput:\nnot found", None, "ExitCode", 250),
        ("Chunk ID: 1\nWall time: 2 seconds\nProcess exited with code 0\nOutput:\nExit code: 9",
         None, None, 2_000),
        ("patch rejected by user", None, "Rejected", None),
        ("failed in sandbox Landlock with execution error", None, "Sandbox", None),
        ("execution error: Io(Os { code: 2 })", None, "Failed", None),
        ([{"type": "output_text", "text": "execution error: no"}], "execution error: no",
         "Failed", None),
        ("Plan updated", None, None, None),
        (as_json(status="ok"), None, None, None),
        ("{not json", None, None, None),
        ({"content": "no wind", "success": False}, "no wind", "Failed", None),
        ([{"type": "output_text", "text": "Done!"}], "Done!", None, None),
        ([{"type": "input_image", "image_url": "data:x"}], None, None, None),
    ],
)  # fmt: skip
def test_an_output_says_how_the_call_ended(
    given: Any, output_told: Any, error: str | None, duration_ms: int | None
) -> None:
    (found,) = told(call("c1", command="x"), output("c1", given), kind="tool.result")

    assert found.payload["output"] == (given if output_told is None else output_told)
    assert found.payload["status"] == ("failed" if error else "ok")
    assert (found.payload.get("error") or {}).get("class") == error
    assert found.payload.get("duration_ms") == duration_ms


def test_arguments_that_are_no_json_are_kept_as_they_are() -> None:
    records = [item("function_call", name="shell", arguments=text, call_id=str(n))
               for n, text in enumerate(["{broken", "[1]", '{"tide":1e999}', ""])]  # fmt: skip

    assert [one.payload["input"] for one in told(*records)] == [
        {"arguments": "{broken"},
        {"arguments": "[1]"},
        {"arguments": '{"tide":1e999}'},
        {"arguments": ""},
    ]


def test_a_call_id_that_comes_again_has_a_key_of_its_own_unless_all_is_the_same() -> None:
    records = [call("c1", command="a"), call("c1", command="a"), call("c1", "patch", command="b")]

    found = told(*records)

    assert [one.key for one in found] == ["call:c1", "call:c1.2"]
    assert [one.skipped for one in read(*records)] == [None, "repeats the call", None]


def test_other_tools_are_calls_too() -> None:
    records = [
        item("custom_tool_call", name="apply_patch", input=PATCH, call_id="c1"),
        item("custom_tool_call_output", call_id="c1", output="Done!"),
        item("local_shell_call", call_id="c2", status="completed",
             action={"type": "exec", "command": ["ls", "-l"]}),
        output("c2", "tide.txt"),
        item("tool_search_call", call_id="c3", status="completed", arguments={"query": "tide"}),
        item("tool_search_output", call_id="c3", status="completed", tools=[]),
    ]  # fmt: skip

    found = told(*records)

    assert [(one.kind, one.payload["name"]) for one in found] == [
        ("tool.call", "apply_patch"),
        ("tool.result", "apply_patch"),
        ("tool.call", "local_shell"),
        ("tool.result", "local_shell"),
        ("tool.call", "tool_search"),
        ("tool.result", "tool_search"),
    ]
    assert [one.payload.get("input") for one in found[::2]] == [
        {"input": PATCH},
        {"type": "exec", "command": ["ls", "-l"]},
        {"query": "tide"},
    ]


def test_a_search_on_the_web_tells_its_own_outcome() -> None:
    action = {"type": "search", "query": "tides in Bergen"}
    done = item("web_search_call", id="ws1", status="completed", action=action)
    failed = item("web_search_call", status="failed", action=action)
    running = item("web_search_call", id="ws2", status="in_progress", action=action)

    found = told(done, failed, running)

    assert [one.kind for one in found] == [
        *("tool.call", "tool.result", "tool.call", "tool.result", "tool.call")
    ]
    assert found[0].summary == "web_search: tides in Bergen"
    assert [one.payload["status"] for one in found if one.kind == "tool.result"] == ["ok", "failed"]


def test_the_end_of_an_mcp_call_is_told_only_where_no_item_tells_it() -> None:
    end = event("mcp_tool_call_end", call_id="c1", duration={"secs": 1, "nanos": 500_000_000},
                invocation={"server": "sea", "tool": "tide", "arguments": {"port": "Bergen"}},
                result={"Ok": {"content": [{"type": "text", "text": "14:10"}]}})  # fmt: skip

    alone = told(opened(), end)[1:]
    beside = told(opened(), call("c1", "mcp__sea__tide", port="Bergen"), end, output("c1", "14:10"))

    assert [one.kind for one in alone] == ["tool.call", "tool.result"]
    assert alone[1].payload == {
        "call_id": "c1",
        "name": "mcp__sea__tide",
        "status": "ok",
        "output": "14:10",
        "duration_ms": 1500,
    }
    assert [one.kind for one in beside[1:]] == ["tool.call", "ops.observation", "tool.result"]


def test_a_result_without_its_call_is_told() -> None:
    (found,) = told(output("c9", "late"))

    assert found.refs == {"call_id": "c9", "status": "ok"}
    assert found.payload["name"] is None
