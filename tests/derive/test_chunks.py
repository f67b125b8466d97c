"""Long texts in chunks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from treering.derive.search_texts import CHUNK_WORDS, CHUNKS_MAX, chunks


def test_a_short_text_stays_whole() -> None:
    assert chunks("two\n  lines") == ["two\n  lines"]
    assert chunks("") == [""]


@given(st.integers(1, 1_000))
def test_a_long_text_is_cut_evenly_and_whole(count: int) -> None:
    words = [str(number) for number in range(count)]
    cut = chunks(" ".join(words))

    assert " ".join(cut).split() == words
    assert len(cut) <= CHUNKS_MAX
    assert len(cut) == 1 or min(len(one.split()) for one in cut) >= CHUNK_WORDS // 2 - CHUNKS_MAX
