"""Findings, as people read them: what is wrong first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.surfaces.cli.doctor.findings import LEVELS, counts
from treering.surfaces.cli.output import counted, one_line, painted, say, say_painted
from treering.surfaces.cli.tables import say_folded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.surfaces.cli.doctor.findings import DoctorFinding

_COLOURS: Final = {"ok": "green", "warning": "yellow", "error": "red"}
_MARGIN: Final = max(map(len, LEVELS)) + 2


def print_findings(findings: Sequence[DoctorFinding]) -> None:
    """Print findings and their remedies, the worst first, and how many there are."""
    for finding in sorted(findings, key=lambda one: -LEVELS.index(one.level)):
        level = painted(f"{finding.level:<{_MARGIN}}", _COLOURS[finding.level])
        indent = " " * _MARGIN
        say_folded(one_line(finding.message), lead=level, indent=indent)
        for item in finding.items:
            say_painted(painted(f"{indent}  {one_line(item)}", dim=True))
        if finding.fix:
            # Not folded: most of it is commands, to be copied whole.
            say_painted(f"{indent}→ {one_line(finding.fix)}")
    number = counts(findings)
    if number["error"] or number["warning"]:
        parts = (counted(number["error"], "error"), counted(number["warning"], "warning"))
        say(f"{' and '.join(parts)}; {counted(number['ok'], 'check')} passed")
    else:
        say(f"{counted(number['ok'], 'check')} passed")
