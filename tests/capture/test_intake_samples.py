"""Logs from real agents, as far as there are any: every tool call and every result arrives."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from capture.intake_logs import EVERYWHERE, check_sums, every_event
from treering.app import import_logs

if TYPE_CHECKING:
    from treering import Ledger

BESIDE: Final = Path(__file__).resolve().parents[3] / "shared" / "samples"
FOLDER: Final = Path(os.environ.get("TREERING_SAMPLES") or BESIDE)
COUNTED: Final = (
    "tool_calls", "distinct_calls", "tool_results", "distinct_results", "calls_without_result",
    "results_without_call",
)  # fmt: skip
UNREAD: Final = "other"
"""The format of files that whoever made the index could not read: their counts mean nothing."""


def samples() -> list[Any]:
    """Return the entries of the index that say how many tool calls there are."""
    index = FOLDER / "INDEX.json"
    if not index.is_file():
        reason = "no logs of real agents: set TREERING_SAMPLES to a folder with an INDEX.json"
        return [pytest.param({}, marks=pytest.mark.skip(reason=reason), id="none")]
    return [
        pytest.param(one, id=one["path"])
        for one in json.loads(index.read_bytes())
        if "tool_calls" in one and one["format"] != UNREAD
    ]


def counted(ledger: Ledger) -> dict[str, int]:
    """Return how many tool calls and results a ledger has, in the words of the index."""
    ids: dict[str, list[str]] = {"tool.call": [], "tool.result": []}
    for event in every_event(ledger):
        if event.kind in ids:
            ids[event.kind].append(str((event.refs or {})["call_id"]))
    calls, results = ids.values()
    return {
        "tool_calls": len(calls),
        "distinct_calls": len(set(calls)),
        "tool_results": len(results),
        "distinct_results": len(set(results)),
        "calls_without_result": len(set(calls) - set(results)),
        "results_without_call": len(set(results) - set(calls)),
    }


@pytest.mark.parametrize("sample", samples())
def test_every_tool_call_of_a_real_log_arrives(sample: dict[str, Any]) -> None:
    # The index counts no commands that a user ran by hand; here each is a call with its result.
    by_hand = sample.get("row_counts", {}).get("bashExecution", 0)
    also = Counter(dict.fromkeys(COUNTED[:4], by_hand))
    expected = {name: sample[name] + also[name] for name in COUNTED if name in sample}

    with treering.open(":memory:") as ledger:
        receipt = import_logs(ledger, [FOLDER / sample["path"]], scope=EVERYWHERE)

        check_sums(receipt)
        found = counted(ledger)
        assert {name: found[name] for name in expected} == expected
        assert ledger.admin.verify().intact
        again = import_logs(ledger, [FOLDER / sample["path"]], scope=EVERYWHERE, again=True)
        assert (again.events, again.errors) == (0, receipt.errors)
