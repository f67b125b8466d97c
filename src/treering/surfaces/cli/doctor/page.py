"""Findings, as people read them: what is wrong first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.surfaces.cli.doctor.findings import LEVELS, counts
from treering.surfaces.cli.output import counted, one_line, painted, say, say_painted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.surfaces.cli.doctor.findings import DoctorFinding

_COLOURS: Final = {"ok": "green", "warning": "yellow", "error": "red"}
_MARGIN: Final = max(map(len, LEVELS)) + 2


def print_findings(findings: Sequence[DoctorFinding]) -> None:
    """Print findings and their remedies, the worst first, and how many there are."""
    for finding in sorted(findings, key=lambda one: -LEVELS.index(one.level)):
        level = painted(f"{finding.level:<{_MARGIN}}", _COLOURS[finding.level])
        say_painted(f"{level}{one_line(finding.message)}")
        indent = " " * _MARGIN
        for item in finding.items:
            say_painted(painted(f"{indent}  {one_line(item)}", dim=True))
        if finding.fix:
            say_painted(f"{indent}→ {one_line(finding.fix)}")
    number = counts(findings)
    if number["error"] or number["warning"]:
        parts = (counted(number["error"], "error"), counted(number["warning"], "warning"))
        say(f"{' and '.join(parts)}; {number['ok']} fine")
    else:
        say(f"all is well: {counted(number['ok'], 'thing')} looked at")
