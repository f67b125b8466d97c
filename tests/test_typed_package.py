"""The package as its users have it: typed, complete at a glance, with hints in its tracebacks."""

from __future__ import annotations

import copy
import pickle
import traceback
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from importlib.resources import files
from multiprocessing import get_context
from typing import Any

import pytest

import treering
from children import run_python
from effort import PATIENCE_S
from treering import errors, sinks
from treering.errors import Conflict, InvalidInput, OutcomeUnknown, TreeringError

HINT = "give another one"


def every_error() -> list[TreeringError]:
    """Return one error of each class, with a hint."""
    more: dict[type, dict[str, Any]] = {
        Conflict: {"current_seq": 7},
        OutcomeUnknown: {"event_ids": ["e1"]},
    }
    return [
        value("no", hint=HINT, **more.get(value, {}))
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, TreeringError)
    ]


def refuse() -> None:
    """Raise, in a thread or a process of its own."""
    raise InvalidInput("no", hint=HINT)


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def test_the_package_says_that_it_is_typed() -> None:
    assert files("treering").joinpath("py.typed").is_file()


@pytest.mark.parametrize("module", [treering, sinks])
def test_the_public_names_are_listed_before_they_are_imported(module: object) -> None:
    name = getattr(module, "__name__", "")
    script = f"import sys, {name}; print(*dir({name})); print('apsw' in sys.modules)"

    done = run_python(script)

    names, loaded = done.stdout.splitlines()
    assert set(getattr(module, "__all__", ())) <= set(names.split())
    assert loaded == "False"


@pytest.mark.parametrize("error", every_error(), ids=lambda error: type(error).__name__)
def test_a_hint_is_in_the_traceback_once(error: TreeringError) -> None:
    assert shown(error).count(HINT) == 1
    assert HINT not in str(error)


def test_an_error_without_a_hint_has_no_note() -> None:
    assert not hasattr(TreeringError("no"), "__notes__")


@pytest.mark.parametrize("error", every_error(), ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("times", [1, 2])
def test_an_error_is_the_same_after_it_was_pickled(error: TreeringError, times: int) -> None:
    again = error
    for _ in range(times):
        again = pickle.loads(pickle.dumps(again))

    assert type(again) is type(error)
    assert again.args == error.args
    assert vars(again) == vars(error)
    assert shown(again).count(HINT) == 1


def test_a_copy_has_notes_of_its_own() -> None:
    error = InvalidInput("no", hint=HINT)

    copy.copy(error).add_note("a second note")

    assert "a second note" not in shown(error)


@pytest.mark.parametrize("where", ["thread", "process"])
def test_a_hint_is_told_once_by_an_error_from_elsewhere(where: str) -> None:
    executor: ThreadPoolExecutor | ProcessPoolExecutor = ThreadPoolExecutor(1)
    if where == "process":
        executor = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    with executor:
        error = executor.submit(refuse).exception(timeout=PATIENCE_S)

    assert isinstance(error, InvalidInput)
    assert error.hint == HINT
    assert [note for note in error.__notes__ if HINT in note] == [f"hint: {HINT}"]


@pytest.mark.parametrize(
    ("framework", "adapter"),
    [
        ("agents", "openai_agents"),
        ("agent_framework", "agent_framework"),
        ("claude_agent_sdk", "claude_agent_sdk"),
        ("google.adk", "adk"),
        ("langchain_core", "langchain"),
        ("langgraph", "langgraph"),
        ("pydantic_ai", "pydantic_ai"),
    ],
)
def test_without_its_framework_an_adapter_says_what_to_install(
    framework: str, adapter: str
) -> None:
    code = (
        f"import sys; sys.modules['{framework}'] = None\n"
        "from treering.errors import Unsupported\n"
        f"try: import treering.adapters.{adapter}\n"
        "except Unsupported as error: print(error.hint)"
    )

    done = run_python(code)

    assert done.stdout.strip() == f"pip install 'treering[{adapter.replace('_', '-')}]'"
