"""The lines of agents' logs, as Claude Code and Codex write them: one per second."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, Final

MODEL: Final = "claude-opus-4-1"
CODEX_MODEL: Final = "gpt-5-codex"


class ClaudeLog:
    """Lines of Claude Code's. Each names the one that it follows."""

    def __init__(self, session: str, cwd: str, start: datetime, **shared: Any) -> None:
        self.lines: list[dict[str, Any]] = []
        self.last: str | None = None
        self._start = start
        self._shared: dict[str, Any] = {"sessionId": session, "cwd": cwd, "gitBranch": "main"}
        self._shared |= {"version": "2.1.7", "userType": "external", "isSidechain": False}
        self._shared |= shared

    def copy(self, other: ClaudeLog) -> None:
        """Begin with the lines of another session, as a continued session does."""
        session = {"sessionId": self._shared["sessionId"]}
        self.lines += [line | session for line in other.lines]
        self.last = other.last

    def user(self, content: Any, **told: Any) -> None:
        """Add a message of the user, or something in its place."""
        self._add("user", {"role": "user", "content": content}, **told)

    def answer(self, text: str) -> None:
        """Add what the model said."""
        self._say({"type": "text", "text": text}, "end_turn")

    def tool(
        self, name: str, output: str, *, is_error: bool = False, detail: Any = None, **given: Any
    ) -> None:
        """Add a call of a tool, and its result."""
        call_id = f"toolu_{self._start:%M}{len(self.lines)}"
        self._say({"type": "tool_use", "id": call_id, "name": name, "input": given}, "tool_use")
        result = {"type": "tool_result", "tool_use_id": call_id, "content": output}
        more = {} if detail is None else {"toolUseResult": detail}
        self.user([result | {"is_error": is_error}], **more)

    def _say(self, block: dict[str, Any], stop_reason: str) -> None:
        number = len(self.lines)
        used = {"input_tokens": 900 + 40 * number, "output_tokens": 60}
        told = {"role": "assistant", "id": f"msg_{self._start:%M}{number}", "model": MODEL}
        self._add(
            "assistant", told | {"content": [block], "stop_reason": stop_reason, "usage": used}
        )

    def _add(self, sort: str, message: dict[str, Any], **told: Any) -> None:
        number = len(self.lines)
        uuid = f"{self._start:%Y%m%d-%H%M}-4000-8000-{number:012}"
        self.lines.append(
            {"parentUuid": self.last, **self._shared, "type": sort, "uuid": uuid}
            | {"timestamp": _instant(self._start, number), "message": message, **told}
        )
        self.last = uuid


class CodexLog:
    """Lines of a rollout of Codex's. Each message occurs twice, as an item and as an event."""

    def __init__(self, session: str, cwd: str, start: datetime) -> None:
        self.lines: list[dict[str, Any]] = []
        self._start = start
        self._cwd = cwd
        self._add("session_meta", id=session, timestamp=_instant(start, 0), cwd=cwd,
                  originator="codex_cli_rs", cli_version="0.99.0")  # fmt: skip
        self._add("turn_context", cwd=cwd, model=CODEX_MODEL, approval_policy="never")

    def user(self, text: str) -> None:
        """Add what the user said."""
        self._item("message", role="user", content=[{"type": "input_text", "text": text}])
        self._add("event_msg", type="user_message", message=text)

    def answer(self, text: str) -> None:
        """Add what the model said."""
        self._item("message", role="assistant", content=[{"type": "output_text", "text": text}])
        self._add("event_msg", type="agent_message", message=text)

    def shell(self, output: str, *command: str) -> None:
        """Add a command, and its output."""
        call_id = f"call_{len(self.lines)}"
        given = json.dumps({"command": command, "workdir": self._cwd})
        self._item("function_call", name="shell", arguments=given, call_id=call_id)
        told = json.dumps({"output": output, "metadata": {"exit_code": 0}})
        self._item("function_call_output", call_id=call_id, output=told)

    def _item(self, sort: str, **told: Any) -> None:
        self._add("response_item", type=sort, **told)

    def _add(self, kind: str, /, **payload: Any) -> None:
        at = _instant(self._start, len(self.lines))
        self.lines.append({"timestamp": at, "type": kind, "payload": payload})


def _instant(start: datetime, seconds: int) -> str:
    at = start + timedelta(seconds=seconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
