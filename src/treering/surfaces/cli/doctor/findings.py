"""Findings: one thing that was checked, its state, and what to do about it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec

from treering.errors import TreeringError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from treering.surfaces.cli.masking import Mask

Level = Literal["ok", "warning", "error"]
LEVELS: Final[tuple[Level, ...]] = get_args(Level)
ITEMS_MAX: Final = 5
"""How many of the same sort are listed."""


class DoctorFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What was found."""

    level: Level
    code: str
    """For programs; one code may be found several times, as for several agents."""
    message: str
    fix: str | None = None
    """A command to run, or a setting to change."""
    items: list[str] = []
    """Some of the things that it is about."""


def safely(
    what: str, check: Callable[[], Iterable[DoctorFinding]], *, level: Level = "error"
) -> Iterator[DoctorFinding]:
    """Yield the findings of a check; a check that fails is a finding of ``level``."""
    findings: list[DoctorFinding] = []
    try:
        findings.extend(check())
    except TreeringError as error:
        findings.append(
            DoctorFinding(
                level=level,
                code=error.code,
                message=f"{what}: {error}",
                fix=error.hint,
            )
        )
    except OSError as error:
        findings.append(
            DoctorFinding(
                level="warning",
                code="unreadable",
                message=f"{what}: {error.strerror or error}",
                fix="check the permissions",
            )
        )
    yield from findings


def masked(finding: DoctorFinding, mask: Mask) -> DoctorFinding:
    """Return a finding with secrets in it masked."""
    return msgspec.structs.replace(
        finding,
        message=mask.text(finding.message) or "",
        fix=mask.text(finding.fix),
        items=[mask.text(item) or "" for item in finding.items],
    )


def counts(findings: Iterable[DoctorFinding]) -> dict[str, int]:
    """Return how many findings there are of each level."""
    number = dict.fromkeys(LEVELS, 0)
    for finding in findings:
        number[finding.level] += 1
    return {str(level): count for level, count in number.items()}


def some(items: Iterable[str], *, of: int) -> list[str]:
    """Return the first few of ``items``, and how many more there are."""
    shown: list[str] = []
    with contextlib.suppress(StopIteration):
        iterator = iter(items)
        while len(shown) < ITEMS_MAX:
            shown.append(next(iterator))
    left = of - len(shown)
    return [*shown, f"… and {left:,} more"] if left > 0 else shown
