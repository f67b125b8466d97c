"""``treering mirror`` and ``treering query``: the ledger in Parquet files, and questions in SQL."""

from __future__ import annotations

import contextlib
import csv
import sys
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.errors import InvalidInput
from treering.model.fields import instant
from treering.surfaces.cli.commands import invocation, show
from treering.surfaces.cli.declare import argument, command, flag, option
from treering.surfaces.cli.ledgers import open_existing
from treering.surfaces.cli.output import note, say, writing_output
from treering.surfaces.cli.progress import counting
from treering.surfaces.cli.tables import Column, print_table
from treering.surfaces.shared.texts import counted, printable, scope_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from treering.model.scopes import Scope
    from treering.sinks.parquet_mirror import MirrorReceipt, ParquetMirror

MIRROR_VARIABLE: Final = "TREERING_MIRROR"
TARGETS: Final = ("parquet",)
ROUND_S: Final = 10.0
"""How long new events wait for others, so that files are not too small."""
TABLE_ROWS_MAX: Final = 1_000


class Mirrored(msgspec.Struct, frozen=True, kw_only=True):
    """What was mirrored."""

    mirror: str
    payloads: str
    events: int
    files: int
    erasures: int
    rewritten: int
    scopes: list[Any]
    """The receipt of each scope."""


class QueryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a question."""

    mirror: str
    columns: list[str]
    rows: list[Any]
    count: int


@command(
    scope="project",
    all_scopes="Mirror all scopes, including new ones.",
    examples="""
    treering mirror parquet /srv/agents.mirror --all-scopes
    treering mirror parquet mirror --scope acme/app --once
    """,
    if_stopped="run it again: it continues where it stopped",
)
def mirror(
    *,
    scope: Scope | None,
    target: str = argument(type=click.Choice(TARGETS)),
    folder: Path = argument(metavar="DIR", type=click.Path(path_type=Path)),
    payload: bool = flag("Include private content: texts, inputs, outputs."),
    once: bool = flag("Mirror what is there, then exit."),
) -> None:
    """Keep a mirror of the ledger in DIR: Parquet files by scope and day.

    It holds headers, tool calls and usage; texts only if you pass --payload. It follows the
    ledger from where it stopped, and rewrites the files that an erasure touches. Ctrl-C stops it
    and prints the totals.
    """
    from treering.sinks.parquet_mirror import ParquetMirror  # noqa: PLC0415  (not for --help)

    del target  # There is one so far.
    receipts: list[MirrorReceipt] = []
    with open_existing() as ledger:

        def names() -> list[str]:
            return [scope] if scope is not None else scope_names(ledger)

        with contextlib.closing(ParquetMirror(ledger, folder, payloads=payload)) as made:
            receipts += _round(made, names())
            if not once:
                if not invocation().as_json:
                    note(f"mirroring to {folder}; Ctrl-C ends it")
                # A signal ends it in the ordinary way: that is what it is waiting for.
                with contextlib.suppress(KeyboardInterrupt):
                    while True:
                        time.sleep(ROUND_S)
                        receipts += _round(made, names())
    receipt = Mirrored(
        mirror=str(folder),
        payloads="included" if payload else "withheld",
        events=sum(scope_receipt.events for scope_receipt in receipts),
        files=sum(scope_receipt.files for scope_receipt in receipts),
        erasures=sum(scope_receipt.erasures for scope_receipt in receipts),
        rewritten=sum(scope_receipt.rewritten for scope_receipt in receipts),
        scopes=receipts,
    )
    lines = [f"mirrored {counted(receipt.events, 'event')} to {folder}"]
    if receipt.rewritten:
        erased = counted(receipt.rewritten, "row")
        lines.append(f"{erased} rewritten after {counted(receipt.erasures, 'erasure')}")
    show(receipt, *lines, done="the events were mirrored")


def _round(made: ParquetMirror, names: Iterable[str]) -> list[MirrorReceipt]:
    with counting("mirrored", "events") as advance:
        done = [made.catch_up(name, progress=advance) for name in names]
    return [receipt for receipt in done if receipt.events or receipt.rewritten]


@command(
    scope="all",
    examples="""
    treering query --mirror mirror "SELECT model, sum(total_tokens) FROM usage GROUP BY model"
    treering query --mirror mirror --csv "FROM tool_calls WHERE status = 'failed'" > failed.csv
    treering query --mirror mirror "DESCRIBE events"
    """,
    db=False,
    keys=False,
)
def query(
    *,
    scope: Scope | None,
    sql: str = argument(metavar="SELECT"),
    folder: Path | None = option(
        "DIR",
        f"The mirror. Default: {MIRROR_VARIABLE}.",
        "--mirror",
        envvar=MIRROR_VARIABLE,
        type=click.Path(path_type=Path),
    ),
    as_csv: bool = flag("Print comma-separated values.", "--csv"),
) -> None:
    """Query a mirror in DuckDB's SQL: one SELECT, which changes nothing.

    The tables are events, tool_calls, usage, runs and sessions; "DESCRIBE events" lists columns.
    Times are in UTC. No other file can be read.
    """
    from treering.sinks.parquet_query import MirrorQuery  # noqa: PLC0415  (not for --help)

    if folder is None:
        raise InvalidInput(
            "no mirror is named", hint=f"pass --mirror DIR, or set {MIRROR_VARIABLE}"
        )
    with contextlib.closing(MirrorQuery(folder, sql, scope=scope)) as asked:
        if as_csv:
            with writing_output():
                writer = csv.writer(sys.stdout, lineterminator="\n")
                writer.writerow(asked.columns)
                writer.writerows([_cell(value, none="") for value in row] for row in asked.rows())
        elif invocation().as_json:
            rows = [[_plain(value) for value in row] for row in asked.rows()]
            show(QueryAnswer(mirror=str(folder), columns=asked.columns, rows=rows, count=len(rows)))
        else:
            _print(asked.columns, asked.rows())


def _print(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    shown = list(islice(rows, TABLE_ROWS_MAX + 1))
    cells = [[printable(_cell(value)) for value in row] for row in shown[:TABLE_ROWS_MAX]]
    with writing_output():
        print_table([Column(name) for name in columns], cells, is_titled=True)
        if len(shown) > TABLE_ROWS_MAX:
            say(f"only the first {TABLE_ROWS_MAX:,} rows; --csv prints all")


def _cell(value: Any, *, none: str = "-") -> str:
    plain = _plain(value)
    if plain is None:
        return none
    if isinstance(plain, float):
        return f"{plain:.6g}"
    return plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()


def _plain(value: Any) -> Any:
    """Return a value of DuckDB's as JSON has it."""
    if isinstance(value, datetime):
        return instant(int(value.replace(tzinfo=UTC).timestamp() * 1_000))
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return value.isoformat() if isinstance(value, date) else str(value)
