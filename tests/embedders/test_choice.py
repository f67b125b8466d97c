"""Embedders by name."""

from __future__ import annotations

import pytest

from treering import InvalidInput
from treering.embedders import KEY_VARIABLE, find_embedder
from treering.embedders.endpoint import EndpointEmbedder
from treering.embedders.minilm import MiniLMEmbedder
from treering.embedders.static import StaticEmbedder


@pytest.mark.parametrize("name", [None, "", "static"])
def test_the_table_is_the_default(name: str | None) -> None:
    assert isinstance(find_embedder(name), StaticEmbedder)


def test_the_small_model_has_a_name() -> None:
    assert isinstance(find_embedder("minilm"), MiniLMEmbedder)


def test_off_is_no_embedder() -> None:
    assert find_embedder("off") is None


def test_an_endpoint_is_named_by_its_model_and_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "very-secret")

    embedder = find_embedder("endpoint:small@http://localhost:8080/v1")

    assert isinstance(embedder, EndpointEmbedder)
    assert embedder.name == "endpoint:small@http://localhost:8080/v1/embeddings"
    assert "very-secret" not in embedder.name + repr(embedder)


@pytest.mark.parametrize(
    "name", ["large", "endpoint:", "endpoint:small", "endpoint:@http://here", "Static"]
)
def test_another_name_is_refused_and_the_names_are_told(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        find_embedder(name)

    assert "endpoint:<model>@<url>" in str(refused.value.hint)


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="invalid endpoint"):
        find_embedder("endpoint:small@file:///etc/passwd")
