from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.errors import InvalidInput
from treering.model.codec import canonical, canonical_content, decode, parse_json

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)
odd_values = st.recursive(
    json_values
    | st.floats()
    | st.binary(max_size=4)
    | st.dates()
    | st.uuids()
    | st.decimals()
    | st.tuples(st.integers()),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(json_values)
def test_every_json_value_comes_back_equal(value: Any) -> None:
    assert decode(canonical(value, "payload")) == value


@given(odd_values)
def test_nothing_is_changed_silently(value: Any) -> None:
    """A clear error or a faithful round trip, never silent change."""
    for encode in (
        lambda: canonical(value, "payload"),
        lambda: canonical_content("s", None, value),
    ):
        refusal = ""
        try:
            encoded = encode()
        except InvalidInput as refused:
            refusal = str(refused)
        else:
            stored = encoded if isinstance(encoded, bytes) else encoded[2]
            assert (decode(stored) if stored is not None else None) == value
        assert not refusal or "payload" in refusal


exact_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.characters(codec="utf-8", exclude_characters="\x7f")),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@given(exact_values)
def test_canonical_json_is_what_the_seed_project_writes(value: Any) -> None:
    """Keys sorted, no spaces, UTF-8: the same bytes; fractions may be written differently."""
    theirs = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    assert canonical(value, "payload") == theirs.encode()


@given(st.dictionaries(st.text(), json_values, max_size=6))
def test_the_order_of_keys_does_not_matter(value: dict[str, Any]) -> None:
    turned = dict(reversed(value.items()))

    assert canonical(value, "payload") == canonical(turned, "payload")


@given(st.text(), st.none() | json_values, st.none() | json_values)
def test_content_is_its_parts_in_a_row(summary: str, refs: Any, payload: Any) -> None:
    content, encoded_refs, encoded_payload = canonical_content(summary, refs, payload)

    assert decode(content) == [summary, refs, payload]
    assert encoded_refs == (None if refs is None else canonical(refs, "refs"))
    assert encoded_payload == (None if payload is None else canonical(payload, "payload"))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('{"a":1,"a":2}', "an object has the same key twice"),
        ('{"x":{"k":1,"k":1}}', "an object has the same key twice"),
        ("1.0000000000000000001", "more digits"),
        ("1e400", "more digits"),
        ("NaN", "NaN"),
        ("[Infinity]", "Infinity"),
        ("{", "invalid payload JSON"),
        ("", "invalid payload JSON"),
        (b"\xff\xfe{", "payload is not UTF-8"),
        (b'"\xff"', "not UTF-8"),
        ("[" * 100_000, "nested deeper"),
    ],
)
def test_json_that_a_parser_would_change_is_refused(text: str | bytes, part: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_json(text, "payload")

    assert part in str(refused.value)
    assert refused.value.hint


def test_large_numbers_are_not_rounded() -> None:
    assert parse_json("123456789012345678901234567890", "payload") == 123456789012345678901234567890
    assert decode(canonical(2**200, "payload")) == 2**200
    assert math.isclose(float(str(parse_json("1.5", "payload"))), 1.5)
