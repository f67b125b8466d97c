"""``treering facts extract``: conversations are read for facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
import msgspec

from treering.errors import InvalidInput
from treering.surfaces.cli.commands import Command, invocation, show
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.ledgers import open_existing
from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.options import db_option, json_option, keys_option
from treering.surfaces.cli.output import counted, say
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.search_commands import scope_flag
from treering.surfaces.cli.streams import writing_output

if TYPE_CHECKING:
    from treering.memory.ports import Extractor
    from treering.model.memories import ExtractReceipt
    from treering.model.scopes import Scope

BUDGET_TOKENS: Final = 100_000
"""As of ``Memory.extract``."""
KEY_VARIABLE: Final = "TREERING_EXTRACTOR_KEY"


@click.command(
    "extract",
    cls=Command,
    short_help="Learn facts from conversations.",
    examples="""
    treering facts extract --scope acme/app
    treering facts extract main:telegram:jo --scope acme/app --again
    treering facts extract --model qwen3 --url http://localhost:8080/v1
    """,
    if_stopped="what was learned stays; run it again for the rest",
)
@click.argument("session", required=False, shell_complete=complete_session)
@project_scope_options
@click.option("--again", is_flag=True, help="Read everything again, not only what is new.")
@click.option("--model", metavar="NAME", help="Ask this model instead of rules; needs --url.")
@click.option(
    "--url",
    metavar="URL",
    help=f"Its chat completions endpoint. Its key, if any, is in {KEY_VARIABLE}.",
)
@click.option(
    "--budget-tokens",
    type=click.IntRange(min=0),
    default=BUDGET_TOKENS,
    metavar="N",
    help=f"Tokens the model may use per month. Default: {BUDGET_TOKENS}.",
)
@keys_option
@json_option
@db_option
def extract(
    *,
    session: str | None,
    scope: str | None,
    is_global: bool,
    again: bool,
    model: str | None,
    url: str | None,
    budget_tokens: int,
) -> None:
    """Learn facts from what was said in SESSION, or in every session of the scope.

    Rules do it, and nothing leaves the machine, unless you name a model. Only new events are
    read. Each fact cites its evidence and goes through the gate, so reading twice is harmless.
    """
    from treering.surfaces.cli.facts.search import short_facts  # noqa: PLC0415  (not for --help)
    from treering.surfaces.cli.progress import counting  # noqa: PLC0415
    from treering.surfaces.cli.sessions.search import find_session  # noqa: PLC0415

    name = find_scope(scope, is_global=is_global)
    extractor = _extractor(model, url)
    with open_existing("change") as ledger, counting("reading", "messages") as progress:
        receipt = ledger.memory(name).extract(
            None if session is None else find_session(ledger, name, session),
            model=extractor,
            budget_tokens=budget_tokens,
            again=again,
            progress=progress,
        )
        short = short_facts(ledger.memory(name))
    learned = [short.within(result, "fact_id") for result in receipt.learned]
    receipt = _masked(msgspec.structs.replace(receipt, learned=learned))
    if invocation().as_json:
        show(receipt, done="the conversations were read")
        return
    with writing_output("the conversations were read"):
        _print(receipt, name)


def _extractor(model: str | None, url: str | None) -> Extractor | None:
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
    from treering.surfaces.cli.facts.tables import print_learned  # noqa: PLC0415  (for people)

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
