"""``treering keys``: the keys of encrypted scopes, made, listed, rotated and destroyed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering.config import keys_folder
from treering.errors import InvalidInput
from treering.surfaces.cli.commands import invocation, show
from treering.surfaces.cli.declare import command, flag, group, option
from treering.surfaces.cli.ledgers import check_keys, open_existing, open_to_write, physically
from treering.surfaces.shared.texts import counted, scope_names
from treering.surfaces.shared.times import clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.model.receipts import DestroyReceipt, KeyGeneration
    from treering.model.scopes import Scope


@group(
    "keys",
    commands="create list_ rotate destroy ids",
    examples="""
    treering keys create --scope acme/app
    treering keys list
    treering keys destroy --scope acme/app --yes
    """,
)
def keys() -> None:
    """Encrypt the payloads of a scope, and manage its keys.

    Keys are in a separate folder, not in the ledger. Destroying them makes the payloads
    unreadable in the ledger and in its backups. No command shows a key.
    """


@command(
    scope="named",
    short_help="Encrypt the payloads of a scope from now on.",
    examples="""
    treering keys create --scope acme/app
    treering keys create --scope acme/app --keys /media/safe/keys
    """,
    if_stopped="run it again: a key that was made is used",
)
def create(*, scope: Scope) -> None:
    """Create a key for a scope, and encrypt every payload recorded in it from now on.

    Earlier payloads stay as they are; summaries and refs are never encrypted. Keep a copy of
    the key in another place: without it the payloads are lost.
    """
    check_keys("change")
    with open_to_write() as ledger:
        receipt = ledger.keys.create(scope)
    under = f"under generation {receipt.generation} of its key"
    show(
        receipt,
        f"payloads of scope {scope} are encrypted {under} from now on"
        if receipt.created
        else f"payloads of scope {scope} are already encrypted, {under}",
        f"the key is in {keys_folder(invocation().keys)}: keep a copy of it in another place",
        done="the key was created, and the scope is encrypted",
    )


@command(
    scope="all",
    short_help="List keys, and what they encrypt.",
    examples="""
    treering keys list
    treering keys list --scope acme/app --json
    """,
)
def list_(*, scope: Scope | None) -> None:
    """List every generation of the keys of one scope, or of all encrypted scopes.

    A key is in use, kept for older payloads, destroyed, or missing from the folder.
    """
    with open_existing() as ledger:
        check_keys()
        generations = ledger.keys.list(scope)
    show({"keys": generations}, *_lines(generations))


@command(
    scope="named",
    short_help="Encrypt with a new key from now on.",
    examples="""
    treering keys rotate --scope acme/app
    """,
    if_stopped="see treering keys list for which key is in use",
)
def rotate(*, scope: Scope) -> None:
    """Create a new key for a scope and use it from now on; old keys are kept for reading.

    An old key can be destroyed once it no longer encrypts anything.
    """
    with open_existing("change") as ledger:
        check_keys("change")
        receipt = ledger.keys.rotate(scope)
    show(
        receipt,
        f"payloads of scope {scope} are encrypted under generation {receipt.generation}"
        " from now on",
        f"the key is in {keys_folder(invocation().keys)}: keep a copy of it in another place",
        done="the key was rotated",
    )


@command(
    scope="named",
    short_help="Destroy keys, and what they encrypt.",
    examples="""
    treering keys destroy --scope acme/app --yes
    treering keys destroy --scope acme/app --generation 1 --yes
    """,
    if_stopped="what was erased stays erased; run it again for the rest",
)
def destroy(
    *,
    scope: Scope,
    generation: int | None = option(
        "N", "Only this key, if it no longer encrypts anything in the ledger.", type=int
    ),
    yes: bool = flag("Destroy without asking. You cannot undo it."),
) -> None:
    """Redact every session of a scope, then destroy its keys.

    Payloads in backups of the ledger are then unreadable. Destroy copies of the keys yourself;
    exports with payloads were never encrypted.
    """
    if not yes:
        what = (
            f"redacts every session of scope {scope} and destroys its keys"
            if generation is None
            else f"destroys generation {generation} of the key of scope {scope}"
        )
        raise InvalidInput(f"this {what}, for good", hint="add --yes to do it")
    with open_existing("change") as ledger:
        check_keys("change")
        receipt = ledger.keys.destroy(scope, generation=generation)
    show(receipt, *_destroyed(receipt), done="the keys were destroyed")


@command(
    scope="all",
    short_help="Check the key that hides ids, or accept a new one.",
    examples="""
    treering keys ids
    treering keys ids --scope acme/app --accept
    """,
    if_stopped="run it again for the rest",
)
def ids(
    *, scope: Scope | None, accept: bool = flag("Continue with the present key, or a new one.")
) -> None:
    """Check whether ids.secret is the file that each scope was used with.

    It hides ids of imported events and of what was erased, so that nobody can guess words from
    them. With another file, logs would be recorded twice and what was erased could come back, so
    importing and erasing are refused. Put back the right file. If it is lost for good, use
    --accept.
    """
    from treering.capture.intake import BOOKMARK_SCOPE  # noqa: PLC0415  (not for --help)

    with open_existing("change" if accept else "read") as ledger:
        check_keys("change" if accept else "read")
        scopes = sorted({*scope_names(ledger), BOOKMARK_SCOPE}) if scope is None else [scope]
        strange = [scope for scope in scopes if not ledger.keys.fits_id_key(scope)]
        for stranger in strange if accept else ():
            ledger.keys.accept_id_key(stranger)
    path = keys_folder(invocation().keys) / "ids.secret"
    lines = [f"scope {stranger} was used with another key than {path}" for stranger in strange]
    if accept:
        lines = [f"scope {stranger} continues with {path}" for stranger in strange]
    body = {"file": str(path), "other": strange, "accepted": strange if accept else []}
    show(
        body,
        *lines or [f"no scope was used with another key than {path}"],
        done="the key was accepted",
    )


def _lines(generations: Sequence[KeyGeneration]) -> Iterator[str]:
    if not generations:
        yield "no scope is encrypted"
        return
    width = max(len(key.scope) for key in generations)
    for key in generations:
        number = f"generation {key.generation}" if key.generation else "unknown"
        created = clock(key.created_ms) if key.created_ms else "-"
        yield (
            f"{key.scope:<{width}}  {number:<13}  {created:<19}  {key.state:<9}"
            f"  {counted(key.payloads, 'payload')}"
        )


def _destroyed(receipt: DestroyReceipt) -> Iterator[str]:
    scope, physical = receipt.scope, receipt.physical
    if receipt.redacted_count:
        events = counted(receipt.redacted_count, "event")
        yield f"redacted {events} of scope {scope}; {physically(physical)}"
    elif physical == "pending":
        yield f"what was redacted in scope {scope} before: {physically(physical)}"
    if not receipt.generations:
        yield f"no key was left to destroy in scope {scope}"
        return
    *others, last = map(str, receipt.generations)
    numbers = f"generations {', '.join(others)} and {last}" if others else f"generation {last}"
    yield f"destroyed {numbers} of the key of scope {scope}"
