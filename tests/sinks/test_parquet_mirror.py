"""A mirror in Parquet: the same as the ledger, also after erasures, and queries that only read."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import DAY, ELSEWHERE, HERE, NOON, said
from treering.errors import Busy, InvalidInput
from treering.sinks.parquet_mirror import FILES_MAX, MirrorReceipt, ParquetMirror
from treering.sinks.parquet_query import MirrorQuery

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from treering.ledger.ledger import Ledger

USED: dict[str, Any] = {"model": "gpt-5", "provider": "openai", "input_tokens": 900,
                        "output_tokens": 100}  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with treering.open(tmp_path / "a.db") as opened:
        yield opened


def work(ledger: Ledger, session_id: str = "s1", user: str | None = None) -> None:
    """Record a run with two tools, one of which fails."""
    session = ledger.session(session_id, scope=HERE, agent="lyria", user=user)
    with session.turn(model="gpt-5") as run:
        run.user(f"the launch word of {session_id}")
        run.tools.started("bash", {"command": "ls"}, call_id="c1").finish("toad.txt")
        run.tools.started("read", {"path": "x"}, call_id="c2").fail(ValueError("no"))
        run.emit("usage.reported", USED)


def catch_up(
    ledger: Ledger, folder: Path, *, scope: str = HERE, payloads: bool = False
) -> MirrorReceipt:
    with contextlib.closing(ParquetMirror(ledger, folder, payloads=payloads)) as mirror:
        return mirror.catch_up(scope)


def ask(folder: Path, sql: str, *, scope: str | None = None) -> list[tuple[Any, ...]]:
    with contextlib.closing(MirrorQuery(folder, sql, scope=scope)) as query:
        return list(query.rows())


def rows(folder: Path) -> list[tuple[Any, ...]]:
    return ask(folder, "SELECT * FROM events ORDER BY position")


def test_the_mirror_has_every_event_once_and_counts_as_the_ledger_does(
    ledger: Ledger, tmp_path: Path
) -> None:
    folder = tmp_path / "m"
    work(ledger)
    first = catch_up(ledger, folder)
    work(ledger, "s2")
    ledger.append([said("elsewhere", scope=ELSEWHERE)])
    second = catch_up(ledger, folder)
    third = catch_up(ledger, folder)
    catch_up(ledger, folder, scope=ELSEWHERE)

    recorded = [one.event_id for one in ledger.follow(HERE, idle_s=0)]
    sql = "SELECT event_id FROM events WHERE scope = 'acme/app' ORDER BY position"
    assert [one for (one,) in ask(folder, sql)] == recorded
    assert (first.events + second.events, third.events) == (len(recorded), 0)
    calls = ask(folder, "SELECT tool, status, count(*) FROM tool_calls GROUP BY ALL ORDER BY ALL")
    counted = [(one.tool, one.ok, one.failed) for one in ledger.tool_statistics(HERE)]
    assert calls == [("bash", "ok", 2), ("read", "failed", 2)]
    assert sorted(counted, key=str) == [("bash", 2, 0), ("read", 0, 2)]
    used = ledger.session("s1", scope=HERE, agent="lyria").usage().total
    sql = "SELECT total_tokens, cost_usd FROM usage WHERE session_id = 's1'"
    assert ask(folder, sql) == [(used.total_tokens, pytest.approx(float(used.cost_usd or 0)))]
    assert ask(folder, "SELECT state, count(*) FROM runs GROUP BY ALL") == [("ended", 2)]
    assert len((folder / "receipts.jsonl").read_bytes().splitlines()) == 3


def test_days_and_scopes_are_folders_and_a_question_may_keep_to_one_scope(
    ledger: Ledger, tmp_path: Path
) -> None:
    folder = tmp_path / "m"
    ledger.append([said("x", ts_ms=NOON + day * DAY) for day in range(3)])
    ledger.append([said("elsewhere", scope=ELSEWHERE, ts_ms=NOON)])
    catch_up(ledger, folder)
    catch_up(ledger, folder, scope=ELSEWHERE)

    assert sorted(path.name for path in folder.glob("scope=acme%2Fapp/*")) == [
        "day=2026-09-21", "day=2026-09-22", "day=2026-09-23", "manifest.json",
    ]  # fmt: skip
    assert ask(folder, "SELECT scope, count(*) FROM events GROUP BY ALL ORDER BY ALL") == [
        (HERE, 3),
        (ELSEWHERE, 1),
    ]
    assert ask(folder, "SELECT DISTINCT scope FROM events", scope=ELSEWHERE) == [(ELSEWHERE,)]


def test_texts_are_mirrored_only_if_they_are_asked_for(ledger: Ledger, tmp_path: Path) -> None:
    work(ledger)
    catch_up(ledger, tmp_path / "plain")
    catch_up(ledger, tmp_path / "full", payloads=True)

    assert not [row for row in rows(tmp_path / "plain") if "launch" in str(row)]
    assert not [row for row in rows(tmp_path / "plain") if "toad" in str(row)]
    sql = "SELECT payload->>'text' FROM events WHERE kind = 'conversation.user'"
    assert ask(tmp_path / "full", sql) == [("the launch word of s1",)]


@pytest.mark.parametrize("payloads", [False, True])
def test_what_was_erased_is_erased_from_the_mirror_as_if_it_was_made_anew(
    ledger: Ledger, tmp_path: Path, *, payloads: bool
) -> None:
    folder = tmp_path / "m"
    for name in ("s1", "s2", "s3"):
        work(ledger, name)
    work(ledger, "of-jo", user="jo")
    ledger.append([said("very old", session_id="s4", ts_ms=NOON - 900 * DAY)])
    catch_up(ledger, folder, payloads=payloads)
    before = {path.name for path in folder.rglob("*.parquet")}
    event = ledger.session("s1", scope=HERE, agent="lyria").headers(kinds=["conversation.user"])
    ledger.redact(HERE, event_id=next(event).event_id)
    ledger.redact(HERE, session_id="s2")
    ledger.expire(HERE)
    ledger.forget(HERE, user="jo")

    receipt = catch_up(ledger, folder, payloads=payloads)

    catch_up(ledger, tmp_path / "anew", payloads=payloads)
    assert rows(folder) == rows(tmp_path / "anew")
    told = str(rows(folder))
    assert [name in told for name in ("of s1", "of s2", "of-jo", "jo", "very old")] == [False] * 5
    assert ("of s3" in told) is payloads
    assert (receipt.erasures >= 4, receipt.rewritten > 0) == (True, True)
    # The old files are gone, not only left out.
    assert before.isdisjoint(path.name for path in folder.rglob("*.parquet"))
    assert catch_up(ledger, folder, payloads=payloads).rewritten == 0


def test_what_a_crash_left_behind_counts_for_nothing(ledger: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    work(ledger)
    catch_up(ledger, folder)
    (whole,) = folder.rglob("*.parquet")
    stray = whole.with_name("stray.parquet")
    stray.write_bytes(whole.read_bytes())
    left = folder / "scope=acme%2Fapp" / ".rows.jsonl"
    left.write_text('{"summary": "half"}')
    expected = rows(folder)

    work(ledger, "s2")
    catch_up(ledger, folder)

    assert rows(folder)[: len(expected)] == expected
    assert len(rows(folder)) == len(list(ledger.follow(HERE, idle_s=0)))
    assert (stray.exists(), left.exists()) == (False, False)


def test_many_small_files_become_one(ledger: Ledger, tmp_path: Path) -> None:
    with contextlib.closing(ParquetMirror(ledger, tmp_path / "m")) as mirror:
        for number in range(FILES_MAX + 1):
            ledger.append([said(f"word {number}")])
            mirror.catch_up(HERE)

    assert len(list((tmp_path / "m").rglob("*.parquet"))) == 1
    assert ask(tmp_path / "m", "SELECT count(DISTINCT event_id) FROM events") == [(FILES_MAX + 1,)]


def test_a_folder_is_one_mirror_of_one_ledger_and_has_one_writer(
    ledger: Ledger, tmp_path: Path
) -> None:
    work(ledger)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="is not empty, and not a mirror"):
        ParquetMirror(ledger, tmp_path / "full")
    with contextlib.closing(ParquetMirror(ledger, tmp_path / "m")) as mirror:
        mirror.catch_up(HERE)
        with pytest.raises(Busy, match="is in use by another mirror"):
            ParquetMirror(ledger, tmp_path / "m")
    with pytest.raises(InvalidInput, match="without payloads"):
        ParquetMirror(ledger, tmp_path / "m", payloads=True)
    with treering.open(tmp_path / "b.db") as other:
        work(other)
        with pytest.raises(InvalidInput, match="of another ledger"):
            catch_up(other, tmp_path / "m")
    with pytest.raises(InvalidInput, match="wildcard characters"):
        ParquetMirror(ledger, tmp_path / "m[1]")


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO '{folder}/x.csv'",
        "SELECT 1; SELECT 2",
        "DROP VIEW events",
        "ATTACH '{folder}/x.db'",
        "SET enable_external_access = true",
        "SELECT * FROM read_text('{folder}/secret.txt')",
        "SELECT * FROM '{folder}/secret.csv'",
        "SELECT * FROM glob('{folder}/*')",
        "INSTALL httpfs",
        "SELECT * FROM nothing",
        "",
    ],
)
def test_a_question_reads_the_mirror_and_nothing_else(
    ledger: Ledger, tmp_path: Path, sql: str
) -> None:
    catch_up(ledger, tmp_path / "m")
    (tmp_path / "secret.txt").write_text("TOAD")
    (tmp_path / "secret.csv").write_text("a\nTOAD\n")

    with pytest.raises(InvalidInput) as refused:
        ask(tmp_path / "m", sql.format(folder=tmp_path))

    assert "TOAD" not in str(refused.value)
    assert not (tmp_path / "x.csv").exists()
    assert not (tmp_path / "x.db").exists()
