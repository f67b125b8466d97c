"""Apeira's and Clawser's logs, read line by line: the same events, and a lossless export."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

import treering
from builders import HERE
from formats.clawser_logs import log_of, logs, voyage
from formats.logs.tellings import told, told_in_parts
from treering.formats import apeira, clawser, pi, tape
from treering.formats.apeira import lines as apeira_lines
from treering.formats.apeira.lines import ApeiraReader
from treering.formats.clawser import lines as clawser_lines
from treering.formats.clawser.kinds import rebuild
from treering.formats.clawser.lines import ClawserReader, reader_with_title
from treering.formats.clawser.text import stringify, truthy
from treering.formats.loose import storable
from treering.model.codec import canonical, decode

if TYPE_CHECKING:
    from treering import Session
    from treering.formats.clawser import EventLog
    from treering.formats.parsed import ParsedEvent

CHAT = PurePosixPath("/clawser/workspaces/ws_1/.conversations/conv_1/events.jsonl")
LOG = PurePosixPath("/logs/conv_1.jsonl")


def episodes() -> list[dict[str, Any]]:
    """Return an Apeira log: a turn with a tool, a boundary, and ids that must increase."""
    sources = {"user": "user", "model": "model", "tool": "tool", "runtime": "runtime"}

    def episode(n: int, source: str, sort: str, payload: Any) -> dict[str, Any]:
        origin = {"source": sources[source], "turnId": "t1"}
        return {"meta": origin, "payload": payload, "type": sort, "id": n}

    def item(**fields: Any) -> dict[str, Any]:
        return {"item": fields}

    return [
        episode(1, "user", "item", item(content="Tide?", role="user", type="message")),
        episode(2, "model", "item",
                item(arguments='{"port":"Bergen"}', call_id="c1", name="tide",
                     type="function_call")),
        episode(2, "tool", "item", item(call_id="c1", output="14:10", type="function_call_output")),
        episode(9, "runtime", "boundary", {"reason": "checkpoint", "title": "half-way"}),
        episode(10, "runtime", "meta", {"event": "turn.usage", "data": {
            "inputTokens": 5, "outputTokens": 2, "totalTokens": 7}}),
    ]  # fmt: skip


@pytest.fixture
def session(tmp_path: Path) -> Session:
    ledger = treering.open(tmp_path / "ledger.db")
    return ledger.session("conv_1", scope=HERE, agent="lyria")


def record(session: Session, events: list[ParsedEvent], origin: str) -> None:
    """Record a reader's events under their keys."""
    session.append(
        [
            session.new_event(
                one.kind,
                one.summary,
                payload=one.payload,
                refs=one.refs,
                event_id=one.key,
                ts_ms=one.ts_ms,
                source=one.source,
                origin=origin,
            )
            for one in events
        ]
    )


def test_an_apeira_log_comes_back_as_its_door_would_give_it(session: Session) -> None:
    episodic = apeira.Episodic("\n".join(map(json.dumps, episodes())))

    record(session, told(ApeiraReader(LOG), episodes()), "apeira")

    assert apeira.from_session(session).to_jsonl() == episodic.to_jsonl()


def test_an_apeira_log_tells_what_its_door_gives(session: Session) -> None:
    episodic = apeira.Episodic("\n".join(map(json.dumps, episodes())))

    made = apeira.to_session(episodic, session)
    events = told(ApeiraReader(LOG), episodes())

    assert [event.kind for event in events] == [header.kind for header in made]
    assert events[2].payload["name"] == "tide"


def test_an_episode_is_known_by_all_that_came_before_it() -> None:
    log = episodes()
    keys = [event.key for event in told(ApeiraReader(LOG), log)]
    other = [event.key for event in told(ApeiraReader(), [*log[:2], log[3], *log[3:]])]

    assert len(set(keys)) == len(log)
    assert (other[:2], set(other[2:]) & set(keys)) == (keys[:2], set())


def test_a_line_that_is_no_episode_is_kept() -> None:
    for strange in ({"type": "item", "id": 1}, {"type": "item", "id": "x"}, [1], "text"):
        (event,) = told(ApeiraReader(LOG), [strange])

        assert (event.kind, event.payload["value"]) == ("ops.observation", strange)


def test_a_clawser_log_comes_back_as_its_door_would_give_it(session: Session) -> None:
    record(session, told(ClawserReader(CHAT), voyage()), "clawser")

    assert clawser.from_session(session) == log_of(voyage())


def test_a_clawser_log_has_the_ids_that_its_door_gives(session: Session) -> None:
    log = [*voyage(), voyage()[1]]
    record(session, told(ClawserReader(CHAT), log), "clawser")

    taken = clawser.to_session(log_of(log), session)

    assert (taken.events, taken.added) == (12, 0)


@given(logs)
def test_whatever_clawser_writes_can_be_told_and_rebuilt(log: EventLog) -> None:
    # Records hold what can be stored, whatever was written.
    readable = [event for event in log.events if storable(event)]

    events = told(ClawserReader(CHAT), readable)

    stored = [decode(canonical(one.payload, "payload")) for one in events]
    rebuilt = [
        rebuild(one.kind, payload, origin="clawser", ts_ms=one.ts_ms)
        for one, payload in zip(events, stored, strict=True)
    ]
    assert [stringify(one) for one in rebuilt] == [
        stringify(one) for one in readable if truthy(one)
    ]


def test_a_conversation_is_named_by_its_folder() -> None:
    assert ClawserReader(CHAT).sessions["conv_1"].about == {"workspace": "ws_1"}
    assert list(ClawserReader(LOG).sessions) == ["conv_1"]


@pytest.mark.parametrize("cut", range(6))
def test_readers_go_on_where_others_stopped(cut: int) -> None:
    log = [*voyage()[:4], voyage()[1], voyage()[1]]

    assert told_in_parts(ApeiraReader, episodes(), cut) == told(ApeiraReader(), episodes())
    assert told_in_parts(ClawserReader, log, cut) == told(ClawserReader(), log)


def test_each_is_recognised_by_itself_alone() -> None:
    every = (apeira_lines, clawser_lines, pi, tape)

    assert [one for one in every if one.score(episodes())] == [apeira_lines]
    assert [one for one in every if one.score(voyage())] == [clawser_lines]


@pytest.mark.parametrize(
    ("card", "title"),
    [
        (b'{"id":"conv_1","name":"Tides","version":2}', "Tides"),
        (b'{"title":"High water","name":"Tides"}', "High water"),
        (b'{"name":7}', None),
        (b"[1]", None),
        (b"{torn", None),
        (b"[" * 100_000, None),
        (b'{"name":"Tides"}' + b" " * 1024 * 1024, None),
        (None, None),
    ],
)
def test_a_conversation_is_called_what_the_card_beside_it_says(
    tmp_path: Path, card: bytes | None, title: str | None
) -> None:
    if card is not None:
        (tmp_path / "meta.json").write_bytes(card)

    reader = reader_with_title(tmp_path / "events.jsonl")

    assert [one.title for one in reader.sessions.values()] == [title]


def test_the_name_of_a_conversation_is_the_title_of_its_session(tmp_path: Path) -> None:
    folder = tmp_path / "ws_1" / ".conversations" / "conv_1"
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text('{"id":"conv_1","name":"Tides"}')
    log = folder / "events.jsonl"
    log.write_text("".join(f"{json.dumps(one)}\n" for one in voyage()))

    with treering.open(tmp_path / "ledger.db") as ledger:
        treering.import_logs(ledger, [log], scope="acme/app")
        outline = ledger.session("conv_1", scope="acme/app", agent="clawser").outline()

    assert outline.title == "Tides"
