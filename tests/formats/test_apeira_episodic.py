from __future__ import annotations

import json
import math
from typing import Any

import pytest

from treering.errors import InvalidInput
from treering.formats.apeira import Episodic


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"content": text, "role": role, "type": "message"}


def line(episode_id: object, **fields: Any) -> str:
    episode = {
        "meta": {"source": "user"},
        "payload": {"item": {}},
        "type": "item",
        "id": episode_id,
    }
    return json.dumps(episode | fields)


def ids(episodes: list[dict[str, Any]]) -> list[int]:
    return [episode["id"] for episode in episodes]


@pytest.fixture
def mixed() -> Episodic:
    """Return eight episodes of three turns: items, a boundary, usage, items."""
    episodic = Episodic()
    episodic.append_items([said("one"), said("two", "assistant")], source="user", turn_id="t1")
    episodic.append({"payload": {"reason": "segment", "title": "part two"}, "type": "boundary"})
    episodic.append({"meta": {"turnId": "t1"}, "payload": {"event": "note"}, "type": "meta"})
    episodic.append_items([said("three"), said("four")], source="user", turn_id="t2")
    episodic.append_items([said("five"), said("six")])
    return episodic


# Appending.


def test_episodes_are_numbered_from_one_with_keys_in_the_order_of_the_format() -> None:
    episodic = Episodic()

    episodic.append_items([{"content": "hi"}], source="user", turn_id="t1")
    episodic.append_items([{"content": "ho"}])

    assert episodic.to_jsonl() == (
        '{"meta":{"source":"user","turnId":"t1"},"payload":{"item":{"content":"hi"}},'
        '"type":"item","id":1}\n'
        '{"meta":{"source":"runtime"},"payload":{"item":{"content":"ho"}},"type":"item","id":2}'
    )


def test_keys_keep_the_order_in_which_they_are_given_and_a_missing_meta_comes_last() -> None:
    episodic = Episodic()

    episodic.append({"type": "meta", "payload": {"event": "e"}, "note": 1})

    assert episodic.to_jsonl() == (
        '{"type":"meta","payload":{"event":"e"},"note":1,"id":1,"meta":{"source":"runtime"}}'
    )


def test_of_an_appended_meta_only_source_and_turn_are_kept() -> None:
    episodic = Episodic()

    added = episodic.append(
        {
            "meta": {"x": 1, "turnId": None, "source": None},
            "payload": {"event": "e"},
            "type": "meta",
        }
    )

    assert added["meta"] == {"source": "runtime", "turnId": None}


def test_an_id_that_is_given_to_append_is_not_taken() -> None:
    assert Episodic().append({"id": 7, "type": "item", "payload": {"item": {}}})["id"] == 1


def test_what_was_given_and_what_is_handed_out_cannot_change_the_log() -> None:
    episodic, item = Episodic(), said("before")

    [added] = episodic.append_items([item])
    before = episodic.to_jsonl()
    item["content"] = "after"
    added["payload"]["item"]["content"] = "after"
    episodic.read()[0]["payload"]["item"]["content"] = "after"
    episodic.slice().items[0]["content"] = "after"

    assert episodic.to_jsonl() == before


@pytest.mark.parametrize(
    "episode",
    [
        {"type": "story", "payload": {}},
        {"payload": {}},
        {"type": "item"},
        {"type": "item", "payload": "text"},
        {"type": "item", "payload": {"item": {1, 2}}},
    ],
)
def test_what_is_no_episode_is_refused_and_leaves_nothing(episode: dict[str, Any]) -> None:
    episodic = Episodic()

    with pytest.raises(InvalidInput):
        episodic.append(episode)

    assert len(episodic) == 0


# Reading.


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({"from_id": 5}, [6, 7, 8]),
        ({"from_id": 5.5}, [6, 7, 8]),
        ({"from_id": 0}, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({"from_id": -9}, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({"type": "boundary"}, [3]),
        ({"type": ["boundary", "meta"]}, [3, 4]),
        ({"type": "story"}, []),
        ({"turn_id": "t1"}, [1, 2, 4]),
        ({"turn_id": "t3"}, []),
        ({"limit": 3}, [6, 7, 8]),
        ({"limit": 99}, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({"turn_id": "t1", "type": "item", "limit": 1}, [2]),
        ({"from_id": 1, "type": ["item"], "turn_id": "t1", "limit": 5}, [2]),
    ],
)
def test_read_filters_first_and_then_takes_the_last(
    mixed: Episodic, query: dict[str, Any], found: list[int]
) -> None:
    assert ids(mixed.read(**query)) == found


def test_no_types_at_all_match_nothing(mixed: Episodic) -> None:
    assert mixed.read(type=[]) == []


@pytest.mark.parametrize("limit", [0, -1, 0.9, -0.5, math.nan, math.inf, -math.inf])
def test_a_limit_that_is_no_positive_number_gives_nothing(mixed: Episodic, limit: float) -> None:
    assert mixed.read(limit=limit) == []


def test_a_limit_is_cut_to_a_whole_number(mixed: Episodic) -> None:
    assert ids(mixed.read(limit=2.9)) == [7, 8]


def test_only_a_read_that_asks_for_nothing_stops_at_a_hundred() -> None:
    episodic = Episodic()
    episodic.append_items([said(str(n)) for n in range(130)], turn_id="t")

    assert ids(episodic.read()) == list(range(31, 131))
    assert len(episodic.read(turn_id=None, type=None, from_id=None)) == 100
    assert [len(episodic.read(**query)) for query in ({"from_id": 0}, {"type": "item"})] == [
        130
    ] * 2
    assert len(episodic.read(turn_id="t")) == 130
    assert len(episodic.read(limit=120)) == 120


def test_a_turn_is_matched_by_its_text_alone() -> None:
    episodic = Episodic(line(1, meta={"source": "user", "turnId": 1}) + "\n" + line(2, meta=[]))

    assert episodic.read(turn_id="1") == []


# Loading.


def test_a_log_comes_back_to_the_byte(mixed: Episodic) -> None:
    jsonl = mixed.to_jsonl()

    assert Episodic(jsonl).to_jsonl() == jsonl
    assert Episodic(jsonl) == mixed
    assert not jsonl.endswith("\n")


def test_ids_that_are_taken_or_too_low_become_the_next() -> None:
    episodic = Episodic("\n".join(map(line, [4, 4, 1, 8, -3, 0])))

    assert ids(episodic.read()) == [4, 5, 6, 8, 9, 10]
    assert episodic.append_items([{}])[0]["id"] == 11


def test_blank_lines_and_blanks_around_lines_are_skipped() -> None:
    episodic = Episodic(f"\n  \r\n\ufeff{line(1)} \r\n\u2028\n{line(2)}\t\n\n")

    assert ids(episodic.read()) == [1, 2]


def test_a_blank_that_only_python_strips_makes_a_bad_line() -> None:
    assert Episodic(f"\x1c{line(1)}").read()[0]["type"] == "meta"


@pytest.mark.parametrize(
    "bad",
    [
        "5",
        "null",
        "[]",
        "{}",
        line(None),
        line("1"),
        line(1.5),
        line(True),
        line(2**53),
        line(1, type="story"),
        line(1, type=["item"]),
        line(1, payload=None),
        line(1, payload="x"),
        line(1, meta=None),
        line(1, meta=3),
    ],
)
def test_a_line_that_is_json_and_no_episode_is_counted(bad: str) -> None:
    [told] = Episodic(bad).read()

    assert told == {
        "meta": {"source": "runtime"},
        "payload": {"data": {"count": 1, "errors": ["Invalid episode."]}, "event": "error.parse"},
        "type": "meta",
        "id": 1,
    }


def test_lists_pass_for_payload_and_meta_and_unknown_fields_and_sources_stay() -> None:
    text = (
        '{"id":1,"meta":[],"payload":[1],"type":"item"}\n'
        '{"x":{"y":2},"id":2,"meta":{"source":"moon","z":0},"payload":{},"type":"meta"}'
    )

    assert Episodic(text).to_jsonl() == text


def test_bad_lines_are_skipped_and_one_episode_tells_of_all_and_quotes_five() -> None:
    episodic = Episodic("\n".join([line(3), '{"id":4,"type":"it', *"abcdef", line(9)]))

    *kept, told = episodic.read()

    assert ids([*kept, told]) == [3, 9, 10]
    assert told["meta"] == {"source": "runtime"}
    assert told["payload"]["event"] == "error.parse"
    assert told["payload"]["data"]["count"] == 7
    assert told["payload"]["data"]["errors"] == [
        "Unterminated string in JSON at position 18",
        *(f"Unexpected token '{sign}', \"{sign}\" is not valid JSON" for sign in "abcd"),
    ]


def test_a_damaged_log_gets_another_error_each_time_it_is_loaded_from_the_damaged_text() -> None:
    damaged = line(1) + "\n{"
    saved = Episodic(damaged).to_jsonl()

    again = Episodic(saved + "\n{")

    assert [episode["type"] for episode in again.read()] == ["item", "meta", "meta"]
    assert Episodic(saved).to_jsonl() == saved


def test_a_line_torn_within_a_character_is_a_line_that_is_none() -> None:
    [told] = Episodic('{"torn": "x\ud83c').read()

    assert (told["payload"]["event"], told["payload"]["data"]["count"]) == ("error.parse", 1)


def test_an_empty_text_is_an_empty_log() -> None:
    assert (Episodic("").read(), Episodic("").to_jsonl(), Episodic(" \n ").read()) == ([], "", [])


def test_beyond_the_safe_integers_ids_stand_still_as_doubles_do() -> None:
    top = 2**53 - 1
    episodic = Episodic("\n".join([line(top), line(top), line(top)]))

    assert ids(episodic.read()) == [top, top + 1, top + 1]
    assert ids(episodic.append_items([{}, {}])) == [top + 1, top + 1]


# From episodes, and forks.


def test_episodes_that_are_given_as_such_keep_their_ids() -> None:
    episodes = [json.loads(line(number)) for number in (5, 2, 2, -1)]

    episodic = Episodic(episodes)

    assert ids(episodic.read()) == [5, 2, 2, -1]
    assert episodic.append_items([{}])[0]["id"] == 6


def test_ids_below_one_do_not_lower_the_next() -> None:
    assert Episodic([json.loads(line(-7))]).append_items([{}])[0]["id"] == 1


@pytest.mark.parametrize(
    "episodes",
    [
        [{"type": "item", "payload": {}, "meta": {}}],
        [{"type": "item", "payload": {}, "id": 1}],
        [{"type": "story", "payload": {}, "meta": {}, "id": 1}],
        ["text"],
        b"{}",
    ],
)
def test_given_episodes_have_to_be_whole(episodes: Any) -> None:
    with pytest.raises(InvalidInput):
        Episodic(episodes)


def test_a_fork_goes_its_own_way(mixed: Episodic) -> None:
    before = mixed.to_jsonl()

    fork = mixed.fork()
    fork.append_items([said("only here")])

    assert mixed.to_jsonl() == before
    assert fork.to_jsonl().startswith(before)
    assert ids(fork.read(limit=1)) == [9]


def test_what_is_no_episode_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="not a NoneType"):
        Episodic().append(None)  # type: ignore[arg-type]
