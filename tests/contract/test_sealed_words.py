"""No word of a conversation in an encrypted scope is legible, however it was recorded."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from psycopg import sql

import treering
from capture.intake_logs import VOYAGES, write
from treering.errors import Corrupt, KeyMissing, RunInterrupted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postgres_server import Places
    from treering import Ledger

NEEDLE: Final = "quillwort"
SCOPE: Final = "acme/app"


class Place:
    """A ledger's location, and what somebody without the key can do there."""

    def __init__(self, location: str, schema: str | None) -> None:
        self.location = location
        self._schema = schema

    def open(self, keys: Path) -> Ledger:
        """Open the ledger with a folder of keys."""
        return treering.open(self.location, keys=str(keys))

    def holds(self, word: str) -> bool:
        """Return whether a word is anywhere in the ledger's files or tables."""
        if self._schema is None:
            files = Path(self.location).parent.glob("ledger.db*")
            return any(word.encode() in file.read_bytes().lower() for file in files)
        with psycopg.connect(self._url) as connection:
            names = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = %s", (self._schema,)
            ).fetchall()
            for (name,) in names:
                rows = connection.execute(
                    sql.SQL("SELECT lower(t::text) FROM {} AS t").format(
                        sql.Identifier(self._schema, name)
                    )
                ).fetchall()
                if any(word in row[0] or word.encode().hex() in row[0] for row in rows):
                    return True
        return False

    def unmark(self, scope: str) -> None:
        """Take away the mark of an encrypted scope, from outside."""
        if self._schema is None:
            with closing(sqlite3.connect(self.location)) as file, file:
                file.execute("DELETE FROM ledger WHERE name = ?", (f"sealed:{scope}",))
            return
        with psycopg.connect(self._url) as connection:
            table = sql.Identifier(self._schema, "seals")
            connection.execute(sql.SQL("DELETE FROM {} WHERE scope = %s").format(table), (scope,))

    @property
    def _url(self) -> str:
        return self.location.replace(f"?schema={self._schema}", "").replace(
            f"&schema={self._schema}", ""
        )


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Return a folder of keys, apart from the ledger."""
    return tmp_path / "keys"


@pytest.fixture(params=["file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return a fresh place, on both databases in turn."""
    if request.param == "file":
        (tmp_path / "place").mkdir()
        return Place(str(tmp_path / "place" / "ledger.db"), None)
    places: Places = request.getfixturevalue("postgres")
    location = places.fresh()
    return Place(location, location.rpartition("schema=")[2])


@pytest.fixture
def ledger(place: Place, keys: Path) -> Iterator[Ledger]:
    """Return a ledger whose scope is encrypted."""
    with place.open(keys) as opened:
        opened.keys.create(SCOPE)
        yield opened


def planted(value: Any) -> Any:
    """Put the needle into every text of a record that somebody said or wrote."""
    if isinstance(value, str):
        spoken = " " in value.strip() or value.endswith((".", "?", "!"))
        return f"{NEEDLE.capitalize()} {value} {NEEDLE}" if spoken else value
    if isinstance(value, dict):
        return {key: planted(item) for key, item in value.items()}
    return [planted(item) for item in value] if isinstance(value, list) else value


def test_recording_leaves_no_word_legible(place: Place, ledger: Ledger) -> None:
    text = f"where does the {NEEDLE} grow?"
    session = ledger.session("s1", scope=SCOPE, agent="lyria", title=text)
    for _ in range(4):
        with session.turn(prompt=text) as turn:
            turn.user(text)
            with turn.tool("Bash", {"command": f"grep {NEEDLE}"}) as call:
                call.finish(f"{NEEDLE} found")
            turn.assistant(f"the {NEEDLE} grows in ponds")
    with pytest.raises(ValueError), session.turn() as turn, turn.tool("Read", {"path": NEEDLE}):
        raise ValueError(f"no {NEEDLE} here")
    with suppress(RuntimeError), session.turn() as turn:
        turn.user(text)
        raise RuntimeError(f"out of {NEEDLE}")
    with suppress(RunInterrupted), session.turn() as turn:
        turn.user(text)
        session.interrupt(f"enough {NEEDLE}")
    session.checkpoint(f"about {NEEDLE}", text)
    session.rename(f"{NEEDLE} again")
    session.compact(keep=2)
    session.write_episode()
    session.undo()
    session.redo()
    session.close()
    queue = ledger.session("q1", scope=SCOPE, agent="lyria", mode="queue")
    queue.post(text)
    memory = ledger.memory(SCOPE)
    memory.learn(f"Ada prefers {NEEDLE} to moss.", user="ada")
    memory.recall(f"which {NEEDLE}?", user="ada")
    ledger.search(NEEDLE, scope=SCOPE)
    ledger.append([
        treering.NewEvent(
            scope=SCOPE, session_id="s2", kind="tool.result", agent_id="lyria",
            summary=f"read {NEEDLE}", payload={"text": text},
            refs={"tool": "Read", "said": f"the {NEEDLE} of {NEEDLE}", "call_id": "c1"},
        )
    ])  # fmt: skip

    assert not place.holds(NEEDLE)
    said = [one.summary for one in ledger.headers(SCOPE, session_id="s1").items]
    assert f"user message, {len(text)} characters" in said
    event = ledger.headers(SCOPE, session_id="s2").items[0]
    assert event.refs == {"tool": "Read", "said": "…", "call_id": "c1"}


def test_one_who_wrote_before_another_encrypted_leaves_no_word_legible(
    place: Place, keys: Path
) -> None:
    text = f"where does the {NEEDLE} grow?"

    def event(number: int, said: str) -> treering.NewEvent:
        return treering.NewEvent(
            scope=SCOPE, session_id=f"s{number}", kind="conversation.user", agent_id="lyria",
            summary=said, payload={"text": said}, run_id="r1",
        )  # fmt: skip

    with place.open(keys) as writer, place.open(keys) as other:
        writer.append([event(1, "before"), event(2, "before")])
        session = writer.session("t1", scope=SCOPE, agent="lyria")
        session.record("ops.observation", "before", payload={"text": "before"})
        other.keys.create(SCOPE)
        writer.append([event(1, text)])
        writer.append([event(1, text), event(2, text)])
        session.record("ops.observation", text, payload={"text": text})
        session.fork(title="aside")

        assert not place.holds(NEEDLE)
        told = [one.payload for one in writer.follow_events(SCOPE, idle_s=0)]
        assert told.count({"text": text}) == 4
        assert writer.admin.verify().intact


def test_of_two_scopes_that_were_encrypted_meanwhile_one_without_its_key_refuses_the_call(
    place: Place, keys: Path, tmp_path: Path
) -> None:
    def event(scope: str, said: str) -> treering.NewEvent:
        return treering.NewEvent(
            scope=scope, session_id="s1", kind="conversation.user", agent_id="lyria",
            summary=said, payload={"text": said},
        )  # fmt: skip

    both = (SCOPE, "acme/second")
    with place.open(keys) as writer, place.open(keys) as other:
        writer.append([event(scope, "before") for scope in both])
        other.keys.create(both[0])
        with place.open(tmp_path / "elsewhere") as third:
            third.keys.create(both[1])

        with pytest.raises(KeyMissing, match="acme/second"):
            writer.append([event(scope, f"the {NEEDLE}") for scope in both])

        assert not place.holds(NEEDLE)
        assert [len(writer.headers(scope).items) for scope in both] == [1, 1]


def test_importing_leaves_no_word_legible(place: Place, ledger: Ledger, tmp_path: Path) -> None:
    for form, (name, records) in VOYAGES.items():
        log = write(tmp_path / "logs" / form / name, planted(records))

        first = treering.import_logs(ledger, [log], scope=SCOPE)
        again = treering.import_logs(ledger, [log], scope=SCOPE, again=True)

        assert (first.events > 0, again.events) == (True, 0), form
        assert not place.holds(NEEDLE), form
    recorded = [one.payload for one in ledger.follow_events(SCOPE, idle_s=0)]
    assert json.dumps(recorded).count(NEEDLE) > len(VOYAGES)


def test_why_a_session_was_closed_is_not_legible(place: Place, ledger: Ledger) -> None:
    session = ledger.session("talk", scope=SCOPE, agent="lyria")
    session.close(f"the {NEEDLE} is ill")
    session.close(NEEDLE)

    assert not place.holds(NEEDLE)
    assert f"the {NEEDLE} is ill" in str([event.payload for event in session.events()])
    session.close("idle")
    assert next(iter(session.headers(last=1))).summary == "session closed: idle"


def test_a_summary_of_its_own_stays(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=SCOPE, agent="lyria")

    session.record("tool.result", "Looked up the address", payload={"address": "12 Elm Street"})

    assert next(iter(session.events(last=1))).summary == "Looked up the address"


def test_a_log_that_is_older_than_the_key_is_not_taken_in_twice(
    place: Place, keys: Path, tmp_path: Path
) -> None:
    name, records = VOYAGES["claude-code"]
    log = write(tmp_path / "logs" / name, records)
    with place.open(keys) as ledger:
        treering.import_logs(ledger, [log], scope=SCOPE)
        ledger.keys.create(SCOPE)

        assert treering.import_logs(ledger, [log], scope=SCOPE, again=True).events == 0


def test_nothing_is_recorded_in_plain_text_when_the_mark_is_gone(
    place: Place, keys: Path, ledger: Ledger
) -> None:
    session = ledger.session("s1", scope=SCOPE, agent="lyria")
    session.record("tool.result", "one", payload={"text": "first"})
    place.unmark(SCOPE)

    with pytest.raises(Corrupt, match="was encrypted"):
        session.record("tool.result", "two", payload={"text": NEEDLE})
    with place.open(keys) as other, pytest.raises(Corrupt, match="was encrypted"):
        other.session("s2", scope=SCOPE, agent="lyria").record(
            "tool.result", "two", payload={"text": NEEDLE * 2_000}
        )

    assert not place.holds(NEEDLE)
    broken = ledger.admin.verify()
    assert not broken.intact
    assert broken.first_broken is not None
    assert "sealed in a scope that is not marked" in broken.first_broken.detail


def test_nothing_is_recorded_in_plain_text_where_neither_mark_nor_key_is(
    place: Place, ledger: Ledger, tmp_path: Path
) -> None:
    session = ledger.session("s1", scope=SCOPE, agent="lyria")
    session.record("tool.result", "one", payload={"text": "first"})
    place.unmark(SCOPE)

    with place.open(tmp_path / "no keys") as other:
        with pytest.raises(Corrupt, match="was encrypted"):
            other.session("s2", scope=SCOPE, agent="lyria").record(
                "tool.result", "two", payload={"text": NEEDLE}
            )
        with pytest.raises(KeyMissing):
            other.keys.create(SCOPE)
        assert not other.admin.verify().intact

    assert not place.holds(NEEDLE)


def test_a_mark_that_was_taken_away_is_put_back_by_encrypting_again(
    place: Place, ledger: Ledger
) -> None:
    session = ledger.session("s1", scope=SCOPE, agent="lyria")
    session.record("tool.result", "one")
    place.unmark(SCOPE)
    assert not ledger.admin.verify().intact

    ledger.keys.create(SCOPE)
    session.record("tool.result", "two", payload={"text": NEEDLE})

    assert not place.holds(NEEDLE)
    assert ledger.admin.verify().intact


@pytest.mark.parametrize(
    ("summary", "payload"),
    [
        ("set the code to 471189", {"code": 471189}),
        ("measured 4711.89 in all", {"found": [{"sum": 4711.89}]}),
        ("the quillwort grows", {"quillwort by the pond": True}),
    ],
)
def test_a_summary_repeats_no_number_and_no_odd_key_of_a_sealed_payload(
    tmp_path: Path, summary: str, payload: dict[str, Any]
) -> None:
    with treering.open(tmp_path / "ledger.db", keys=tmp_path / "keys") as ledger:
        ledger.keys.create(SCOPE)
        for kept in (False, True):
            ledger.append([
                treering.NewEvent(scope=SCOPE, session_id="s", kind="tool.result", agent_id="a",
                                  summary="all is well" if kept else summary, payload=payload)
            ])  # fmt: skip
        told = [event.summary for event in ledger.headers(SCOPE, kinds=["tool.result"]).items]

    assert summary not in told
    assert "all is well" in told
