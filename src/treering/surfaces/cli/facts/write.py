"""``treering facts add``, ``accept``, ``reject`` and ``extract``: what is learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.errors import InvalidInput
from treering.model.memories import CATEGORIES, CONFIDENCE_DEFAULT, IMPORTANCE_DEFAULT, Fact
from treering.surfaces.cli.commands import fail, show
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.declare import command
from treering.surfaces.cli.facts.read import masked
from treering.surfaces.cli.finding import (
    find_event,
    find_fact,
    find_session,
    short_events,
    short_facts,
)
from treering.surfaces.cli.ledgers import open_existing, open_to_write
from treering.surfaces.cli.output import say
from treering.surfaces.cli.progress import counting
from treering.surfaces.shared.masking import Mask
from treering.surfaces.shared.session_commands import scope_flag
from treering.surfaces.shared.texts import counted, one_line
from treering.surfaces.shared.times import parse_moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.ledger.ledger import Ledger
    from treering.memory.ports import Extractor
    from treering.model.memories import ExtractReceipt, LearnResult
    from treering.model.scopes import Scope
    from treering.surfaces.cli.finding import ShortIds
    from treering.surfaces.cli.options import Decorated


_LASTING: Final = frozenset({"secret", "evidence_erased", "erased_before", "empty", "too_long"})
"""Reasons that accepting it would not undo."""
BUDGET_TOKENS: Final = 100_000
"""As of ``Memory.extract``."""
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


@command(
    "add",
    scope="project",
    short_help="Add a fact.",
    examples="""
    treering facts add "Prefers tabs over spaces" --scope acme/app --user jo
    treering facts add "Lives in Porto" --user jo --valid-from 2026-03-05
    treering facts add "Deploys run on Fridays" --importance 8 --evidence e7
    """,
    if_stopped="see treering facts list for whether it is there",
)
@click.argument("words", nargs=-1, metavar="TEXT")
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
    help="An event as evidence: an id or a short id; repeatable.",
)
@click.option(
    "--session",
    metavar="ID",
    shell_complete=complete_session,
    help="Learned in this session; a group keeps its facts private.",
)
@click.option("--valid-from", metavar="WHEN", help="True since then: 3d, a date, or milliseconds.")
@click.option("--valid-to", metavar="WHEN", help="True until then.")
def add(*, words: Sequence[str], scope: Scope, **details: Any) -> None:
    """Add the fact TEXT if it is worth remembering; report the outcome and the reason.

    A known fact gains evidence; a contradicted one is superseded. Questions, fragments and
    secrets are refused, and instructions to the reader are quarantined until somebody accepts
    them; the exit status is then 1.
    """
    text = " ".join(words).strip()
    if not text:
        raise InvalidInput(
            "no fact to add",
            hint='state it, as in treering facts add "Prefers tabs over spaces"',
        )

    stated = _stated(**details)
    with open_to_write() as ledger:
        learned, receipt = _learn(ledger, scope, text, stated)
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


def _stated(
    *, session: str | None, valid_from: str | None, valid_to: str | None, **details: Any
) -> dict[str, Any]:
    """Return the details of a fact as ``Memory.learn`` takes them."""
    from treering.app import now_ms  # noqa: PLC0415  (not for --help)

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

    memory = ledger.memory(scope)
    session_id = stated["session_id"]
    if session_id is not None:
        stated = {**stated, "session_id": find_session(ledger, scope, session_id)}
    stated["evidence"] = [find_event(ledger, scope, text) for text in stated["evidence"]]
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
    "accept",
    scope="project",
    short_help="Accept a fact.",
    examples="""
    treering facts list --scope acme/app --state quarantined
    treering facts accept 01a1e1c6-f097 --scope acme/app
    """,
    if_stopped="see treering facts show for its state",
)
@click.argument("fact")
def accept(*, fact: str, scope: Scope) -> None:
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
    "reject",
    scope="project",
    short_help="Never recall a fact again.",
    examples="""
    treering facts reject 01a1e1c6-f097 --scope acme/app
    treering facts reject 01a1e1c6-f097 --scope acme/app --reason "moved away"
    """,
    if_stopped="see treering facts show for its state",
)
@click.argument("fact")
@click.option("--reason", metavar="TEXT", help="Why, in a few words.")
def reject(*, fact: str, scope: Scope, reason: str | None) -> None:
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


def model_options(function: Decorated) -> Decorated:
    """Add the options that name a model and its budget; read them with ``extractor_of``."""
    for option in (
        click.option(
            "--budget-tokens",
            type=click.IntRange(min=0),
            default=BUDGET_TOKENS,
            metavar="N",
            help=f"Tokens the model may use per scope and month. Default: {BUDGET_TOKENS}.",
        ),
        click.option(
            "--url",
            metavar="URL",
            help=f"Its chat completions endpoint. Its key, if any, is in {KEY_VARIABLE}.",
        ),
        click.option(
            "--model", metavar="NAME", help="Ask this model instead of rules; needs --url."
        ),
    ):
        function = option(function)
    return function


@command(
    "extract",
    scope="project",
    short_help="Learn facts from conversations.",
    examples="""
    treering facts extract --scope acme/app
    treering facts extract main:telegram:jo --scope acme/app --again
    treering facts extract --model qwen3 --url http://localhost:8080/v1
    """,
    if_stopped="what was learned stays; run it again for the rest",
)
@click.argument("session", required=False, shell_complete=complete_session)
@click.option("--again", is_flag=True, help="Read everything again, not only what is new.")
@model_options
def extract(
    *,
    session: str | None,
    scope: Scope,
    again: bool,
    model: str | None,
    url: str | None,
    budget_tokens: int,
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
    import os  # noqa: PLC0415  (not for --help)

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
    from treering.surfaces.cli.facts.read import print_learned  # noqa: PLC0415  (for people)

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
