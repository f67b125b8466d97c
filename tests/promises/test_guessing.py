"""What is left after an erasure gives no word back, not even to somebody who tries guesses.

The attacker has every file (or table) of the ledger, the source code, and all that was said but for
one word, of which they have a list that holds the right one. They do not have the folder of keys.
"""

from __future__ import annotations

import hmac
import re
import sqlite3
from base64 import urlsafe_b64encode
from contextlib import closing
from functools import partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID
from zlib import crc32

import msgspec
import psycopg
import pytest

import treering
from builders import HERE
from capture.intake_logs import (
    EVERYWHERE,
    apeira_voyage,
    every_event,
    gemini_voyage,
    openclaw_voyage,
    receipts_voyage,
    spool_voyage,
    tape_voyage,
    write,
)
from formats.logs import codex
from treering import NewEvent
from treering.capture.intake.event_ids import ledger_name, named_id
from treering.context.assemble import Contribution
from treering.derive.fact_rows import hashed
from treering.formats.parsed import is_content_key, without_mark
from treering.formats.records import read_records
from treering.formats.registry import find_format
from treering.formats.sources import fingerprint, open_source, sniff, tail_print
from treering.rules.claim_words import statement_of
from treering.rules.claims import claim_key, read_claim
from treering.rules.fact_extraction import legacy_statement_id, same_statement_id
from treering.rules.terms import terms
from treering.storage.encoding import name_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from postgres_server import Places
    from treering import Ledger, Session

    Tokens: TypeAlias = "Callable[[str, Sequence[bytes]], Iterator[bytes | str]]"
    """Gives all that would be made of a guess, under the keys that lie in the ledger."""

WORD: Final = "penicillin"
GUESSES: Final = (WORD, "amoxicillin", "ibuprofen", "paracetamol", "streptomycin")
ADA: Final = "ada@example.org"
DAY_MS: Final = 86_400_000
OLD_MS: Final = 1_700_000_000_000


class Target:
    """A ledger that was attacked from outside."""

    def __init__(self, ledger: Ledger, location: str) -> None:
        self.ledger = ledger
        self._location = location

    def dump(self) -> bytes:
        """Return every byte of the ledger's files; of a server, every row of every table."""
        if self._location.startswith("postgresql"):
            return self._rows()
        folder = Path(self._location).parent
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        return b"\0".join(file.read_bytes() for file in files)

    def _rows(self) -> bytes:
        url, schema = _server(self._location)
        found: list[str] = []
        with psycopg.connect(url) as connection:
            tables = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)
            ).fetchall()
            for (table,) in tables:
                rows = connection.execute(f'SELECT t::text FROM "{schema}"."{table}" AS t')
                found += [row for (row,) in rows]
        return "\n".join(found).encode()

    def keys(self) -> list[bytes]:
        """Return every key and salt that lies in the ledger."""
        if self._location.startswith("postgresql"):
            return [bytes.fromhex(found.decode()) for found in _HEX.findall(self.dump())]
        found: list[bytes] = []
        with closing(sqlite3.connect(f"file:{self._location}?mode=ro", uri=True)) as connection:
            tables = ("scopes", "sessions", "contents", "ledger", "names", "events")
            for table in tables:
                for row in connection.execute(f"SELECT * FROM {table}"):
                    found += [one for one in row if isinstance(one, bytes) and 16 <= len(one) <= 64]
        return list(dict.fromkeys(found))


def _server(location: str) -> tuple[str, str]:
    """Return the address of a server without the schema, and the schema."""
    url, schema = re.split(r"[?&]schema=", location)
    return url, schema


_HEX: Final = re.compile(rb"\\x([0-9a-f]{32,128})(?=\W)")


_WINDOW: Final = 8


def found_words(target: Target, tokens: Tokens) -> set[str]:
    """Return the guesses that something in the ledger's files tells from the others."""
    dump, keys = target.dump(), target.keys()
    by_guess = {guess: {_raw(token) for token in tokens(guess, keys)} for guess in GUESSES}
    common = set.intersection(*by_guess.values())
    windows = {dump[at : at + _WINDOW] for at in range(len(dump))}
    return {
        guess
        for guess, some in by_guess.items()
        if any(_is_in(token, dump, windows) for token in some - common if _is_telling(token))
    }


def _raw(token: bytes | str) -> bytes:
    return token.encode() if isinstance(token, str) else token


def _is_telling(token: bytes) -> bool:
    """Whether a token is too long to be found by chance."""
    return len(token) >= (12 if re.fullmatch(rb"[0-9a-f]+", token) else _WINDOW)


def _is_in(token: bytes, dump: bytes, windows: set[bytes]) -> bool:
    """Whether a token is there: as it is, in hex, as a UUID's bytes, or shortened."""
    spelt = {token, token.hex().encode(), urlsafe_b64encode(token)}
    if len(token) == 36 and token.count(b"-") == 4:
        raw = UUID(token.decode()).bytes
        spelt |= {raw, raw.hex().encode()}
    if len(token) >= 32:
        spelt |= {token[:16], token[:16].hex().encode()}
    return any(one in dump for one in spelt if len(one) < _WINDOW or one[:_WINDOW] in windows)


# What was said, with a word in it.


def codex_log(word: str) -> list[dict[str, Any]]:
    return [
        codex.opened(),
        *codex.turn(f"I am allergic to {word}.", "Noted."),
        codex.item("function_call", 3, name="shell", arguments=f'{{"command": "echo {word}"}}'),
        *codex.turn("And now?", "Still calm."),
    ]


def logs_of(word: str) -> dict[str, list[dict[str, Any]]]:
    """Return a log of every format whose ids may be made of what it says, with ``word`` in it."""
    voyages = {
        "gemini.jsonl": gemini_voyage(),
        "openclaw.jsonl": openclaw_voyage(),
        "spool.jsonl": [
            {at: value for at, value in row.items() if at != "event_id"} for row in spool_voyage()
        ],
        "receipts.jsonl": receipts_voyage(),
        "apeira.jsonl": apeira_voyage(),
        "tape.jsonl": tape_voyage(),
    }
    logs = {"rollout.jsonl": codex_log(word)}
    for name, records in voyages.items():
        logs[name] = msgspec.convert(_worded(records, word), list[dict[str, Any]])
    return logs


def _worded(value: Any, word: str) -> Any:
    """Return a log with ``word`` at the end of each thing that is said in it."""
    if isinstance(value, list):
        return [_worded(one, word) for one in value]
    if isinstance(value, dict):
        return {
            at: f"{one} {word}"
            if at in {"text", "content", "summary", "thought"} and isinstance(one, str)
            else _worded(one, word)
            for at, one in value.items()
        }
    return value


def tokens_of_log(path: Path, records: list[dict[str, Any]]) -> Iterator[bytes | str]:
    """Give all that the source code would make of a log: keys, ids, marks, prints."""
    write(path, records)
    with open_source(path) as stream:
        form = find_format(sniff(stream))
    assert form is not None
    reader = form.reader(path)
    told = []
    with path.open("rb") as stream:
        for record in read_records(stream):
            told += [one for outcome in reader.read(record) for one in outcome.events]
        told += [one for outcome in reader.finish() for one in outcome.events]
        size = path.stat().st_size
        yield fingerprint(stream, size)
        for record in (*range(0, size, max(1, size // 8)), size):
            yield tail_print(stream, record)
    for one in told:
        key = without_mark(one.key)
        said = sha256(msgspec.json.encode([one.kind, one.payload])).hexdigest()
        if is_content_key(one.key) or is_content_key(one.session):
            yield key
            yield named_id(form.name, without_mark(one.session), key)
            yield named_id(form.name, "", key)
            yield named_id(form.name, without_mark(one.session), f"{key}\0{said}")
            yield ledger_name(without_mark(one.session), form.name)
    state = msgspec.json.encode(reader.state()).decode()
    yield from re.findall(r"[0-9A-Za-z_-]{8,}", state)
    marks = re.findall(r"[0-9A-Za-z_-]{8,}", state.replace("~words~", ""))
    yield from (mark[at : at + 8] for mark in marks for at in range(0, len(mark), 8))


def tokens_of_fact(
    evidence: Sequence[str], word: str, keys: Sequence[bytes]
) -> Iterator[bytes | str]:
    """Give all that would be made of a fact that somebody stated."""
    for text in (f"Is allergic to {word}", f"I am allergic to {word}.", word):
        yield hashed(statement_of(text))
        claim = claim_key(read_claim(text))
        yield from [] if claim is None else [hashed(claim)]
        ids = [legacy_statement_id(one, text) for one in evidence]
        yield from ids
        for one in ids:
            yield f"memory:{one}"
            yield from (name_key(key, f"memory:{one}") for key in keys)
        for salt in keys:
            made = same_statement_id([salt], text)
            yield made
            yield name_key(salt, f"memory:{made}")
        numbers = [crc32(term.encode()).to_bytes(4, "little") for term in terms(text)]
        yield from (first + second for first, second in pairwise(numbers))
        yield sha256(text.encode()).digest()


def tokens_of_name(keys: Sequence[bytes], name: str) -> Iterator[bytes | str]:
    """Give all that would be made of an id or a name that somebody chose."""
    yield name
    yield sha256(name.encode()).digest()
    for key in keys:
        yield name_key(key, name)
        yield hmac.digest(key, name.encode(), "sha256")


@pytest.fixture(params=["file", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    """Return a fresh ledger, alone in its folder or schema."""
    if request.param == "postgres":
        places: Places = request.getfixturevalue("postgres")
        location = places.fresh()
    else:
        (tmp_path / "ledger").mkdir()
        location = str(tmp_path / "ledger" / "agents.db")
    with treering.open(location) as ledger:
        yield Target(ledger, location)


def talk(ledger: Ledger, word: str) -> Session:
    """Have ada say something that is learnt, searched, recalled and shown to a model."""
    session = ledger.session("talk", scope=HERE, agent="lyria", user=ADA)
    with session.turn() as turn:
        turn.user(f"I am allergic to {word}.")
        turn.context(2_000, contributors=[_Reminder(word)])
        turn.assistant("Noted.")
    memory = ledger.memory(HERE)
    memory.extract()
    memory.recall("allergic", user=ADA)
    ledger.search("allergic", scope=HERE)
    return session


class _Reminder:
    """Adds to a context what it knows."""

    name = "reminder"

    def __init__(self, word: str) -> None:
        self._word = word

    def extend(self, _: Any) -> str:
        return f"Is allergic to {self._word}"


def told_of(ledger: Ledger) -> list[str]:
    return [event.event_id for event in ledger.events(HERE, kinds=["conversation.user"]).items]


WAYS: Final = ("redact", "expire", "forget")


def erase(ledger: Ledger, how: str) -> None:
    """Erase what ada said, and what came of it."""
    if how == "redact":
        ledger.redact(HERE, session_id="talk")
    elif how == "forget":
        ledger.forget(HERE, user=ADA)
    else:
        kinds = {"conversation.user": 1, "memory.stored": 1, "context.assembled": 1}
        ledger.expire(HERE, policy=kinds, now_ms=OLD_MS * 2)


@pytest.mark.parametrize("how", WAYS)
def test_a_fact_that_was_erased_cannot_be_guessed_from_what_is_left(
    target: Target, how: str
) -> None:
    talk(target.ledger, WORD)
    evidence = told_of(target.ledger)
    assert found_words(target, partial(tokens_of_fact, evidence)) == {WORD}

    erase(target.ledger, how)

    assert found_words(target, partial(tokens_of_fact, evidence)) == set()
    assert target.ledger.admin.verify().intact


@pytest.mark.parametrize("how", WAYS)
def test_a_fact_that_was_erased_is_not_learnt_again(target: Target, how: str) -> None:
    talk(target.ledger, WORD)
    memory = target.ledger.memory(HERE)
    (fact,) = memory.facts().items
    told = next(iter(target.ledger.headers(HERE, kinds=["memory.stored"]).items)).event_id
    if how == "redact":
        target.ledger.redact(HERE, event_id=told)
    else:
        erase(target.ledger, how)

    memory.extract(again=True)

    assert fact.text not in {one.text for one in memory.facts().items}


def test_a_context_that_was_recorded_gives_no_word_back(target: Target) -> None:
    session = talk(target.ledger, WORD)
    target.ledger.redact(HERE, event_id=told_of(target.ledger)[0])

    def tokens(word: str, _: Sequence[bytes]) -> Iterator[bytes | str]:
        with treering.open(":memory:") as guessed:
            context = talk(guessed, word).context(2_000)
        yield context.digest
        for text in (f"Is allergic to {word}", word):
            yield Contribution(name="reminder", system=text).digest

    assert found_words(target, tokens) == set()
    assert not any(one.exact for one in session.shown())


@pytest.mark.parametrize("how", ["redact", "expire"])
def test_an_imported_log_that_was_erased_cannot_be_guessed_and_does_not_come_back(
    target: Target, tmp_path: Path, how: str
) -> None:
    logs = tmp_path / "logs"
    for name, records in logs_of(WORD).items():
        write(logs / name, records)
    treering.import_logs(target.ledger, [logs], scope=EVERYWHERE)
    assert WORD.encode() in target.dump() or WORD.encode().hex().encode() in target.dump()
    told = [one for one in every_event(target.ledger) if WORD in str(one.payload)]
    kinds = {one.kind for one in every_event(target.ledger)} - {"session.opened"}
    assert len(told) > 8
    if how == "redact":
        for session_id in {one.session_id for one in every_event(target.ledger)}:
            target.ledger.redact(EVERYWHERE, session_id=session_id)
    else:
        spared = {"session.imported", "session.undone", "session.redone"}
        policy = dict.fromkeys(sorted(kinds - spared), 1)
        target.ledger.expire(EVERYWHERE, policy=policy, now_ms=OLD_MS * 2)

    def tokens(word: str, _: Sequence[bytes]) -> Iterator[bytes | str]:
        yield word
        yield word.encode().hex()
        for name, records in logs_of(word).items():
            yield from tokens_of_log(tmp_path / "guessed" / word / name, records)

    assert found_words(target, tokens) == set()
    again = treering.import_logs(target.ledger, [logs], scope=EVERYWHERE, again=True)
    assert again.events == 0
    assert WORD not in str([one.payload for one in every_event(target.ledger)])
    assert target.ledger.admin.verify().intact


@pytest.mark.parametrize("how", ["expire", "forget"])
def test_an_id_that_somebody_chose_cannot_be_confirmed_when_it_is_gone_and_stays_taken(
    target: Target, how: str
) -> None:
    ordered = NewEvent(scope=HERE, session_id="orders", kind="conversation.user", agent_id="lyria",
                       user_id=ADA, summary="ordered", event_id=f"order-{WORD}",
                       ts_ms=OLD_MS)  # fmt: skip
    target.ledger.append([ordered])

    def tokens(word: str, keys: Sequence[bytes]) -> Iterator[bytes | str]:
        return tokens_of_name(keys, f"order-{word}")

    assert found_words(target, tokens) == {WORD}
    if how == "expire":
        target.ledger.expire(HERE, policy={"conversation.user": 1}, now_ms=OLD_MS + 9 * DAY_MS)
    else:
        target.ledger.forget(HERE, user=ADA)

    assert found_words(target, tokens) == set()
    assert target.ledger.find_ids(HERE, [f"order-{WORD}"])
    for _ in range(2):
        target.ledger.importing.append_missing([ordered])
    assert target.ledger.events(HERE, kinds=["conversation.user"]).items == []


def test_ids_of_words_that_an_earlier_version_left_are_hidden_when_the_ledger_is_opened(
    tmp_path: Path,
) -> None:
    """``legacy.db`` holds what redact, expire and forget of the last version left."""
    path = tmp_path / "ledger" / "agents.db"
    path.parent.mkdir()
    path.write_bytes((Path(__file__).parent / "legacy.db").read_bytes())

    def tokens(word: str, keys: Sequence[bytes]) -> Iterator[bytes | str]:
        for name, records in {"rollout.jsonl": codex_log(word)}.items():
            yield from tokens_of_log(tmp_path / "guessed" / word / name, records)
        for evidence in LEGACY_EVIDENCE:
            made = legacy_statement_id(evidence, f"Is allergic to {word}")
            yield made
            yield f"memory:{made}"
            yield from (name_key(key, f"memory:{made}") for key in keys)

    target = Target(None, str(path))  # type: ignore[arg-type]
    assert found_words(target, tokens) == {WORD}

    with treering.open(path) as ledger:
        target = Target(ledger, str(path))
        assert ledger.importing.rekeyed_ms() is not None
        assert found_words(target, tokens) == set()
        assert ledger.admin.verify().intact
        log = write(tmp_path / "logs" / "rollout.jsonl", codex_log(WORD))
        again = treering.import_logs(ledger, [log], scope=EVERYWHERE)
        assert again.events == 0
        assert again.duplicates > 0
        live = write(tmp_path / "logs" / "live.jsonl", codex_log("harbour"))
        assert treering.import_logs(ledger, [live], scope="live").events == 0
        ledger.memory("facts/kept").extract(again=True)
        assert ledger.memory("facts/kept").facts().items == []


LEGACY_EVIDENCE: Final = tuple(f"said-{number}" for number in range(3))


def test_what_was_erased_before_is_hidden_on_every_database(target: Target) -> None:
    old_id = legacy_statement_id("said-0", f"Is allergic to {WORD}")
    ledger = target.ledger
    for number, kind in enumerate(("conversation.assistant", "conversation.user")):
        ledger.append([
            NewEvent(scope=HERE, session_id="s", kind=kind, agent_id="lyria", summary="told",
                     ts_ms=OLD_MS, event_id=old_id if number else f"memory:{old_id}"),
        ])  # fmt: skip
    for event_id in (old_id, f"memory:{old_id}"):
        ledger.redact(HERE, event_id=event_id)
    _note_as_legacy(target)

    assert ledger.admin.rekey() == 2

    def tokens(word: str, keys: Sequence[bytes]) -> Iterator[bytes | str]:
        made = legacy_statement_id("said-0", f"Is allergic to {word}")
        for name in (made, f"memory:{made}"):
            yield from tokens_of_name(keys, name)

    assert found_words(target, tokens) == set()
    assert set(ledger.find_ids(HERE, [old_id, f"memory:{old_id}"])) == {old_id, f"memory:{old_id}"}
    assert ledger.admin.verify().intact
    assert ledger.admin.rekey() == 0


def _note_as_legacy(target: Target) -> None:
    if target._location.startswith("postgresql"):
        url, schema = _server(target._location)
        with psycopg.connect(url) as connection:
            connection.execute(
                f'INSERT INTO "{schema}".legacy_events'
                f' SELECT scope, session, seq, flags >= 64 FROM "{schema}".events'
                " WHERE flags & 2 <> 0"
            )
        return
    with closing(sqlite3.connect(target._location)) as file, file:
        file.execute(
            "INSERT INTO legacy_events SELECT position, flags >= 64 FROM events WHERE flags & 2"
        )


def test_no_page_of_a_large_ledger_keeps_hashes_of_what_is_gone(tmp_path: Path) -> None:
    """Pages of an index that were split hold old entries in their gaps."""
    path = tmp_path / "ledger" / "agents.db"
    path.parent.mkdir()
    names = [f"{number:05}-{WORD}" for number in range(2_000)]
    told = [
        NewEvent(scope=HERE, session_id=f"talk-{name}" if number < 500 else "talk",
                 kind="conversation.user", agent_id="lyria", user_id=ADA, turn_id=f"turn-{name}",
                 summary="ordered", event_id=f"order-{name}", ts_ms=OLD_MS)
        for number, name in enumerate(names)
    ]  # fmt: skip
    with treering.open(path, guard="off") as ledger:
        for start in range(0, len(told), 500):
            ledger.append(told[start : start + 500])
        ledger.forget(HERE, user=ADA)
        assert ledger.admin.erasure_state() == "done"
        assert ledger.admin.verify().intact
    with closing(sqlite3.connect(path)) as file:
        (scope_key,) = file.execute("SELECT key FROM scopes").fetchone()
        (key_of_names,) = file.execute(
            "SELECT value FROM ledger WHERE name = 'name_key'"
        ).fetchone()
    hashed = {
        *(name_key(scope_key, one.event_id or "") for one in told),
        *(name_key(scope_key, one.session_id) for one in told),
        *(name_key(key_of_names, one.turn_id or "") for one in told),
    }
    dump = path.read_bytes()
    assert not any(dump[at : at + 16] in hashed for at in range(len(dump)))
