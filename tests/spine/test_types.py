"""A type checker tells safe events from private ones: who mixes them up learns it before running.

Each snippet is checked by mypy. A line is refused if, and only if, it says so.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
OPENING = """
from typing import Literal
import treering
from treering.model.carried import PrivateEvent, SafeEvent
from treering.spine.ports import Delivery, Gate, Occasion, Preparation, PrivateSink, SafeSink
from treering.spine.ports import Sink, Verdict

ledger = treering.open(":memory:")
"""

SNIPPETS = {
    "a_safe_sink_is_taken": """
class Log:
    name = "log"

    def accepts(self, event: SafeEvent) -> bool:
        return event.kind == "tool.call"

    def handle(self, event: SafeEvent) -> None:
        print(event.summary, event.refs, event.envelope())

ledger.spine([Log()])
ledger.spine(sinks=[Log()])
sink: SafeSink = Log()
""",
    "a_private_sink_says_so_and_is_taken": """
class Archive:
    visibility: Literal["private"] = "private"

    def __init__(self) -> None:
        self.name = "archive"
        self.delivery = Delivery(durable=True, on_error="retry")

    def accepts(self, event: PrivateEvent) -> bool:
        return True

    def handle(self, event: PrivateEvent) -> None:
        print(event.payload)

ledger.spine(sinks=[Archive()])
sink: PrivateSink = Archive()
""",
    "an_awaited_sink_is_taken": """
class Web:
    name = "web"

    def accepts(self, event: SafeEvent) -> bool:
        return True

    async def handle(self, event: SafeEvent) -> None:
        print(event.summary)

ledger.spine(sinks=[Web()])
""",
    "a_sink_of_safe_and_private_events_alike_is_taken": """
class Count:
    name = "count"

    def accepts(self, event: SafeEvent | PrivateEvent) -> bool:
        return True

    def handle(self, event: SafeEvent | PrivateEvent) -> None:
        print(event.run_seq)

ledger.spine(sinks=[Count()])
""",
    "sinks_of_both_sorts_are_taken_together": """
class Log:
    name = "log"
    def accepts(self, event: SafeEvent) -> bool: return True
    def handle(self, event: SafeEvent) -> None: ...

class Archive:
    name = "archive"
    visibility: Literal["private"] = "private"
    def accepts(self, event: PrivateEvent) -> bool: return True
    def handle(self, event: PrivateEvent) -> None: ...

sinks: list[Sink] = [Log(), Archive()]
ledger.spine(sinks)
ledger.spine([Log(), Archive()])
""",
    "private_events_are_not_had_without_saying_so": """
class Sneak:
    name = "sneak"

    def accepts(self, event: PrivateEvent) -> bool:
        return True

    def handle(self, event: PrivateEvent) -> None:
        print(event.payload)

ledger.spine(sinks=[Sneak()])  # refused
""",
    "saying_safe_is_not_saying_private": """
class Sneak:
    name = "sneak"
    visibility: Literal["safe"] = "safe"

    def accepts(self, event: PrivateEvent) -> bool:
        return True

    def handle(self, event: PrivateEvent) -> None:
        print(event.payload)

ledger.spine(sinks=[Sneak()])  # refused
""",
    "half_a_sneak_is_refused_too": """
class Sneak:
    name = "sneak"

    def accepts(self, event: SafeEvent) -> bool:
        return True

    def handle(self, event: PrivateEvent) -> None:
        print(event.payload)

ledger.spine(sinks=[Sneak()])  # refused
""",
    "a_sink_that_cannot_be_named_or_asked_is_none": """
class Nameless:
    def accepts(self, event: SafeEvent) -> bool: return True
    def handle(self, event: SafeEvent) -> None: ...

class Greedy:
    name = "greedy"
    def handle(self, event: SafeEvent) -> None: ...

ledger.spine(sinks=[Nameless()])  # refused
ledger.spine(sinks=[Greedy()])  # refused
""",
    "a_safe_event_has_no_payload": """
def show(event: SafeEvent) -> None:
    print(event.summary)
    print(event.payload)  # refused
""",
    "the_two_are_different_types_both_ways": """
def safe(event: SafeEvent) -> None: ...
def private(event: PrivateEvent) -> None: ...

def mix(one: SafeEvent, other: PrivateEvent) -> None:
    safe(one)
    private(other)
    safe(other)  # refused
    private(one)  # refused
""",
    "events_are_not_changed": """
def change(one: SafeEvent, other: PrivateEvent) -> None:
    one.summary = "another"  # refused
    other.payload = None  # refused
""",
    "a_gate_is_a_sink_and_more": """
from typing import Any

class Warden:
    name = "warden"
    def accepts(self, event: SafeEvent) -> bool: return True
    def handle(self, event: SafeEvent) -> None: ...
    def before_run(self, occasion: Occasion, prompt: str | None) -> Preparation:
        return Preparation()
    def before_tool(self, occasion: Occasion, tool: str, call_id: str, input: Any) -> Verdict:
        return Verdict()
    def before_sending(self, occasion: Occasion, text: str, to: str | None) -> Verdict:
        return Verdict()
    def persist(
        self, occasion: Occasion, tool: str, call_id: str, output: Any,
        *, is_error: bool, is_synthetic: bool,
    ) -> Any:
        return output

gate: Gate = Warden()
ledger.spine([Warden()])
""",
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[int]]:
    """Return the lines that mypy refuses, by snippet."""
    folder = tmp_path_factory.mktemp("snippets")
    for name, snippet in SNIPPETS.items():
        (folder / f"{name}.py").write_text(OPENING + snippet)
    options = ["--strict", "--config-file=", "--no-error-summary", f"--cache-dir={folder}/cache"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *(f"{name}.py" for name in SNIPPETS)],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(SRC)},
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    found: dict[str, set[int]] = defaultdict(set)
    for name, line in re.findall(r"^(\w+)\.py:(\d+): error:", done.stdout, re.MULTILINE):
        found[name].add(int(line))
    return found


@pytest.mark.parametrize("name", SNIPPETS)
def test_what_should_not_be_handed_over_is_refused_by_its_type(
    name: str, refused: dict[str, set[int]]
) -> None:
    lines = (OPENING + SNIPPETS[name]).splitlines()

    expected = {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}

    assert refused[name] == expected


def test_the_types_stand_apart_when_the_program_runs_too() -> None:
    from treering.model.carried import PrivateEvent, SafeEvent

    assert not issubclass(PrivateEvent, SafeEvent)
    assert not issubclass(SafeEvent, PrivateEvent)
    assert not hasattr(SafeEvent, "payload")
