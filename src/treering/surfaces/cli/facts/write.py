"""``treering facts add``, ``accept``, ``reject``, ``review``, ``extract`` and ``audit``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.clock import now_ms
from treering.errors import InvalidInput
from treering.model.memories import CATEGORIES, CONFIDENCE_DEFAULT, IMPORTANCE_DEFAULT, Fact
from treering.model.scopes import Scope
from treering.surfaces.cli.commands import fail, invocation, show
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.declare import (
    Options,
    argument,
    choice,
    command,
    flag,
    option,
    session_option_that,
    together,
)
from treering.surfaces.cli.facts.read import masked, print_learned
from treering.surfaces.cli.finding import (
    ShortIds,
    find_event,
    find_fact,
    find_session,
    narrow_to_session,
    short_events,
    short_facts,
)
from treering.surfaces.cli.ledgers import (
    asking,
    location_of,
    open_existing,
    open_to_ask,
    open_to_write,
)
from treering.surfaces.cli.output import painted, say, say_painted
from treering.surfaces.cli.progress import counting
from treering.surfaces.shared.session_commands import scope_flag
from treering.surfaces.shared.texts import Mask, counted, one_line, printable
from treering.surfaces.shared.times import parse_moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from treering.memory.memory import Memory
    from treering.memory.ports import Extractor
    from treering.model.memories import (
        Category,
        DoubtfulChange,
        ExtractReceipt,
        FactAudit,
        LearnResult,
    )

_LASTING: Final = frozenset({"secret", "evidence_erased", "erased_before", "empty", "too_long"})
"""Reasons that accepting it would not undo."""
BUDGET_TOKENS: Final = 100_000
"""As in ``Memory.extract``."""
KEY_VARIABLE: Final = "TREERING_EXTRACTOR_KEY"
REASONS: Final = {
    "empty": "it says nothing",
    "too_long": "it is too long for one fact",
    "fragment": "it is a fragment, not a statement",
    "filler": "it is a greeting or an acknowledgement",
    "question": "it is a question",
    "code": "it is code or a line of a log",
    "noise": "it is about the conversation or its machinery",
    "transient": "it is only true for the moment",
    "generic": "it would be true of anybody",
    "instruction": "it instructs its reader",
    "external": "it came from a tool",
    "unsupported": "an agent said so, without support",
    "secret": "it holds a secret",
    "evidence_erased": "its evidence was erased meanwhile",
    "erased_before": "it was learned before, and erased",
}


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
    may_end: Fact | None = None
    """A fact that it may have ended; ``facts review`` decides."""
    signs: tuple[str, ...] = ()
    """Why it ended another fact, or may have, if no rule knew."""


class _Validity(Options, frozen=True, kw_only=True):
    """When a fact is true."""

    valid_from: str | None = option("WHEN", "True since then: 3d, a date, or milliseconds.")
    valid_to: str | None = option("WHEN", "True until then.")


@command(
    scope="project",
    short_help="Add a fact.",
    examples="""
    treering facts add "Prefers tabs over spaces" --scope acme/app --user jo
    treering facts add "Lives in Porto" --user jo --valid-from 2026-03-05
    treering facts add "Deploys run on Fridays" --importance 8 --evidence e7
    """,
    if_stopped="see treering facts list for whether it is there",
)
def add(
    *,
    scope: Scope,
    words: Sequence[str] = argument(nargs=-1, metavar="TEXT"),
    user: str | None = option("USER", "The person it is about. Default: the whole scope."),
    category: Category | None = choice(CATEGORIES, "Its category. Default: derived from the text."),
    importance: int = option(
        "N",
        f"Importance, 1 to 10. Default: {IMPORTANCE_DEFAULT}.",
        type=click.IntRange(1, 10),
        default=IMPORTANCE_DEFAULT,
    ),
    confidence: float = option(
        "X",
        f"Confidence, 0 to 1. Default: {CONFIDENCE_DEFAULT}.",
        type=click.FloatRange(0, 1),
        default=CONFIDENCE_DEFAULT,
    ),
    evidence: Sequence[str] = option(
        "EVENT", "An event as evidence: an id or a short id; repeatable.", multiple=True
    ),
    session: str | None = session_option_that(
        "Learned in this session; a group keeps its facts private."
    ),
    validity: _Validity = together(_Validity),
) -> None:
    """Add the fact TEXT if it is worth remembering; report the outcome and the reason.

    A known fact gains evidence; a contradicted one is superseded. Questions, fragments and
    secrets are refused, and instructions to the reader are quarantined until somebody accepts
    them; the exit status is then 1.
    """
    text = " ".join(words).strip()
    if not text:
        raise InvalidInput(
            "no fact to add", hint='state it, as in treering facts add "Prefers tabs over spaces"'
        )
    now = now_ms()
    from_ms = parse_moment(validity.valid_from, now_ms=now, flag="--valid-from")
    to_ms = parse_moment(validity.valid_to, now_ms=now, flag="--valid-to")
    with open_to_write() as ledger:
        memory = ledger.memory(scope)
        learned = memory.learn(
            text,
            user=user,
            category=category,
            importance=importance,
            confidence=confidence,
            session_id=narrow_to_session(ledger, scope, session),
            evidence=[find_event(ledger, scope, event) for event in evidence],
            valid_from_ms=from_ms,
            valid_to_ms=to_ms,
        )
        receipt = _receipt(memory, learned)
        short = short_facts(ledger.memory(scope))
    if learned.believed:
        show(receipt, *_lines(receipt, short), done=f"fact {receipt.fact_id} was learned")
        return
    verb = "was not stored" if learned.outcome == "refused" else "is quarantined"
    fail(
        receipt,
        f"it {verb}: {in_words(learned.reason)} ({learned.reason})",
        code=learned.outcome,
        hint=_hint(learned, scope),
    )


def _receipt(memory: Memory, learned: LearnResult) -> AddReceipt:
    mask = Mask()
    return AddReceipt(
        scope=memory.scope,
        outcome=learned.outcome,
        fact_id=learned.fact_id,
        text=mask.text(learned.text) or "",
        reason=learned.reason,
        superseded=[masked(memory.fact(fact_id), mask) for fact_id in learned.superseded],
        evidence=len(memory.fact(learned.fact_id).evidence) if learned.believed else 0,
        event_id=learned.event_id,
        may_end=None if learned.may_end is None else masked(memory.fact(learned.may_end), mask),
        signs=learned.signs or (),
    )


def _lines(receipt: AddReceipt, short: ShortIds) -> Iterator[str]:
    named = f"fact {short.shown(receipt.fact_id)} of scope {receipt.scope}"
    text = one_line(receipt.text)
    cited = f", evidence: {counted(receipt.evidence, 'event')}" if receipt.evidence else ""
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
    if receipt.may_end is not None:
        earlier = f"{short.shown(receipt.may_end.id)}: {one_line(receipt.may_end.text)}"
        yield f"  it may have ended {earlier}"
    if receipt.signs:
        yield f"  because {' and '.join(receipt.signs)}"
    if receipt.may_end is not None:
        named = f"{short.shown(receipt.fact_id)} {scope_flag(Scope(receipt.scope))}"
        yield f"  decide: treering facts review {named} --accept (or --reject)"


def _hint(learned: LearnResult, scope: Scope) -> str:
    named = f"{learned.fact_id} {scope_flag(scope)}"
    if learned.outcome == "quarantined":
        return f"if you mean it: treering facts accept {named}"
    hint = (learned.hint or "state it in other words").rstrip(".")
    hint = hint[:1].lower() + hint[1:]
    if learned.reason in _LASTING:
        return hint
    return f"{hint}; to accept it anyway: treering facts accept {named}"


@command(
    scope="project",
    short_help="Accept a fact.",
    examples="""
    treering facts list --scope acme/app --state quarantined
    treering facts accept 01a1e1c6-f097 --scope acme/app
    """,
    if_stopped="see treering facts show for its state",
)
def accept(*, scope: Scope, fact: str = argument()) -> None:
    """Accept FACT if it was quarantined, refused or archived; confirm it if it is current."""
    with open_existing("change") as ledger:
        memory = ledger.memory(scope)
        before = find_fact(memory, fact)
        after = masked(memory.accept(before.id), Mask())
    is_current = before.state == "current"
    how = "is confirmed" if is_current else f"was {before.state}, and is current now"
    show(
        {"scope": scope, "before": before.state, "fact": after},
        f"fact {after.id} {how}: {one_line(after.text)}",
        done=f"fact {after.id} was accepted",
    )


@command(
    scope="project",
    short_help="Never recall a fact again.",
    examples="""
    treering facts reject 01a1e1c6-f097 --scope acme/app
    treering facts reject 01a1e1c6-f097 --scope acme/app --reason "moved away"
    """,
    if_stopped="see treering facts show for its state",
)
def reject(
    *,
    scope: Scope,
    fact: str = argument(),
    reason: str | None = option("TEXT", "Why, in a few words."),
) -> None:
    """Never recall FACT again; its events stay in the ledger.

    To erase it, run treering redact with the id of its event: facts history shows it.
    """
    with open_existing("change") as ledger:
        memory = ledger.memory(scope)
        before = find_fact(memory, fact)
        after = masked(memory.reject(before.id, reason=reason), Mask())
        event = short_events(ledger, scope).shown(after.event_id)
    flag = scope_flag(scope)
    erase = (
        f"treering facts history {after.id} {flag} names its events, for treering redact"
        if after.revisions
        else f"treering redact --event {event} {flag}"
    )
    show(
        {"scope": scope, "before": before.state, "fact": after},
        f"fact {after.id} will not be recalled again: {one_line(after.text)}",
        f"its events stay; to erase them, too: {erase}",
        done=f"fact {after.id} was rejected",
    )


model_option: Any = option("NAME", "Ask this model instead of rules; needs --url.")
"""The options that name a model and its budget; read them with ``extractor_of``."""
url_option: Any = option(
    "URL", f"Its chat completions endpoint. Its key, if any, is in {KEY_VARIABLE}."
)
budget_option: Any = option(
    "N",
    f"Tokens the model may use per scope and month. Default: {BUDGET_TOKENS}.",
    type=click.IntRange(min=0),
    default=BUDGET_TOKENS,
)


@command(
    scope="project",
    short_help="Learn facts from conversations.",
    examples="""
    treering facts extract --scope acme/app
    treering facts extract main:telegram:jo --scope acme/app --again
    treering facts extract --model qwen3 --url http://localhost:8080/v1
    """,
    if_stopped="what was learned stays; run it again for the rest",
)
def extract(
    *,
    scope: Scope,
    session: str | None = argument(required=False, shell_complete=complete_session),
    again: bool = flag("Read everything again, not only what is new."),
    model: str | None = model_option,
    url: str | None = url_option,
    budget_tokens: int = budget_option,
) -> None:
    """Learn facts from what was said in SESSION, or in every session of the scope.

    Rules do it, and nothing leaves the machine, unless you name a model. Only new events are
    read. Each fact cites its evidence and goes through the gate, so reading twice is harmless.
    """
    extractor = extractor_of(model, url)
    with open_existing("change") as ledger, counting("reading", "messages") as progress:
        receipt = ledger.memory(scope).extract(
            None if session is None else find_session(ledger, scope, session),
            model=extractor,
            budget_tokens=budget_tokens,
            again=again,
            progress=progress,
        )
        short = short_facts(ledger.memory(scope))
    learned = [short.within(result, "fact_id") for result in receipt.learned]
    receipt = _masked(msgspec.structs.replace(receipt, learned=learned))
    show(receipt, page=lambda: _print(receipt, scope), done="the conversations were read")


def extractor_of(model: str | None, url: str | None) -> Extractor | None:
    """Return what asks the model that was named; None has rules do it."""
    if model is None and url is None:
        return None
    if model is None or url is None:
        raise InvalidInput(
            "a model needs its name and its address",
            hint="give both, as in --model qwen3 --url http://localhost:8080/v1",
        )

    from treering.adapters.extractors import EndpointExtractor  # noqa: PLC0415

    return EndpointExtractor(url, model, api_key=os.environ.get(KEY_VARIABLE))


def _masked(receipt: ExtractReceipt) -> ExtractReceipt:
    mask = Mask()
    learned = [
        msgspec.structs.replace(result, text=mask.text(result.text) or "")
        for result in receipt.learned
    ]
    return msgspec.structs.replace(receipt, learned=learned)


def _print(receipt: ExtractReceipt, scope: Scope) -> None:
    flag = scope_flag(scope)
    news = [result for result in receipt.learned if result.outcome != "known"]
    if news:
        print_learned(news)
    read = f"read {counted(receipt.messages, 'message')} of {counted(receipt.sessions, 'session')}"
    spent = (
        f", {counted(receipt.calls, 'call')} and {counted(receipt.spent_tokens, 'token')}"
        if receipt.calls
        else ""
    )
    believed = sum(result.believed and result.outcome != "known" for result in receipt.learned)
    known = sum(result.outcome == "known" for result in receipt.learned)
    say(f"{read} of scope {scope} (by {receipt.by}{spent}):"
        f" {counted(believed, 'fact')} learned, {known:,} known already,"
        f" {len(news) - believed:,} not believed")  # fmt: skip
    if receipt.stopped is not None:
        say(f"not all was read ({receipt.stopped}): raise --budget-tokens, or run it again later")
    elif not receipt.messages:
        say("  nothing new: --again reads everything")
    if receipt.calls and not receipt.spent_tokens:
        say(f"  {receipt.by} did not answer, so rules were used: check --url and its key")
    if any(result.outcome == "quarantined" for result in receipt.learned):
        say(f"  decide about quarantined facts: treering facts list {flag} --state quarantined")


def in_words(reason: str | None) -> str:
    """Return a reason in plain words; an unknown one as it is."""
    return REASONS.get(reason or "", reason or "no reason was given")


NAMED_MAX: Final = 5
"""Facts of one sort that are named; --json names more."""


@command(
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


@command(
    scope="project",
    short_help="Decide which facts ended others.",
    examples="""
    treering facts review --scope acme/app
    treering facts review 01a1e1c6-f097 --scope acme/app --accept
    treering facts review 01a1e1c6-f097 --scope acme/app --reject
    """,
    if_stopped="see treering facts review for what is left",
)
def review(
    *,
    scope: Scope,
    fact: str | None = argument(required=False),
    accept: bool = flag("It ended the earlier fact, which is superseded."),
    reject: bool = flag("It did not: both hold."),
) -> None:
    """List the facts that may have ended an earlier one, or decide about FACT.

    Both hold until somebody decides.
    """
    if (fact is None and (accept or reject)) or (fact is not None and accept == reject):
        raise InvalidInput(
            "nothing is decided", hint="name a fact with --accept or with --reject, or neither"
        )
    with open_existing("change" if fact else "read") as ledger:
        memory, mask = ledger.memory(scope), Mask()
        short = short_facts(memory)
        if fact is not None:
            named = find_fact(memory, fact).id
            earlier = memory.settle(named, ended=accept)
            text = mask.text(earlier.text) or ""
            said = "is superseded" if accept else "still holds"
            show(
                {"scope": scope, "fact_id": named, "ended": accept, "earlier": earlier.id},
                f"fact {short.shown(earlier.id)} {said}: {one_line(text)}",
                done=f"it was decided about fact {named}",
            )
            return
        doubts = [_masked_doubt(each, mask) for each in memory.doubts()]
    show(
        {"scope": scope, "count": len(doubts), "doubts": doubts},
        f"{counted(len(doubts), 'fact')} of scope {scope} may have ended another",
        page=lambda: _print_doubts(doubts, short, scope),
    )


def _masked_doubt(doubt: DoubtfulChange, mask: Mask) -> DoubtfulChange:
    fact, earlier = (
        msgspec.structs.replace(each, text=mask.text(each.text) or "")
        for each in (doubt.fact, doubt.earlier)
    )
    return msgspec.structs.replace(doubt, fact=fact, earlier=earlier)


def _print_doubts(doubts: Sequence[DoubtfulChange], short: ShortIds, scope: Scope) -> None:
    for doubt in doubts:
        say(f"{printable(short.shown(doubt.fact.id))}  {one_line(doubt.fact.text)}")
        say(f"  may have ended  {one_line(doubt.earlier.text)}")
        say(f"  because         {' and '.join(doubt.signs)}")
    if doubts:
        say(f"decide: treering facts review FACT {scope_flag(scope)} --accept (or --reject)")
