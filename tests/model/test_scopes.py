from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.errors import InvalidScope
from treering.model.scopes import parse_scope


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("openclaw-mem", "openclaw-mem"),
        ("  FinLife MVP  ", "finlife-mvp"),
        ("proj/a_b.c:dev", "proj/a_b.c:dev"),
        ("中文", "中文"),
        ("ÉCOLE", "école"),
        ("\uff34\uff45\uff41\uff4d\uff0f\uff21", "team/a"),
        ("①", "1"),
        ("a..b", "a..b"),
        ("a/b//c", "a/b//c"),
        ("a--b", "a--b"),
        ("GLOBAL", "global"),
        ("J\u030c", "\u01f0"),
        ("हिन्दी", "हिन्दी"),
    ],
)
def test_a_scope_has_one_spelling(text: str, scope: str) -> None:
    assert parse_scope(text) == scope


@pytest.mark.parametrize(
    "text",
    ["", "   ", "A@B", "a\\b", "%", "..a", "a/", "_x_", "-x", "///", "a\u200bb", "x" * 201, "a\0b",
     "../../etc", "💥", "a\ud800b"],
)  # fmt: skip
def test_what_would_have_to_be_changed_is_refused_with_advice(text: str) -> None:
    with pytest.raises(InvalidScope) as refused:
        parse_scope(text)

    assert refused.value.hint


@given(st.text(max_size=20), st.text(max_size=20))
def test_two_names_are_one_scope_only_by_case_width_and_blanks(one: str, two: str) -> None:
    """Where the seed's rule leaks (``A@B`` = ``a b``), ours refuses."""
    import unicodedata

    def plain(text: str) -> str:
        lower = unicodedata.normalize("NFKC", text).lower()
        return "-".join(unicodedata.normalize("NFKC", lower).split())

    try:
        same = parse_scope(one) == parse_scope(two)
    except InvalidScope:
        return
    assert same is (plain(one) == plain(two))


@given(st.text(max_size=40) | st.text("JHTWYjhtw\u030c\u0331\u0308\u030aß\u017fİ", max_size=6))
def test_parsing_a_scope_again_changes_nothing(text: str) -> None:
    try:
        scope = parse_scope(text)
    except InvalidScope:
        return
    assert parse_scope(scope) == scope
