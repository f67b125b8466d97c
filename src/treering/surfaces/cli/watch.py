"""``treering watch``: import the logs of agents while they are written."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.app import import_logs, new_guard
from treering.capture.intake.log_search import log_folders
from treering.clock import now_ms
from treering.errors import InvalidInput, TreeringError
from treering.surfaces.cli.commands import fail, invocation, kind_of, show
from treering.surfaces.cli.declare import argument, command, flag, option
from treering.surfaces.cli.facts.write import budget_option, extractor_of, model_option, url_option
from treering.surfaces.cli.imports import check_home, keep_faults
from treering.surfaces.cli.ledgers import MEMORY, database_path, open_to_write, shown
from treering.surfaces.cli.memory import MemoryMaintenance, has_done, print_receipts
from treering.surfaces.cli.output import note, print_receipt, say, writing_output
from treering.surfaces.shared.texts import counted
from treering.surfaces.shared.times import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.capture.hooks.spool import PermissionDecision
    from treering.capture.hooks.watching import Followed, Round
    from treering.ledger.ledger import Ledger
    from treering.model.intakes import SourceReceipt
    from treering.model.memories import MaintenanceReceipt
    from treering.model.scopes import Scope

FIRST_S: Final = 5.0
EVERY_S: Final = 600.0
END_S_MAX: Final = 3.0
"""How long the end waits for it: what it has done is kept, and the rest is due the next time."""

_ID_CHARACTERS: Final = 40


class _Named(msgspec.Struct, frozen=True):
    """A file or folder that was named."""

    root: Path


class WatchSummary(msgspec.Struct):
    """The totals of a watch."""

    imports: int = 0
    """Imports that found something new."""
    events: int = 0
    sessions: int = 0
    errors: int = 0
    """Lines that could not be imported."""
    refused: int = 0
    """Files that are not logs."""
    decisions: int = 0
    """Permissions asked for and denied, from hooks."""
    unread: int = 0
    """Lines of hooks that could not be recorded; treering doctor shows them."""
    failures: int = 0
    """Imports that failed."""


@command(
    scope="each",
    examples="""
    treering watch
    treering watch --once
    treering watch ~/.claude/projects --scope acme/app
    treering watch /mnt/share/logs --poll --json
    treering watch --memory
    """,
    if_stopped="what was imported is kept; run it again for the rest: nothing is duplicated",
)
def watch(
    *,
    scope: Scope | None,
    paths: Sequence[Path] = argument(
        nargs=-1, type=click.Path(path_type=Path), metavar="[PATH]..."
    ),
    poll: bool = flag("Poll every few seconds, for network drives."),
    once: bool = flag("Import what is there, then exit."),
    home: Path | None = option(
        "DIR",
        "Follow the logs in this home folder instead of yours.",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
    ),
    memory: bool = flag("Also maintain the memory, in the background."),
    model: str | None = model_option,
    url: str | None = url_option,
    budget_tokens: int = budget_option,
) -> None:
    """Follow the logs of all agents on this machine, or PATHs, and import what is new.

    The hooks of treering install report the end of a turn at once. It prints a line each time
    something was imported; Ctrl-C stops it and prints the totals. One watch for each ledger is
    enough, and a second one says so.

    With --memory it also does what treering memory run does, every ten minutes in the background:
    importing never waits for it. --once does it after the import. --model is for --memory.
    """
    from treering.capture.hooks.watching import only_watcher  # noqa: PLC0415  (not for --help)

    location = database_path()
    check_home(paths, home)
    extractor = extractor_of(model, url)
    if extractor is not None and not memory:
        raise InvalidInput("--model is for the memory", hint="add --memory")
    if location == MEMORY:
        raise InvalidInput("watch needs a ledger in a file", hint="name a file with --db")
    for path in paths:
        if not path.expanduser().exists():
            _tell_missing(path, once=once)
    with only_watcher(location), open_to_write() as ledger:
        following = _Following(ledger, paths, scope=scope, home=home)
        maintenance = MemoryMaintenance(extractor, budget_tokens)
        if once:
            is_whole = following.watch.once()
            if memory:
                following.tell_memory(maintenance.maintain(ledger, scope))
            following.finish(is_whole=is_whole)
            return
        if not invocation().as_json:
            note(f"watching for {shown(location)}; Ctrl-C ends it")
        # A signal ends it in the ordinary way: that is what it is waiting for.
        background: MemoryThread | contextlib.nullcontext[None] = contextlib.nullcontext()
        if memory:
            background = following.in_background(maintenance)
        with contextlib.suppress(KeyboardInterrupt), background:
            following.watch.run(Event(), poll=poll)
        following.finish(is_whole=True)


def _tell_missing(path: Path, *, once: bool) -> None:
    """Refuse a path that is not there, or say that it is waited for. Raises InvalidInput."""
    if once:
        raise InvalidInput(f"{path} does not exist", hint="name a log, or a folder of logs")
    if not invocation().as_json:
        note(f"{path} does not exist yet; it is followed once it does")


class _Following:
    """A watch, and what it has come to so far."""

    def __init__(
        self, ledger: Ledger, paths: Sequence[Path], *, scope: Scope | None, home: Path | None
    ) -> None:
        from treering.capture.hooks.spool import default_spool  # noqa: PLC0415
        from treering.capture.hooks.watching import Watch  # noqa: PLC0415

        self._ledger = ledger
        self._scope = scope
        self._spool = default_spool()
        self._sessions: set[str] = set()
        self._kind = kind_of(click.get_current_context())
        self.summary = WatchSummary()
        self.watch = Watch(
            _places(paths, home),
            take=self._take,
            report=self._report,
            remark=note,
            # Hooks tell of all agents: not for one who has named what to follow.
            drain=None if paths or home else self._drain,
            also=() if paths else (self._spool,),
        )

    def finish(self, *, is_whole: bool) -> None:
        """Print the totals, and fail if something is missing."""
        totals = self.summary
        totals.sessions = len(self._sessions)
        if not is_whole:
            fail(
                totals,
                "not all logs could be imported",
                code="busy",
                hint="run it again: nothing is duplicated",
            )
        decisions = f" and {counted(totals.decisions, 'decision')}" if totals.decisions else ""
        show(
            totals,
            f"imported {counted(totals.events, 'event')} of {counted(totals.sessions, 'session')}"
            f"{decisions}",
            done="the logs were imported",
        )

    def in_background(self, maintenance: MemoryMaintenance) -> MemoryThread:
        """Return a thread that does what is due in the memory."""
        context = click.get_current_context()

        def work(step: Callable[[int], None]) -> None:
            with context.scope(cleanup=False):
                self.tell_memory(maintenance.run(self._ledger, self._scope, step))

        return MemoryThread(work)

    def tell_memory(self, receipts: Sequence[MaintenanceReceipt]) -> None:
        """Print what was done in the memory, if anything."""
        done = [receipt for receipt in receipts if has_done(receipt)]
        if not done:
            return
        with writing_output():
            if invocation().as_json:
                print_receipt(f"{self._kind}.memory", {"scopes": done})
            else:
                print_receipts(done)

    def _take(self, paths: Sequence[Path]) -> Any:
        return import_logs(self._ledger, paths, scope=self._scope, live=True, report=keep_faults)

    def _drain(self, take: Callable[[Sequence[Path]], Any]) -> None:
        from treering.capture.hooks.spool import drain, is_waiting  # noqa: PLC0415

        if not is_waiting(self._spool):
            return
        receipt = drain(self._spool, take=take, note=self._note, guard=new_guard())
        self.summary.decisions += receipt.decisions
        self.summary.unread += receipt.unread
        if receipt.unread and not invocation().as_json:
            lines = counted(receipt.unread, "line")
            note(f"{lines} of hooks could not be recorded; see treering doctor")
        for refusal in receipt.refused:
            self._fail(refusal.path, refusal.error)

    def _note(self, decision: PermissionDecision) -> None:
        from treering.capture.hooks.spool import note_decision  # noqa: PLC0415

        note_decision(self._ledger.with_masking(), decision, scope=self._scope)

    def _report(self, done: Round) -> None:
        if done.error is not None:
            if done.is_final:
                self._fail(str(done.paths[0]), done.error)
            elif not invocation().as_json:
                note(f"{done.error}; trying again")
            return
        self.summary.refused += done.receipt.files_refused
        for source in done.receipt.sources:
            if source.events or source.errors:
                self._tell(source)

    def _tell(self, source: SourceReceipt) -> None:
        self.summary.imports += 1
        self.summary.events += source.events
        self.summary.errors += source.errors
        self._sessions.update(source.sessions)
        with writing_output():
            if invocation().as_json:
                body = {"file": source.file, "agent": source.format, "sessions": source.sessions}
                numbers = {"events": source.events, "lines": source.lines, "errors": source.errors}
                print_receipt(f"{self._kind}.import", {**body, **numbers})
                return
            errors = f", {counted(source.errors, 'line')} in error" if source.errors else ""
            session = (
                source.sessions[-1][:_ID_CHARACTERS] if source.sessions else Path(source.file).name
            )
            more = f" and {len(source.sessions) - 1} more" if len(source.sessions) > 1 else ""
            at = clock(now_ms())[11:]
            say(f"{at} {source.format} {session}{more} +{counted(source.events, 'event')}{errors}")

    def _fail(self, path: str, error: str) -> None:
        self.summary.failures += 1
        if not invocation().as_json:
            note(f"{path} was left out: {error}")


def _places(paths: Sequence[Path], home: Path | None) -> Callable[[], Sequence[Followed]]:
    """Return how to find what is followed: what was named, else wherever agents keep logs."""
    if paths:
        fixed = [_Named(path.expanduser().absolute()) for path in paths]
        return lambda: fixed
    return partial(log_folders, home)


class _EndAsked(Exception):
    """Leaves a round in the middle."""


class MemoryThread:
    """Runs rounds in the background until it is asked to end.

    ``work`` does what is due; it calls its argument between steps, which may end it there. An error
    is reported, and the next round tries again.
    """

    def __init__(
        self,
        work: Callable[[Callable[[int], None]], None],
        *,
        first_s: float = FIRST_S,
        every_s: float = EVERY_S,
    ) -> None:
        self._work = work
        self._pauses = (first_s, every_s)
        self._ended = Event()
        # A daemon: it never keeps the process alive.
        self._thread = Thread(target=self._run, name="treering-memory", daemon=True)

    def __enter__(self) -> None:
        """Start it."""
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        """End it, after the step it is at."""
        self._ended.set()
        self._thread.join(END_S_MAX)

    def _run(self) -> None:
        pause_s, every_s = self._pauses
        with contextlib.suppress(_EndAsked):
            while not self._ended.wait(pause_s):
                try:
                    self._work(self._step)
                except TreeringError as error:
                    if self._ended.is_set():
                        return
                    note(f"the memory was not brought up to date: {error}")
                pause_s = every_s

    def _step(self, _: int) -> None:
        if self._ended.is_set():
            raise _EndAsked
