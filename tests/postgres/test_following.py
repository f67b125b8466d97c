"""Promise 2: a follower never skips an event, although transactions commit out of order."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.errors import ReadOnlySqlTransaction

from builders import DAY, HERE, NOON, called, run_of, said
from concurrency.processes import Colleague, colleagues
from effort import PATIENCE_S
from postgres_writers import (
    LAST,
    Account,
    Following,
    Pauses,
    check_account,
    check_followed,
    check_seqs,
    follow,
    followed,
    held_open,
    hold_now_and_then,
    open_ledger,
    store_of,
    stored,
    told_by,
    until,
    write,
    write_as_told,
    write_runs,
    write_some,
)
from threads import in_threads
from treering.errors import InvalidCursor
from treering.ledger import following
from treering.model.queries import FollowedEvents, Mark, pack
from treering.storage.postgres import announcements
from treering.storage.postgres import store as store_module
from treering.storage.postgres.announcements import Listener, channel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postgres_server import Places
    from treering import Header, Ledger
    from treering.model.scopes import Scope
    from treering.storage.postgres.batch import Batch


class Looking:
    """A follower that polls, and keeps its cursor in between."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._cursor: str | None = None

    def look(self) -> list[str]:
        """Return what is new at this moment."""
        follower = self._ledger.follow(HERE, after=self._cursor, idle_s=0)
        texts = [header.summary for header in follower]
        self._cursor = follower.cursor
        return texts

    def wait_for(self, last: str) -> list[str]:
        """Return what is new, up to ``last``, and whatever comes at once behind that."""
        texts, self._cursor = followed(self._ledger, self._cursor, last)
        return texts + self.look()


class Positions:
    """What one would write first: a cursor that remembers the last position it has seen.

    With ``settled`` it looks only at what is older than every transaction that is still open.
    """

    def __init__(self, ledger: Ledger, *, settled: bool = False) -> None:
        self._server = store_of(ledger)._server
        self._condition = "xid < pg_snapshot_xmin(pg_current_snapshot())" if settled else "true"
        self._last = 0

    def look(self) -> list[str]:
        """Return what is new, by position."""
        found = self._server.read(
            lambda connection: connection.execute(
                "SELECT position, summary FROM events WHERE scope = %s AND position > %s"
                f" AND {self._condition} ORDER BY position",
                (HERE, self._last),
            ).fetchall()
        )
        self._last = max([self._last, *(row[0] for row in found)])
        return [row[1] for row in found]

    def wait(self) -> list[str]:
        """Return what is new, once there is something."""
        before = self._last
        looks = iter(self.look, None)
        return next(found for found in looks if self._last > before)


@pytest.fixture
def url(postgres: Places) -> str:
    return postgres.fresh()


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with open_ledger(url) as ledger:
        yield ledger


@pytest.fixture
def sessions(ledger: Ledger) -> None:
    """Have the sessions a and b there, so that an append to them is one statement."""
    ledger.append([said("a", session_id="a"), said("b", session_id="b")])


@pytest.mark.usefixtures("sessions")
@pytest.mark.parametrize("others", [[], ["c"]], ids=["one event", "a batch"])
def test_what_is_committed_late_is_missed_by_positions_and_not_by_a_follower(
    ledger: Ledger, others: list[str]
) -> None:
    positions, follower = Positions(ledger), Looking(ledger)
    assert positions.look() == follower.wait_for("b") == ["a", "b"]

    with held_open(ledger, *(said("early", session_id=name) for name in ["a", *others])) as early:
        later = ledger.append([said("later", session_id="b")])
        between = positions.look(), follower.look()
    behind = positions.look(), follower.wait_for("later")

    assert early[0].position < later[0].position
    assert between == (["later"], [])
    assert behind == ([], ["early"] * len(early) + ["later"])


@pytest.mark.usefixtures("sessions")
def test_what_gets_its_position_early_is_missed_by_positions_even_up_to_the_oldest_that_is_open(
    ledger: Ledger,
) -> None:
    store, positions, follower = store_of(ledger), Positions(ledger, settled=True), Looking(ledger)
    drafts = ledger._drafter.draft([said("early", session_id="a")])
    between: list[list[str]] = []

    def work(batch: Batch) -> None:
        batch.enter(drafts[0].scope, key, ["a"], 1)
        # The position is drawn, but nothing is written: the transaction has no xid yet.
        ledger.append([said("later", session_id="b")])
        between.extend([positions.wait(), follower.wait_for("later")])
        batch.place(drafts)
        batch.flush()

    assert positions.wait() == follower.wait_for("b") == ["a", "b"]
    with store._server.lend(drafts[0].scope) as connection:
        key = store._writer.scope_key(connection, drafts[0].scope)
        store._writer.transact(connection, {(HERE, "a")}, work)
    behind = follower.wait_for("early"), positions.look()

    early, later = (ledger.headers(HERE, session_id=name, last=1).items[0] for name in "ab")
    assert early.position < later.position
    assert between == [["later"], ["later"]]
    assert behind == (["early"], [])


@pytest.mark.usefixtures("sessions")
def test_what_is_taken_back_is_never_seen_and_holds_up_nothing(ledger: Ledger) -> None:
    follower = Looking(ledger)

    back = contextlib.suppress(psycopg.Rollback)
    with back, held_open(ledger, said("taken back", session_id="a")):
        ledger.append([said("kept", session_id="b")])
        assert follower.wait_for("b") == ["a", "b"]
        raise psycopg.Rollback
    with back, held_open(ledger, said("back", session_id="new"), said("x", session_id="a")):
        raise psycopg.Rollback
    ledger.append([said("anew", session_id="new")])

    assert follower.wait_for("anew") == ["kept", "anew"]
    assert ledger.admin.verify().intact


def test_followers_get_everything_once_while_many_write_and_positions_miss_some(
    url: str, ledger: Ledger
) -> None:
    account, here, positions = Account(), Following(ledger), Positions(ledger)
    account.append(ledger, [said("first", session_id="held")])
    with (
        colleagues(2, write, url, 60) as writers,
        colleagues(1, follow, url, None, False) as (there,),
    ):
        for colleague in (*writers, there):
            colleague.hear()
        with held_open(ledger, said("held", session_id="held")) as held:
            for writer in writers:
                writer.tell("go")
            until(lambda: len(stored(ledger)) > 50)
            seen = positions.look()
            account.kept["held"] = ("held", held[0].seq)
        in_threads(
            partial(write_some, ledger, "t1", range(60), account),
            partial(write_some, ledger, "t2", range(60), account),
            partial(hold_now_and_then, ledger, "h1", 12, account),
            partial(hold_now_and_then, ledger, "h2", 12, account),
        )
        for writer in writers:
            account.add(writer.hear())
        account.append(ledger, [said(LAST, session_id="last")])
        followed_there = told_by(there)
    seen += positions.look()

    check_followed(here.all(), ledger)
    check_followed(followed_there, ledger)
    check_account(account, ledger)
    assert "held" in account.kept.keys() - set(seen)


def test_a_session_that_many_write_to_is_followed_as_it_is_numbered(
    url: str, ledger: Ledger
) -> None:
    here = Following(ledger)
    with colleagues(2, write_as_told, url, "s1") as writers:
        for writer in writers:
            writer.hear()

        def have_written(writer: Colleague) -> None:
            for number in range(150):
                writer.tell(f"word {number}")
                writer.hear()

        def hold(times: int) -> None:
            for number in range(times):
                with held_open(ledger, said(f"held {number}"), said("x", session_id="s2")):
                    time.sleep(0.01)
                    if number % 2:
                        raise psycopg.Rollback

        in_threads(*(partial(have_written, writer) for writer in writers), partial(hold, 12))
    ledger.append([said(LAST)])

    followed = here.all()

    check_seqs(followed)
    check_followed(followed, ledger)


def test_a_follower_that_is_killed_goes_on_where_its_cursor_was_kept(
    url: str, ledger: Ledger
) -> None:
    heard: list[Header] = []
    cursor = None
    with colleagues(1, write, url, 150) as (writer,):
        writer.hear()
        writer.tell("go")
        for count in (1, 20, 35, 50):
            follower = Colleague(follow, url, cursor, False, 0)
            follower.hear()
            for _ in range(count):
                header, cursor = follower.hear()
                heard.append(header)
            follower.kill()
        writer.hear()
    ledger.append([said(LAST, session_id="last")])

    with colleagues(1, follow, url, cursor, False) as (follower,):
        follower.hear()
        heard += told_by(follower)

    check_followed(heard, ledger)


def test_of_runs_a_committed_follower_gets_those_that_end_well_and_each_in_one_piece(
    url: str, ledger: Ledger
) -> None:
    with (
        colleagues(2, write_runs, url, 16) as writers,
        colleagues(1, follow, url, None, True) as (follower,),
    ):
        for colleague in (*writers, follower):
            colleague.hear()
        for writer in writers:
            writer.tell("go")
        for writer in writers:
            writer.hear()
        ledger.append([said(LAST, session_id="last")])
        followed = told_by(follower)

    ended = {header.run_id for header in stored(ledger) if header.kind == "run.ended"}
    expected = [h.event_id for h in stored(ledger) if h.run_id is None or h.run_id in ended]
    assert len(ended) == 16
    assert sorted(header.event_id for header in followed) == sorted(expected)
    runs = [header.run_id for header in followed if header.run_id is not None]
    assert [runs[at : at + 4] for at in range(0, len(runs), 4)] == [
        [run] * 4 for run in dict.fromkeys(runs)
    ]


def test_a_committed_follower_that_is_stopped_within_a_run_gets_all_of_it_again(
    ledger: Ledger,
) -> None:
    ledger.append([said("before")])
    ledger.append(run_of("r1", "one", "two"))
    follower = ledger.follow(HERE, committed=True)
    cut_short = [next(follower).summary for _ in range(3)]
    again = ledger.follow(HERE, after=follower.cursor, committed=True)
    heard = [next(again).summary for _ in range(4)]
    behind = ledger.follow(HERE, after=again.cursor, committed=True, idle_s=0)

    assert cut_short == ["before", "run started", "one"]
    assert heard == ["run started", "one", "two", "run over"]
    assert list(behind) == []


@pytest.fixture
def looks(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> list[Mark]:
    """Note where followers look for more; one that looks again and again is stopped."""
    made: list[Mark] = []
    followed = store_of(ledger).reader.followed

    def counting(
        part: type[Header], scope: Scope, mark: Mark, *, limit: int
    ) -> FollowedEvents[Header]:
        made.append(mark)
        assert len(made) < 20, "it looks again and again"
        return followed(part, scope, mark, limit=limit)

    monkeypatch.setattr(store_of(ledger).reader, "followed", counting)
    return made


@pytest.mark.parametrize("idle_s", [0, 0.3])
@pytest.mark.parametrize("before", [[], ["kept"]], ids=["all expired", "some expired"])
def test_a_follower_ends_although_what_vouches_for_expired_events_is_not_settled(
    url: str, ledger: Ledger, looks: list[Mark], before: list[str], idle_s: float
) -> None:
    for text in before:
        ledger.append([said(text, session_id="s2")])
    ledger.append([called(ts_ms=NOON) for _ in range(3)])
    cursor = followed(ledger, None, "git_log called")[1]
    looks.clear()
    with psycopg.connect(url.partition("&schema=")[0]) as older:
        older.execute("SELECT pg_current_xact_id()")
        expired = ledger.expire(HERE, policy={"tool.call": 1}, now_ms=NOON + 2 * DAY)
        found = [
            [h.summary for h in ledger.follow(HERE, after=after, idle_s=idle_s)]
            for after in (None, cursor)
        ]
    looked = len(looks)
    [voucher] = ledger.headers(HERE, session_id="s1").items

    assert expired.deleted_total == 3
    assert found == [before, []]
    # Twice behind what is kept, and once from the cursor.
    assert looked <= 3
    assert followed(ledger, None, voucher.summary)[0] == [*before, voucher.summary]


@pytest.mark.parametrize("epoch", [2**31, 2**32, 2**40, 2**63 - 1])
def test_a_cursor_with_an_epoch_that_cannot_be_is_refused(ledger: Ledger, epoch: int) -> None:
    ledger.append([said("one")])
    cursor = pack((HERE, (epoch, 1, 1)))

    for follower in (
        ledger.follow(HERE, after=cursor, idle_s=0),
        ledger.follow_events(HERE, after=cursor, idle_s=0),
    ):
        with pytest.raises(InvalidCursor) as refused:
            next(follower)
        assert refused.value.hint
    last = pack((HERE, (2**31 - 1, 2**63 - 1, 2**63 - 1)))
    assert list(ledger.follow(HERE, after=last, idle_s=0)) == []


def test_a_listener_that_is_refused_waits_longer_each_time(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica lets nobody listen until it is promoted."""
    pauses = Pauses()

    def refuse(*_: object) -> None:
        raise ReadOnlySqlTransaction("cannot execute LISTEN during recovery")

    monkeypatch.setattr(store_of(ledger)._server, "connect", refuse)
    listener = Listener(store_of(ledger)._server, store_of(ledger)._notifier)
    listener._over = pauses
    listener._run()

    assert pauses.lasted == sorted(pauses.lasted)
    assert pauses.lasted[0] >= announcements.LISTENING_S
    assert set(pauses.lasted[-3:]) == {announcements.PAUSE_MAX_S}


def test_nothing_is_announced_while_nobody_listens(url: str) -> None:
    with psycopg.connect(url.partition("&schema=")[0], autocommit=True) as ear:
        with open_ledger(url) as ledger:
            ear.execute(f"LISTEN {channel(store_of(ledger)._server)}")
            ledger.append([said("one")])
        unheard = list(ear.notifies(timeout=0))

        with open_ledger(url) as ledger, open_ledger(url) as other:
            store_of(other)._listener.listen()
            until(lambda: listeners(ledger))
            ledger.append([said("two")])
            heard = list(ear.notifies(timeout=PATIENCE_S, stop_after=1))

    assert (len(unheard), len(heard)) == (0, 1)


def test_a_follower_is_woken_by_the_append_of_another_process(
    url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "WAIT_S", 3_600.0)
    monkeypatch.setattr(store_module, "POLL_FIRST_S", 3_600.0)
    heard: queue.Queue[str] = queue.Queue()
    threading.Thread(
        target=lambda: heard.put(next(ledger.follow(HERE)).summary), daemon=True
    ).start()
    with colleagues(1, write_as_told, url, "s1") as (writer,):
        writer.hear()
        until(lambda: listeners(ledger))

        # The first words may come before the follower waits; it does not look by itself.
        for _ in range(30):
            writer.tell("wake up")
            writer.hear()
            with contextlib.suppress(queue.Empty):
                woken = heard.get(timeout=1)
                break

    assert woken == "wake up"


def test_a_follower_that_nobody_wakes_looks_by_itself(
    url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Listener, "listen", lambda _: None)
    here = Following(ledger)
    with colleagues(1, write_as_told, url, "s1") as (writer,):
        writer.hear()
        for word in ("one", "two", LAST):
            until(lambda: store_of(ledger)._notifier._bells)
            writer.tell(word)
            writer.hear()

        assert [header.summary for header in here.all()] == ["one", "two", LAST]
    assert not listeners(ledger)


def test_a_follower_whose_listening_is_cut_off_goes_on_and_listens_again(
    url: str, ledger: Ledger
) -> None:
    here = Following(ledger)
    with colleagues(1, write_as_told, url, "s1") as (writer,):
        writer.hear()
        for word in ("one", LAST):
            until(lambda: listeners(ledger))
            terminate(ledger, listeners(ledger))
            writer.tell(word)
            writer.hear()

        assert [header.summary for header in here.all()] == ["one", LAST]


def listeners(ledger: Ledger) -> list[int]:
    """Return the server's processes that listen for a ledger's announcements."""
    server = store_of(ledger)._server
    found = server.read(
        lambda connection: connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE query = %s", (f"LISTEN {channel(server)}",)
        ).fetchall()
    )
    return [row[0] for row in found]


def terminate(ledger: Ledger, processes: list[int]) -> None:
    """End processes of the server."""
    store_of(ledger)._server.read(
        lambda connection: connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s::bigint[]::int[]) AS pid",
            (processes,),
        ).fetchall()
    )
