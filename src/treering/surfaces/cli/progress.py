"""Progress, on standard error and only when a person is looking."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

Advance: TypeAlias = Callable[[int], None] | None
"""Told how much more was done; None when nobody is looking."""


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


def _draw(text: str) -> None:
    # A terminal that is gone is no reason to stop, nor to forget why we stop.
    with contextlib.suppress(OSError):
        click.echo(text, nl=False, err=True)
