"""What ``make bench`` measures."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "benchmarks"


def test_everything_that_can_be_measured_is() -> None:
    subjects = re.findall(
        r'"(\w+)"', (FOLDER / "run.py").read_text().split("SUBJECTS")[1].split(")")[0]
    )
    measured = {
        path.stem for path in FOLDER.glob("*.py") if "\ndef run(effort: Effort," in path.read_text()
    }

    assert sorted(subjects) == sorted(measured)
