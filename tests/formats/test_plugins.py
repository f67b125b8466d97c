"""Readers in other packages: found by their entry points, and harmless if they fail."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from effort import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE: Final = Path(__file__).parents[2] / "docs" / "how-to/add-a-reader.md"


def example() -> str:
    """Return the plug-in that the docs show."""
    return next(block for block in blocks("python") if "FORMAT = Format(" in block)


def log() -> str:
    """Return the log that the docs show."""
    return blocks("json")[0]


def blocks(language: str) -> list[str]:
    page = PAGE.read_text(encoding="utf-8")
    return [found[1] for found in re.finditer(rf"```{language}\n(.*?)```", page, re.DOTALL)]


def install(site: Path, name: str, source: str, entry: str) -> None:
    """Install a package of one module, as pip does."""
    about = site / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[treering.readers]\n{name} = {entry}\n")
    (site / f"{name}.py").write_text(source)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    path = folder / ".acme" / "sessions" / "s-1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(log())
    return folder


def treering(home: Path, site: Path, *arguments: str) -> tuple[int, Mapping[str, Any]]:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TREERING")},
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "PYTHONPATH": str(site),
    }
    done = subprocess.run(
        [sys.executable, "-m", "treering", *arguments, "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    return done.returncode, json.loads(done.stdout)


def test_the_example_of_the_docs_is_sixty_lines_and_is_found_where_its_agent_keeps_logs(
    home: Path, tmp_path: Path
) -> None:
    source = example()
    install(tmp_path / "site", "acme_treering", source, "acme_treering:FORMAT")

    status, receipt = treering(home, tmp_path / "site", "import")

    assert len([line for line in source.splitlines() if line.strip()]) <= 60
    assert (status, receipt["by_format"], receipt["by_scope"]) == (0, {"acme": 1}, {"app": 5})
    assert (receipt["lines"], receipt["imported"], receipt["errors"]) == (5, 4, 0)


def test_a_plug_in_that_cannot_be_used_is_named_by_doctor_and_breaks_no_import(
    home: Path, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    install(site, "acme_treering", example(), "acme_treering:FORMAT")
    taken = "from treering.importing import Format; FORMAT = Format(name='pi', score=len)"
    broken = {
        "raising": ("raise OSError('out of paper')", "out of paper"),
        "empty": ("", "no attribute"),
        "number": ("FORMAT = 7", "not a treering.importing.Format"),
        "taken": (taken, "another reader with the name pi"),
    }
    for name, (source, _) in broken.items():
        install(site, name, source, f"{name}:FORMAT")

    status, receipt = treering(home, site, "import")
    _, findings = treering(home, site, "doctor", "--quick")

    assert (status, receipt["by_format"]) == (0, {"acme": 1})
    failed = [finding for finding in findings["findings"] if finding["code"] == "reader_failed"]
    assert [finding["level"] for finding in failed] == ["warning"] * len(broken)
    for name, (_, reason) in broken.items():
        (message,) = (
            finding["message"] for finding in failed if f"{name}:{name}" in finding["message"]
        )
        assert reason in message


def test_a_plug_in_that_raises_costs_its_own_files_alone(home: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, "acme_treering", example(), "acme_treering:FORMAT")
    hostile = (
        "from treering.importing import Format\n"
        "def fail(*_): raise RuntimeError('always')\n"
        "FORMAT = Format(name='hostile', reader=fail, score=fail, left_out=fail, claims=fail,"
        " family=('acme',))\n"
    )
    install(site, "hostile", hostile, "hostile:FORMAT")

    status, receipt = treering(home, site, "import")

    assert (status, receipt["by_format"], receipt["errors"]) == (0, {"acme": 1}, 0)
