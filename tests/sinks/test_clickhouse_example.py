"""The follower for ClickHouse in the docs: what it posts are rows of the table beside it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import treering
from builders import HERE
from effort import PATIENCE_S
from receivers import Receiver, receiver

PAGE: Final = Path(__file__).parents[2].joinpath("docs/how-to/large-teams.md").read_text()
NUMBERS: Final = frozenset({"UInt8", "UInt64"})


def block(language: str, word: str) -> str:
    """Return the block of the page that has a word in it."""
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return next(text for text in blocks if word in text)


def columns() -> dict[str, str]:
    """Return the types of the table's columns, in parentheses or not."""
    body = block("sql", "CREATE TABLE").partition("\n(\n")[2].partition("\n)\n")[0]
    return dict(re.findall(r"(?:^|, |\n)\s*([a-z_]+) ((?:[A-Z]\w+\(?)+)", body))


def follower(url: str) -> Any:
    names: dict[str, Any] = {}
    exec(compile(block("python", "class ClickHouseSink"), "<docs>", "exec"), names)
    return names["ClickHouseSink"](url)


def rows(taken: Receiver) -> list[dict[str, Any]]:
    return [json.loads(line) for post in taken.taken for line in post.body.decode().splitlines()]


def test_rows_fit_the_table_and_each_event_is_one(tmp_path: Path) -> None:
    answers = iter([503])
    with receiver() as database, treering.open(tmp_path / "l.db") as ledger:
        database.answer = lambda _: next(answers, 200)
        with ledger.session("s1", scope=HERE, agent="lyria").turn(model="gpt-5") as turn:
            turn.user("the launch word")
            turn.tools.started("bash", {"command": "ls"}, call_id="c1").finish("toad.txt")
            turn.emit("usage.reported", {"model": "gpt-5", "input_tokens": 9, "output_tokens": 1})
        spine = ledger.spine(sinks=[follower(database.url.removesuffix("/hook"))])
        spine.follow(HERE)
        assert spine.flush(PATIENCE_S)
        recorded = ledger.headers(HERE, first=100).items

    types, posted = columns(), rows(database)
    assert len(database.posts) == len(database.taken) + 1
    (query,) = parse_qs(urlsplit(database.taken[0].path).query)["query"]
    assert query == "INSERT INTO treering_events FORMAT JSONEachRow"
    assert [one["event_id"] for one in posted] == [one.event_id for one in recorded]
    assert {name for row in posted for name in row} == types.keys() - {"version"}
    for row in posted:
        for name, value in row.items():
            is_number = types[name].rpartition("(")[2] in NUMBERS or types[name] == "DateTime64("
            is_absent = value is None and types[name].startswith(("Nullable(", "LowCardinality(N"))
            assert is_absent or isinstance(value, int | float) is is_number, (name, value)
    assert "toad" not in json.dumps(posted)
    assert "launch" not in json.dumps(posted)
