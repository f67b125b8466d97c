"""``treering verify``, ``anchor`` and ``rebuild``: proof, a root to prove it against, repair."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from treering.errors import InvalidInput, NotFound
from treering.surfaces.cli.commands import fail, show, show_aside
from treering.surfaces.cli.declare import (
    anchor_option,
    argument,
    command,
    derived_option,
    flag,
    option,
    out_option,
    require,
    session_id_option,
)
from treering.surfaces.cli.finding import session_or_text
from treering.surfaces.cli.ledgers import database_path, is_on_server, of_all_scopes, open_existing
from treering.surfaces.cli.output import STANDARD, input_stream, output_stream
from treering.surfaces.cli.progress import counting
from treering.surfaces.shared.texts import counted

if TYPE_CHECKING:
    from treering.model.receipts import Broken
    from treering.model.scopes import Scope


@command(
    scope="all",
    examples="""
    treering verify
    treering verify --anchor monday.anchor
    treering verify --derived
    treering verify --scope acme/app --session-id s1
    """,
)
def verify(
    *,
    scope: Scope | None,
    session_id: str | None = session_id_option,
    anchor_file: str | None = anchor_option,
    derived: bool = derived_option,
) -> None:
    """Prove that no event was changed, removed, inserted or reordered.

    Without a scope it verifies the whole ledger. Only an anchor that was kept elsewhere shows
    that the newest events were cut off. The exit status is 1 if the proof fails.
    """
    if session_id is not None and scope is None:
        raise InvalidInput("--session needs a scope", hint="add --scope, or drop --session")
    session = None if session_id is None else require(session_id, "session_id")
    prove(scope, session, anchor_file=anchor_file, derived=derived)


@command(
    keys=False,
    examples="""
    treering anchor --out monday.anchor
    treering verify --anchor monday.anchor
    """,
    if_stopped="a file appears when it is complete; run it again",
)
def anchor(*, out: str = out_option("The file to write; - is standard output.")) -> None:
    """Write where every session ends to a file, for verify to compare with later.

    An anchor holds digests, no content. Keep it, or only its root, where nobody who can change
    the ledger can reach it.
    """
    with (
        open_existing() as ledger,
        output_stream(out, database=database_path()) as stream,
        of_all_scopes(),
    ):
        receipt = ledger.admin.anchor(stream)
    if out == STANDARD:
        show_aside(receipt)
        return
    sessions = counted(receipt.sessions, "session")
    show(
        receipt,
        f"anchored {counted(receipt.events, 'event')} of {sessions} in {out}",
        f"root {receipt.root}",
        done=f"the anchor was written to {out}",
    )


def prove(
    scope: Scope | None, session_id: str | None, *, anchor_file: str | None, derived: bool
) -> None:
    """Verify, and print what was found; the exit status is 1 if something does not hold."""
    with contextlib.ExitStack() as stack:
        ledger = stack.enter_context(open_existing())
        if scope is not None and session_id is not None:
            session_id = session_or_text(ledger, scope, session_id)
        anchor = None if anchor_file is None else stack.enter_context(input_stream(anchor_file))
        advance = stack.enter_context(counting("proved", "events"))
        result = ledger.admin.verify(
            scope, session_id=session_id, anchor=anchor, derived=derived, progress=advance
        )
    if result.first_broken is not None and result.first_broken.fault == "derived":
        fail(
            result,
            f"the events are intact, but derived data is not: {_place(result.first_broken)}",
            code="broken",
            hint="rebuild it from the events: treering rebuild",
        )
    if result.first_broken is not None and result.first_broken.fault == "incomplete":
        fail(
            result,
            f"a part of the ledger is not here yet: {_place(result.first_broken)}",
            code="broken",
            hint="run the same copy or import again: it continues where it stopped",
        )
    if not result.intact:
        fail(
            result,
            f"the ledger is not as it was recorded: {_place(result.first_broken)}",
            code="broken",
            hint="keep a copy of the file as evidence, then compare with an export or a backup",
        )
    if scope is not None and not result.sessions:
        raise NotFound(f"nothing is recorded in scope {scope}", hint="check the scope's name")
    erased = f" ({result.redacted:,} redacted, {result.expired:,} expired)"
    anchored = result.anchored_sessions
    against = "" if anchored is None else f"; {counted(anchored, 'anchored session')} found"
    sealed = counted(result.sealed, "sealed payload")
    show(
        result,
        f"intact: {counted(result.events, 'event')}"
        f"{erased if result.redacted or result.expired else ''}"
        f" of {counted(result.sessions, 'session')}{against}",
        *([f"not verified: {sealed}, whose key is destroyed or not here"] * bool(result.sealed)),
        f"checked: {', '.join(result.checked)}",
        *([f"derived rows compared: {_rows(result.derived_rows)}"] if result.derived_rows else []),
        *(f"not checked: {part} ({otherwise})" for part, otherwise in result.unchecked.items()),
    )


@command(
    examples="""
    treering verify-bundle share.zip
    treering verify-bundle share.zip --root 9f2c…
    treering verify-bundle share.zip --anchor monday.anchor
    """,
    db=False,
    keys=False,
)
def verify_bundle(
    *,
    file: str = argument(),
    root: str | None = option("HEX", "The root that the maker of the bundle gave you."),
    anchor_file: str | None = anchor_option,
) -> None:
    """Prove that a bundle was not changed: files, order and content of its events.

    It needs no ledger. Anybody can make a bundle: compare its root with the one that its
    maker gave you separately, or with an anchor of the ledger. The exit status is 1 if the proof
    fails.
    """
    from treering.ledger import proof_bundles  # noqa: PLC0415  (not for --help)

    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(input_stream(file))
        anchor = None if anchor_file is None else stack.enter_context(input_stream(anchor_file))
        result = proof_bundles.verify_bundle(stream, root=root, anchor=anchor)
    if not result.intact or result.proof is None:
        fail(
            result,
            f"{file} was changed: {'; '.join(result.faults)}",
            code="corrupt",
            hint="ask for the bundle again",
        )
    proof = result.proof
    withheld = f", {proof.withheld:,} withheld" if proof.withheld else ""
    erased = f", {proof.erased:,} erased" if proof.erased else ""
    unchecked = "the root was compared with nothing: give the one that its maker sent you by --root"
    against = [] if root is not None or result.anchored else [unchecked]
    covers = proof_bundles.COVERS if proof.with_content else proof_bundles.COVERS[:-1]
    show(
        result,
        f"intact: {counted(proof.events, 'event')} of session {proof.session_id} in {proof.scope}",
        f"content: {proof.with_content:,} proved{withheld}{erased}",
        f"root: {proof.root}",
        *against,
        *(f"proved: {text}" for text in covers),
        *(f"not proved: {text}" for text in proof_bundles.COVERS_NOT),
    )


def _rows(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _place(broken: Broken | None) -> str:
    """Say where the proof fails, and why."""
    if broken is None:
        return "the proof fails"
    parts = (
        ("scope", broken.scope),
        ("session", broken.session_id),
        ("seq", broken.seq),
        ("event", broken.event_id),
    )
    location = ", ".join(f"{name} {value}" for name, value in parts if value)
    return f"{location}{': ' if location else ''}{broken.fault}: {broken.detail}"


@command(
    "verify",
    scope="required",
    short_help="Prove that no event of a scope was changed.",
    examples="""
    treering episodes verify --scope acme/app
    treering episodes verify --scope acme/app --session-id s1 --json
    treering episodes verify --scope acme/app --anchor monday.anchor
    """,
)
def verify_episodes(
    *,
    scope: Scope,
    session_id: str | None = session_id_option,
    anchor_file: str | None = anchor_option,
    derived: bool = derived_option,
) -> None:
    """Prove that no event of a scope was changed, removed, inserted or reordered.

    Only an anchor that was kept elsewhere shows that the newest events were cut off; only the
    sessions of the scope are compared with it. The exit status is 1 if the proof fails.
    treering verify proves the whole ledger.
    """
    prove(
        scope,
        None if session_id is None else require(session_id, "session_id"),
        anchor_file=anchor_file,
        derived=derived,
    )


@command(
    examples="""
    treering rebuild
    treering rebuild --vectors
    treering rebuild --json
    """,
    if_stopped="run it again; missing parts are rebuilt when they are needed",
)
def rebuild(
    *, vectors: bool = flag("Rebuild only the vectors, with the current embedder.")
) -> None:
    """Delete all derived data, and rebuild it from the events.

    The events do not change. Use it when verify says that derived data does not match the events.
    It rebuilds time order, run states, tool calls, facts, episodes and their indexes.

    --vectors rebuilds only the vectors that find memories and events by meaning: after choosing
    another embedder.
    """
    if vectors:
        _rebuild_vectors()
        return
    with open_existing("change") as ledger, of_all_scopes():
        receipt = ledger.admin.rebuild()
    # A server keeps the orders of time itself.
    events = "" if is_on_server() else f"the indexes of {counted(receipt.events, 'event')}, "
    show(
        receipt,
        f"rebuilt {events}the states of {counted(receipt.runs, 'run')},"
        f" the records of {counted(receipt.tool_calls, 'tool call')}"
        f" and {counted(receipt.documents, 'document')} of memory",
        done="the ledger was rebuilt",
    )


def _rebuild_vectors() -> None:
    with (
        open_existing("change") as ledger,
        of_all_scopes(),
        counting("embedding", "documents") as progress,
    ):
        receipt = ledger.admin.rebuild_vectors(progress=progress)
    documents = f"{counted(receipt.documents, 'document')} of {counted(receipt.scopes, 'scope')}"
    show(
        receipt,
        f"deleted the vectors of {documents}: no embedder is in use"
        if receipt.embedder is None
        else f"rebuilt the vectors of {documents} with {receipt.embedder}",
        done="the vectors were rebuilt",
    )
