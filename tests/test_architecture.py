"""The layers are what ARCHITECTURE.md says, and imports point down."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "src" / "treering"
MODULES: Final = sorted(SOURCE.rglob("*.py"))
IMPURE: Final = frozenset(
    {
        *("os", "io", "pathlib", "shutil", "tempfile", "subprocess", "socket"),
        *("time", "datetime", "random", "secrets", "uuid", "uuid_utils"),
        *("threading", "asyncio", "multiprocessing"),
    }
)
"""Modules by which a value would depend on a disk, a clock, dice or another thread."""
EMPTY_WORDS: Final = frozenset({"data", "info", "manager", "util", "utils"})
"""Words that say nothing about what they name."""


def test_imports_point_down() -> None:
    linter = Path(sys.executable).with_name("lint-imports")

    done = subprocess.run(
        [linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", sorted(SOURCE.glob("model/*.py")), ids=lambda path: path.name)
def test_the_model_has_no_clock_no_dice_and_no_disk(path: Path) -> None:
    assert IMPURE.isdisjoint(name.partition(".")[0] for name in imports(path))


@pytest.mark.parametrize("path", sorted(SOURCE.glob("model/*.py")), ids=lambda path: path.name)
def test_the_model_opens_and_prints_nothing(path: Path) -> None:
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }

    assert calls.isdisjoint({"open", "print", "input"})


def imports(path: Path) -> Iterator[str]:
    """Give the modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_the_layers_are_the_ones_that_the_architecture_shows() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    drawn = page.partition("## Layers")[2].partition("```text\n")[2].partition("```")[0]

    assert [re.split(r" {2,}", line)[0] for line in drawn.splitlines()] == layers()


def layers() -> list[str]:
    """Return the layers that import-linter is told, the highest first."""
    settings: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = settings["tool"]["importlinter"]["contracts"][0]
    named: list[str] = contract["layers"]
    return named


def test_every_module_says_what_it_is_for() -> None:
    assert [path for path in MODULES if not outlines()[path].says_what_it_is_for] == []


class Outline(NamedTuple):
    """What tests look at in a module."""

    says_what_it_is_for: bool
    functions: list[str]
    classes: list[str]


@cache
def outlines() -> dict[Path, Outline]:
    """Read all modules, once."""
    made = {}
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions, classes = [], []
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes.append(node.name)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.append(node.name)
        made[path] = Outline(bool(ast.get_docstring(tree)), functions, classes)
    return made


def test_no_name_says_nothing() -> None:
    named = {
        f"{path.relative_to(SOURCE)}: {name}"
        for path, outline in outlines().items()
        for name in (*outline.functions, *outline.classes)
        if not EMPTY_WORDS.isdisjoint(words(name))
    }
    files = {path for path in MODULES if not EMPTY_WORDS.isdisjoint(words(path.stem))}

    assert (named, files) == (set(), set())


def words(name: str) -> list[str]:
    """Return the words that a name is made of."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def test_the_lock_of_a_memory_is_taken_with_its_guard() -> None:
    taken = [
        (path.name, match[0])
        for path in sorted(SOURCE.rglob("*memory*/**/*.py")) + sorted(SOURCE.glob("ledger/*.py"))
        for match in re.finditer(r"with .*(?:scope_memory|held)\.lock\b.*:", path.read_text())
    ]

    assert taken
    assert [one for one in taken if ".lock.guard, " not in one[1]] == []


def test_a_class_name_has_one_meaning() -> None:
    """Twins in the two database folders do the same for their database, and share a name."""
    homes: dict[str, set[str]] = {}
    for path, outline in outlines().items():
        home = re.sub("storage/(sqlite|postgres)/", "storage/*/", str(path.relative_to(SOURCE)))
        for name in outline.classes:
            homes.setdefault(name, set()).add(home)

    assert homes
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}
