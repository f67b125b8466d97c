"""What one report of a provider says that a call used."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.derive.entity_log import name_in, run_number, stated
from treering.derive.prices import PICO, price
from treering.derive.tool_facts import sound
from treering.model.parts import UsageReported, part_of, safe_part
from treering.model.views import ModelUsage, Spent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from treering.model.events import Event

REPORT: Final = "usage.reported"
COST_USD_MAX: Final = 10**6
"""No call costs more."""


class ModelName(msgspec.Struct, frozen=True):
    """A model, as reports name it."""

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
    """Calls whose price is not known."""

    def add(self, other: Tokens, sign: int = 1) -> None:
        """Add what ``other`` holds; with a ``sign`` of -1, take it away."""
        for field in self.__struct_fields__:
            setattr(self, field, getattr(self, field) + sign * getattr(other, field))


Sums = dict[ModelName, Tokens]


class Report(msgspec.Struct, frozen=True):
    """What one call used."""

    seq: int
    name: ModelName
    tokens: Tokens
    call: tuple[int, str | None, str | None] | None
    """Its run, message and request, if it says so: what is reported again is told by these."""


def report_of(event: Event) -> Report | None:
    """Return what ``event`` reports; None if it was erased or tells no count."""
    if event.kind != REPORT or event.redacted:
        return None
    content = stated(event)
    told = _told(event)
    name = ModelName(told.model, told.provider)
    message, request = name_in(content, "message_id"), name_in(content, "request_id")
    written = sound(_count(content.get("cache_creation_tokens"))) or 0
    tokens = _tokens(told, written, event.ts_ms, _logged(content))
    if tokens is None:
        return None
    run = run_number(event.run_id) if event.run_id else 0
    call = (run, message, request) if message or request else None
    return Report(event.seq, name, tokens, call)


def larger(one: Report, other: Report) -> Report:
    """Return which of two reports of the same call is the fuller one; the first, if both are."""
    return max(one, other, key=lambda report: (report.tokens.total_tokens, -report.seq))


def add_up(reports: Iterable[Report]) -> Sums:
    """Return the sums over ``reports``, by model."""
    sums: Sums = {}
    for report in reports:
        sums.setdefault(report.name, Tokens()).add(report.tokens)
    return sums


def by_model(sums: Mapping[ModelName, Tokens]) -> tuple[ModelUsage, ...]:
    """Return ``sums`` as they are shown, by the models' names."""
    return tuple(
        ModelUsage(model=name.model, provider=name.provider, **_shown(tokens))
        for name, tokens in sorted(
            sums.items(), key=lambda item: (item[0].model or "", item[0].provider or "")
        )
        if tokens.calls
    )


def in_all(sums: Mapping[ModelName, Tokens]) -> Spent:
    """Return ``sums`` as one."""
    total = Tokens()
    for tokens in sums.values():
        total.add(tokens)
    return Spent(**_shown(total))


def _told(event: Event) -> UsageReported:
    """Return the counts that refs hold, or else the payload."""
    parts = safe_part(REPORT, event.refs), part_of(REPORT, event.payload)
    for part in parts:
        if isinstance(part, UsageReported) and part.as_refs():
            return part
    return UsageReported()


def _logged(content: Mapping[str, Any]) -> int | None:
    """Return what a log says that a call cost, in 10⁻¹² dollars; None if it says nothing.

    Agents write 0 for a model whose price they do not know.
    """
    told = content.get("cost")
    dollars = told.get("total") if isinstance(told, dict) else content.get("cost_usd", told)
    if not isinstance(dollars, int | float) or isinstance(dollars, bool):
        return None
    if not 0 < dollars <= COST_USD_MAX:
        return None
    return int(Decimal(str(dollars)).scaleb(PICO))


def _tokens(told: UsageReported, written: int, at_ms: int, cost: int | None) -> Tokens | None:
    sent, received = sound(told.input_tokens), sound(told.output_tokens)
    total = sound(told.total_tokens)
    if sent is None and received is None and total is None:
        return None
    counted = Tokens(
        calls=1,
        input_tokens=sent or 0,
        output_tokens=received or 0,
        cached_tokens=sound(told.cached_tokens) or 0,
        cache_write_tokens=written,
        total_tokens=(sent or 0) + (received or 0) if total is None else total,
    )
    if cost is None and told.model and sent is not None and received is not None:
        cost = price(
            told.model,
            told.provider or None,
            input_tokens=sent,
            output_tokens=received,
            cached_tokens=counted.cached_tokens,
            cache_write_tokens=written,
            at_ms=at_ms,
        )
    counted.cost, counted.unpriced = (0, 1) if cost is None else (cost, 0)
    return counted


def _shown(tokens: Tokens) -> dict[str, Any]:
    found = msgspec.structs.asdict(tokens)
    cost, unpriced = found.pop("cost"), found.pop("unpriced")
    return {**found, "cost_usd": None if unpriced else _dollars(cost)}


def _dollars(cost: int) -> Decimal:
    """Return a cost without digits that say nothing, so that equal costs are spelt the same."""
    whole, rest = divmod(cost, 10**PICO)
    return Decimal(f"{whole}.{rest:0{PICO}}".rstrip("0").rstrip("."))


def _count(value: Any) -> int | None:
    return value if type(value) is int else None
