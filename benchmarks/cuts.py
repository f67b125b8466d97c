"""Power cuts: what a ledger has lost or broken when the machine stops at any moment."""

from pathlib import Path

from report import Row, Section
from workload import Effort


def run(effort: Effort, folder: Path) -> Section:  # noqa: ARG001  (cuts happen in memory)
    """Cut the power of every workload so many times."""
    import powercuts

    found = powercuts.run(effort.cuts)
    return Section(
        title="Power cuts, simulated",
        rows=[Row(what=name, measured=str(value)) for name, value in found.items()],
    )
