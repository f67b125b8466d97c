"""What two agents left of a Friday and a Monday: the logs that the first chapter imports."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from .log_lines import ClaudeLog, CodexLog

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PROJECT: Final = "/home/mina/storefront"
SCOPE: Final = "storefront"
"""Where sessions of that folder belong, on a machine that has no such folder."""
QUERY_FILE: Final = "shop/orders.py"
FRIDAY: Final = "f71da700-0000-4000-8000-000000000001"
RESUMED: Final = "5a1ed000-0000-4000-8000-000000000002"
MONDAY: Final = "0195707d-0000-7000-8000-00000000c0de"
EXPLORER: Final = "a5eed001"
TOKEN: Final = "wharf-7Qm2xN94-keel-Lp83"
"""Made up for the demo; it opens nothing."""
FAILURE: Final = "sqlite3.OperationalError: no such column: customer_id"
TORN_BYTES: Final = 60

_FOUND: Final = f"Only {QUERY_FILE} reads it."
_QUERY: Final = "SELECT total FROM orders WHERE customer = ? ORDER BY id DESC LIMIT 20"
_TASK: Final = "Find every place that reads the table of orders."
_TEST: Final = "pytest tests/test_checkout.py"


def write_logs(folder: Path) -> None:
    """Write them, the last line of a session torn."""
    friday = _friday()
    _write(_claude(folder) / f"{FRIDAY}.jsonl", friday.lines)
    _write(_claude(folder) / FRIDAY / "subagents" / f"agent-{EXPLORER}.jsonl", _explorer().lines)
    _write(_claude(folder) / f"{RESUMED}.jsonl", _resumed(friday).lines, torn_bytes=TORN_BYTES)
    _write(folder / "codex" / f"rollout-2026-03-09T09-00-00-{MONDAY}.jsonl", _monday().lines)


def mend_the_tail(folder: Path) -> None:
    """Write the torn line to its end."""
    _write(_claude(folder) / f"{RESUMED}.jsonl", _resumed(_friday()).lines)


def _friday() -> ClaudeLog:
    log = ClaudeLog(FRIDAY, PROJECT, datetime(2026, 3, 6, 16, 0, tzinfo=UTC))
    file_path = f"{PROJECT}/{QUERY_FILE}"
    wrong = _QUERY.replace("customer", "customer_id")
    log.user("Show the customer's latest orders on the checkout page.")
    log.tool("Task", _FOUND, detail={"agentId": EXPLORER}, subagent_type="Explore",
             description="who reads orders", prompt=_TASK)  # fmt: skip
    log.tool("Bash", f"DATABASE=shop.db\nPAYMENTS_TOKEN={TOKEN}\n", command="cat .env")
    log.tool("Edit", "Updated.", file_path=file_path, old_string="...", new_string=wrong)
    log.tool("Bash", f"FAILED test_latest_orders: {FAILURE}", is_error=True, command=_TEST)
    log.tool("Edit", "Updated.", file_path=file_path, old_string=wrong, new_string=_QUERY)
    log.tool("Bash", "1 passed", command=_TEST)
    log.answer("The checkout page shows the latest orders, and its test passes.")
    return log


def _explorer() -> ClaudeLog:
    start = datetime(2026, 3, 6, 16, 1, tzinfo=UTC)
    log = ClaudeLog(FRIDAY, PROJECT, start, isSidechain=True, agentId=EXPLORER)
    log.user(_TASK)
    log.tool("Grep", f"{QUERY_FILE}:12", pattern="FROM orders", path=PROJECT)
    log.answer(_FOUND)
    return log


def _resumed(friday: ClaudeLog) -> ClaudeLog:
    log = ClaudeLog(RESUMED, PROJECT, datetime(2026, 3, 6, 16, 30, tzinfo=UTC))
    log.copy(friday)
    log.user("Ship it.")
    log.tool("Bash", "main -> main", command="git push origin main")
    log.answer("Shipped.")
    log.user("Thank you, and have a good weekend.")
    return log


def _monday() -> CodexLog:
    log = CodexLog(MONDAY, PROJECT, datetime(2026, 3, 9, 9, 0, tzinfo=UTC))
    log.user("The checkout page is slow. What does its query need?")
    log.shell(_QUERY, "sed", "-n", "12p", QUERY_FILE)
    log.answer("An index on orders (customer, id): as it is, it scans every order.")
    return log


def _claude(folder: Path) -> Path:
    return folder / "claude" / PROJECT.replace("/", "-")


def _write(path: Path, lines: Sequence[dict[str, Any]], *, torn_bytes: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    path.write_bytes(content[: len(content) - torn_bytes])
