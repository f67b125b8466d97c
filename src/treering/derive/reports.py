"""Usage: what a provider says that a call used, and the tokens and costs of calls in all."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.derive.entity_log import fields_of, name_in, run_number
from treering.derive.prices import PICO, price
from treering.derive.tool_facts import plausible
from treering.model.kinds import RUN_ENDS
from treering.model.parts import UsageReported, part_of, safe_part
from treering.model.views import ModelUsage, Spent, Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from treering.derive.entity_log import EventsAt
    from treering.model.events import Event, Header

REPORT: Final = "usage.reported"
COST_USD_MAX: Final = 10**6
"""No call costs more."""


class ModelName(msgspec.Struct, frozen=True):
    """A model as reports name it."""

    model: str | None
    provider: str | None


class Tokens(msgspec.Struct, array_like=True, gc=False):
    """A sum over reports."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    total_tokens: int = 0
    cost: int = 0
    unpriced: int = 0
    """Calls without a known price."""

    def add(self, other: Tokens, sign: int = 1) -> None:
        """Add the numbers of ``other``; subtract them with a ``sign`` of -1."""
        for field in self.__struct_fields__:
            setattr(self, field, getattr(self, field) + sign * getattr(other, field))


Sums = dict[ModelName, Tokens]


class Report(msgspec.Struct, frozen=True):
    """What one call used."""

    seq: int
    name: ModelName
    tokens: Tokens
    call: tuple[int, str | None, str | None] | None
    """Run, message and request of the call, if given; repeated reports have the same."""


def report_of(event: Event) -> Report | None:
    """Return what ``event`` reports; None if it was erased or has no counts."""
    if event.kind != REPORT or event.redacted:
        return None
    content = fields_of(event)
    usage = _usage_in(event)
    name = ModelName(usage.model, usage.provider)
    message, request = name_in(content, "message_id"), name_in(content, "request_id")
    written = plausible(_count(content.get("cache_creation_tokens"))) or 0
    tokens = _tokens(usage, written, event.ts_ms, _logged(content))
    if tokens is None:
        return None
    run = run_number(event.run_id) if event.run_id else 0
    call = (run, message, request) if message or request else None
    return Report(event.seq, name, tokens, call)


def larger_report(one: Report, other: Report) -> Report:
    """Return the larger of two reports of the same call; the first one if they are equal."""
    return max(one, other, key=lambda report: (report.tokens.total_tokens, -report.seq))


def add_up(reports: Iterable[Report]) -> Sums:
    """Return the sums over ``reports``, by model."""
    sums: Sums = {}
    for report in reports:
        sums.setdefault(report.name, Tokens()).add(report.tokens)
    return sums


def usage_by_model(sums: Mapping[ModelName, Tokens]) -> tuple[ModelUsage, ...]:
    """Return ``sums`` for display, sorted by model name."""
    return tuple(
        ModelUsage(model=name.model, provider=name.provider, **_shown(tokens))
        for name, tokens in sorted(
            sums.items(), key=lambda item: (item[0].model or "", item[0].provider or "")
        )
        if tokens.calls
    )


def total_usage(sums: Mapping[ModelName, Tokens]) -> Spent:
    """Return the total of ``sums``."""
    total = Tokens()
    for tokens in sums.values():
        total.add(tokens)
    return Spent(**_shown(total))


def _usage_in(event: Event) -> UsageReported:
    """Return the counts from refs, else from the payload."""
    parts = safe_part(REPORT, event.refs), part_of(REPORT, event.payload)
    for part in parts:
        if isinstance(part, UsageReported) and part.as_refs():
            return part
    return UsageReported()


def _logged(content: Mapping[str, Any]) -> int | None:
    """Return the cost that a log states, in 10⁻¹² dollars; None if there is none.

    Agents write 0 for a model whose price they do not know.
    """
    cost = content.get("cost")
    dollars = cost.get("total") if isinstance(cost, dict) else content.get("cost_usd", cost)
    if not isinstance(dollars, int | float) or isinstance(dollars, bool):
        return None
    if not 0 < dollars <= COST_USD_MAX:
        return None
    return int(Decimal(str(dollars)).scaleb(PICO))


def _tokens(usage: UsageReported, written: int, at_ms: int, cost: int | None) -> Tokens | None:
    sent, received = plausible(usage.input_tokens), plausible(usage.output_tokens)
    total = plausible(usage.total_tokens)
    if sent is None and received is None and total is None:
        return None
    counted = Tokens(
        calls=1,
        input_tokens=sent or 0,
        output_tokens=received or 0,
        cached_tokens=plausible(usage.cached_tokens) or 0,
        cache_write_tokens=written,
        total_tokens=(sent or 0) + (received or 0) if total is None else total,
    )
    if cost is None and usage.model and sent is not None and received is not None:
        cost = price(
            usage.model,
            usage.provider or None,
            input_tokens=sent,
            output_tokens=received,
            cached_tokens=counted.cached_tokens,
            cache_write_tokens=written,
            at_ms=at_ms,
        )
    counted.cost, counted.unpriced = (0, 1) if cost is None else (cost, 0)
    return counted


def _shown(tokens: Tokens) -> dict[str, Any]:
    fields = msgspec.structs.asdict(tokens)
    cost, unpriced = fields.pop("cost"), fields.pop("unpriced")
    return {**fields, "cost_usd": None if unpriced else _dollars(cost)}


def _dollars(cost: int) -> Decimal:
    """Return a cost without trailing zeros, so that equal costs are written the same."""
    whole, rest = divmod(cost, 10**PICO)
    return Decimal(f"{whole}.{rest:0{PICO}}".rstrip("0").rstrip("."))


def _count(value: Any) -> int | None:
    return value if type(value) is int else None


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
