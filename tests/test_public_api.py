"""What is public is documented, and what is documented is public."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import treering
from children import run_python
from treering import Ledger, Memory, Run, Session, ToolCall, TreeringError
from treering.errors import Disabled
from treering.ledger.admin import LedgerAdmin
from treering.ledger.import_access import ImportAccess
from treering.ledger.keys import LedgerKeys
from treering.memory.identity import UserIdentities
from treering.version import __version__

if TYPE_CHECKING:
    from types import ModuleType

PAGE: Final = (Path(__file__).parents[1] / "docs" / "reference/python.md").read_text()
NAMES: Final = list(treering.__all__)
ROOMS: Final = (
    treering.aio,
    treering.context,
    treering.importing,
    treering.memory,
    treering.receipts,
    treering.sinks,
    treering.views,
)
IN_ROOMS: Final = [(room, name) for room in ROOMS for name in room.__all__]
SINKS: Final = {name for name in treering.sinks.__all__ if "ook" in name or name.endswith("Sink")}
"""Sinks and hooks that have pages of their own."""
SUBJECTS: Final = {
    "ledger": Ledger,
    "ledger.keys": LedgerKeys,
    "ledger.admin": LedgerAdmin,
    "ledger.importing": ImportAccess,
    "session": Session,
    "turn": Run,
    "call": ToolCall,
    "memory": Memory,
    "memory.users": UserIdentities,
}
"""What the docs call a value of each class."""
NOT_FOR_CALLERS: Final = {Disabled}
"""Errors of the command line alone."""


def errors(parent: type[TreeringError] = TreeringError) -> list[type[TreeringError]]:
    """Return every error below ``parent``."""
    children = parent.__subclasses__()
    return children + [error for child in children for error in errors(child)]


def test_the_public_names_are_sorted_and_unique_and_few_are_at_the_top() -> None:
    assert sorted(set(NAMES)) == NAMES
    assert len(NAMES) <= 30
    for room in ROOMS:
        assert sorted(set(room.__all__)) == room.__all__
    assert len({name for _, name in IN_ROOMS}) == len(IN_ROOMS)
    # The same in coroutines has the same name.
    assert {name for _, name in IN_ROOMS} & set(NAMES) == {"open"}


@pytest.mark.parametrize(("room", "name"), IN_ROOMS, ids=[name for _, name in IN_ROOMS])
def test_every_name_in_a_room_can_be_imported_and_is_in_the_docs(
    room: ModuleType, name: str
) -> None:
    assert inspect.getdoc(getattr(room, name))
    assert name in SINKS or f"`{room.__name__}.{name}`" in PAGE


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_can_be_imported_and_says_what_it_is(name: str) -> None:
    value = getattr(treering, name)

    assert isinstance(value, str) or inspect.getdoc(value)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_in_the_docs(name: str) -> None:
    assert re.search(rf"`(treering\.)?{re.escape(name)}\b|\btreering\.{re.escape(name)}\b", PAGE)


def test_what_the_docs_call_public_is_public() -> None:
    named = set(re.findall(r"\btreering\.(\w+)", PAGE)) - {"example"}

    assert {name for name in named if name not in dir(treering)} == set()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Recollection'"):
        _ = treering.Recollection  # type: ignore[attr-defined]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_public_method_is_in_the_docs_and_says_what_it_does(subject: str) -> None:
    methods = {
        name: method
        for name, method in inspect.getmembers(SUBJECTS[subject], callable)
        if not name.startswith("_")
    }

    undocumented = [name for name in methods if not _is_mentioned(subject, name)]

    assert undocumented == []
    assert [name for name, method in methods.items() if not inspect.getdoc(method)] == []


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_method_that_the_docs_name_is_there(subject: str) -> None:
    named = set(re.findall(rf"`{re.escape(subject)}\.(\w+)\(", PAGE))

    assert {name for name in named if not hasattr(SUBJECTS[subject], name)} == set()


def _is_mentioned(subject: str, name: str) -> bool:
    return re.search(rf"`({re.escape(subject)}\.)?{name}\(", PAGE) is not None


@pytest.mark.parametrize(
    "error", sorted(set(errors()) - NOT_FOR_CALLERS, key=str), ids=lambda error: error.code
)
def test_every_error_is_public_and_has_its_row(error: type[TreeringError]) -> None:
    assert getattr(treering.errors, error.__name__) is error
    assert f"| `{error.__name__}` | `{error.code}` |" in PAGE


def test_every_code_is_that_of_one_error() -> None:
    codes = [error.code for error in errors()]

    assert sorted(codes) == sorted(set(codes))


def test_the_table_of_errors_has_no_row_too_many() -> None:
    table = PAGE.partition("\n### Errors\n")[2]
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| ", table, re.MULTILINE)

    assert set(rows) == {(error.__name__, error.code) for error in errors()} - {
        (error.__name__, error.code) for error in NOT_FOR_CALLERS
    }


def test_the_version_is_told() -> None:
    assert treering.__version__ == __version__


def test_importing_the_package_opens_no_database_and_loads_no_terminal() -> None:
    heavy = "{'apsw', 'asyncio', 'click', 'http', 'numpy', 'rich', 'starlette', 'uvicorn'}"
    script = f"import sys, treering; print(sorted({heavy} & sys.modules.keys()))"

    done = run_python(script)

    assert done.stdout.strip() == "[]"
