"""The default embedder."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files

import numpy as np
import pytest

from children import run_python
from treering.embedders.static import TABLE, TABLE_DIGEST, StaticEmbedder, table_of
from treering.errors import Corrupt

BYTES_MAX = 7_000_000


def test_what_means_the_same_is_near() -> None:
    asked, near, far = StaticEmbedder().embed(
        [
            "The dog barked all night",
            "A puppy was loud in the evening",
            "Interest rates were raised",
        ]
    )

    assert asked @ near > asked @ far + 0.1


def test_each_vector_is_of_length_1() -> None:
    vectors = StaticEmbedder().embed(["one", "a longer text about trees", "x" * 50])

    assert vectors.shape == (3, StaticEmbedder().dimensions)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors[:2], axis=1), 1, atol=1e-5)


def test_a_text_without_words_has_no_direction() -> None:
    assert not StaticEmbedder().embed(["", "?!", "\u200b"]).any()


def test_a_text_has_one_vector_whatever_stands_beside_it() -> None:
    texts = [f"text {number} about rings " + "and trees " * number for number in range(300)]
    together = StaticEmbedder().embed(texts)

    for place in (0, 7, 150, 299):
        assert np.allclose(StaticEmbedder().embed([texts[place]])[0], together[place], atol=1e-5)


def test_no_texts_have_no_vectors() -> None:
    assert StaticEmbedder().embed([]).shape == (0, 256)


def test_questions_are_in_the_same_space() -> None:
    embedder = StaticEmbedder()

    assert np.array_equal(embedder.embed_queries(["which tree?"]), embedder.embed(["which tree?"]))


def test_threads_agree() -> None:
    texts = [f"ring {number} of the tree" for number in range(200)]
    alone = StaticEmbedder().embed(texts)

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: StaticEmbedder().embed(texts), range(8)))

    assert all(np.array_equal(one, alone) for one in made)


def test_the_space_is_named_for_its_table() -> None:
    assert StaticEmbedder().name == f"treering-static-1:{TABLE_DIGEST[:12]}"


def test_a_damaged_table_is_refused() -> None:
    packed = bytearray(files("treering.embedders").joinpath(TABLE).read_bytes())
    packed[len(packed) // 2] ^= 1

    with pytest.raises(Corrupt, match="not the one that was shipped") as refused:
        table_of(bytes(packed))
    assert refused.value.hint


def test_the_table_stays_small() -> None:
    assert len(files("treering.embedders").joinpath(TABLE).read_bytes()) <= BYTES_MAX


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    asked = (
        "import sys, treering.embedders as c; c.find_embedder(None); c.find_embedder("
        "'minilm'); print([one for one in ('numpy', 'onnxruntime') if one in sys.modules])"
    )
    answer = run_python(asked)

    assert answer.stdout.strip() == "[]"
