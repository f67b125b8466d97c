"""Whatever was recorded, a context is legal, fits, and says what was done to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hypothesis import given
from hypothesis import strategies as st

from context.histories import Listed, budgets, histories, reserves, systems
from context.legality import check_legal
from context.provider_types import check_types
from treering.context.assemble import Context, assemble
from treering.context.dialects import DIALECTS, Dialect
from treering.context.tokens import estimate
from treering.ledger.windows import read_window
from treering.model.codec import encode
from treering.model.tools import SyntheticPolicy

if TYPE_CHECKING:
    from treering.model.events import Event

POLICY: Final = SyntheticPolicy()
FRAME: Final = frozenset({"type", "role"})
"""What a request says of its own parts."""
dialects = st.sampled_from(DIALECTS)


def context_of(
    events: list[Event],
    *,
    max_tokens: int | None,
    dialect: Dialect = "openai-chat",
    reserve: int = 0,
    system: str = "",
    run_id: str | None = None,
) -> Context:
    limit = None if max_tokens is None else max(max_tokens - reserve, 0)
    lineage: Any = Listed(events)
    return assemble(
        read_window(lineage, tokens=limit, run_id=run_id),
        dialect=dialect,
        max_tokens=max_tokens,
        reserve_output_tokens=reserve,
        system=system,
        policy=POLICY,
    )


def texts_in(value: Any) -> list[str]:
    """Return every text of a request that a model reads; objects as JSON, as it is sent."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for one in value for text in texts_in(one)]
    found: list[str] = []
    if not isinstance(value, dict):
        return found
    for key, inner in value.items():
        if key in {"input", "args"} and isinstance(inner, dict):
            found.append(encode(inner).decode())
        elif key not in FRAME:
            found += texts_in(inner)
    return found


@given(
    events=histories(),
    dialect=dialects,
    max_tokens=budgets,
    reserve=reserves,
    system=systems,
    run_id=st.sampled_from((None, "r1")),
)
def test_every_context_is_legal_and_fits(
    events: list[Event],
    dialect: Dialect,
    max_tokens: int | None,
    reserve: int,
    system: str,
    run_id: str | None,
) -> None:
    context = context_of(
        events,
        max_tokens=max_tokens,
        dialect=dialect,
        reserve=reserve,
        system=system,
        run_id=run_id,
    )

    check(context)
    known = {event.event_id for event in events}
    assert known.issuperset(context.event_ids)
    assert known.issuperset(one.event_id for one in context.report if one.event_id is not None)


def check(context: Context) -> None:
    """Raise AssertionError unless a context is legal and within its budget."""
    if context.messages:
        check_legal(context.dialect, context.request)
        check_types(context.dialect, context.request)
    else:
        assert "budget_too_small" in {one.code for one in context.report} or not context.event_ids
        assert context.tokens == 0
    if context.max_tokens is None:
        return
    limit = max(context.max_tokens - context.reserve_output_tokens, 0)
    assert context.tokens <= limit
    if context.messages:
        counted = sum(map(estimate, texts_in(context.request))) + 3 * len(context.messages)
        assert counted <= limit
