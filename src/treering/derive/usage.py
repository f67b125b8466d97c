"""Usage: the tokens and costs of model calls, each call counted once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from treering.derive.entity_log import run_number
from treering.derive.reports import (
    ModelName,
    Report,
    Sums,
    Tokens,
    larger_report,
    report_of,
    total_usage,
    usage_by_model,
)
from treering.model.kinds import RUN_ENDS
from treering.model.views import Usage

if TYPE_CHECKING:
    from treering.derive.entity_log import EventsAt
    from treering.model.events import Header


class UsageFold:
    """Usage up to some point of a timeline, by model.

    Failed and undone runs are included: the money was spent. Of several reports of one call (same
    message and request id in the same run and turn) the largest counts. Erased reports and reports
    without counts are ignored.
    """

    def __init__(self) -> None:
        self.spent: Sums = {}
        self.failed: Sums = {}
        self.open: dict[int, Sums] = {}
        """Usage of open runs, by run number."""
        self.calls: dict[tuple[int, str | None, str | None], Report] = {}
        """Calls of this turn that may be reported again."""
        self.started: dict[int, int] = {}
        """Runs that started after the last user input, with their seqs: they may belong to the next
        turn."""
        self.named: dict[ModelName, int] = {}
        """The seq of a report that names each model."""

    def take(self, header: Header, report: Report | None) -> None:
        """Apply one event and its report."""
        run = run_number(header.run_id) if header.run_id else 0
        if header.kind == "conversation.user":
            turn_start = self.started.get(run, header.seq)
            self.calls = {
                c: report_seen
                for c, report_seen in self.calls.items()
                if report_seen.seq >= turn_start
            }
            self.started.clear()
        elif run and header.kind == "run.started":
            self.started[run] = header.seq
        elif run and header.kind in RUN_ENDS:
            self._close(run, well=RUN_ENDS[header.kind] == "ended")
        if report is not None:
            self._count(run, report)

    def usage(self) -> Usage:
        """Return the usage so far."""
        return Usage(
            total=total_usage(self.spent),
            failed=total_usage(self.failed),
            by_model=usage_by_model(self.spent),
            failed_by_model=usage_by_model(self.failed),
        )

    def freeze(self) -> SavedUsage:
        """Return the same as numbers: models and calls by the seqs of reports that name them."""
        names = sorted(self.named, key=self.named.__getitem__)
        number = {name: at for at, name in enumerate(names)}
        return SavedUsage(
            models=[self.named[name] for name in names],
            spent=[self.spent[name] for name in names],
            failed={number[name]: tokens for name, tokens in self.failed.items()},
            open={
                run: {number[name]: tokens for name, tokens in sums.items()}
                for run, sums in self.open.items()
            },
            calls=sorted(report.seq for report in self.calls.values()),
            started=self.started,
        )

    def _close(self, run: int, *, well: bool) -> None:
        self.started.pop(run, None)
        self.calls = {call: report for call, report in self.calls.items() if call[0] != run}
        for name, tokens in self.open.pop(run, {}).items():
            if not well:
                self.failed.setdefault(name, Tokens()).add(tokens)

    def _count(self, run: int, report: Report) -> None:
        earlier = self.calls.get(report.call) if report.call else None
        if earlier is not None and larger_report(earlier, report) is earlier:
            return
        if earlier is not None:
            self._add(run, earlier, -1)
        self._add(run, report, 1)
        if report.call:
            self.calls[report.call] = report

    def _add(self, run: int, report: Report, sign: int) -> None:
        self.named.setdefault(report.name, report.seq)
        self.spent.setdefault(report.name, Tokens()).add(report.tokens, sign)
        if run:
            sums = self.open.setdefault(run, {})
            sums.setdefault(report.name, Tokens()).add(report.tokens, sign)


class SavedUsage(msgspec.Struct, array_like=True):
    """Usage as numbers."""

    models: list[int] = []
    spent: list[Tokens] = []
    failed: dict[int, Tokens] = {}
    open: dict[int, dict[int, Tokens]] = {}
    calls: list[int] = []
    started: dict[int, int] = {}

    def thaw(self, read: EventsAt) -> UsageFold | None:
        """Return the usage for these numbers; None if a report they refer to is gone."""
        reports = dict.fromkeys((*self.models, *self.calls)) | {
            event.seq: report_of(event) for event in read([*self.models, *self.calls])
        }
        named = [report.name for seq in self.models if (report := reports[seq])]
        calls = [report for seq in self.calls if (report := reports[seq])]
        if len(named) < len(self.models) or len(calls) < len(self.calls):
            return None
        spending = UsageFold()
        spending.named = dict(zip(named, self.models, strict=True))
        spending.spent = dict(zip(named, self.spent, strict=True))
        spending.failed = {named[at]: tokens for at, tokens in self.failed.items()}
        spending.open = {
            run: {named[at]: tokens for at, tokens in sums.items()}
            for run, sums in self.open.items()
        }
        spending.calls = {report.call: report for report in calls if report.call}
        spending.started = dict(self.started)
        return spending
