from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.errors import InvalidInput, InvalidKind
from treering.model.scopes import Scope
from treering.model.search_queries import SearchQuery, parse_search
from treering.model.search_words import (
    WORD_CHARACTERS_MAX,
    grams_of,
    holds_inside,
    inner_spelling,
    pieces_in,
    spelt,
    tokens_of,
    words_in,
)

HERE = Scope("acme/app")
NOW = 1_790_000_000_000
DAY = 86_400_000


def parsed(text: str) -> SearchQuery:
    return parse_search(text, HERE, now_ms=NOW)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, World!", "hello world"),
        ("naïve Ångström ÉTÉ", "naive angstrom ete"),
        ("straße \uff46\uff55ll \ufb01ne", "strasse full fine"),
        ("foo_bar.baz v1.2", "foo bar baz v1 2"),
        ("中文", "中文 文"),
        ("日本語abc", "日本 本語 語 abc"),
        ("हिन्दी", "हिन्दी"),
        ("🦊 fox", "🦊 fox"),
        ("", ""),
    ],
)
def test_words_have_one_spelling(text: str, words: str) -> None:
    assert spelt(text) == words


@given(st.text())
def test_every_word_stands_where_it_says_and_holds_no_blank(text: str) -> None:
    found = list(words_in(text))

    assert spelt(text).split() == [one.word for one in found]
    for word, start, end in found:
        assert 0 <= start < end <= len(text)
        assert 0 < len(word) <= WORD_CHARACTERS_MAX
        assert not any(character in " _'\"\\" for character in word)


def test_names_come_apart_at_their_capitals() -> None:
    assert pieces_in("getUserName HTTPServer plain") == ["get", "user", "name", "http", "server"]


@given(st.from_regex(r"[a-z]{1,8}(_[a-z0-9]{1,8}){1,3}", fullmatch=True), st.data())
def test_every_part_of_a_name_in_code_has_its_grams(name: str, choice: st.DataObject) -> None:
    start = choice.draw(st.integers(0, len(name) - 3)) if len(name) > 3 else 0
    part = name[start : choice.draw(st.integers(start + 3, max(len(name), start + 3)))]
    inside = inner_spelling(part)

    if inside is not None and len(part) >= 3:
        assert set(grams_of(inside)) <= set(grams_of(tokens_of(f"see {name} there").names))
        assert holds_inside(f"see {name} there", inside) is not None


def test_a_query_is_words_phrases_and_beginnings() -> None:
    query = parsed('storage deploy* "no such table" -draft foo_bar')

    assert [term.words for term in query.terms] == [
        ("storage",), ("deploy",), ("no", "such", "table"), ("foo", "bar"),
    ]  # fmt: skip
    assert [term.is_prefix for term in query.terms] == [False, True, False, False]
    assert [term.words for term in query.without] == [("draft",)]


def test_operators_take_lists_spellings_and_families() -> None:
    query = parsed('kind:error,tool.* -agent:"lyria two" file:src/a.py')

    kinds, agent, file = query.narrowings
    assert kinds.values == ("ops.error", "tool.call", "tool.result")
    assert (agent.operator, agent.values, agent.is_negative) == ("agent", ("lyria two",), True)
    assert file.values == ("src/a.py",)


def test_times_are_dates_moments_and_ages() -> None:
    assert parsed("after:3d").since_ms == NOW - 3 * DAY
    assert parsed("before:1970-01-03").before_ms == 2 * DAY
    assert parsed("after:1970-01-03T01:00+01:00").since_ms == 2 * DAY


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30)),  # noqa: DTZ001  (zoned below)
    st.integers(-14 * 60, 14 * 60),
)
def test_a_date_and_time_in_any_zone_is_the_moment_that_it_names(
    moment: datetime, minutes: int
) -> None:
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    seconds = int(zoned.replace(microsecond=0).timestamp())

    expected = max(seconds * 1_000 + moment.microsecond // 1_000, 1)
    assert parsed(f"after:{zoned.isoformat()}").since_ms == expected


@pytest.mark.parametrize(
    "text", ["2026-02-29", "2026-13-01", "2026-00-10", "2026-01-01T24:00", "2026-1-1", "0000-01-01"]
)
def test_a_day_that_is_in_no_calendar_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a time"):
        parsed(f"after:{text}")


@pytest.mark.parametrize("text", ["http://x.org/a", "std::vector", "error:", "12:30", 'say:"x"'])
def test_what_only_looks_like_an_operator_is_words(text: str) -> None:
    assert parsed(text).terms


def test_an_operator_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(InvalidInput, match="colour: is not an operator") as refused:
        parsed("colour:red")

    assert "kind:" in (refused.value.hint or "")
    with pytest.raises(InvalidKind):
        parsed("kind:talk")


def test_characters_of_scripts_without_spaces_are_found_in_pairs() -> None:
    assert parsed("日本語").terms[0].words == ("日本", "本語")
    assert (parsed("語").terms[0].words, parsed("語").terms[0].is_prefix) == (("語",), True)


@given(st.text(max_size=200))
def test_any_text_is_a_query_or_refused_with_a_hint(text: str) -> None:
    hint: str | None = "it is one"
    try:
        parsed(text)
    except InvalidInput as refused:
        hint = refused.hint
    assert hint
