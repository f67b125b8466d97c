"""Power cuts: what a ledger has lost or broken when the machine stops at any moment."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from report import Row, Section
from workload import Effort


def run(effort: Effort, folder: Path) -> Section:  # noqa: ARG001  (cuts happen in memory)
    """Cut the power of every workload so many times."""
    import powercuts

    found: Mapping[str, Any] = powercuts.run(effort.cuts)
    if "lost" in found:
        found = {"all workloads": found}
    return Section(
        title="Power cuts, simulated",
        rows=[_row(name, outcome, effort.cuts) for name, outcome in found.items()],
        notes=["Lost: an event that was acknowledged is gone. Broken: the file or chain is."],
    )


def _row(workload: str, outcome: Mapping[str, Any], cuts: int) -> Row:
    lost, broken = outcome["lost"], outcome["broken"]
    return Row(
        what=f"{workload}, {outcome.get('cuts', cuts):,} cuts",
        measured=f"{lost} lost, {broken} broken",
        target="0 lost, 0 broken",
        met=not lost and not broken,
    )
