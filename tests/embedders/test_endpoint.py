"""Vectors made behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from treering.embedders.endpoint import TEXTS_AT_ONCE, EndpointEmbedder
from treering.errors import Unavailable
from web_endpoint import endpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    Rows = Callable[[list[str]], list[list[float]]]


def vectors_of(rows: Rows, status: int = 200) -> AbstractContextManager[tuple[str, list[Any]]]:
    """Serve what ``rows`` makes of texts, in reverse; tell what was asked."""

    def answer(asked: dict[str, Any]) -> bytes:
        made = [{"index": at, "embedding": row} for at, row in enumerate(rows(asked["input"]))]
        return json.dumps({"data": made[::-1]}).encode()

    return endpoint(status, answer)


def lengths(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 0.0, 1.0] for text in texts]


def test_rows_come_in_the_order_of_texts_and_of_length_1() -> None:
    with vectors_of(lengths) as (url, asked):
        vectors = EndpointEmbedder(url, "small", api_key="k").embed(["a", "four"])

    assert np.allclose(vectors[:, 0] / vectors[:, 2], [1, 4])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    assert (asked[-1]["path"], asked[-1]["model"]) == ("/v1/embeddings", "small")
    assert asked[-1]["key"] == "Bearer k"


def test_many_texts_are_sent_in_batches() -> None:
    with vectors_of(lengths) as (url, asked):
        vectors = EndpointEmbedder(url, "small").embed(["text"] * (TEXTS_AT_ONCE + 1))

    assert len(vectors) == TEXTS_AT_ONCE + 1
    assert [len(one["input"]) for one in asked] == [1, TEXTS_AT_ONCE, 1]


def test_blank_texts_are_not_sent() -> None:
    with vectors_of(lengths) as (url, asked):
        vectors = EndpointEmbedder(url, "small").embed(["", "word", "  "])

    assert [bool(row.any()) for row in vectors] == [False, True, False]
    assert asked[-1]["input"] == ["word"]


@pytest.mark.parametrize(
    "rows",
    [
        lambda texts: lengths(texts)[:-1],
        lambda texts: [[] for _ in texts],
        lambda texts: [[1.0] * (1 + len(text)) for text in texts],
        lambda texts: [[1e300, 1.0] for _ in texts],
    ],
    ids=["one short", "empty", "of several lengths", "out of range"],
)
def test_rows_that_are_no_vectors_are_refused(rows: Rows) -> None:
    with vectors_of(rows) as (url, _), pytest.raises(Unavailable, match=url):
        EndpointEmbedder(url, "small").embed(["one", "three"])


def test_a_server_that_fails_is_named() -> None:
    with vectors_of(lengths, 500) as (url, _), pytest.raises(Unavailable, match="answered 500"):
        EndpointEmbedder(url, "small").embed(["one"])


def test_a_server_that_is_not_there_is_named() -> None:
    embedder = EndpointEmbedder("http://127.0.0.1:9/v1", "small", timeout_s=1)

    with pytest.raises(Unavailable, match=r"no embedding from http://127.0.0.1:9/v1/embeddings"):
        embedder.embed(["one"])
