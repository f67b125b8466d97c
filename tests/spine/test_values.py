"""What a recorder is given is recorded, whatever it is; what was changed for that is marked."""

from __future__ import annotations

import base64
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import itertools
import pathlib
import types
import uuid
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs
import msgspec
import numpy as np
import pydantic
import pytest

import treering
from builders import HERE, said
from treering.model.codec import decode, encode
from treering.spine import conversion
from treering.spine.conversion import FORMS, MARKS_MAX, REPR_CHARACTERS_MAX, to_json, to_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering import Ledger, Session

WHEN = dt.datetime(2026, 3, 4, 5, 6, 7, tzinfo=dt.UTC)


@dataclasses.dataclass
class Order:
    """A value of its kind."""

    number: int
    when: dt.datetime


class Model(pydantic.BaseModel):
    """A value of its kind."""

    number: int
    when: dt.datetime
    token: pydantic.SecretStr = pydantic.SecretStr("hidden")


class Listing(pydantic.RootModel[list[int]]):
    """A model that is a list."""


@attrs.define
class Box:
    """A value of its kind."""

    inside: object


class Record(msgspec.Struct):
    """A value of its kind."""

    number: int


class Point(NamedTuple):
    """A value of its kind."""

    x: int
    y: int


class Colour(enum.Enum):
    """A value of its kind."""

    RED = (255, 0, 0)


class Level(enum.IntEnum):
    """A value of its kind."""

    HIGH = 3


class Mode(enum.StrEnum):
    """A value of its kind."""

    FAST = "fast"


class Mute:
    """It cannot say what it is."""

    def __repr__(self) -> str:
        raise ValueError("no")


class Broken(collections.UserDict[str, int]):
    """A mapping that cannot be read."""

    def items(self) -> Any:
        raise OSError("gone")


class Many(list[int]):
    """A list of another type."""


class Endless(Sequence[int]):
    """A list of three that never says that it is over."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: Any) -> Any:
        return _bounded(index)


class EndlessNames(Mapping[int, int]):
    """A mapping of one name that never says that it is over."""

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[int]:
        return map(_bounded, itertools.count())

    def __getitem__(self, name: int) -> int:
        return name


class EndlessSet(AbstractSet[int]):
    """A set of two that never says that it is over."""

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[int]:
        return map(_bounded, itertools.count())

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int)


def _bounded(number: int) -> int:
    assert number < 1_000, "it is read on and on"
    return number


def _loop() -> list[Any]:
    loop: list[Any] = [1]
    loop.append(loop)
    return loop


def _nested(levels: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(levels):
        inner = [inner]
    return inner


CASES: list[tuple[Any, Any, list[tuple[str, str, str]]]] = [
    ((1, 2), [1, 2], [("", "tuple", "list")]),
    (Point(1, 2), {"x": 1, "y": 2}, [("", "Point", "object")]),
    ({3, 1, 2}, [1, 2, 3], [("", "set", "list")]),
    (frozenset({"a"}), ["a"], [("", "frozenset", "list")]),
    (collections.deque([1]), [1], [("", "collections.deque", "list")]),
    (Many([1]), [1], [("", "Many", "list")]),
    ({"a": 1}.values(), [1], [("", "dict_values", "list")]),
    (WHEN, "2026-03-04T05:06:07+00:00", [("", "datetime.datetime", "iso")]),
    (WHEN.date(), "2026-03-04", [("", "datetime.date", "iso")]),
    (WHEN.time(), "05:06:07", [("", "datetime.time", "iso")]),
    (dt.timedelta(days=1, seconds=2), "P1DT2S", [("", "datetime.timedelta", "iso")]),
    (pathlib.PurePosixPath("/a/b"), "/a/b", [("", "pathlib.PurePosixPath", "text")]),
    (b"caf\xc3\xa9", "café", [("", "bytes", "utf-8")]),
    (b"\xff\x00", base64.b64encode(b"\xff\x00").decode(), [("", "bytes", "base64")]),
    (bytearray(b"x"), "x", [("", "bytearray", "utf-8")]),
    (memoryview(b"x"), "x", [("", "memoryview", "utf-8")]),
    (uuid.UUID(int=7), str(uuid.UUID(int=7)), [("", "uuid.UUID", "text")]),
    (decimal.Decimal("1.10"), "1.10", [("", "decimal.Decimal", "text")]),
    (fractions.Fraction(1, 3), "1/3", [("", "fractions.Fraction", "text")]),
    (1 + 2j, "(1+2j)", [("", "complex", "text")]),
    (float("nan"), "NaN", [("", "float", "text")]),
    ([float("-inf")], ["-Infinity"], [("/0", "float", "text")]),
    (2**100, 2**100, []),
    (10**5_000, hex(10**5_000), [("", "int", "text")]),
    (Colour.RED, [255, 0, 0], [("", "Colour", "value"), ("", "tuple", "list")]),
    (Level.HIGH, 3, [("", "Level", "value")]),
    (Mode.FAST, "fast", [("", "Mode", "value")]),
    (collections.UserString("fast"), "fast", [("", "collections.UserString", "value")]),
    (
        Order(1, WHEN),
        {"number": 1, "when": WHEN.isoformat()},
        [("", "Order", "object"), ("/when", "datetime.datetime", "iso")],
    ),
    (
        Model(number=1, when=WHEN),
        {"number": 1, "when": WHEN.isoformat(), "token": "SecretStr('**********')"},
        [
            ("", "Model", "object"),
            ("/when", "datetime.datetime", "iso"),
            ("/token", "pydantic.types.SecretStr", "repr"),
        ],
    ),
    (Listing([1]), {"root": [1]}, [("", "Listing", "object")]),
    (Box({1}), {"inside": [1]}, [("", "Box", "object"), ("/inside", "set", "list")]),
    (Record(2), {"number": 2}, [("", "Record", "object")]),
    (ValueError("bad"), {"class": "ValueError", "message": "bad"}, [("", "ValueError", "object")]),
    (types.MappingProxyType({"a": 1}), {"a": 1}, [("", "mappingproxy", "object")]),
    (collections.Counter("aa"), {"a": 2}, [("", "collections.Counter", "object")]),
    ({1: "a"}, {"1": "a"}, [("/1", "int", "key")]),
    ({1: "a", "1": "b"}, [[1, "a"], ["1", "b"]], [("", "dict", "pairs")]),
    ({"a/b~": {1}}, {"a/b~": [1]}, [("/a~1b~0", "set", "list")]),
    ("a\ud800", "a\\ud800", [("", "str", "escaped")]),
    ({"\udcff": 1}, {"\\udcff": 1}, [("/\\udcff", "str", "key")]),
    (range(10**12), "range(0, 1000000000000)", [("", "range", "repr")]),
    (int, "<class 'int'>", [("", "type", "repr")]),
    (Mute(), f"<{__name__}.Mute: its repr raised ValueError>", [("", "Mute", "repr")]),
    (_loop(), [1, "(cycle: /)"], [("/1", "list", "cycle")]),
    (np.float64(1.5), 1.5, [("", "numpy.float64", "value")]),
    (np.int32(4), 4, [("", "numpy.int32", "value")]),
    (np.array([[1], [2]]), [[1], [2]], [("", "numpy.ndarray", "list")]),
]


@pytest.fixture
def session() -> Iterator[Session]:
    with treering.open(":memory:") as ledger:
        yield ledger.session("s1", scope=HERE, agent="lyria")


def _of_tests(mark: dict[str, Any]) -> tuple[str, str, str]:
    return mark["at"], mark["type"].removeprefix(f"{__name__}."), mark["as"]


@pytest.mark.parametrize(("value", "expected", "marks"), CASES, ids=lambda value: str(type(value)))
def test_a_value_is_kept_faithfully_and_what_was_changed_is_marked(
    value: Any, expected: Any, marks: list[tuple[str, str, str]]
) -> None:
    found, made = to_json(value)

    assert found == expected
    assert [_of_tests(mark) for mark in made] == marks
    assert all(mark["as"] in FORMS for mark in made)


@pytest.mark.parametrize("value", [case[0] for case in CASES], ids=lambda value: str(type(value)))
def test_a_tool_that_succeeded_is_recorded_as_succeeded_whatever_it_returned(
    session: Session, value: Any
) -> None:
    with session.turn() as turn:
        turn.user(value, beside=value)
        with turn.tool("look", value) as call:
            call.finish(value)
        with turn.tool("try") as call:
            call.fail(value)
        turn.delta(value, beside=value)
        turn.deliver(value, media=[value])
        turn.emit("ops.observation", {"seen": value}, refs={"seen": value})
        turn.emit("tool.call", {"name": "other", "call_id": "c1", "input": value})
        turn.emit("tool.result", {"call_id": "c1", "output": value, "status": "ok"})
        turn.assistant(value, beside=value)

    expected, marks = to_json(value, "/output")
    assert turn.state == "ended"
    assert [record.status for record in session.tool_calls()] == ["ok", "failed", "ok"]
    results = [event.payload for event in session.events() if event.kind == "tool.result"]
    for result in (results[0], results[2]):
        assert result["output"] == expected
        assert result.get("converted", []) == marks
    user = next(event for event in session.events() if event.kind == "conversation.user")
    assert user.payload["text"] == to_text(value, "/text")[0]
    assert session.context().messages


def test_what_was_given_reaches_the_ledger_the_same_on_every_database(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    with session.turn() as turn, turn.tool("look", {"at": WHEN}) as call:
        call.finish({"raw": b"\xff", "deep": _nested(100)})

    call_event, result = (e for e in session.events() if e.kind.startswith("tool."))
    assert call.input == {"at": WHEN}
    assert call_event.payload["converted"] == [
        {"at": "/input/at", "type": "datetime.datetime", "as": "iso"}
    ]
    assert [mark["as"] for mark in result.payload["converted"]] == ["base64", "json"]
    assert result.refs["status"] == "ok"
    assert ledger.admin.verify().intact


def test_iterators_are_not_advanced() -> None:
    numbers = (number for number in range(3))
    lines = iter(["a", "b"])

    assert to_json([numbers, lines])[1] == [
        {"at": "/0", "type": "generator", "as": "repr"},
        {"at": "/1", "type": "list_iterator", "as": "repr"},
    ]
    assert [*numbers, *lines] == [0, 1, 2, "a", "b"]


def test_what_cannot_be_read_is_kept_as_its_repr_within_bounds() -> None:
    class Long:
        def __repr__(self) -> str:
            return "x" * 10_000

    text, marks = to_json(Long())

    assert text == "x" * REPR_CHARACTERS_MAX
    assert marks[0]["characters"] == 10_000
    assert to_json(Broken(a=1))[1][0]["as"] == "repr"
    assert "RecursionError" in str(to_json(_nested(20_000))[0])


def test_a_value_that_holds_itself_twice_over_and_over_does_not_stop_the_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for limit in ("VALUES_MAX", "WRITTEN_MAX"):
        monkeypatch.setattr(conversion, limit, 10_000)
    listed: Any = 1
    nested: Any = ()
    boxed: Any = None
    for _ in range(60):
        listed, nested, boxed = [listed, listed], (nested, nested), Box([boxed, boxed])

    for value in (listed, nested, boxed):
        found, marks = to_json(value)
        encode(found)
        assert marks[-1]["as"] == "repr" if value is listed else marks[-1]["more"]
        assert "too many values" in str(found)


def test_a_sequence_or_a_mapping_without_an_end_is_read_as_far_as_it_says_it_goes() -> None:
    assert to_json(Endless())[0] == [0, 1, 2]
    assert to_json(EndlessNames())[0] == {"0": 0}
    assert to_json(EndlessSet())[0] == [0, 1]


@pytest.mark.parametrize("content", [7, [object()], "itself"])
def test_a_text_in_a_wrapper_may_be_anything(content: object) -> None:
    text = collections.UserString("")
    text.data = text if content == "itself" else content  # type: ignore[assignment]

    value, marks = to_json({"said": text})

    assert decode(encode(value)) == value
    assert marks


def test_many_conversions_are_counted_behind_the_first_hundred() -> None:
    found, marks = to_json([(number,) for number in range(1_000)])

    assert found == [[number] for number in range(1_000)]
    assert len(marks) == MARKS_MAX + 1
    assert marks[-1] == {"more": 1_000 - MARKS_MAX}


def test_content_of_the_name_of_the_marks_is_kept_beside_them(session: Session) -> None:
    with session.turn() as turn:
        turn.user("hello", converted="mine", at={1})

    payload = next(e.payload for e in session.events() if e.kind == "conversation.user")
    assert payload["converted"] == "mine"
    assert payload["_converted"] == [{"at": "/at", "type": "set", "as": "list"}]


def test_json_is_recorded_as_it_is_and_has_no_mark(session: Session) -> None:
    value = {"a": [1, 2.5, None, True, {"b": "ü"}], "deep": _nested(50)}
    with session.turn() as turn, turn.tool("look", value) as call:
        call.finish(value)

    call_event, result = (e for e in session.events() if e.kind.startswith("tool."))
    assert call_event.payload == {"call_id": call.call_id, "name": "look", "input": value}
    assert result.payload["output"] == value
    assert "converted" not in result.payload


def test_names_and_words_over_their_caps_are_shortened_and_the_agent_goes_on(
    session: Session,
) -> None:
    long = "t" * 300
    with session.turn(model="m" * 10_000) as turn:
        with turn.tool(long, call_id="c" * 5_000):
            turn.tools.finished("c" * 5_000, "done")
        with turn.tool("line\nbreak", call_id="c\n1") as call:
            call.finish("done")
        turn.emit("ops.observation", {"a": 1}, summary="s" * 5_000, refs={"r": "x" * 10_000})
        turn.emit("ops.observation", {"a": 1}, summary=" ")

    events = session.events()
    assert [record.status for record in session.tool_calls()] == ["ok", "ok"]
    intent = next(event for event in events if event.kind == "tool.call")
    assert intent.payload["given_name"] == long
    noted = next(event for event in events if event.kind == "ops.observation")
    assert noted.payload["summary"] == "s" * 5_000
    assert noted.payload["refs"] == {"r": "x" * 10_000}
    assert {mark["at"] for mark in noted.payload["converted"]} == {"/summary", "/refs"}


def test_the_low_level_append_still_refuses_what_is_not_json(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    with pytest.raises(treering.InvalidInput, match="tuple"):
        ledger.append([said(payload={"a": (1, 2)})])
    with pytest.raises(treering.InvalidInput, match="tuple"):
        session.record("ops.observation", "seen", payload={"a": (1, 2)})


def test_a_guard_that_rejects_secrets_rejects_them_in_converted_values_as_well() -> None:
    with treering.open(":memory:", guard="reject") as ledger:
        session = ledger.session("s1", scope=HERE, agent="lyria")
        with session.turn() as turn, pytest.raises(treering.SensitiveContent):
            turn.user("hello", beside=({"password": "Winter-2026-x7"},))


class Boom(BaseException):
    """Not an Exception, and no way to end a program either."""


def boom(*_: object) -> Any:
    raise Boom


class Unnamed(type):
    """A class of it does not say what it is called."""

    __name__ = property(boom)


class Text(str):
    """Text that shows nothing of itself but to those who ask ``str``."""

    __slots__ = ()
    __str__ = __getitem__ = __len__ = __iter__ = encode = boom  # type: ignore[assignment]


HOSTILE: Final[list[tuple[type, str, Any]]] = [
    (object, "__repr__", lambda _: Text("text")),
    (Exception, "__str__", lambda _: Text("text")),
    (dt.datetime, "isoformat", lambda _: Text("text")),
    *((object, name, boom) for name in ("__repr__", "__getattribute__", "__fspath__")),
    *((object, name, property(boom)) for name in ("__class__", "__dict__", "__dataclass_fields__")),
    *((kind, name, boom) for kind in (list, dict) for name in ("__iter__", "__len__", "keys")),
    (str, "__str__", boom),
    (str, "__eq__", boom),
]


@pytest.mark.parametrize(("kind", "name", "answer"), HOSTILE)
def test_a_tool_succeeds_whatever_its_output_raises(
    ledger: Ledger, kind: type, name: str, answer: Any
) -> None:
    arguments = (2026, 3, 4) if kind is dt.datetime else ()
    output = Unnamed("Hostile", (kind,), {name: answer})(*arguments)
    session = ledger.session("s1", scope=HERE, agent="lyria")

    with session.turn() as turn, turn.tool("x", {"given": output}) as call:
        call.finish(output)

    assert turn.state == "ended"
    results = [event for event in session.events() if event.kind == "tool.result"]
    assert [event.payload["converted"][0]["at"] for event in results] == ["/output"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_what_ends_a_program_is_not_taken_for_an_answer(stop: type[BaseException]) -> None:
    def answer(_: object) -> str:
        raise stop

    with pytest.raises(stop):
        to_json(type("Stopping", (), {"__repr__": answer})())


def test_what_another_thread_goes_on_changing_is_copied() -> None:
    value: dict[str, Any] = {"rows": [{"n": 1}], "deep": {"a": {"b": [1]}}}
    found, marks = to_json(value)

    value["rows"][0]["n"] = 2
    value["deep"]["a"]["b"].clear()
    value["new"] = object()

    assert (found, marks) == ({"rows": [{"n": 1}], "deep": {"a": {"b": [1]}}}, [])
