"""Cursor's older transcripts, which are plain text.

    user:
    <user_query>
    Mend the lamp.
    </user_query>

    assistant:
    [Thinking]
      The fuse, maybe.
    [Tool call] Shell
      command=make
    [Tool result]
      done
    It was the fuse.

Bodies of thoughts, calls and results are indented. They are read as newer ones, in blocks.
"""

from __future__ import annotations

import re
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Final

from treering.formats.parsed import LogRecord
from treering.formats.sources import open_source
from treering.formats.whole import json_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from treering.formats.format import DatabaseReader

PATTERNS: Final = tuple(f"agent-transcripts/{below}*.txt" for below in ("", "*/", "*/subagents/"))
_ROLES: Final = frozenset({"user:", "assistant:"})
_MARK: Final = re.compile(r"\[(Thinking|Tool call|Tool result)\] ?(.*)")
_ARGUMENT: Final = re.compile(r"(\w[\w.-]*)=(.*)")
_PATCH: Final = re.compile(r"\*\*\* Begin Patch|@@")


def score(values: Sequence[Any]) -> float:
    """Return 1 for a text that begins with a user's words, and has the marks of a transcript."""
    lines = [line.strip() for line in values if isinstance(line, str)]
    has_marks = any(
        line == "assistant:" or line.startswith("<user_query>") or _MARK.match(line)
        for line in lines
    )
    return float(bool(lines) and lines[0] in _ROLES and has_marks)


def records(path: Path, _: DatabaseReader) -> Iterator[LogRecord]:
    """Yield the messages of a transcript, as newer transcripts have them."""
    with open_source(path) as stream:
        text = stream.read().decode(errors="replace").replace("\x00", "\ufffd")
    role, number, offset, held = "", 1, 0, list[str]()
    for at, line in enumerate(text.removeprefix("\ufeff").splitlines(keepends=True), start=1):
        if line.strip() in _ROLES and held:
            yield _message(role, held, number, offset)
            offset += sum(len(held_line.encode()) for held_line in held)
            number, held = at, []
        role = line.strip().rstrip(":") if line.strip() in _ROLES else role
        held.append(line)
    if held:
        yield _message(role, held, number, offset)


def left_out(path: Path) -> str | None:
    """Return why a transcript is left out: it also exists in its newer form."""
    is_repeated = path.suffix == ".txt" and path.with_suffix(".jsonl").exists()
    return "an older form of the transcript beside it" if is_repeated else None


def _message(role: str, lines: Sequence[str], number: int, offset: int) -> LogRecord:
    end = offset + sum(len(line.encode()) for line in lines)
    value: dict[str, Any] = {"type": "text", "text": "".join(lines)}
    if role:
        body = [line.rstrip("\r\n") for line in lines[1:]]
        content = [*_blocks(body)] if role == "assistant" else "\n".join(body).strip()
        value = {"role": role, "message": {"content": content}}
    return LogRecord(value, number, offset, end)


def _blocks(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    mark: re.Match[str] | None = None
    held: list[str] = []
    for line in lines:
        next_mark = _MARK.fullmatch(line.strip())
        # What is not indented is said again.
        if next_mark is not None or (mark is not None and line[:1] not in {"", " ", "\t"}):
            yield from _block(mark, held)
            mark, held = next_mark, []
        if next_mark is None:
            held.append(line)
    yield from _block(mark, held)


def _block(mark: re.Match[str] | None, lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    body = dedent("\n".join(lines)).strip()
    if mark is None:
        if body:
            yield {"type": "text", "text": "\n".join(lines).strip()}
        return
    match mark[1]:
        case "Thinking":
            yield {"type": "thinking", "thinking": "\n".join(filter(None, (mark[2], body)))}
        case "Tool call":
            yield {"type": "tool_use", "name": mark[2].strip(), "input": _input(body)}
        case _:
            named = {"name": mark[2].strip()} if mark[2].strip() else {}
            yield {"type": "tool_result", **named, "content": body}


def _input(body: str) -> dict[str, Any]:
    """Return the input of a call: JSON, a patch, or a value a line."""
    stated = json_of(body) if body.startswith("{") else None
    if isinstance(stated, dict):
        return stated
    if _PATCH.match(body):
        return {"patch": body}
    given: dict[str, str] = {}
    name = "input"
    for line in body.splitlines():
        argument = _ARGUMENT.fullmatch(line)
        name = argument[1] if argument else name
        value = argument[2] if argument else line
        given[name] = f"{given[name]}\n{value}" if name in given else value
    return dict(given)
