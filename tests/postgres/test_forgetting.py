"""A person forgotten on a server: no file has their words or names, and whoever may erase may."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from psycopg.errors import InsufficientPrivilege

import treering
from builders import ELSEWHERE, HERE, exchange, said
from postgres_places import Place
from postgres_writers import store_of, until
from threads import in_threads

if TYPE_CHECKING:
    from postgres_server import Server
    from treering import Ledger

ADA: Final = "ada-5719"
WORDS: Final = (ADA, "heron", "jetty-run", "jetty-turn")


def raw_bytes(place: Place) -> bytes:
    """Return all that the server keeps in files, but for its log of what was written."""
    place.sql("CHECKPOINT")
    cluster = place.server._cluster
    [(number,)] = place.sql("SELECT oid FROM pg_database WHERE datname = current_database()")
    folders = (Path(cluster, "base", str(number)), Path(cluster, "global"))
    files = [file for folder in folders for file in folder.iterdir() if file.is_file()]
    return b"".join(file.read_bytes() for file in files)


def tell(ledger: Ledger, scope: str = HERE) -> None:
    """Record somebody with all that can name them."""
    main = ledger.main_session("telegram", ADA, scope=scope, agent="lyria")
    exchange(main, "I moor where the heron stands", "heron " * 2_000)
    main.fork("heron-fork").record("ops.decision", "wait for the heron")
    ledger.append([
        said("heron", scope=scope, user_id=ADA, session_id="heron-talk", event_id=f"note-of-{ADA}",
             run_id="jetty-run", turn_id="jetty-turn"),
        said("over", scope=scope, kind="run.ended", session_id="heron-talk", run_id="jetty-run"),
    ])  # fmt: skip
    ledger.admin.index(scope)


def test_neither_words_nor_names_are_left_in_any_file(server: Server) -> None:
    server.create_database("forgetting")
    place = Place(server, database="forgetting")
    place.administration.init(partitions=2)
    with treering.open(place.url) as ledger:
        tell(ledger)
        ledger.append([said("kept pelican", user_id="bob", session_id="s9")])
        place.sql("ANALYZE")
        before = raw_bytes(place)
        assert [word for word in WORDS if word.encode() not in before] == []

        receipt = ledger.forget(HERE, user=ADA)

        content = raw_bytes(place)
        assert receipt.physical == "done"
        assert [word for word in WORDS if word.encode() in content] == []
        assert b"kept pelican" in content
        assert ledger.admin.verify().intact
        assert place.administration.status().erasure_pending == []


HASHES: Final = (
    "SELECT key FROM heads",
    "SELECT body FROM memory_rows",
    "SELECT key FROM record_keys",
    """
SELECT decode(lpad(to_hex(hash), 16, '0'), 'hex')
FROM tool_calls, unnest(ARRAY[tool, call, run]) AS hash
WHERE hash IS NOT NULL
""",
)
"""Hashes of names and words, as somebody with the files makes them of guesses."""


def hashes(place: Place) -> set[bytes]:
    return {bytes(row[0]) for statement in HASHES for row in place.sql(statement)}


def test_no_file_holds_a_hash_that_would_confirm_a_guess(server: Server) -> None:
    server.create_database("guessing")
    place = Place(server, database="guessing")
    place.administration.init(partitions=2)
    with treering.open(place.url) as ledger:
        tell(ledger)
        session = ledger.session("heron-calls", scope=HERE, agent="lyria", user=ADA)
        with session.turn() as turn, turn.tool("heron-call") as call:
            call.finish("seen")
        session.tool_calls()
        ledger.records(HERE, "birds", session_id="heron-calls").put("heron", 1)
        ledger.memory(HERE).learn("Is allergic to herons", user=ADA)
    with treering.open(place.url) as ledger:
        ledger.memory(HERE).recall("allergic", user=ADA)
    before = hashes(place)

    with treering.open(place.url) as ledger:
        assert ledger.forget(HERE, user=ADA).physical == "done"

    gone = before - hashes(place)
    content = raw_bytes(place)
    assert len(gone) > len(HASHES)
    assert [one for one in gone if one in content or one[::-1] in content] == []


@pytest.mark.parametrize("sort", ["application", "held"])
def test_whoever_may_redact_may_forget_within_their_scope(place: Place, sort: str) -> None:
    with treering.open(place.url) as ledger:
        tell(ledger)
        tell(ledger, ELSEWHERE)
    role = place.role(None if sort == "application" else HERE)

    with treering.open(place.url_of(role)) as ledger:
        receipt = ledger.forget(HERE, user=ADA)
        assert receipt.sessions_erased == 3
        assert ledger.admin.verify(HERE).intact
    with treering.open(place.url) as ledger:
        assert {h.user_id for h in ledger.headers(ELSEWHERE).items} == {ADA, None}
        assert ledger.admin.verify().intact


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE sessions SET name = NULL, salt = NULL, key = 'x'",
        "UPDATE sessions SET name = NULL WHERE name = 'heron-talk'",
        "UPDATE heads SET key = 'x'",
        "UPDATE runs SET run_id = 'forgotten:1'",
        "UPDATE events SET run_id = 'forgotten:1' WHERE run_id IS NOT NULL",
    ],
)
@pytest.mark.parametrize("sort", ["application", "held"])
def test_a_role_forgets_no_name_of_what_is_still_there(
    place: Place, sort: str, statement: str
) -> None:
    role = place.role(None if sort == "application" else HERE)
    with treering.open(place.url) as ledger:
        tell(ledger)

    with pytest.raises(InsufficientPrivilege):
        place.sql(statement, role=role, stating=HERE)


def test_a_name_that_nobody_ordered_to_be_forgotten_is_missed(place: Place) -> None:
    with treering.open(place.url) as ledger:
        ledger.append([said("one", user_id=ADA), said("two", session_id="s2")])
        ledger.forget(HERE, user=ADA)
        assert ledger.admin.verify().intact
    place.sql("UPDATE sessions SET name = NULL, salt = NULL WHERE name = 's2'")

    with treering.open(place.url) as ledger:
        broken = ledger.admin.verify().first_broken

    assert broken is not None
    assert "vouches" in broken.detail


def test_two_who_forget_somebody_at_the_same_time_both_end_well(place: Place) -> None:
    """The second one looks up the session while the first waits to forget its name."""
    with (
        treering.open(place.url) as ledger,
        treering.open(place.url) as other,
        place.connect() as blocker,
    ):
        ledger.append([said("heron", user_id=ADA), said("kept", user_id="bob", session_id="s9")])
        lock = store_of(ledger)._cache.lock_of(HERE, "s1")
        blocker.execute("SELECT pg_advisory_lock(%s)", (lock,))

        def release() -> None:
            until(lambda: waiting(place) == 2)
            blocker.execute("SELECT pg_advisory_unlock_all()")

        in_threads(
            partial(ledger.forget, HERE, user=ADA), partial(other.forget, HERE, user=ADA), release
        )

        assert ledger.session_ids(HERE) == ["s9"]
        assert ledger.admin.verify().intact


def waiting(place: Place) -> int:
    """Return how many wait for a lock that another holds."""
    [(count,)] = place.sql(
        "SELECT count(DISTINCT pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    )
    return int(count)
