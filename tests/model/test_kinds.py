from __future__ import annotations

import pytest

from treering.errors import InvalidInput, InvalidKind
from treering.model.events import SCHEMA_VERSION
from treering.model.kinds import EPISODE_KINDS, KINDS, parse_kind
from treering.model.scopes import DEFAULT_RETENTION, check_retention, cutoffs, parse_retention_entry
from treering.storage.encoding import upcast

SEEDS = {
    "000": ["conversation.user", "conversation.assistant", "tool.call", "tool.result",
            "ops.decision", "ops.alert", "ops.observation"],
    "001": ["lifecycle.started", "lifecycle.ended", "lifecycle.failed", "assistant.delta",
            "assistant.final", "tool.call.started", "tool.call.finished", "tool.call.failed",
            "compaction.phase", "warning"],
    "003": ["checkpoint", "interrupt", "overflow", "intent", "segment", "turn.usage"],
    "004": ["user_message", "agent_message", "tool_call", "tool_result", "goal_added",
            "goal_updated", "memory_stored", "memory_forgotten", "scheduler_added",
            "scheduler_fired", "scheduler_removed", "context_compacted", "autonomy_blocked",
            "cache_hit", "error"],
}  # fmt: skip


@pytest.mark.parametrize("spelling", [name for names in SEEDS.values() for name in names])
def test_every_spelling_of_every_seed_is_understood(spelling: str) -> None:
    assert parse_kind(spelling).name in KINDS
    assert parse_kind(f" {spelling.upper()} ") == parse_kind(spelling)


def test_no_spelling_means_two_kinds() -> None:
    spellings = [s for kind in KINDS.values() for s in (kind.name, *kind.spellings)]

    assert len(spellings) == len(set(spellings))


def test_an_unknown_kind_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(InvalidKind) as refused:
        parse_kind("tool.cal")

    assert refused.value.hint == "did you mean tool.call or tool.result?"


def test_retention_is_the_seeds_by_default_and_copies_of_words_go_with_them() -> None:
    seeds = {
        "conversation.user": 60, "conversation.assistant": 90, "tool.call": 30,
        "tool.result": 30, "ops.alert": 90,
    }  # fmt: skip
    copies = {"inbox.received": 60, "ops.receipt": 90, "context.compacted": 90}
    assert seeds | copies == DEFAULT_RETENTION
    assert set(EPISODE_KINDS) <= set(KINDS)


@pytest.mark.parametrize("word", ["forever", "inf", "infinite", "none", "FOREVER "])
def test_forever_has_several_spellings(word: str) -> None:
    assert parse_retention_entry(f"tool.call={word}") == ("tool.call", None)


@pytest.mark.parametrize(
    ("entry", "part"),
    [
        ("tool.call", "invalid --policy entry: tool.call"),
        ("tool.call=x", "invalid retention days for tool.call: x"),
        ("tool.call=-1", "retention days must be >= 0 for tool.call"),
        ("nope=3", "invalid kind: nope"),
        ("=3", "invalid --policy entry: =3"),
    ],
)
def test_a_policy_that_cannot_be_read_is_refused(entry: str, part: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_retention_entry(entry)

    assert part in str(refused.value)
    assert refused.value.hint


def test_cutoffs_leave_out_what_is_kept_forever() -> None:
    policy = check_retention({"tool_call": 1, "ops.decision": None, "ops.alert": 0})

    assert cutoffs(policy, 86_400_001) == {"tool.call": 1, "ops.alert": 86_400_001}


def test_older_content_is_lifted_step_by_step_and_newer_is_left_alone() -> None:
    steps = {
        1: lambda kind, payload: {**payload, "kind": kind},
        2: lambda _, payload: {**payload, "third": True},
    }

    assert upcast("ops.alert", {"a": 1}, 1, steps) == {"a": 1, "kind": "ops.alert", "third": True}
    assert upcast("ops.alert", {"a": 1}, 2, steps) == {"a": 1, "third": True}
    assert upcast("ops.alert", {"a": 1}, 9, steps) == {"a": 1}
    assert upcast("ops.alert", {"a": 1}, SCHEMA_VERSION) == {"a": 1}
