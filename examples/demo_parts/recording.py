"""The second chapter: an agent that records itself, read back, shown to a model, erased."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import treering

from .shop import ORDERS, add_index, explain, latest_orders_ms, open_replica, open_shop, use
from .stage import (
    FOLDER,
    INDENT,
    chapter,
    check,
    choose,
    code,
    console,
    first_of,
    line,
    occurrences,
    step,
    treering_command,
)

if TYPE_CHECKING:
    from treering import Ledger, Session

LEDGER: Final = FOLDER / "checkout.db"
SCOPE: Final = "shop/checkout"
SESSION: Final = "incident-4812"
PASSWORD: Final = "Tr0ub4dor-and-3"
COMPLAINT: Final = (
    "The checkout page has been slow since Friday. "
    f"You can look at postgresql://shop:{PASSWORD}@replica.internal/shop"
)


def show_recording() -> None:
    """Run the chapter."""
    chapter("An agent of your own", "It looks into that slow page, and records what it does.")
    with treering.open(LEDGER) as ledger:
        session = ledger.session(SESSION, scope=SCOPE, agent="lyria", user="mina")
        record(session)
        show_mask(session)
        replay(session)
        ask_for_payloads(session)
        assemble(session)
        fork(ledger, session)
        redact(ledger, session)


def record(session: Session) -> None:
    """Let the agent work: a turn that succeeds, one that fails, one that fixes it."""
    step("Record", "Each event is durable before the next begins.")
    code(
        "with session.turn() as turn:",
        '    turn.user("The checkout page has been slow since Friday. …")',
        '    with turn.tool("explain", {"database": "replica"}) as call:',
        "        call.finish(explain(replica))",
    )
    shop, replica = open_shop(), open_replica()

    with session.turn() as turn:
        turn.user(COMPLAINT)
        before = use(turn, latest_orders_ms, replica, "replica")
        plan = use(turn, explain, replica, "replica")
        turn.assistant(f"{plan[0]}: each customer costs a scan of {ORDERS:,} orders, {before} ms.")

    try:
        with session.turn() as turn:
            turn.user("Then add an index.")
            use(turn, add_index, replica, "replica")
    except sqlite3.OperationalError as error:
        line(f"the second turn fails: {type(error).__name__}: {error}", style="red")

    with session.turn() as turn:
        turn.user("That was the replica. Use the primary.")
        use(turn, add_index, shop, "primary")
        after = use(turn, latest_orders_ms, shop, "primary")
        turn.assistant(f"Done: {before} ms before, {after} ms now.")
    shop.close()
    replica.close()

    headers = list(session.headers())
    kinds = [header.kind for header in headers]
    check(kinds.count("run.ended") == 2 and kinds.count("run.failed") == 1,
          f"{len(headers)} events: two turns ended well, one failed and is kept")  # fmt: skip
    check(after < before, "the agent really made the page faster")


def show_mask(session: Session) -> None:
    """Show what the guard made of the password in the user's message."""
    step("Mask", "The message held a password. What is safe to show never holds one.")
    said = first_of(session.headers(), "conversation.user")
    line(said.summary)
    check(PASSWORD not in said.summary and "[redacted:url:" in said.summary,
          "the summary holds a mask; the agent's own payload holds the message")  # fmt: skip


def replay(session: Session) -> None:
    """Show the whole session in order."""
    step("Replay", "A session reads back in the order in which it happened, without gaps.")
    headers = list(session.headers())
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("seq", justify="right", style="dim", no_wrap=True)
    table.add_column("kind", style="cyan", no_wrap=True)
    table.add_column("summary")
    table.add_column("payload", justify="right", style="dim", no_wrap=True)
    for header in headers:
        style = "red" if "fail" in header.summary else ""
        size = f"{header.payload_bytes:,} B" if header.payload_bytes else ""
        summary = Text(header.summary, style=style, no_wrap=True, overflow="ellipsis")
        table.add_row(str(header.seq), header.kind, summary, size)
    console.print(Padding(table, (0, 0, 0, len(INDENT) - 1), expand=False))
    check([header.seq for header in headers] == list(range(1, len(headers) + 1)),
          f"seq runs from 1 to {len(headers)}")  # fmt: skip


def ask_for_payloads(session: Session) -> None:
    """Show that a header cannot leak a payload, and how to ask for one, here and in a shell."""
    step("Payloads on request", "A header has no payload by type; events() is how to ask for one.")
    header = first_of(session.headers(), "tool.result")
    event = next(event for event in session.events() if event.event_id == header.event_id)
    line(f"header.payload → {'there' if hasattr(header, 'payload') else 'AttributeError'}")
    line(f"event.payload  → {event.payload}")
    check(not hasattr(header, "payload") and event.payload["status"] == "ok",
          "the type checker and the interpreter agree")  # fmt: skip
    choose(LEDGER, SCOPE)
    replayed = treering_command(
        "episodes", "replay", SESSION, "--scope", SCOPE, "--limit", "3", "--include-payload"
    )
    check(PASSWORD in replayed.stdout,
          "another process reads the same file, and payloads as they were given")  # fmt: skip


def assemble(session: Session) -> None:
    """Show what a model would see next, with much room and with little."""
    step("Assemble", "What the model sees next: legal for its provider, and within the budget.")
    code('session.context(250, dialect="anthropic")')
    whole = session.context(8_000, dialect="anthropic")
    small = session.context(250, dialect="anthropic")
    for context in (whole, small):
        cuts = ", ".join(dict.fromkeys(repair.code for repair in context.report)) or "nothing cut"
        line(f"{context.max_tokens:,} tokens: {len(context.messages)} messages, {cuts}")
    check(whole.tokens <= 8_000 and small.tokens <= 250, "both fit, and no model was asked to help")
    check("Then add an index." not in str(whole.messages),
          "the turn that failed is in the ledger, and in no context")  # fmt: skip


def fork(ledger: Ledger, session: Session) -> None:
    """Fork the session at an earlier turn, and undo a turn."""
    step("Fork", "What if? A fork shares the past of its session, copies nothing, changes nothing.")
    code("session.fork(at=event_id); session.undo(turns=1)")
    first = first_of(session.headers(), "conversation.user")
    before = list(session.headers())
    other = session.fork("what-if", at=first.event_id)
    with other.turn() as turn:
        turn.user("And if we cached the page?")
        turn.assistant("Then the first visitor of each hour would still wait.")
    told = [message["content"] for message in other.history() if message["role"] == "user"]
    other.undo()
    line(f"{SESSION} goes on at seq {len(before)}, its fork {other.session_id} went its own way")
    check(told[1:] == ["And if we cached the page?"] and list(session.headers()) == before,
          "the fork has its own next turn, and the parent is as it was")  # fmt: skip
    check(len(other.history()) < len(session.history()) and ledger.admin.verify().intact,
          "undone by an event: nothing is deleted, and the chain holds")  # fmt: skip


def redact(ledger: Ledger, session: Session) -> None:
    """Erase the message with the password, down to the bytes."""
    step("Redact", "The password must go. Erasing it means the bytes, not a flag.")
    said = first_of(session.headers(), "conversation.user")
    before = occurrences(PASSWORD, LEDGER)
    receipt = ledger.redact(SCOPE, event_id=said.event_id)
    after = occurrences(PASSWORD, LEDGER)
    code("ledger.redact(scope, event_id=…)")
    line(f"redacted {receipt.redacted_count} event, physical: {receipt.physical}")
    line(f"its raw bytes, read by another process: {before} copies before, {after} after")
    check(before > 0 and after == 0, "the password is in no page, free page or log")
    gone = ledger.event(SCOPE, said.event_id)
    check((gone.summary, gone.payload) == ("[REDACTED]", "[REDACTED]"),
          "the event keeps its place and says [REDACTED]")  # fmt: skip
