"""Treering at work: record, replay, assemble, fork, redact, prove, tamper, cut, kill.

Run it with ``make demo``. It needs no network and leaves nothing behind but ``demo-output/``.
An agent looks into a slow checkout page. The shop is small, its work is real: the queries, their
timings and the error are what Python and SQLite make of them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import treering

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from treering import Header, Ledger, Run, Session

FOLDER: Final = Path("demo-output")
LEDGER: Final = FOLDER / "checkout.db"
SHOP: Final = FOLDER / "shop.db"
ANCHOR: Final = FOLDER / "friday.anchor"

SCOPE: Final = "shop/checkout"
SESSION: Final = "incident-4812"
ORDERS: Final = 40_000
CUSTOMERS: Final = 800
PASSWORD: Final = "Tr0ub4dor-and-3"
COMPLAINT: Final = (
    "The checkout page has been slow since Friday. "
    f"You can look at postgresql://shop:{PASSWORD}@replica.internal/shop"
)
ACKNOWLEDGED_MIN: Final = 200
INDENT: Final = " " * 3

plain = bool(os.environ.get("NO_COLOR")) or not sys.stdout.isatty()
console = Console(
    highlight=False,
    force_terminal=not plain,
    no_color=plain,
    width=None if sys.stdout.isatty() else 100,
)
steps: list[str] = []
failures: list[str] = []


def main() -> int:
    """Run every step; return 1 if one of them did not hold."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    # The key of the masks is kept in the user's folder; the demo keeps to its own.
    home = str(FOLDER.absolute() / "home")
    os.environ.update(HOME=home, XDG_CONFIG_HOME=home, XDG_DATA_HOME=home)
    started = time.monotonic()
    with treering.open(LEDGER) as ledger:
        session = ledger.session(SESSION, scope=SCOPE, agent="lyria", user="mina")
        record(session)
        show_mask(session)
        replay(session)
        ask_for_payload(session)
        use_command_line()
        assemble(session)
        fork(ledger, session)
        redact(ledger, session)
    verify()
    tamper()
    cut_the_tail()
    kill_a_writer()
    kill_an_agent()
    farewell(time.monotonic() - started)
    return 1 if failures else 0


# The agent's world: a shop with a query that scans every order.


def open_shop() -> sqlite3.Connection:
    """Make the shop's primary database."""
    shop = sqlite3.connect(SHOP)
    shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, total INTEGER)")
    shop.executemany(
        "INSERT INTO orders (customer, total) VALUES (?, ?)",
        ((number * 7919 % CUSTOMERS, number % 9_700) for number in range(ORDERS)),
    )
    shop.commit()
    return shop


def latest_orders_ms(shop: sqlite3.Connection) -> float:
    """Return how long the checkout page waits for a customer's latest orders."""
    started = time.perf_counter()
    for customer in range(25):
        shop.execute(
            "SELECT total FROM orders WHERE customer = ? ORDER BY id DESC LIMIT 20", (customer,)
        ).fetchall()
    return round((time.perf_counter() - started) * 1_000, 2)


def explain(shop: sqlite3.Connection) -> list[str]:
    """Return SQLite's plan for that query."""
    rows = shop.execute("EXPLAIN QUERY PLAN SELECT total FROM orders WHERE customer = 1")
    return [row[3] for row in rows]


def add_index(shop: sqlite3.Connection) -> str:
    """Add the index that the query lacks."""
    shop.execute("CREATE INDEX orders_by_customer ON orders (customer, id)")
    return "orders_by_customer created"


def use(turn: Run, name: str, tool: Callable[[sqlite3.Connection], Any], on: Any, at: str) -> Any:
    """Call a tool as part of a turn: its intent is durable before it runs."""
    with turn.tool(name, {"database": at}) as call:
        output = tool(on)
        call.finish(output)
    return output


# The steps.


def record(session: Session) -> None:
    """Let the agent work: a turn that ends well, one that fails, one that mends it."""
    step("Record", "An agent looks into a slow page. Each event is durable before the next begins.")
    code(
        "with session.turn() as turn:",
        '    turn.user("The checkout page has been slow since Friday. …")',
        '    with turn.tool("explain", {"database": "replica"}) as call:',
        "        call.finish(explain(replica))",
    )
    shop = open_shop()
    replica = sqlite3.connect(f"file:{SHOP}?mode=ro", uri=True)

    with session.turn() as turn:
        turn.user(COMPLAINT)
        before = use(turn, "latest_orders_ms", latest_orders_ms, replica, "replica")
        plan = use(turn, "explain", explain, replica, "replica")
        turn.assistant(f"{plan[0]}: each customer costs a scan of {ORDERS:,} orders, {before} ms.")

    try:
        with session.turn() as turn:
            turn.user("Then add an index.")
            use(turn, "add_index", add_index, replica, "replica")
    except sqlite3.OperationalError as error:
        line(f"the second turn fails: {type(error).__name__}: {error}", style="red")

    with session.turn() as turn:
        turn.user("That was the replica. Use the primary.")
        use(turn, "add_index", add_index, shop, "primary")
        after = use(turn, "latest_orders_ms", latest_orders_ms, shop, "primary")
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
    table.add_column("seq", justify="right", style="dim")
    table.add_column("kind", style="cyan", no_wrap=True)
    table.add_column("summary", overflow="fold")
    table.add_column("payload", justify="right", style="dim", no_wrap=True)
    for header in headers:
        style = "red" if "fail" in header.summary else ""
        size = f"{header.payload_bytes:,} B" if header.payload_bytes else ""
        table.add_row(str(header.seq), header.kind, Text(header.summary, style=style), size)
    console.print(Padding(table, (0, 0, 0, len(INDENT) - 1), expand=False))
    check([header.seq for header in headers] == list(range(1, len(headers) + 1)),
          f"seq runs from 1 to {len(headers)}")  # fmt: skip


def ask_for_payload(session: Session) -> None:
    """Show that a header cannot leak a payload, and how to ask for one."""
    step("Payloads on request", "A header has no payload by type; events() is how to ask for one.")
    header = first_of(session.headers(), "tool.result")
    event = next(event for event in session.events() if event.event_id == header.event_id)
    line(f"header.payload → {'there' if hasattr(header, 'payload') else 'AttributeError'}")
    line(f"event.payload  → {event.payload}")
    check(not hasattr(header, "payload") and event.payload["status"] == "ok",
          "the type checker and the interpreter agree")  # fmt: skip


def use_command_line() -> None:
    """Read the same ledger with the program."""
    step("Command line", "The same file, while it is open here, read by another process.")
    found = treering_command(
        "episodes", "query", "--scope", SCOPE, "--types", "tool.call,tool.result"
    )
    calls, results = found.stdout.count("tool.call"), found.stdout.count("tool.result")
    check(calls == results == 5, "five tool calls, each with its outcome")
    replayed = treering_command(
        "episodes", "replay", SESSION, "--scope", SCOPE, "--limit", "3", "--include-payload"
    )
    check(PASSWORD in replayed.stdout, "payloads come when they are asked for, as they were given")


def assemble(session: Session) -> None:
    """Show what a model would see next, with much room and with little."""
    step("Assemble", "What the model sees next: legal for its provider, and within the budget.")
    code('session.context(200, dialect="anthropic")')
    whole = session.context(8_000, dialect="anthropic")
    small = session.context(200, dialect="anthropic")
    for context in (whole, small):
        cuts = ", ".join(dict.fromkeys(repair.code for repair in context.report)) or "nothing cut"
        line(f"{context.max_tokens:,} tokens: {len(context.messages)} messages, {cuts}")
    check(whole.tokens <= 8_000 and small.tokens <= 200, "both fit, and no model was asked to help")
    check("Then add an index." not in str(whole.messages),
          "the turn that failed is in the ledger, and in no context")  # fmt: skip


def fork(ledger: Ledger, session: Session) -> None:
    """Go on from an earlier turn in a session of its own, and take that back."""
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
    check(len(other.history()) < len(session.history()) and ledger.verify().intact,
          "undone by an event: nothing is deleted, and the chain holds")  # fmt: skip


def redact(ledger: Ledger, session: Session) -> None:
    """Erase the message with the password, down to the bytes."""
    step("Redact", "The password must go. Erasing it means the bytes, not a flag.")
    said = first_of(session.headers(), "conversation.user")
    before = occurrences(PASSWORD)
    receipt = ledger.redact(SCOPE, event_id=said.event_id)
    after = occurrences(PASSWORD)
    code("ledger.redact(scope, event_id=…)")
    line(f"redacted {receipt.redacted_count} event, physical: {receipt.physical}")
    line(f"its raw bytes, read by another process: {before} copies before, {after} after")
    check(before > 0 and after == 0, "the password is in no page, free page or log")
    gone = ledger.event(SCOPE, said.event_id)
    check((gone.summary, gone.payload) == ("[REDACTED]", "[REDACTED]"),
          "the event keeps its place and says [REDACTED]")  # fmt: skip


def verify() -> None:
    """Prove the ledger."""
    step("Verify", "Every event is chained to the one before. Erasing content leaves the proof.")
    proof = treering_command("verify")
    check(proof.returncode == 0 and "1 redacted" in proof.stdout, "intact, redaction included")


def tamper() -> None:
    """Change copies of the ledger behind its back."""
    step("Tamper", "Copies of the ledger are changed with plain SQL. Each change is named.")
    answer = "WHERE summary LIKE 'Done:%'"
    for number, (fault, what, statement) in enumerate(
        [
            (
                "content",
                "an answer is reworded",
                f"UPDATE events SET summary = 'All well' {answer}",
            ),
            (
                "link",
                "it is moved back an hour",
                f"UPDATE events SET ts_ms = ts_ms - 36e5 {answer}",
            ),
            ("missing", "the failure is removed", "DELETE FROM events WHERE summary LIKE 'run f%'"),
        ]
    ):
        copy = copy_ledger(f"tampered-{number}.db")
        change(copy, statement)
        line(statement, style="cyan")
        with treering.open(copy) as ledger:
            broken = ledger.verify().first_broken
        if broken is not None:
            line(f"seq {broken.seq}, event {broken.event_id or 'gone'}: {broken.detail}")
        check(broken is not None and broken.fault == fault, f"{what}: found, as {fault}")


def cut_the_tail() -> None:
    """Show what only an anchor finds."""
    step("Anchor", "Cutting off the newest events leaves a sound chain. An anchor notices.")
    with treering.open(LEDGER) as ledger:
        session = ledger.session(SESSION, scope=SCOPE, agent="lyria", user="mina")
        session.record("ops.decision", "The index goes to production tonight")
    treering_command("anchor", "--out", str(ANCHOR))
    copy = copy_ledger("cut.db")
    change(
        copy,
        "DELETE FROM contents WHERE position = (SELECT max(position) FROM events)",
        "DELETE FROM events WHERE position = (SELECT max(position) FROM events)",
        "UPDATE heads SET (seq, link) = (SELECT seq, link FROM events AS e"
        " WHERE e.session = heads.session ORDER BY seq DESC LIMIT 1)",
    )
    alone = treering_command("verify", database=copy)
    check(alone.returncode == 0, "without the anchor, the cut copy looks whole")
    compared = treering_command("verify", "--anchor", str(ANCHOR), database=copy)
    check(compared.returncode == 1 and "missing" in compared.stderr, "with it, the cut is found")


def kill_a_writer() -> None:
    """Kill a process in the middle of writing, and count."""
    step("Kill", "A writer is killed with SIGKILL. What it was told is recorded, is recorded.")
    command = [sys.executable, "-c", WRITER, str(LEDGER), SCOPE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        acknowledged = [text.strip() for text in islice(writer.stdout, ACKNOWLEDGED_MIN)]
        writer.send_signal(signal.SIGKILL)
        acknowledged += [text.strip() for text in writer.stdout if text.endswith("\n")]
    with treering.open(LEDGER) as ledger:
        kept = {h.event_id for h in ledger.session("load", scope=SCOPE, agent="load").headers()}
        proof = ledger.verify()
    lost = set(acknowledged) - kept
    line(f"acknowledged {len(acknowledged)}, found {len(kept)}, lost {len(lost)}")
    check(len(acknowledged) >= ACKNOWLEDGED_MIN, "it was killed in the middle of its work")
    check(not lost and proof.intact, "nothing acknowledged was lost, and the ledger is intact")


def kill_an_agent() -> None:
    """Kill an agent in the middle of a tool, and open the ledger again."""
    step("Crash", "An agent is killed while its tool runs. The next opening closes what it left.")
    command = [sys.executable, "-c", AGENT, str(LEDGER), SCOPE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout is not None
        agent.stdout.readline()
        with treering.open(LEDGER) as ledger:
            call = next(ledger.session("nightly", scope=SCOPE, agent="nox").tool_calls())
            line(f"while it works: {call.tool} is {call.status}")
            alive = call.status == "open"
        agent.send_signal(signal.SIGKILL)
    with treering.open(LEDGER) as ledger:
        session = ledger.session("nightly", scope=SCOPE, agent="nox")
        call = next(session.tool_calls())
        line(f"after the kill: {call.tool} is {call.status}, reason {call.reason}")
        closed = [header.kind for header in session.headers(last=2)]
    check(alive, "others leave the calls of a living process alone")
    check((call.reason, closed) == ("crashed", ["tool.result", "run.interrupted"]),
          "the call has an outcome with a reason, and the run its one end")  # fmt: skip
    shown = treering_command("trace", "list", "--scope", SCOPE, "--failing")
    check(shown.returncode == 0, "what did not end well is one command away")


AGENT: Final = """
import sys, time, treering
session = treering.open(sys.argv[1]).session("nightly", scope=sys.argv[2], agent="nox")
with session.turn(entry_point="cron") as turn:
    turn.user("Reindex the shop.")
    with turn.tool("reindex", {"table": "orders"}):
        print("at work", flush=True)
        time.sleep(60)
"""

WRITER: Final = """
import sys, treering
ledger = treering.open(sys.argv[1])
for number in range(1_000_000):
    event = treering.NewEvent(scope=sys.argv[2], session_id="load", kind="ops.observation",
                              agent_id="load", summary=f"order {number} placed")
    print(ledger.append([event])[0].event_id, flush=True)
"""


def farewell(seconds: float) -> None:
    """Say what happened and what to try."""
    console.print()
    if failures:
        line(f"{len(failures)} of the checks failed: {'; '.join(failures)}", style="bold red")
        return
    console.print(Text(f"Every check held, in {seconds:.1f} s. What next:", style="bold green"))
    for command in (
        f"treering --db {LEDGER} episodes replay {SESSION} --scope {SCOPE}",
        f"treering --db {LEDGER} sessions show {SESSION} --scope {SCOPE}",
        f"treering --db {LEDGER} context {SESSION} --scope {SCOPE} --max-tokens 200 --explain",
        f"treering --db {FOLDER}/tampered-0.db verify",
        "treering --help",
    ):
        line(command, style="cyan")
    line("docs/quickstart.md has the first steps, docs/python.md the whole API", style="dim")


# What the steps share.


def step(title: str, why: str) -> None:
    """Begin a step."""
    steps.append(title)
    console.print()
    console.print(Text.assemble((f"{len(steps)}. {title}. ", "bold"), why))


def line(text: str, style: str = "") -> None:
    """Print one line of evidence."""
    console.print(Text(INDENT + text, style=style), soft_wrap=True)


def code(*lines: str) -> None:
    """Print code, as it was run."""
    for text in lines:
        line(text, style="cyan")


def check(holds: bool, what: str) -> None:  # noqa: FBT001  (reads as an assertion)
    """Print whether something holds, and remember if it does not."""
    mark = ("✓ ", "green") if holds else ("✗ FAILED: ", "bold red")
    console.print(Text.assemble(INDENT, mark, what), soft_wrap=True)
    if not holds:
        failures.append(what)


def first_of(headers: Iterable[Header], kind: str) -> Header:
    """Return the first header of a kind."""
    return next(header for header in headers if header.kind == kind)


def treering_command(*words: str, database: Path = LEDGER) -> subprocess.CompletedProcess[str]:
    """Run the ``treering`` program on a ledger, and show what was typed and what it said."""
    typed = ["--db", str(database), *words]
    line(f"$ {shlex.join(['treering', *typed])}", style="cyan")
    done = run_python("-m", "treering", *typed)
    for text in (done.stdout + done.stderr).splitlines():
        line(text)
    return done


def occurrences(text: str) -> int:
    """Count ``text`` in the raw bytes of the ledger's files.

    In another process: opening and closing the file here would drop SQLite's locks on it.
    """
    script = (
        "import pathlib, sys; print(sum(p.read_bytes().count(sys.argv[1].encode())"
        " for p in map(pathlib.Path, sys.argv[2:]) if p.exists()))"
    )
    files = [f"{LEDGER}{suffix}" for suffix in ("", "-wal", "-shm", "-journal", ".lock")]
    return int(run_python("-c", script, text, *files).stdout)


def run_python(*words: str) -> subprocess.CompletedProcess[str]:
    """Run this Python with some arguments."""
    command: Sequence[str] = [sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def copy_ledger(name: str) -> Path:
    """Copy the ledger as a backup would."""
    copy = FOLDER / name
    source = sqlite3.connect(LEDGER)
    source.execute("VACUUM INTO ?", (str(copy),))
    source.close()
    return copy


def change(path: Path, *statements: str) -> None:
    """Change a ledger behind its back."""
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


if __name__ == "__main__":
    sys.exit(main())
