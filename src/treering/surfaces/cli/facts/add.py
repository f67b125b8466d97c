"""``treering facts add``: send a fact through the gate, and report what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.errors import InvalidInput
from treering.model.memories import (
    CATEGORIES,
    CONFIDENCE_DEFAULT,
    IMPORTANCE_DEFAULT,
    Fact,
)
from treering.surfaces.cli.commands import Command, fail, show
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.facts.masking import masked
from treering.surfaces.cli.facts.reasons import in_words
from treering.surfaces.cli.ledgers import open_to_write
from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.options import db_option, json_option, keys_option
from treering.surfaces.cli.output import counted, one_line
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.search_commands import scope_flag

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.memories import LearnResult
    from treering.model.scopes import Scope
    from treering.surfaces.cli.short_ids import ShortIds

_LASTING: Final = frozenset({"secret", "evidence_erased", "erased_before", "empty", "too_long"})
"""Reasons that accepting it would not undo."""


class AddReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a fact that was to be learned."""

    scope: str
    outcome: str
    fact_id: str
    text: str
    reason: str | None
    superseded: list[Fact]
    """Facts that are no longer current because of it."""
    evidence: int
    """Events that say so by now."""
    event_id: str | None


@click.command(
    "add",
    cls=Command,
    short_help="Add a fact.",
    examples="""
    treering facts add "Prefers tabs over spaces" --scope acme/app --user jo
    treering facts add "Lives in Porto" --user jo --valid-from 2026-03-05
    treering facts add "Deploys run on Fridays" --importance 8 --evidence e7
    """,
    if_stopped="see treering facts list for whether it is there",
)
@click.argument("words", nargs=-1, metavar="TEXT")
@project_scope_options
@click.option("--user", metavar="USER", help="The person it is about. Default: the whole scope.")
@click.option(
    "--category",
    type=click.Choice(CATEGORIES),
    help="Its category. Default: derived from the text.",
)
@click.option(
    "--importance",
    type=click.IntRange(1, 10),
    default=IMPORTANCE_DEFAULT,
    metavar="N",
    help=f"Importance, 1 to 10. Default: {IMPORTANCE_DEFAULT}.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1),
    default=CONFIDENCE_DEFAULT,
    metavar="X",
    help=f"Confidence, 0 to 1. Default: {CONFIDENCE_DEFAULT}.",
)
@click.option(
    "--evidence",
    multiple=True,
    metavar="EVENT",
    help="The id of an event that says so; repeatable.",
)
@click.option(
    "--session",
    metavar="ID",
    shell_complete=complete_session,
    help="Learned in this session; a group keeps its facts private.",
)
@click.option("--valid-from", metavar="WHEN", help="True since then: 3d, a date, or milliseconds.")
@click.option("--valid-to", metavar="WHEN", help="True until then.")
@keys_option
@json_option
@db_option
def add(*, words: Sequence[str], scope: str | None, is_global: bool, **details: Any) -> None:
    """Add the fact TEXT if it is worth remembering; report the outcome and the reason.

    A known fact gains evidence; a contradicted one is superseded. Questions, fragments and
    secrets are refused, and instructions to the reader are quarantined until somebody accepts
    them; the exit status is then 1.
    """
    name = find_scope(scope, is_global=is_global)
    text = " ".join(words).strip()
    if not text:
        raise InvalidInput(
            "no fact to add",
            hint='state it, as in treering facts add "Prefers tabs over spaces"',
        )
    from treering.surfaces.cli.facts.search import short_facts  # noqa: PLC0415  (not for --help)

    stated = _stated(**details)
    with open_to_write() as ledger:
        learned, receipt = _learn(ledger, name, text, stated)
        short = short_facts(ledger.memory(name))
    if learned.believed:
        show(receipt, *_lines(receipt, short), done=f"fact {receipt.fact_id} was learned")
        return
    verb = "was not stored" if learned.outcome == "refused" else "is quarantined"
    fail(
        receipt,
        f"it {verb}: {in_words(learned.reason)} ({learned.reason})",
        code=learned.outcome,
        hint=_hint(learned, name),
    )


def _stated(
    *, session: str | None, valid_from: str | None, valid_to: str | None, **details: Any
) -> dict[str, Any]:
    """Return the details of a fact as ``Memory.learn`` takes them."""
    from treering.app import now_ms  # noqa: PLC0415  (not for --help)
    from treering.surfaces.cli.times import parse_moment  # noqa: PLC0415

    now = now_ms()
    return {
        **details,
        "session_id": session,
        "valid_from_ms": parse_moment(valid_from, now_ms=now, flag="--valid-from"),
        "valid_to_ms": parse_moment(valid_to, now_ms=now, flag="--valid-to"),
    }


def _learn(
    ledger: Ledger, scope: Scope, text: str, stated: dict[str, Any]
) -> tuple[LearnResult, AddReceipt]:
    from treering.surfaces.cli.sessions.search import find_session  # noqa: PLC0415

    memory = ledger.memory(scope)
    session_id = stated["session_id"]
    if session_id is not None:
        stated = {**stated, "session_id": find_session(ledger, scope, session_id)}
    learned = memory.learn(text, **stated)
    mask = Mask()
    return learned, AddReceipt(
        scope=scope,
        outcome=learned.outcome,
        fact_id=learned.fact_id,
        text=mask.text(learned.text) or "",
        reason=learned.reason,
        superseded=[masked(memory.fact(fact_id), mask) for fact_id in learned.superseded],
        evidence=len(memory.fact(learned.fact_id).evidence) if learned.believed else 0,
        event_id=learned.event_id,
    )


def _lines(receipt: AddReceipt, short: ShortIds) -> Iterator[str]:
    named = f"fact {short.shown(receipt.fact_id)} of scope {receipt.scope}"
    text = one_line(receipt.text)
    cited = f", said by {counted(receipt.evidence, 'event')}" if receipt.evidence else ""
    match receipt.outcome:
        case "known":
            yield f"{named} is already known; nothing new{cited}: {text}"
        case "revised":
            yield f"{named} was known; updated{cited}: {text}"
        case _:
            yield f"learned {named}{cited}: {text}"
    for fact in receipt.superseded:
        if fact.id == receipt.fact_id:
            yield "  stored as past; a later fact stays current"
        else:
            yield f"  {short.shown(fact.id)} is superseded by it: {one_line(fact.text)}"


def _hint(learned: LearnResult, scope: Scope) -> str:
    named = f"{learned.fact_id} {scope_flag(scope)}"
    if learned.outcome == "quarantined":
        return f"if you mean it: treering facts accept {named}"
    hint = (learned.hint or "state it in other words").rstrip(".")
    hint = hint[:1].lower() + hint[1:]
    if learned.reason in _LASTING:
        return hint
    return f"{hint}; to accept it anyway: treering facts accept {named}"
