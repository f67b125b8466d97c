"""The safe part of each kind: facts and sizes, never a text."""

from __future__ import annotations

from typing import Any, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.model.kinds import KINDS
from treering.model.parts import (
    PARTS,
    SafePart,
    Said,
    TimeNote,
    ToolCalled,
    ToolReturned,
    envelope_name,
    part_of,
    safe_part,
)

SECRET = "PRIVATE-WORDS"
CONTENT_NAMES = {"text", "input", "output", "message_text", "content", "payload", "prompt", "error"}

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


def test_every_part_belongs_to_a_kind() -> None:
    assert set(PARTS) <= set(KINDS)


@pytest.mark.parametrize("kind", sorted(PARTS))
def test_a_part_has_no_place_for_content(kind: str) -> None:
    """Separate safe vs private at the type level so leaks are hard."""
    hints = get_type_hints(PARTS[kind])

    assert not CONTENT_NAMES & set(hints)
    assert all("Any" not in str(hint) and "dict" not in str(hint) for hint in hints.values())


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_refs_that_a_part_does_not_name_are_left_behind(kind: str) -> None:
    part = safe_part(kind, {"text": SECRET, "input": SECRET, "anything": SECRET})

    assert SECRET not in str(part)


@pytest.mark.parametrize("refs", [None, "x", 7, [], [{"call_id": "c1"}]])
def test_refs_that_are_no_names_and_values_tell_nothing(refs: Any) -> None:
    assert safe_part("tool.call", refs) == ToolCalled()
    assert safe_part("goal.added", refs) == SafePart()


def test_one_value_that_is_not_what_it_should_be_costs_no_other() -> None:
    """Imported ones may lack anything."""
    part = safe_part(
        "tool.result",
        {"call_id": "c1", "tool": 7, "status": "odd", "duration_ms": "long", "output_bytes": 5},
    )

    assert part == ToolReturned(call_id="c1", output_bytes=5)


def test_the_refs_of_earlier_versions_are_read() -> None:
    refs = {
        "call_id": "c1",
        "tool": "t",
        "status": "synthetic",
        "duration_ms": 1,
        "output_bytes": 2,
    }

    part = safe_part("tool.result", refs)

    assert part.as_refs() == refs


@given(st.sampled_from(sorted(KINDS)), anything)
def test_whatever_is_recorded_has_a_safe_part(kind: str, refs: Any) -> None:
    for part in (safe_part(kind, refs), part_of(kind, refs)):
        assert type(part) is PARTS.get(kind, SafePart)
        assert safe_part(kind, part.as_refs()) == part


@pytest.mark.parametrize("kind", sorted(PARTS))
def test_a_part_comes_back_from_its_refs(kind: str) -> None:
    part = PARTS[kind]
    samples: dict[Any, Any] = {str: "x", int: 3, bool: True, TimeNote: "approximate"}
    filled = part(
        **{
            field.name: [3] if field.type == list[int] else samples.get(_plain(field.type), "ok")
            for field in msgspec.structs.fields(part)
            if field.name not in {"status", "reason"}
        }
    )

    assert safe_part(kind, filled.as_refs()) == filled


def test_what_is_not_known_is_not_in_refs() -> None:
    assert Said(characters=0).as_refs() == {"characters": 0}
    assert ToolReturned(is_synthetic=False, late=None).as_refs() == {"is_synthetic": False}


# As envelopes spell them.


@pytest.mark.parametrize(
    ("name", "spelling"),
    [
        ("tool", "toolName"), ("call_id", "toolCallId"), ("characters", "chars"),
        ("duration_ms", "durationMs"), ("is_synthetic", "isSynthetic"), ("reason", "reason"),
        ("error_class", "errorClass"), ("input_shape", "inputShape"), ("will_retry", "willRetry"),
    ],
)  # fmt: skip
def test_a_name_is_spelt_as_the_envelope_does(name: str, spelling: str) -> None:
    assert envelope_name(name) == spelling


# Of payloads that are about to be recorded.


@pytest.mark.parametrize("kind", ["conversation.user", "conversation.assistant", "assistant.delta"])
def test_of_what_is_said_the_length_is_told(kind: str) -> None:
    assert part_of(kind, {"text": SECRET, "stopReason": "stop"}).as_refs() == {
        "characters": len(SECRET), "stop_reason": "stop",
    }  # fmt: skip


@pytest.mark.parametrize("names", [("code", "error_class"), ("code", "errorClass")])
def test_a_payload_is_understood_in_both_spellings(names: tuple[str, str]) -> None:
    payload = {names[0]: "slow", names[1]: "TimeoutError", "message": SECRET}

    assert part_of("ops.warning", payload).as_refs() == {
        "code": "slow", "error_class": "TimeoutError",
    }  # fmt: skip


def _plain(hint: Any) -> Any:
    """Return the type of a field other than None."""
    return next(sort for sort in hint.__args__ if sort is not type(None))
