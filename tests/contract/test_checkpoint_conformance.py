"""LangGraph's own suite, on every database."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.conformance import checkpointer_test, validate

from builders import HERE
from treering.adapters.langgraph import TreeringSaver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from treering import Ledger


def test_the_suite_passes_with_all_eight_capabilities(open_ledger: Callable[[], Ledger]) -> None:
    async def check() -> Any:
        @checkpointer_test(name="treering")
        async def make() -> AsyncIterator[TreeringSaver]:
            ledger = open_ledger()
            yield TreeringSaver(ledger, scope=HERE)
            assert ledger.admin.verify(derived=True).intact

        return await validate(make)

    results = asyncio.run(check()).results

    assert len(results) == 8
    assert {name: one.failures for name, one in results.items() if one.tests_failed} == {}
    assert sum(one.tests_passed for one in results.values()) == 81
