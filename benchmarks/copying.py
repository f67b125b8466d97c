"""Copying: the memory that exporting, importing and copying a large ledger takes.

Run as ``copying.py export LEDGER FILE``, ``copying.py import FILE LEDGER`` or ``copying.py copy
LEDGER LEDGER``, it does one of them and prints what it took as JSON.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import treering
from large import large_ledger
from report import Row, Section, at_most
from workload import SCOPE, Effort

MEGABYTES_MAX: Final = 150


def run(effort: Effort, folder: Path) -> Section:
    """Export the large ledger and import it again; then copy it."""
    ledger = large_ledger(folder.parent, effort.large)
    file, copy = folder / "export.jsonl", folder / "copy.db"
    rows = []
    for verb, source, target in (
        ("export", ledger, file),
        ("import", file, copy),
        ("copy", ledger, folder / "second.db"),
    ):
        outcome = measured(verb, source, target)
        if outcome["events"] != effort.large:
            raise AssertionError(f"{verb} took {outcome['events']} events, not {effort.large}")
        peak = outcome["peak_mb"]
        what = f"{verb} of {effort.large:,} events"
        rows += [
            at_most(f"{what}, peak memory", peak, MEGABYTES_MAX, f"{peak:.0f} MB", unit="MB"),
            Row(
                what=f"{what}, speed",
                measured=f"{outcome['events'] / outcome['seconds']:,.0f} events/s",
            ),
        ]
    return Section(
        title="Copying",
        rows=rows,
        notes=["The high-water mark of a process of its own, interpreter included."],
    )


def measured(verb: str, source: Path, target: Path) -> dict[str, Any]:
    """Do one of them in a process of its own; return its events, seconds and peak memory."""
    finished = subprocess.run(
        [sys.executable, __file__, verb, str(source), str(target)],
        stdout=subprocess.PIPE,
        check=True,
    )
    outcome: dict[str, Any] = json.loads(finished.stdout)
    return outcome


def _export(ledger_path: str, file: str) -> int:
    with treering.open(ledger_path, guard="off") as ledger, Path(file).open("wb") as stream:
        return ledger.admin.export(SCOPE, stream, payloads="included").events


def _import(file: str, ledger_path: str) -> int:
    with (
        treering.open(ledger_path, durability="normal", guard="off") as ledger,
        Path(file).open("rb") as stream,
    ):
        receipt = ledger.admin.restore(stream)
    if not receipt.complete:
        raise AssertionError(f"the import is not complete: {receipt}")
    return receipt.imported


def _copy(source: str, target: str) -> int:
    with (
        treering.open(source, guard="off") as ledger,
        treering.open(target, durability="normal", guard="off") as other,
    ):
        receipt = ledger.admin.copy_to(other)
    if not (receipt.complete and receipt.intact):
        raise AssertionError(f"the copy is not complete: {receipt}")
    return receipt.copied


def peak_mb() -> float:
    """Return the most memory that this process has had."""
    # Linux counts the parent's peak into a child's ru_maxrss; VmHWM starts afresh with the program.
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1_024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    verb, source, target = sys.argv[1:]
    started = time.perf_counter()
    events = {"export": _export, "import": _import, "copy": _copy}[verb](source, target)
    seconds = time.perf_counter() - started
    print(json.dumps({"events": events, "seconds": seconds, "peak_mb": peak_mb()}))


if __name__ == "__main__":
    main()
