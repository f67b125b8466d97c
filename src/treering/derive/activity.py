"""Activity: what happened in a scope in a period, in numbers.

Durations of tools are rounded to three digits, so that any number of them takes little memory.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.derive.reports import (
    REPORT,
    Report,
    Sums,
    Tokens,
    larger_report,
    report_of,
    total_usage,
    usage_by_model,
)
from treering.model.events import Event, Header
from treering.model.views import ModelUsage, Spent

if TYPE_CHECKING:
    from treering.model.tools import ToolRecord

CALLS_KNOWN_MAX: Final = 10_000
"""Model calls that are remembered in case they are reported again."""
_DIGITS: Final = 1_000
_CODED: Final = frozenset({"ops.alert", "ops.error", "ops.receipt", "ops.warning"})
_CODE_NAMES: Final = ("code", "receipt", "hook", "deliverer", "error_class")
_NO_CODE: Final = "(no code)"


class ToolActivity(msgspec.Struct, frozen=True, kw_only=True):
    """How the calls of one tool went."""

    tool: str | None
    calls: int
    ok: int
    failed: int
    synthetic: int
    open: int
    failure_rate: float | None
    """The share of ended calls that failed or got no result; None if none ended."""
    p50_ms: int | None
    p95_ms: int | None


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in a period."""

    events: int
    sessions: int
    """Sessions with any event."""
    sessions_opened: int
    turns: int
    runs_failed: int
    """Including interrupted ones."""
    by_kind: dict[str, int]
    tools: list[ToolActivity]
    """Most called first."""
    all_tools: ToolActivity
    usage: Spent
    by_model: tuple[ModelUsage, ...]
    alerts: dict[str, int]
    """By code, like the fields that follow."""
    errors: dict[str, int]
    warnings: dict[str, int]
    receipts: dict[str, int]

    def numbers(self) -> dict[str, float | None]:
        """Return the numbers worth comparing with another period."""
        spent, tools = self.usage, self.all_tools
        cost = None if spent.cost_usd is None or not spent.calls else float(spent.cost_usd)
        return {
            "sessions": self.sessions,
            "turns": self.turns,
            "events": self.events,
            "runs_failed": self.runs_failed,
            "tool_calls": tools.calls,
            "failure_rate": tools.failure_rate,
            "p50_ms": tools.p50_ms,
            "p95_ms": tools.p95_ms,
            "tokens": spent.total_tokens,
            "cost_usd": cost,
            "alerts": sum(self.alerts.values()),
            "errors": sum(self.errors.values()),
            "receipts": sum(self.receipts.values()),
        }


class ActivityCounter:
    """Counts activity. Events come in order of time, tool records in any order."""

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()
        self._sessions: set[tuple[str, str]] = set()
        self._codes: dict[str, Counter[str]] = {kind: Counter() for kind in _CODED}
        self._tools: dict[str | None, _Calls] = {}
        self._spent: Sums = {}
        self._reported: OrderedDict[tuple[Any, ...], Report] = OrderedDict()

    def take(self, header: Header) -> None:
        """Count an event. A usage report must come with its payload."""
        self._kinds[header.kind] += 1
        self._sessions.add((header.scope, header.session_id))
        if header.kind in _CODED:
            self._codes[header.kind][_code(header)] += 1
        elif header.kind == REPORT and isinstance(header, Event):
            self._report(header)

    def take_call(self, record: ToolRecord) -> None:
        """Count a tool call."""
        self._tools.setdefault(record.tool, _Calls()).take(record)

    def activity(self) -> Activity:
        """Return the activity so far."""
        all_calls = _Calls()
        for calls in self._tools.values():
            all_calls.add(calls)
        ranked = sorted(self._tools.items(), key=lambda item: (-item[1].total, item[0] or ""))
        kinds = self._kinds
        return Activity(
            events=kinds.total(),
            sessions=len(self._sessions),
            sessions_opened=kinds["session.opened"] + kinds["session.forked"],
            turns=kinds["conversation.user"],
            runs_failed=kinds["run.failed"] + kinds["run.interrupted"],
            by_kind=dict(sorted(kinds.items())),
            tools=[calls.activity(tool) for tool, calls in ranked],
            all_tools=all_calls.activity(None),
            usage=total_usage(self._spent),
            by_model=usage_by_model(self._spent),
            alerts=dict(self._codes["ops.alert"].most_common()),
            errors=dict(self._codes["ops.error"].most_common()),
            warnings=dict(self._codes["ops.warning"].most_common()),
            receipts=dict(self._codes["ops.receipt"].most_common()),
        )

    def _report(self, event: Event) -> None:
        """Count the usage of a call once: the largest of its reports."""
        report = report_of(event)
        if report is None:
            return
        earlier = None
        if report.call is not None:
            call = (event.session_id, *report.call)
            earlier = self._reported.pop(call, None)
            self._reported[call] = report if earlier is None else larger_report(earlier, report)
            report = self._reported[call]
            if len(self._reported) > CALLS_KNOWN_MAX:
                self._reported.popitem(last=False)
        if earlier is not None:
            self._spent.setdefault(earlier.name, Tokens()).add(earlier.tokens, -1)
        self._spent.setdefault(report.name, Tokens()).add(report.tokens)


class _Calls:
    """How the calls of a tool went so far."""

    def __init__(self) -> None:
        self._statuses: Counter[str] = Counter()
        self._times: Counter[int] = Counter()

    @property
    def total(self) -> int:
        return self._statuses.total()

    def take(self, record: ToolRecord) -> None:
        self._statuses[record.status] += 1
        if record.duration_ms is not None and record.status in {"ok", "failed"}:
            self._times[_rounded(record.duration_ms)] += 1

    def add(self, other: _Calls) -> None:
        self._statuses += other._statuses
        self._times += other._times

    def activity(self, tool: str | None) -> ToolActivity:
        statuses = self._statuses
        ended = statuses["ok"] + statuses["failed"] + statuses["synthetic"]
        return ToolActivity(
            tool=tool,
            calls=self.total,
            ok=statuses["ok"],
            failed=statuses["failed"],
            synthetic=statuses["synthetic"],
            open=statuses["open"],
            failure_rate=(statuses["failed"] + statuses["synthetic"]) / ended if ended else None,
            p50_ms=self._percentile(50),
            p95_ms=self._percentile(95),
        )

    def _percentile(self, percent: int) -> int | None:
        """Return the nearest-rank percentile of the durations."""
        rank, seen = -(-self._times.total() * percent // 100), 0
        for time, count in sorted(self._times.items()):
            seen += count
            if seen >= rank:
                return time
        return None


def _rounded(milliseconds: int) -> int:
    """Return a duration rounded down to three digits; below a second it is exact."""
    unit = 1
    while milliseconds >= _DIGITS * unit:
        unit *= 10
    return milliseconds // unit * unit


def _code(header: Header) -> str:
    """Return the code of an event."""
    refs = header.refs if isinstance(header.refs, dict) else {}
    return next(
        (code for name in _CODE_NAMES if isinstance(code := refs.get(name), str) and code), _NO_CODE
    )
