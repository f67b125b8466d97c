"""Logs that a wrong reader has read: what was said stays, what it derived is replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from capture.intake_logs import EVERYWHERE, VOYAGES, add, every_event, lines, write
from treering.formats.registry import adding
from treering.importing import (
    EventContent,
    Format,
    LogPlace,
    RecordReader,
    SessionHeader,
    observation,
    said,
    share,
    used,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from treering import Event, Ledger
    from treering.model.intakes import ImportReceipt

SESSION: Final = "0190d000-0000-4000-8000-000000000001"
LOG: Final = [
    {"gull": n, "at": 1_790_000_000_000 + n, "who": who, "text": text, "spent": 10 + n}
    for n, (who, text) in enumerate(
        [("user", "When is high tide?"), ("assistant", "At noon."), ("user", "Thanks, gull.")]
    )
]


class GullReader(RecordReader):
    """Reads the log as it should be read."""

    agent = "gull"

    def session_of(self, record: dict[str, Any]) -> SessionHeader | None:
        del record
        return SessionHeader(session=SESSION, agent=self.agent)

    def id_of(self, record: dict[str, Any]) -> str | None:
        return str(record.get("gull"))

    def time_of(self, record: dict[str, Any]) -> int | None:
        at = record.get("at")
        return at if isinstance(at, int) else None

    def parse(self, record: dict[str, Any]) -> list[EventContent]:
        spent = used(input_tokens=0, output_tokens=record["spent"])
        return [said(record["who"], record["text"]), *([spent] if spent else [])]


class WrongReader(GullReader):
    """Names records otherwise, counts too much, and sees what is not there."""

    agent = "tern"

    def id_of(self, record: dict[str, Any]) -> str | None:
        return f"t{record.get('gull')}"

    def parse(self, record: dict[str, Any]) -> list[EventContent]:
        spent = used(input_tokens=1_000, output_tokens=record["spent"])
        told = said(record["who"], record["text"])
        return [told, *([spent] if spent else []), observation("a storm", {"n": record["gull"]})]


class OlderReader(WrongReader):
    """The same, under the names of the present reader."""

    agent = "gull"

    def id_of(self, record: dict[str, Any]) -> str | None:
        return str(record.get("gull"))


def score(values: Sequence[Any]) -> float:
    return share("gull" in value for value in values)


GULL: Final = Format(name="gull", version=2, score=score, reader=GullReader)
EARLIER: Final = {
    "a wrong reader": Format(name="tern", score=score, reader=WrongReader),
    "an older reader": Format(name="gull", score=score, reader=OlderReader),
}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Ledger]:
    with treering.open(tmp_path / "l.db") as ledger:
        yield ledger


def take(ledger: Ledger, path: Path, form: Format, *, again: bool = False) -> ImportReceipt:
    with adding(form):
        return treering.import_logs(ledger, [path], scope=EVERYWHERE, again=again)


def texts(ledger: Ledger) -> list[str]:
    return [one.payload["text"] for one in spoken(ledger) if not one.redacted]


def spoken(ledger: Ledger) -> list[Event]:
    return [one for one in every_event(ledger) if one.kind.startswith("conversation.")]


@pytest.mark.parametrize("earlier", EARLIER)
def test_what_was_said_stays_and_what_was_derived_is_replaced(
    here: Ledger, tmp_path: Path, earlier: str
) -> None:
    path = write(tmp_path / "log.jsonl", LOG)
    take(here, path, EARLIER[earlier])
    before = [one.event_id for one in spoken(here)]

    receipt = take(here, path, GULL, again=True)

    assert [one.event_id for one in spoken(here)] == before
    assert texts(here) == [line["text"] for line in LOG]
    session = here.session(SESSION, scope=EVERYWHERE, agent="x")
    assert session.usage().total.total_tokens == sum(10 + n for n in range(len(LOG)))
    storms = [one for one in every_event(here) if one.kind == "ops.observation"]
    assert [one.redacted for one in storms] == [True] * len(LOG)
    assert receipt.replaced == sum(
        one.redacted for one in every_event(here) if one.kind.startswith(("ops.", "usage."))
    )
    assert here.admin.verify().intact


@pytest.mark.parametrize("earlier", EARLIER)
def test_a_log_that_was_replaced_grows_in_its_session_and_is_not_replaced_again(
    here: Ledger, tmp_path: Path, earlier: str
) -> None:
    path = write(tmp_path / "log.jsonl", LOG)
    take(here, path, EARLIER[earlier])
    take(here, path, GULL, again=True)

    once_more = take(here, path, GULL, again=True)
    copied = take(here, write(tmp_path / "copy.jsonl", LOG), GULL)
    more = {"gull": 9, "at": 1_790_000_000_009, "who": "user", "text": "Bye.", "spent": 1}
    add(path, lines([more]))
    grown = take(here, path, GULL)

    assert (once_more.events, once_more.replaced, copied.events) == (0, 0, 0)
    assert (grown.events, grown.sessions_new) == (2, 0)
    assert {one.session_id for one in spoken(here)} == {SESSION}


def test_a_newer_reader_adds_and_only_again_replaces(here: Ledger, tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", LOG)
    take(here, path, EARLIER["an older reader"])

    newer = take(here, path, GULL)
    again = take(here, path, GULL, again=True)

    assert newer.replaced == 0
    assert again.replaced > 0
    assert texts(here) == [line["text"] for line in LOG]


@pytest.mark.parametrize("earlier", EARLIER)
def test_what_was_erased_does_not_come_back(here: Ledger, tmp_path: Path, earlier: str) -> None:
    path = write(tmp_path / "log.jsonl", LOG)
    take(here, path, EARLIER[earlier])
    here.redact(EVERYWHERE, event_id=spoken(here)[0].event_id)

    take(here, path, GULL, again=True)

    assert texts(here) == [line["text"] for line in LOG[1:]]
    assert len(spoken(here)) == len(LOG)


def test_a_log_that_holds_less_than_before_replaces_nothing(here: Ledger, tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", LOG)
    take(here, path, EARLIER["an older reader"])
    write(path, LOG[:2])

    receipt = take(here, path, GULL, again=True)

    assert receipt.replaced == 0
    assert texts(here) == [line["text"] for line in LOG]


def test_a_log_of_a_relative_is_taken_over_whole(here: Ledger, tmp_path: Path) -> None:
    name, records = VOYAGES["pi"]
    path = write(tmp_path / ".heron" / name, records)
    heron = Format(name="heron", family=("pi",), places=(LogPlace(".heron"),))
    first = treering.import_logs(here, [path], scope=EVERYWHERE)
    before = {one.event_id for one in every_event(here)}

    kept = take(here, path, heron)
    again = take(here, path, heron, again=True)

    new = [one for one in every_event(here) if one.event_id not in before]
    assert (first.by_format, kept.files_unchanged, again.by_format) == ({"pi": 1}, 1, {"heron": 1})
    assert [one.kind for one in new] == ["session.imported"]
    assert (again.events, again.replaced) == (0, 0)
