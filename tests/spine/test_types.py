"""A type checker tells safe events from private ones: who mixes them up learns it before running.

Each snippet is checked by mypy as a user's program is: outside of the source tree, with Treering
as an installed package. A line is refused if, and only if, it says so.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict

import pytest

import treering
from treering import sinks

FOREIGN = ",".join(f"{name}.*" for name in ("httpx2", "numpy", "psycopg", "pydantic", "rich"))
"""Packages whose types no snippet meets; reading them took half of the time."""
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
    "a_sink_may_name_the_kinds_that_it_accepts": """
class Alarm:
    name = "alarm"
    accepts = ("lifecycle.*", "tool.call.failed")

    def handle(self, event: SafeEvent) -> None:
        print(event.envelope_kind)

class Sneak:
    name = "sneak"
    accepts = ("tool.call.failed",)

    def handle(self, event: PrivateEvent) -> None:
        print(event.payload)

class Wrong:
    name = "wrong"
    accepts = 7

    def handle(self, event: SafeEvent) -> None: ...

ledger.spine(sinks=[Alarm()])
ledger.spine(sinks=[Sneak()])  # refused
ledger.spine(sinks=[Wrong()])  # refused
""",
    "an_envelope_is_a_typed_value": """
from treering.model.envelopes import CallFacts, PrivateEnvelope, SafeEnvelope
from treering.model.envelopes import ToolCallFailed, ToolCallStarted

def read(one: SafeEvent, other: PrivateEvent) -> None:
    safe, private = one.envelope(), other.envelope()
    safe.kind  # refused
    if safe is None or private is None:
        return
    print(safe.kind, safe.seq, safe.visibility, safe.to_dict()["kind"])
    print(safe["kind"])  # refused
    print(safe.run)  # refused
    kept: SafeEnvelope = safe
    leaked: SafeEnvelope = private  # refused
    if isinstance(safe, ToolCallStarted):
        print(safe.payload.tool_name)
        print(safe.payload.input)  # refused
    if isinstance(private, ToolCallStarted):
        print(private.payload.input)
        facts: CallFacts = private.payload  # refused
    match private:
        case ToolCallFailed(payload=payload):
            print(payload.error, payload.output, payload.tool_call_id)
            print(payload.input)  # refused
""",
    "hook_sinks_are_told_apart": """
from treering.sinks import Hooks, HookSink, PrivateHookSink

hooks = Hooks()
safe_one: SafeSink = HookSink(hooks)
private_one: PrivateSink = PrivateHookSink(hooks)
safe_two: SafeSink = PrivateHookSink(hooks)  # refused
private_two: PrivateSink = HookSink(hooks)  # refused
ledger.spine(sinks=[HookSink(hooks), PrivateHookSink(hooks, name="private")])

def hand(event: SafeEvent, other: PrivateEvent) -> None:
    HookSink(hooks).handle(event)
    HookSink(hooks).handle(other)  # refused
    PrivateHookSink(hooks).handle(event)  # refused
""",
    "a_private_trace_needs_a_guard": """
from treering.sinks import PrivateTraceSink, TraceSink, TranscriptSink, LogSink

ledger.spine(sinks=[TraceSink("traces"), TranscriptSink("transcripts"), LogSink()])
PrivateTraceSink("traces")  # refused
""",
    "the_public_names_are_known_and_no_others": """
import treering.sinks as sinks
session = ledger.session("s1", scope="acme/app", agent="lyria")
with session.turn() as run:
    run.user("hello")
    run.user(7)  # refused
    run.users("hello")  # refused
ledger.sesion("s1")  # refused
treering.Recollection  # refused
treering.opn("x")  # refused
sinks.LogSing()  # refused
ledger.append("no events")  # refused
print(session.headers(last=1), session.headers("last"))  # refused
""",
    "every_public_name_is_known": "\n".join(
        [
            *(f"print(treering.{name})" for name in treering.__all__),
            "import treering.sinks",
            *(f"print(treering.sinks.{name})" for name in sinks.__all__),
        ]
    ),
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[int]]:
    """Return the lines that mypy refuses, by snippet."""
    folder = tmp_path_factory.mktemp("snippets")
    for name, snippet in SNIPPETS.items():
        (folder / f"{name}.py").write_text(OPENING + snippet)
    (folder / "mypy.ini").write_text(f"[mypy]\n[mypy-{FOREIGN}]\nfollow_imports = skip\n")
    options = ["--strict", "--config-file=mypy.ini", "--no-error-summary", "--cache-dir=/dev/null"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *(f"{name}.py" for name in SNIPPETS)],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "MYPYPATH"},
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
