"""Rollouts as Codex writes them, of every age."""

from __future__ import annotations

import io
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.codex import CodexReader
from treering.formats.records import read_records
from treering.model.fields import instant

if TYPE_CHECKING:
    from treering.formats.parsed import ParsedEvent, ParsedRecord

T0: Final = 1_790_000_000_000
SESSION: Final = "0199aaaa-0000-7000-8000-00000000c0de"
PATH: Final = PurePath(f"rollout-2026-09-21T14-13-20-{SESSION}.jsonl")
PATCH: Final = "*** Begin Patch\n*** Add File: tide.txt\n+14:10\n*** End Patch"


def line(sort: str, payload: Any, n: int = 0) -> dict[str, Any]:
    """Return one record, ``n`` seconds into the session."""
    return {"timestamp": instant(T0 + n * 1_000), "type": sort, "payload": payload}


def opened(session: str = SESSION, /, **told: Any) -> dict[str, Any]:
    """Return the record that a session begins with."""
    stated = {"id": session, "timestamp": instant(T0), "cwd": "/srv/harbour",
              "originator": "codex_cli_rs", "cli_version": "0.99.0", "model_provider": "openai",
              "git": {"branch": "main", "commit_hash": "abc"}}  # fmt: skip
    return line("session_meta", {**stated, **told})


def item(sort: str, n: int = 0, **told: Any) -> dict[str, Any]:
    """Return an item that the model was given, or gave."""
    return line("response_item", {"type": sort, **told}, n)


def event(sort: str, n: int = 0, **told: Any) -> dict[str, Any]:
    """Return an event for whoever looks on."""
    return line("event_msg", {"type": sort, **told}, n)


def user_item(*texts: str, n: int = 0) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text} for text in texts]
    return item("message", n, role="user", content=content)


def answer_item(text: str, n: int = 0) -> dict[str, Any]:
    return item("message", n, role="assistant", content=[{"type": "output_text", "text": text}])


def call(call_id: str, tool: str = "shell", n: int = 0, **given: Any) -> dict[str, Any]:
    arguments = msgspec.json.encode(given).decode()
    return item("function_call", n, name=tool, arguments=arguments, call_id=call_id)


def output(call_id: str, told: Any, n: int = 0) -> dict[str, Any]:
    return item("function_call_output", n, call_id=call_id, output=told)


def counted(total: int, last: int, n: int = 0) -> dict[str, Any]:
    """Return a count of tokens: in all, and of the last call."""
    used = {"cached_input_tokens": 0, "output_tokens": 10, "reasoning_output_tokens": 4}
    told = {"total_token_usage": {**used, "input_tokens": total, "total_tokens": total + 10},
            "last_token_usage": {**used, "input_tokens": last, "total_tokens": last + 10},
            "model_context_window": 272_000}  # fmt: skip
    return event("token_count", n, info=told, rate_limits={"primary": {"used_percent": n}})


def surroundings(model: str = "gpt-5-codex", n: int = 0) -> dict[str, Any]:
    told = {"cwd": "/srv/harbour", "approval_policy": "never", "model": model}
    return line("turn_context", told, n)


def turn(said: str, answered: str) -> list[dict[str, Any]]:
    """Return one turn as files of today tell it: every text in two lanes."""
    return [
        user_item(said),
        event("user_message", message=said, images=[]),
        surroundings(),
        event("agent_reasoning", text=f"**About {said}**"),
        counted(100, 100),
        item("reasoning", summary=[{"type": "summary_text", "text": f"**About {said}**"}],
             content=None, encrypted_content=f"sealed {said}"),
        event("agent_message", message=answered),
        answer_item(answered),
    ]  # fmt: skip


def read(
    *records: Any, path: PurePath | None = PATH, reader: CodexReader | None = None
) -> list[ParsedRecord]:
    """Return what became of each of ``records``, read to their end."""
    reader = reader or CodexReader(path)
    written = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
    found = [one for record in read_records(io.BytesIO(written)) for one in reader.read(record)]
    return [*found, *reader.finish()]


def told(*records: Any, kind: str = "", path: PurePath | None = PATH) -> list[ParsedEvent]:
    """Return the events that ``records`` tell, those whose kind begins with ``kind``."""
    outcomes = read(*records, path=path)
    return [one for outcome in outcomes for one in outcome.events if one.kind.startswith(kind)]


def texts(*records: Any) -> list[tuple[str, str]]:
    """Return who said what."""
    said = told(*records, kind="conversation.")
    return [(one.kind.removeprefix("conversation."), one.payload["text"]) for one in said]
