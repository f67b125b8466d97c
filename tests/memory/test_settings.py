"""Settings of memory and sessions: what makes no sense is refused when it is given."""

from __future__ import annotations

from typing import Any

import pytest

from treering import InvalidInput
from treering.memory.recall_result import Weights
from treering.views import Isolation


@pytest.mark.parametrize("value", [5, -1, float("nan"), float("inf"), "0.5", None, True])
@pytest.mark.parametrize("name", Weights.__struct_fields__)
def test_a_weight_is_a_number_from_0_to_1(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=name):
        Weights(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("sandbox", "no"), ("file_access", 1), ("cross_user_memory", None), ("browser_access", "all")],
)
def test_isolation_takes_what_can_be_read_again(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=name):
        Isolation(**{name: value})
