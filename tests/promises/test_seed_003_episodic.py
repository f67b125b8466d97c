"""Apeira's Episodic: every line on the log itself, how it is asked and how it is stored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from builders import HERE
from treering.errors import InvalidInput
from treering.formats.apeira import (
    Episodic,
    SessionState,
    from_session,
    load_state,
    save_state,
    to_session,
)

if TYPE_CHECKING:
    from treering import Ledger

TURN = "turn-1"
PREFERENCE = {"content": "Please answer in one line.", "role": "user", "type": "message"}


def mark(reason: str, **payload: Any) -> dict[str, Any]:
    return {
        "meta": {"source": "runtime", "turnId": TURN},
        "payload": {"reason": reason, "title": f"a {reason}", **payload},
        "type": "boundary",
    }


def used(tokens: int) -> dict[str, Any]:
    counts = {"inputTokens": tokens, "outputTokens": 24, "totalTokens": tokens + 24}
    return {
        "meta": {"source": "runtime", "turnId": TURN},
        "payload": {"data": counts, "event": "turn.usage"},
        "type": "meta",
    }


@pytest.fixture
def episodic() -> Episodic:
    """Return a log with an episode of each type."""
    episodic = Episodic()
    episodic.append_items([PREFERENCE], source="user", turn_id=TURN)
    episodic.append(mark("interrupt", content="Tools may have done part of their work."))
    episodic.append(used(120))
    return episodic


# Core ideas.


def test_each_session_has_an_append_only_jsonl_log(ledger: Ledger, episodic: Episodic) -> None:
    """Each session stores an append-only JSONL log of episodes."""
    session = ledger.session("s1", scope=HERE, agent="lyria")
    before = episodic.to_jsonl()

    to_session(episodic, session)
    episodic.append(mark("segment"))
    to_session(episodic, session)

    assert from_session(session).to_jsonl() == episodic.to_jsonl()
    assert episodic.to_jsonl().startswith(before)
    assert [json.loads(line)["id"] for line in episodic.to_jsonl().split("\n")] == [1, 2, 3, 4]


def test_a_host_can_inspect_and_append_structured_history(episodic: Episodic) -> None:
    """Use Episodic when a plugin or host needs to inspect or append structured history."""
    added = episodic.append(mark("intent"))

    assert episodic.read(limit=1) == [added]


def test_an_episode_is_immutable(episodic: Episodic) -> None:
    """Episode — one immutable event in a session log."""
    before = episodic.to_jsonl()

    for episode in episodic.read():
        episode["payload"].clear()
        episode["id"] = 99

    assert episodic.to_jsonl() == before


def test_the_stream_only_grows(episodic: Episodic) -> None:
    """Episodic — the append-only event stream for one session."""
    public = {name for name in vars(Episodic) if not name.startswith("_")}

    assert public == {"append", "append_items", "fork", "read", "slice", "to_jsonl"}


@pytest.mark.parametrize("reason", ["checkpoint", "interrupt", "overflow", "intent", "segment"])
def test_a_boundary_is_a_structured_marker(ledger: Ledger, reason: str) -> None:
    """A structured marker such as checkpoint, interrupt, overflow, intent, or segment."""
    session = ledger.session("s1", scope=HERE, agent="lyria")
    episodic = Episodic()
    episodic.append(mark(reason))

    [header] = to_session(episodic, session)

    assert header.kind == f"boundary.{reason}"
    assert from_session(session) == episodic


def test_meta_is_not_sent_to_the_model(episodic: Episodic) -> None:
    """Meta — audit data that is not sent to the model by default."""
    assert "turn.usage" not in json.dumps(episodic.slice().items)
    assert episodic.slice().meta.item_count == 2


def test_the_log_preserves_raw_facts(episodic: Episodic) -> None:
    """The log preserves raw facts. Trimming [and] normalization … not by editing old episodes."""
    call = {"arguments": "{}", "call_id": "c1", "name": "read", "type": "function_call"}
    output = {"call_id": "c1", "output": "x" * 9_000, "type": "function_call_output"}
    orphan = {"call_id": "c9", "output": "", "type": "function_call_output"}
    episodic.append_items([call, output, orphan])
    before = episodic.to_jsonl()

    sent = episodic.slice(extensions=[PREFERENCE], max_tokens=10)

    assert output not in sent.items
    assert episodic.to_jsonl() == before
    assert episodic.read(limit=2)[0]["payload"]["item"] == output


# Episode types.


def test_there_are_three_types_and_no_other(episodic: Episodic) -> None:
    """Type Episode = BoundaryEpisode | ItemEpisode | MetaEpisode."""
    assert [episode["type"] for episode in episodic.read()] == ["item", "boundary", "meta"]
    with pytest.raises(InvalidInput, match="invalid episode type"):
        episodic.append({"payload": {}, "type": "story"})


def test_item_episodes_store_raw_items(episodic: Episodic) -> None:
    """Item episodes store raw xsAI ItemParam values."""
    [episode] = episodic.read(type="item")

    assert episode == {
        "meta": {"source": "user", "turnId": TURN},
        "payload": {"item": PREFERENCE},
        "type": "item",
        "id": 1,
    }


def test_boundary_episodes_mark_explicit_context_boundaries(episodic: Episodic) -> None:
    """Boundary episodes mark explicit context boundaries."""
    episodic.append_items([PREFERENCE])

    found = episodic.slice(start={"type": "last-boundary", "reason": "interrupt"})

    assert found.items[0]["content"].startswith("<interrupt>\nTools may")
    assert found.items[1:] == [PREFERENCE]


def test_meta_episodes_record_audit_information(episodic: Episodic) -> None:
    """Meta episodes record audit information such as usage or parse errors."""
    broken = Episodic(episodic.to_jsonl() + "\nnonsense")

    events = [episode["payload"]["event"] for episode in broken.read(type="meta")]

    assert events == ["turn.usage", "error.parse"]


# Querying.


def test_recent_items_are_asked_by_type_and_limit() -> None:
    """episodic.read({ limit: 12, type: 'item' })."""
    episodic = Episodic()
    for number in range(20):
        episodic.append_items([{**PREFERENCE, "content": str(number)}])
        episodic.append(used(number))

    found = episodic.read(limit=12, type="item")

    assert [episode["payload"]["item"]["content"] for episode in found] == [
        str(number) for number in range(8, 20)
    ]


def test_without_a_query_the_latest_hundred_are_read() -> None:
    """read() has a safety default: with no query, it returns the latest 100 episodes."""
    episodic = Episodic()
    episodic.append_items([PREFERENCE] * 250)

    assert [episode["id"] for episode in episodic.read()] == list(range(151, 251))


def test_a_query_says_what_else_is_meant() -> None:
    """Add a query when you mean something else: fromId: 0 [for the] full log, limit, turnId."""
    episodic = Episodic()
    episodic.append_items([PREFERENCE] * 200, turn_id=TURN)
    episodic.append(mark("segment"))

    assert len(episodic.read(from_id=0)) == 201
    assert [episode["id"] for episode in episodic.read(limit=6, type="item")] == [*range(195, 201)]
    assert len(episodic.read(turn_id=TURN)) == 201


def test_limit_is_applied_after_filters(episodic: Episodic) -> None:
    """Limit is applied after filters. limit: 0 returns an empty array."""
    episodic.append_items([PREFERENCE])

    assert [episode["id"] for episode in episodic.read(limit=1, turn_id=TURN)] == [3]
    assert episodic.read(limit=0) == []
    assert episodic.read(limit=0, type="item") == []


# Serialization.


def test_session_persistence_stores_context_and_episodic(episodic: Episodic) -> None:
    """Session persistence stores JSON shaped like this: … context …, episodic: string."""
    stored = save_state(SessionState(context={"user": "u1"}, episodic=episodic))

    assert json.loads(stored) == {"context": {"user": "u1"}, "episodic": episodic.to_jsonl()}
    assert load_state(stored).context == {"user": "u1"}


def test_a_log_is_restored_from_its_jsonl(episodic: Episodic) -> None:
    """Use toJSONL() to persist …, and pass JSONL to createEpisodic() to restore it."""
    jsonl = episodic.to_jsonl()

    restored = Episodic(jsonl)

    assert restored.read(from_id=0) == episodic.read(from_id=0)
    assert restored.to_jsonl() == jsonl


def test_bad_lines_are_skipped_and_told_of_once(episodic: Episodic) -> None:
    """createEpisodic(jsonl) skips bad lines and appends one meta episode … 'error.parse'."""
    good = episodic.to_jsonl()

    restored = Episodic(f"nonsense\n{good}\n{{}}\n")

    assert restored.to_jsonl().startswith(good)
    [told] = restored.read(from_id=3)
    assert told["payload"]["event"] == "error.parse"
    assert told["payload"]["data"]["count"] == 2
    assert Episodic(good).read(from_id=3) == []


def test_the_old_items_array_is_refused() -> None:
    """Persisted state … current Apeira sessions use episodic, not the old items array."""
    with pytest.raises(InvalidInput, match="items instead of episodic"):
        load_state({"context": {}, "items": [PREFERENCE]})


# Model input assembly, as the log's own door does it.


def test_over_budget_it_restarts_from_the_nearest_checkpoint_or_interrupt(
    episodic: Episodic,
) -> None:
    """It attempts to restart from the nearest checkpoint or interrupt boundary."""
    found = episodic.slice(max_tokens=119)

    assert found.meta.truncated
    assert [item["content"].split("\n")[0] for item in found.items] == ["<interrupt>"]


def test_without_such_a_boundary_it_keeps_the_turn_or_nothing() -> None:
    """If there is no such boundary, it keeps the current turn's episodes …; otherwise [none]."""
    episodic = Episodic()
    episodic.append_items([PREFERENCE], turn_id="before")
    episodic.append(used(120))
    episodic.append_items([PREFERENCE], turn_id="now")

    assert episodic.slice(max_tokens=100, turn_id="now").meta.item_count == 1
    assert episodic.slice(max_tokens=100).items == []


def test_some_boundaries_are_visible_and_some_are_not() -> None:
    """checkpoint, interrupt, and overflow become model-visible messages."""
    episodic = Episodic()
    for reason in ("checkpoint", "intent", "interrupt", "segment", "overflow"):
        episodic.append(mark(reason))

    told = [item["content"].split("\n")[0] for item in episodic.slice().items]

    assert told == ["<checkpoint>", "<interrupt>", "<overflow>"]


def test_outputs_stay_paired_and_long_ones_are_shortened() -> None:
    """Tool outputs longer than 8,000 characters are shortened …; orphan outputs are dropped."""
    episodic = Episodic()
    call = {"arguments": "{}", "call_id": "c1", "name": "read", "type": "function_call"}
    long = {"call_id": "c1", "output": "a" * 6_000 + "b" * 6_000, "type": "function_call_output"}
    orphan = {"call_id": "c9", "output": "", "type": "function_call_output"}
    episodic.append_items([orphan, call, long])

    kept, shortened = episodic.slice().items

    assert kept == call
    assert shortened["output"].startswith("a" * 4_000 + "\n\n(truncated: 4000 chars omitted)")
    assert shortened["output"].endswith("b" * 4_000)


# Plugins.


def test_a_plugin_reads_the_working_log(episodic: Episodic) -> None:
    """episodic.read({ limit: 6, type: 'item' }).map(episode => episode.payload.item)."""
    items = [episode["payload"]["item"] for episode in episodic.read(limit=6, type="item")]

    assert items == [PREFERENCE]


def test_temporary_input_reaches_one_call_and_never_the_log(episodic: Episodic) -> None:
    """Returned input affects only that model call. It does not mutate the session log."""
    journal = {"content": "Likes tea.", "role": "user", "type": "message"}

    assert episodic.slice(extensions=[journal]).items[-1] == journal
    assert journal not in episodic.slice().items
    assert "tea" not in episodic.to_jsonl()
