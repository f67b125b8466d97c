"""Promise 11: whatever a public call is given, its error is Treering's own."""

from __future__ import annotations

import inspect
import io
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from builders import HERE
from treering import InvalidInput, TreeringError
from treering.ledger.admin import LedgerAdmin
from treering.ledger.import_access import Bookmarks, ImportAccess
from treering.ledger.keyed_records import KeyedRecords
from treering.ledger.keys import LedgerKeys
from treering.memory.identity import UserIdentities
from treering.model.arguments import annotations_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FEW: Final = [None, 5, 10**5_000, b"x", ["x"], object()]
MANY: Final = [
    *FEW, -1, 0, True, 2**70, float("nan"), "x", "", "\ud800", "x" * 100_000, [], [None], (), {},
    {1: 2}, {"x"}, Exception("x"), io.StringIO(),
]  # fmt: skip
FITTING: Final[dict[str, Any]] = {
    "scope": HERE, "session_id": "s1", "agent": "lyria", "text": "hello", "event_id": "e1",
    "kind": "ops.observation", "summary": "seen", "name": "look", "call_id": "c1", "title": "t",
    "channel": "telegram", "user": "u1", "query": "hello", "reason": "timeout", "error": "x",
}  # fmt: skip
UNTRIED: Final = {
    ("Ledger", "close"),
    ("Session", "close"),
    # They are for our own importers, whose notes are JSON.
    ("Ledger.importing.bookmarks", "keep"),
    # Whoever waits for so long waits.
    ("Session", "take"),
}
CLASSES: Final[dict[str, type]] = {
    "Ledger": treering.Ledger,
    "Ledger.admin": LedgerAdmin,
    "Ledger.importing": ImportAccess,
    "Ledger.importing.bookmarks": Bookmarks,
    "Ledger.keys": LedgerKeys,
    "Ledger.records": KeyedRecords,
    "Session": treering.Session,
    "Run": treering.Run,
    "ToolCall": treering.ToolCall,
    "Memory": treering.Memory,
    "Memory.users": UserIdentities,
    "Spine": treering.Spine,
}
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "administer": treering.administer,
    "exact_counter": treering.context.exact_counter,
    "import_logs": treering.import_logs,
    "open": treering.open,
    "record": treering.record,
    "tool": treering.tool,
}

SINKS: Final = [
    name
    for name in treering.sinks.__all__
    if name.endswith("Sink")
    and "__init__" in vars(getattr(treering.sinks, name))
    and not getattr(getattr(treering.sinks, name), "_is_protocol", False)
]


def _methods(name: str) -> list[str]:
    """Return the public methods of a class: new ones are tried as well."""
    kind = CLASSES[name]
    return [
        method
        for method in dir(kind)
        if not method.startswith("_") and inspect.isfunction(inspect.getattr_static(kind, method))
    ]


METHODS: Final = [
    (name, method) for name in CLASSES for method in _methods(name) if (name, method) not in UNTRIED
]


class Stage:
    """One of everything that has public methods, fresh."""

    def __init__(self) -> None:
        self._ledger = treering.open(":memory:")
        session = self._ledger.session("s1", scope=HERE, agent="lyria")
        run = session.turn()
        run.start()
        run.user("hello")
        self.objects: dict[str, Any] = {
            "Ledger": self._ledger,
            "Ledger.admin": self._ledger.admin,
            "Ledger.importing": self._ledger.importing,
            "Ledger.importing.bookmarks": self._ledger.importing.bookmarks(HERE),
            "Ledger.keys": self._ledger.keys,
            "Ledger.records": self._ledger.records(HERE, "settings"),
            "Session": session,
            "Run": run,
            "ToolCall": run.tools.started("look", {"a": 1}),
            "Memory": self._ledger.memory(HERE),
            "Memory.users": self._ledger.memory(HERE).users,
            "Spine": self._ledger.spine(),
        }

    def close(self) -> None:
        self._ledger.close()


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.close()


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return what ``function`` takes, with each keyword of its ``**options: Unpack[Options]``."""
    declared = inspect.signature(function).parameters
    named = [
        parameter
        for parameter in declared.values()
        if parameter.kind in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}
    ]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in annotations_of(function).items()
        if name not in declared
    ]
    return named + options


def _others(function: Callable[..., Any], tried: str) -> dict[str, Any]:
    """Return fitting arguments for all parameters that need one, but for the one that is tried."""
    given = {
        other.name: FITTING.get(other.name, io.BytesIO() if other.name == "stream" else "x")
        for other in _parameters(function)
        if other.default is other.empty and other.name != tried
    }
    if function.__name__ in {"follow", "follow_events"} and tried != "idle_s":
        given |= {"idle_s": 0.01} if "idle_s" in str(inspect.signature(function)) else {}
    return given


def _try(function: Callable[..., Any], values: list[Any]) -> list[str]:
    """Return what was raised that is not Treering's own, for each parameter and value."""
    found = []
    for parameter in _parameters(function):
        for value in values:
            stated = {**_others(function, parameter.name), parameter.name: value}
            try:
                answer = function(**stated)
                if inspect.isgenerator(answer):
                    next(answer, None)
            except TreeringError:
                continue
            except Exception as error:  # noqa: BLE001  (whatever it is, it is wrong)
                shown = "a number" if isinstance(value, int) else f"{value!r:.40}"
                found.append(f"{parameter.name}={shown}: {type(error).__name__}: {error}")
    return found


@pytest.mark.parametrize(("name", "method"), METHODS)
def test_a_method_says_which_argument_is_wrong(stage: Stage, name: str, method: str) -> None:
    assert _try(getattr(stage.objects[name], method), FEW) == []


@pytest.mark.long
@pytest.mark.parametrize(("name", "method"), METHODS)
def test_a_method_says_which_argument_is_wrong_whatever_it_is(
    stage: Stage, name: str, method: str
) -> None:
    assert _try(getattr(stage.objects[name], method), MANY) == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_says_which_argument_is_wrong(
    name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert _try(FUNCTIONS[name], FEW) == []


@pytest.mark.parametrize("name", SINKS)
def test_a_sink_says_which_argument_is_wrong(
    name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert _try(getattr(treering.sinks, name), FEW) == []


def test_every_public_function_is_tried() -> None:
    rooms = (treering, treering.context, treering.memory, treering.receipts, treering.sinks)
    functions = {
        name
        for room in (*rooms, treering.views)
        for name in room.__all__
        if inspect.isfunction(getattr(room, name))
    }

    assert functions == set(FUNCTIONS)


def test_the_error_names_the_argument_and_says_what_it_takes() -> None:
    with treering.open(":memory:") as ledger:
        with pytest.raises(InvalidInput, match="first cannot be 'x'") as refused:
            ledger.headers(HERE, first="x")  # type: ignore[arg-type]
        assert "int" in str(refused.value.hint)
        with pytest.raises(InvalidInput, match="event"):
            ledger.append_new(None)  # type: ignore[arg-type]


def test_a_wrong_number_of_arguments_is_pythons_own_error() -> None:
    with treering.open(":memory:") as ledger:
        with pytest.raises(TypeError, match="scope"):
            ledger.session("s1", agent="lyria")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="unexpected"):
            ledger.headers(HERE, nonsense=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("location", [":memory:", "http://127.0.0.1:9"])
def test_an_option_that_nothing_takes_is_refused_instead_of_left_out(location: str) -> None:
    options: Any = {"read_only": True}

    with pytest.raises(TypeError, match=r"unexpected keyword argument .read_only"):
        treering.open(location, **options)


def test_what_a_callers_own_function_raises_is_left_as_it_is() -> None:
    def count(text: str) -> int:
        raise TypeError("mine")

    with treering.open(":memory:") as ledger:
        session = ledger.session("s1", scope=HERE, agent="lyria")
        with session.turn() as turn:
            turn.user("hello")
        with pytest.raises(TypeError, match="mine"):
            session.context(100, count=count)
