"""Logs as Claude Code and Codex leave them: a subagent, a resumed copy, a torn tail, a secret."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

PROJECT: Final = "/home/mina/storefront"
SCOPE: Final = "storefront"
"""What the sessions of that folder are filed under, on a machine that does not have it."""
QUERY_FILE: Final = "shop/orders.py"
FRIDAY: Final = "f71da700-0000-4000-8000-000000000001"
RESUMED: Final = "5a1ed000-0000-4000-8000-000000000002"
MONDAY: Final = "0195707d-0000-7000-8000-00000000c0de"
EXPLORER: Final = "a5eed001"
TOKEN: Final = "wharf-7Qm2xN94-keel-Lp83"
"""Made up for the demo; it opens nothing."""
FAILURE: Final = "sqlite3.OperationalError: no such column: customer_id"
TORN_BYTES: Final = 90

_TASK: Final = "Find every place that reads the table of orders."
_TABLE: Final = "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, total INTEGER)"
_SELECT: Final = "SELECT total FROM orders WHERE customer = ? ORDER BY id DESC LIMIT 20"


def write_logs(folder: Path) -> None:
    """Write what the two agents left of a Friday and a Monday."""
    claude = folder / "claude" / PROJECT.replace("/", "-")
    friday = _friday()
    _write(claude / f"{FRIDAY}.jsonl", friday.lines)
    _write(claude / FRIDAY / "subagents" / f"agent-{EXPLORER}.jsonl", _explorer().lines)
    _write(claude / f"{RESUMED}.jsonl", _resumed(friday).lines, torn=True)
    _write(folder / "codex" / f"rollout-2026-03-09T09-00-00-{MONDAY}.jsonl", list(_monday()))


def _friday() -> _Log:
    log = _Log(FRIDAY, minute=0)
    log.user("Show the customer's latest orders on the checkout page.")
    log.call("Task", subagent_type="Explore", description="Who reads orders", prompt=_TASK)
    log.result("Only shop/orders.py reads it.", toolUseResult={"agentId": EXPLORER})
    log.call("Bash", command="cat .env")
    log.result(f"DATABASE=shop.db\nPAYMENTS_TOKEN={TOKEN}\n")
    log.call("Edit", file_path=f"{PROJECT}/{QUERY_FILE}", old_string="pass",
             new_string=_SELECT.replace("customer", "customer_id"))  # fmt: skip
    log.result("The file has been updated.")
    log.call("Bash", command="pytest tests/test_checkout.py")
    log.result(f"FAILED test_latest_orders\n{FAILURE}", is_error=True)
    log.call("Edit", file_path=f"{PROJECT}/{QUERY_FILE}", old_string="customer_id",
             new_string="customer")  # fmt: skip
    log.result("The file has been updated.")
    log.answer("The checkout page shows the latest orders. The test passes.")
    return log


def _explorer() -> _Log:
    log = _Log(FRIDAY, minute=1, isSidechain=True, agentId=EXPLORER)
    log.user(_TASK)
    log.call("Grep", pattern="FROM orders", path=PROJECT)
    log.result("shop/orders.py:12")
    log.answer("Only shop/orders.py reads it.")
    return log


def _resumed(friday: _Log) -> _Log:
    """Return a session that goes on from another: it begins with a copy of all its lines."""
    log = _Log(RESUMED, minute=30)
    log.lines += [{**line, "sessionId": RESUMED} for line in friday.lines]
    log.last = friday.last
    log.user("Ship it.")
    log.call("Bash", command="git push origin main")
    log.result("main -> main")
    log.answer("Shipped.")
    log.user("Thank you. This line is torn: the machine lost power while it was written.")
    return log


def _monday() -> Any:
    """Yield the lines of a rollout of Codex, which tells every text twice."""
    start = datetime(2026, 3, 9, 9, tzinfo=UTC)

    def line(second: int, sort: str, **payload: Any) -> dict[str, Any]:
        told = (start + timedelta(seconds=second)).isoformat(timespec="milliseconds")
        return {"timestamp": told.replace("+00:00", "Z"), "type": sort, "payload": payload}

    def said(second: int, role: str, text: str) -> list[dict[str, Any]]:
        kind, lane = ("input_text", "user") if role == "user" else ("output_text", "agent")
        content = [{"type": kind, "text": text}]
        return [
            line(second, "response_item", type="message", role=role, content=content),
            line(second, "event_msg", type=f"{lane}_message", message=text),
        ]

    yield line(0, "session_meta", id=MONDAY, cwd=PROJECT, originator="codex_cli_rs",
               cli_version="0.99.0", timestamp="2026-03-09T09:00:00.000Z")  # fmt: skip
    yield line(1, "turn_context", cwd=PROJECT, model="gpt-5-codex", approval_policy="never")
    yield from said(2, "user", "The checkout page is slow. What does its query need?")
    command = json.dumps({"command": ["sed", "-n", "1,20p", QUERY_FILE], "workdir": PROJECT})
    yield line(3, "response_item", type="function_call", name="shell", arguments=command,
               call_id="call_1")  # fmt: skip
    yield line(4, "response_item", type="function_call_output", call_id="call_1",
               output=json.dumps({"output": _SELECT, "metadata": {"exit_code": 0}}))  # fmt: skip
    yield from said(5, "assistant", "An index on orders (customer, id): it scans every order now.")


class _Log:
    """Lines of Claude Code's that follow each other, a second apart."""

    def __init__(self, session: str, *, minute: int, **shared: Any) -> None:
        self.lines: list[dict[str, Any]] = []
        self.last: str | None = None
        self._start = datetime(2026, 3, 6, 16, minute, tzinfo=UTC)
        self._shared = {
            "sessionId": session, "cwd": PROJECT, "version": "2.1.7", "gitBranch": "main",
            "isSidechain": False, "userType": "external", **shared,
        }  # fmt: skip

    def user(self, content: Any, **told: Any) -> None:
        """Add what the user said, or what stands in the user's place."""
        self._line("user", message={"role": "user", "content": content}, **told)

    def answer(self, text: str) -> None:
        """Add what the model said."""
        self._message({"type": "text", "text": text}, "end_turn")

    def call(self, tool: str, **given: Any) -> None:
        """Add a call of a tool."""
        told = {"type": "tool_use", "id": self._call_id, "name": tool, "input": given}
        self._message(told, "tool_use")

    def result(self, output: str, *, is_error: bool = False, **told: Any) -> None:
        """Add the result of the last call."""
        call_id = self.lines[-1]["message"]["content"][0]["id"]
        block = {"type": "tool_result", "tool_use_id": call_id, "content": output}
        self.user([{**block, "is_error": is_error}], **told)

    def _message(self, block: dict[str, Any], stop_reason: str) -> None:
        number = len(self.lines)
        message = {"role": "assistant", "id": f"msg_{self._name}{number}", "content": [block],
                   "model": "claude-opus-4-1", "stop_reason": stop_reason,
                   "usage": {"input_tokens": 900 + 40 * number, "output_tokens": 60}}  # fmt: skip
        self._line("assistant", message=message)

    def _line(self, sort: str, **told: Any) -> None:
        number = len(self.lines)
        at = self._start + timedelta(seconds=number)
        uuid = f"{self._start.minute:08}-0000-4000-8000-{number:012}"
        times = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"parentUuid": self.last, **self._shared, "type": sort, "uuid": uuid}
        self.lines.append({**line, "timestamp": times, **told})
        self.last = uuid

    @property
    def _call_id(self) -> str:
        return f"toolu_{self._name}{len(self.lines)}"

    @property
    def _name(self) -> str:
        return f"{self._start.minute:02}"


def _write(path: Path, lines: list[dict[str, Any]], *, torn: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    path.write_bytes(content[:-TORN_BYTES] if torn else content)
