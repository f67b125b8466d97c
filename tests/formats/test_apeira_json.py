from __future__ import annotations

import json
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from treering.errors import InvalidInput
from treering.formats.apeira.json import JsonParseError, copy, parse, stringify, text_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1.0", "1"),
        ("-0", "0"),
        ("1e3", "1000"),
        ("0.000001", "0.000001"),
        ("0.0000001", "1e-7"),
        ("123456.789", "123456.789"),
        ("1e21", "1e+21"),
        ("123456789012345680000", "123456789012345680000"),
        ("12345678901234567890", "12345678901234567000"),
        ("9007199254740993", "9007199254740992"),
        ("-1.5e-300", "-1.5e-300"),
        ("1e400", "null"),
    ],
)
def test_a_number_is_written_as_the_double_that_it_is(text: str, written: str) -> None:
    assert stringify(parse(text)) == written


def test_keys_that_are_array_indexes_come_first_and_in_order() -> None:
    text = '{"b":1,"10":2,"2":3,"01":4,"4294967295":5,"a":6,"4294967294":7}'

    written = stringify(parse(text))

    assert written == '{"2":3,"10":2,"4294967294":7,"b":1,"01":4,"4294967295":5,"a":6}'


def test_a_key_that_stands_twice_keeps_its_first_place_and_its_last_value() -> None:
    assert stringify(parse('{"a":1,"b":2,"a":3}')) == '{"a":3,"b":2}'


def test_text_is_written_as_it_is_but_for_controls_and_half_pairs() -> None:
    text = '"é\\u2028\\u007f\\u0001\\ud800x\\ud83d\\ude00\\/"'

    assert stringify(parse(text)) == '"é\u2028\x7f\\u0001\\ud800x😀/"'


def test_two_halves_of_a_pair_become_one_character() -> None:
    assert stringify(copy("\ud83d\ude00")) == '"😀"'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Unexpected end of JSON input"),
        ('{"a":', "Unexpected end of JSON input"),
        ('{"a":"b', "Unterminated string in JSON at position 7"),
        ('{"a":"😀b', "Unterminated string in JSON at position 9"),
        ("{", "Expected property name or '}' in JSON at position 1"),
        ('{"a":1,}', "Expected double-quoted property name in JSON at position 7"),
        ('{"a" 1}', "Expected ':' after property name in JSON at position 5"),
        ('{"a":1,"b" 2}', "Unexpected number in JSON at position 11"),
        ('{"a":1 "b"}', "Expected ',' or '}' after property value in JSON at position 7"),
        ("[1 2]", "Expected ',' or ']' after array element in JSON at position 3"),
        ("{}{}", "Unexpected non-whitespace character after JSON at position 2"),
        ("01", "Unexpected number in JSON at position 1"),
        ("-a", "No number after minus sign in JSON at position 1"),
        ("1.", "Unterminated fractional number in JSON at position 2"),
        ("1e+", "Exponent part is missing a number in JSON at position 3"),
        ('"\t"', "Bad control character in string literal in JSON at position 1"),
        ('"\\x"', "Bad escaped character in JSON at position 2"),
        ('"\\u12g4"', "Bad Unicode escape in JSON at position 5"),
        ('"\\', "Unexpected end of JSON input"),
        ('t"', "Unexpected string in JSON at position 1"),
        ("٣", "Unexpected token '٣', \"٣\" is not valid JSON"),
        ("hello", "Unexpected token 'h', \"hello\" is not valid JSON"),
        ("NaN", '"NaN" is not valid JSON'),
        (
            "oh, what a long line",
            "Unexpected token 'o', \"oh, what a long line\" is not valid JSON",
        ),
        ("oh, what a longer line", "Unexpected token 'o', \"oh, what a\"... is not valid JSON"),
        (
            '{"some": "words", x: "and more of them"}',
            "Expected double-quoted property name in JSON at position 18",
        ),
        (
            '["some", "words", x, "and more of them"]',
            'Unexpected token \'x\', ..." "words", x, "and mo"... is not valid JSON',
        ),
        (
            '["some", "words", "and more", x]',
            'Unexpected token \'x\', ..."nd more", x]" is not valid JSON',
        ),
    ],
)
def test_what_is_no_json_is_told_in_the_words_of_v8(text: str, words: str) -> None:
    with pytest.raises(JsonParseError) as caught:
        parse(text)

    assert str(caught.value) == words


def test_what_is_nested_too_deeply_is_refused_and_not_a_crash() -> None:
    with pytest.raises(JsonParseError, match="nested deeper than 200 levels"):
        parse("[" * 300 + "]" * 300)
    with pytest.raises(JsonParseError, match="nested deeper than 200 levels"):
        parse("[" * 100_000 + "]" * 100_000)


@pytest.mark.parametrize("value", [{1: 2}, {"a": (1,)}, b"x", {"a": {1, 2}}])
def test_what_is_not_json_is_refused_with_a_reason(value: object) -> None:
    with pytest.raises(InvalidInput, match="not"):
        copy(value)


@given(VALUES)
def test_what_was_written_is_written_again_to_the_byte(value: object) -> None:
    once = stringify(copy(value))

    assert stringify(parse(once)) == once


@given(VALUES)
def test_what_is_written_is_json_that_others_read(value: object) -> None:
    spelled = json.dumps(value)
    assume(not any("Infinity" in text for text in re.findall(r'"(?:[^"\\]|\\.)*"', spelled)))

    assert stringify(parse(spelled.replace("Infinity", "1e999"))) == stringify(copy(value))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (None, "null"),
        (True, "true"),
        (1e21, "1e+21"),
        (float("inf"), "Infinity"),
        ([1, None, ["b"]], "1,,b"),
        ({"a": 1}, "[object Object]"),
    ],
)
def test_a_value_stands_in_a_text_as_in_a_template_string(value: object, text: str) -> None:
    assert text_of(value) == text
