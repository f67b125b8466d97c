"""Starting: what a short command costs, from the start of its process to its end."""

import os
import random
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from large import fill, large_ledger
from report import Row, Section, at_most
from workload import SCOPE, SEED, START_MS, Effort

SMALL: Final = 1_000
LIST_MAX: Final = 2.0
STATS_MS_MAX: Final = 50
_DAY_MS: Final = 86_400_000
_MODULES: Final = """
import sys, treering
treering.open(":memory:").close()
print(sum(name.partition(".")[0] == "treering" for name in sys.modules))
"""


def run(effort: Effort, folder: Path) -> Section:
    """Measure the processor time of commands on a small ledger and on a large one, in turns."""
    fill(folder / "small.db", SMALL)
    large = large_ledger(folder.parent, effort.large)
    nothing = ("--since", str(START_MS - 9 * _DAY_MS), "--until", str(START_MS - 8 * _DAY_MS))
    ways = {
        "bare": (sys.executable, "-c", "import apsw, msgspec, click"),
        "list": _command(folder / "small.db", "sessions", "list"),
        "few": _command(folder / "small.db", "stats", *nothing),
        "many": _command(large, "stats", *nothing),
    }
    ms = _in_turns(ways, effort.repeats * 2)
    beyond = ms["many"] - ms["few"]
    opened = _process((sys.executable, "-c", _MODULES), keep=True)
    return Section(
        title="Starting",
        rows=[
            at_most(
                "`treering sessions list` of ten sessions, CPU, against bare imports",
                ms["list"] / ms["bare"],
                LIST_MAX,
                f"{ms['list'] / ms['bare']:.2f} x ({ms['list']:.0f} : {ms['bare']:.0f} ms)",
            ),
            at_most(
                f"`treering stats` of a time when nothing was recorded, {effort.large:,} events,"
                f" CPU beyond that of {SMALL:,}",
                beyond,
                STATS_MS_MAX,
                f"{beyond:.0f} ms ({ms['many']:.0f} - {ms['few']:.0f} ms)",
                unit="ms",
            ),
            Row(what="own modules that `treering.open` loads", measured=opened[1].strip()),
        ],
        notes=["Bare is `import apsw, msgspec, click`. All have their bytecode."],
    )


def _command(ledger: Path, *words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "treering", *words, "--db", str(ledger), "--scope", SCOPE)


def _in_turns(ways: dict[str, tuple[str, ...]], rounds: int) -> dict[str, float]:
    """Return the median milliseconds of each command, after a first round that is not counted."""
    dice = random.Random(SEED)
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for at in range(rounds + 1):
        for name in dice.sample(list(ways), k=len(ways)):
            took, _ = _process(ways[name])
            if at:
                spent[name].append(took)
    return {name: statistics.median(took) for name, took in spent.items()}


def _process(command: Sequence[str], *, keep: bool = False) -> tuple[float, str]:
    """Return the processor milliseconds of a process, and what it printed if it is kept."""
    output = subprocess.PIPE if keep else subprocess.DEVNULL
    child = subprocess.Popen(
        command, stdout=output, text=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": ""}
    )
    printed = child.stdout.read() if child.stdout else ""
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise AssertionError(f"{command} ended with {child.returncode}")
    return (used.ru_utime + used.ru_stime) * 1e3, printed
