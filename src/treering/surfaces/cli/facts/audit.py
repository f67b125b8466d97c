"""``treering facts audit``: how sound what is remembered is, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.model.scopes import Scope
from treering.surfaces.cli.commands import invocation, show
from treering.surfaces.cli.declare import command
from treering.surfaces.cli.facts.write import in_words
from treering.surfaces.cli.finding import ShortIds, short_facts
from treering.surfaces.cli.ledgers import asking, location_of, open_to_ask
from treering.surfaces.cli.output import painted, say, say_painted
from treering.surfaces.shared.masking import Mask
from treering.surfaces.shared.session_commands import scope_flag
from treering.surfaces.shared.texts import counted, one_line, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from treering.memory.memory import Memory
    from treering.model.memories import FactAudit

NAMED_MAX: Final = 5
"""Facts of one sort that are named; --json names more."""


@command(
    "audit",
    scope="project",
    short_help="Find doubtful facts.",
    examples="""
    treering facts audit --scope acme/app
    treering facts audit --scope acme/app --json
    """,
)
def audit(*, scope: Scope) -> None:
    """Count the facts, list the doubtful ones, and say what to do about each.

    A fact is doubtful if it has no evidence, if its evidence is gone, or if it nearly repeats
    another. Nothing is changed.
    """
    import msgspec  # noqa: PLC0415  (not for --help)

    report: FactAudit | None = None
    texts: dict[str, str] = {}
    short = ShortIds(())
    with asking(open_to_ask) as ledger:
        if ledger is not None:
            memory = ledger.memory(scope)
            report = memory.audit()
            texts = {} if invocation().as_json else _texts(memory, report)
            short = short_facts(memory)
        location = location_of(ledger)
    fields = {} if report is None else msgspec.structs.asdict(report)
    show(
        {"scope": scope, "ledger": location, **fields},
        page=lambda: (
            say(f"no facts in scope {scope}")
            if report is None
            else print_audit(report, texts, short)
        ),
    )


def _texts(memory: Memory, report: FactAudit) -> dict[str, str]:
    """Return the texts of the facts that are named."""
    mask = Mask()
    return {fact_id: mask.text(memory.fact(fact_id).text) or "" for fact_id in named_in(report)}


class AuditRemark(msgspec.Struct, frozen=True, kw_only=True):
    """A problem, and what to do about it."""

    message: str
    next: str
    facts: tuple[str, ...] = ()


def named_in(audit: FactAudit) -> list[str]:
    """Return the ids of the facts that are named on the page."""
    return list(dict.fromkeys(fact_id for remark in _remarks(audit) for fact_id in remark.facts))


def print_audit(audit: FactAudit, texts: Mapping[str, str], short: ShortIds) -> None:
    """Print how sound the facts are; ``texts`` are what those say that are named."""
    if not any(audit.by_state.values()):
        say(f"no facts in scope {audit.scope}")
        say(f"  learn from conversations: treering facts extract {scope_flag(Scope(audit.scope))}")
        return
    share = f": {audit.score:.0%} of them have no issues" if audit.facts else ""
    current = counted(audit.facts, "current fact")
    say_painted(painted(f"{current} of scope {audit.scope}{share}", bold=True))
    for title, counts in (("by category", audit.by_category), ("others", _others(audit))):
        if listed := ", ".join(f"{name} {count:,}" for name, count in counts.items() if count):
            say(f"  {title}: {listed}")
    if audit.facts:
        say(f"  {audit.unconfirmed:,} not confirmed yet, {audit.never_used:,} never used")
    remarks = list(_remarks(audit))
    for remark in remarks:
        say("")
        say(remark.message)
        for fact_id in remark.facts:
            text = one_line(texts.get(fact_id, ""))
            say_painted(painted(f"  {printable(short.shown(fact_id))}  {text}", dim=True))
        say_painted(f"  → {printable(remark.next)}")
    if not remarks:
        say("nothing to do")


def _others(audit: FactAudit) -> dict[str, int]:
    return {state: count for state, count in audit.by_state.items() if state != "current"}


def _remarks(audit: FactAudit) -> Iterator[AuditRemark]:
    flag = scope_flag(Scope(audit.scope))
    if waiting := audit.by_state["quarantined"]:
        verb = "waits" if waiting == 1 else "wait"
        yield AuditRemark(
            message=f"{counted(waiting, 'fact')} {verb} for somebody to believe or reject",
            next=f"treering facts list {flag} --state quarantined, then facts accept or reject",
        )
    if audit.without_evidence:
        yield AuditRemark(
            message=f"{_counted(audit.without_evidence)} without an event that says so",
            next=f"add it again with one: treering facts add TEXT --evidence EVENT {flag}",
            facts=tuple(audit.without_evidence[:NAMED_MAX]),
        )
    if audit.evidence_gone:
        yield AuditRemark(
            message=f"{_counted(audit.evidence_gone)} whose evidence is all gone",
            next=f"treering facts accept FACT {flag}, if it still holds, else facts reject",
            facts=tuple(audit.evidence_gone[:NAMED_MAX]),
        )
    if audit.near_duplicates:
        pairs = audit.near_duplicates[:NAMED_MAX]
        number = counted(len(audit.near_duplicates), "pair")
        yield AuditRemark(
            message=f"{number} of facts that say nearly the same",
            next=f"treering facts reject FACT {flag}, for the one of two that says less",
            facts=tuple(fact_id for pair in pairs for fact_id in pair),
        )
    if audit.faded:
        yield AuditRemark(
            message=f"{counted(audit.faded, 'fact')} that nobody used for long",
            next=f"treering fade {flag} archives what has faded; what is used comes back",
        )
    if audit.vectors_missing:
        verb = "memory is" if audit.vectors_missing == 1 else "memories are"
        yield AuditRemark(
            message=f"{audit.vectors_missing:,} {verb} found by words only",
            next="treering rebuild --vectors",
        )
    if audit.refused_by_reason:
        listed = "; ".join(
            f"{count:,} because {in_words(reason)}"
            for reason, count in audit.refused_by_reason.items()
        )
        yield AuditRemark(
            message=f"not believed: {listed}",
            next=f"treering facts list {flag} --state refused --state quarantined",
        )


def _counted(facts: Sequence[str]) -> str:
    return counted(len(facts), "fact")
