"""Keyed hashes are those of HMAC: ids and names that ledgers have stored are found by them."""

import hmac

from hypothesis import given
from hypothesis import strategies as st

from treering.model.keyed_hash import keyed_hash


@given(key=st.binary(max_size=130), text=st.binary(max_size=300))
def test_a_keyed_hash_is_the_hmac_of_a_text(key: bytes, text: bytes) -> None:
    assert keyed_hash(key, text) == hmac.digest(key, text, "sha256")


@given(texts=st.lists(st.binary(max_size=80), min_size=2, max_size=5))
def test_a_text_leaves_nothing_behind_for_the_next_one(texts: list[bytes]) -> None:
    hashes = [keyed_hash(b"one key", text) for text in texts]

    assert hashes == [hmac.digest(b"one key", text, "sha256") for text in texts]
