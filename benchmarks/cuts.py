"""Power cuts: what a ledger has lost or broken when the machine stops at any moment."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from report import Row, Section
from workload import Effort

_READING: Final = (
    "Lost: an acknowledged event is gone. Broken: the ledger does not open or its chain does not"
    " hold, half of a batch is there, or an erased byte; in one that does not open, nothing can"
    " be counted as lost."
)


def run(effort: Effort, folder: Path) -> Section:  # noqa: ARG001  (cuts happen in memory)
    """Cut the power of every workload so many times."""
    import powercuts

    found: Mapping[str, Any] = powercuts.run(effort.cuts)
    if "lost" in found:
        found = {"all workloads": found}
    return Section(
        title="Power cuts, simulated",
        rows=[_row(name, outcome, effort.cuts) for name, outcome in found.items()],
        notes=[_READING],
    )


def _row(workload: str, outcome: Mapping[str, Any], cuts: int) -> Row:
    lost, broken = outcome["lost"], outcome["broken"]
    return Row(
        what=f"{workload}, {outcome.get('cuts', cuts):,} cuts",
        measured=f"{lost} lost, {broken} broken",
        target="0 lost, 0 broken",
        met=not lost and not broken,
    )
