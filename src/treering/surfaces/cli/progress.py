"""Progress, on standard error and only when a person is looking."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import click

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar

Advance: TypeAlias = Callable[[int], None] | None
"""Takes how much more was done; None without a terminal."""
Fill: TypeAlias = Callable[[int, int], None] | None
"""Takes how much is done, and of how much; None without a terminal."""


@contextlib.contextmanager
def counting(verb: str, noun: str) -> Iterator[Advance]:
    """Count up on one line, for work whose end is not known."""
    if not sys.stderr.isatty():
        yield None
        return
    total = 0

    def advance(by: int) -> None:
        nonlocal total
        total += by
        _draw(f"\r{verb} {total:,} {noun}")

    try:
        yield advance
    finally:
        _draw("\r\033[K")


@contextlib.contextmanager
def measuring(verb: str, length: int) -> Iterator[Advance]:
    """Show how much of ``length`` is done."""
    if not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=length, label=verb, file=sys.stderr) as bar:
        yield bar.update


@contextlib.contextmanager
def filling(verb: str, *, then: str) -> Iterator[Fill]:
    """Show how much is done of a whole that is known when the work begins, and what comes then."""
    if not sys.stderr.isatty():
        yield None
        return
    with contextlib.ExitStack() as stack:
        bar: ProgressBar[int] | None = None

        def place(_: int | None) -> str | None:
            return f"{bar.pos:,}/{bar.length:,}" if bar is not None else None

        def advance(done: int, total: int) -> None:
            nonlocal bar
            if bar is None:
                stack.close()  # There was more to come.
                bar = click.progressbar(
                    length=total, label=verb, item_show_func=place, file=sys.stderr
                )
                stack.enter_context(bar)
            bar.length = total
            bar.update(done - bar.pos)
            if done >= total:
                stack.close()
                bar = None
                stack.enter_context(_lasting(then))

        yield advance


@contextlib.contextmanager
def transferring(verb: str) -> Iterator[Fill]:
    """Show how many bytes are done of how many, how fast, and how long it will take still."""
    if not sys.stderr.isatty():
        yield None
        return
    # Its import takes longer than most commands do.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(),
        TransferSpeedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(verb, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


@contextlib.contextmanager
def _lasting(verb: str) -> Iterator[None]:
    """Count the seconds on one line, for work that does not tell how far it is."""
    began, ended = time.monotonic(), threading.Event()

    def count() -> None:
        while not ended.wait(1):
            _draw(f"\r{verb}, {time.monotonic() - began:.0f} s")

    _draw(f"\r{verb}")
    clock = threading.Thread(target=count, daemon=True)
    clock.start()
    try:
        yield
    finally:
        ended.set()
        clock.join(1)
        _draw("\r\033[K")


def _draw(text: str) -> None:
    # A closed terminal must not stop the work, nor hide why it stops.
    with contextlib.suppress(OSError):
        click.echo(text, nl=False, err=True)
