"""No line stops a reader: whatever it contains, the lines around it are recorded once.

The same hostile lines go through every lane: the spool of hooks, the spool of episodes,
transcripts that are extracted, and logs that are imported.
"""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest

import treering
from capture.intake_logs import every_event
from treering.app import import_logs
from treering.capture.episodes.bounds import EventLimits
from treering.capture.episodes.extraction import Extracted, SpoolExtractor, TextLimits
from treering.capture.episodes.ingest import Ingest
from treering.capture.hooks.spool import drain, note_decision
from treering.capture.quarantine import (
    Quarantine,
    quarantine_folder,
    quarantine_of,
    quarantined,
    read_quarantine,
)
from treering.capture.secrets import SecretGuard
from treering.errors import Busy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from treering import Ledger

GUARD: Final = SecretGuard(key=bytes(32), personal=True)
SECRET: Final = "sk-ant-api03-" + "Zq9Wx7Kp3T" * 9 + "AA"
"""Looks like a key, and is none."""
NOON: Final = 1_772_000_000_000


def nested(levels: int, key: str | None = None) -> Any:
    value: Any = "deep"
    for _ in range(levels):
        value = [value] if key is None else {key: value}
    return value


VALUES: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 1.5, 10**30, 2**63, -(2**70), 1e308, 253_402_300_800_000),
    *("", " ", "\0", "\ud800", "\u202e", "a\nb", "/nowhere/x.jsonl", "~/x", "/" + "n/" * 5_000),
    *("x" * 5_000, "é" * 300, "9" * 400, "0001-01-01T00:00:00+23:59", "9999-99-99T99:99:99Z"),
    *([], {}, [[]], {"": ""}, [None, {"type": "text", "text": 7}], {"\ud800": "\ud800"}),
    *(nested(60), nested(70), nested(70, "k"), nested(300), {"k" * 5_000: "v" * 70_000}),
)
RAW: Final = (
    *(b"[]", b"{}", b"7", b'""', b"null", b"{torn", b"\xff\xfe", b"\x00" * 5_000, b"\x1e{}"),
    *(b'{"a":' * 3_000, b"[" * 100_000, b'{"a":NaN,"b":-Infinity,"c":1e999}', b'{"a":1}{"b":2}'),
    *(b"9" * 10_000, b'{"n":' + b"9" * 5_000 + b"}", b'"' + b"x" * 100_000, b" " * 100_000),
)


def hostile(line: dict[str, Any]) -> Iterator[bytes]:
    """Yield hostile variants of ``line``: of each field in turn, then of the bytes."""
    for field, value in ((field, value) for field in line for value in VALUES):
        yield json.dumps({**line, field: value}).encode()
    whole = json.dumps(line).encode()
    for field in line:
        start = f'"{field}": '.encode()
        yield whole.replace(start + b'"', start + b'"\xff\xc3', 1)
        yield whole.replace(start, start + b'{"a":1,"a":2},' + start, 1)
        yield json.dumps({at: value for at, value in line.items() if at != field}).encode()
    yield from (whole[: len(whole) // 2], whole + whole, whole.replace(b'"', b"'"), b"\xef\xbb\xbf")
    yield from RAW


def mutated(lines: Sequence[bytes], rounds: int) -> Iterator[bytes]:
    """Yield lines with a few bytes changed, the same each time."""
    dice = random.Random(57)
    pieces = [
        b"\xff",
        b"\0",
        b'"',
        b"\\",
        b"{",
        b"]",
        b"\\ud800",
        b"9" * 30,
        b"NaN",
        b",",
        b"[" * 80,
    ]
    for _ in range(rounds):
        line = bytearray(dice.choice(lines)[:20_000])
        for _ in range(dice.randint(1, 6)):
            at = dice.randrange(len(line) + 1)
            line[at : at + dice.randint(0, 9)] = dice.choice(pieces)
        yield bytes(line).replace(b"\n", b" ")


def mixed(bad: Sequence[bytes], good: Callable[[int], bytes]) -> bytes:
    """Return all lines, with a good one before, between and after the bad ones."""
    rows = [good(0)]
    for number, line in enumerate(bad, start=1):
        rows += [line, good(number)]
    return b"".join(row + b"\n" for row in rows)


class Lane(ABC):
    """One way into a ledger."""

    sample: ClassVar[dict[str, Any]]

    def __init__(self, ledger: Ledger, folder: Path) -> None:
        self.ledger = ledger
        self.folder = folder

    @abstractmethod
    def good(self, number: int) -> bytes:
        """Return a line that can be recorded."""

    @abstractmethod
    def write(self, body: bytes) -> None:
        """Put lines where they are read from."""

    @abstractmethod
    def read(self) -> None:
        """Record what was written."""

    @abstractmethod
    def found(self) -> Counter[str]:
        """Return how often each good line was recorded."""


class Hooks(Lane):
    """The spool of hooks, drained."""

    sample: ClassVar = {
        "schema": "treering.spool.v1",
        "agent": "claude-code",
        "ts_ms": NOON,
        "event": "PermissionRequest",
        "session_id": "bad",
        "transcript_path": "/nowhere/s1.jsonl",
        "cwd": "/srv/app",
        "content": {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"},
        "content_file": "none.json",
    }

    def good(self, number: int) -> bytes:
        content = {"tool_name": f"good-{number}", "tool_input": {}}
        line = {**self.sample, "ts_ms": NOON + number, "session_id": "good", "content": content}
        del line["content_file"]
        return json.dumps(line).encode()

    def write(self, body: bytes) -> None:
        (self.folder / "spool").mkdir(exist_ok=True)
        with (self.folder / "spool" / "here.jsonl").open("ab") as stream:
            stream.write(body)

    def read(self) -> None:
        drain(self.folder / "spool", take=len, note=self.note, guard=GUARD)

    def note(self, decision: Any) -> None:
        note_decision(self.ledger.with_masking(), decision, scope="here")

    def found(self) -> Counter[str]:
        refs = (one.refs or {} for one in every(self.ledger, "here", "good"))
        return Counter(str(one["tool"]) for one in refs if "tool" in one)


class Episodes(Lane):
    """A spool of episodes, ingested."""

    sample: ClassVar = {
        "schema": "openclaw-mem.episodes.spool.v0",
        "event_id": "bad",
        "ts_ms": NOON,
        "scope": "here",
        "session_id": "bad",
        "agent_id": "lyria",
        "type": "conversation.user",
        "summary": "hello",
        "payload": {"text": "hello"},
        "refs": {"a": 1},
        "redacted": False,
    }

    def good(self, number: int) -> bytes:
        name = f"good-{number}"
        return json.dumps(
            {**self.sample, "event_id": name, "session_id": "good", "summary": name}
        ).encode()

    def write(self, body: bytes) -> None:
        with (self.folder / "spool.jsonl").open("ab") as stream:
            stream.write(body)

    def read(self) -> None:
        spool = self.folder / "spool.jsonl"
        Ingest(
            self.ledger,
            spool,
            self.folder / "state.json",
            guard=GUARD,
            caps=EventLimits(),
            location="here",
            quarantine=quarantine_of(spool, GUARD),
        ).once()

    def found(self) -> Counter[str]:
        return Counter(one.summary for one in every(self.ledger, "here", "good"))


class Transcripts(Lane):
    """Transcripts of OpenClaw, extracted."""

    sample: ClassVar = {
        "type": "message",
        "id": "bad",
        "timestamp": "2026-03-05T10:00:00.000Z",
        "sessionKey": "bad",
        "agentId": "lyria",
        "message": {"role": "user", "content": "hello"},
    }

    def good(self, number: int) -> bytes:
        said = {"role": "user", "content": f"good-{number}"}
        return json.dumps({**self.sample, "id": f"g{number}", "message": said}).encode()

    def write(self, body: bytes) -> None:
        folder = self.folder / "agents" / "lyria" / "sessions"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "one.jsonl").open("ab") as stream:
            stream.write(body)

    def read(self) -> None:
        SpoolExtractor(
            self.folder / "agents",
            self.folder / "spool.jsonl",
            self.folder / "extract.json",
            guard=GUARD,
            key=lambda: bytes(32),
            limits=TextLimits(payload_bytes=4_096, summary_characters=220),
            quarantine=quarantine_of(self.folder / "agents", GUARD),
        ).once(Extracted())

    def found(self) -> Counter[str]:
        rows = [json.loads(row) for row in (self.folder / "spool.jsonl").read_bytes().splitlines()]
        texts = (row["payload"]["text"] for row in rows if row["payload"])
        return Counter(text for text in texts if text.startswith("good-"))


class Imports(Lane):
    """A log of Claude Code, imported."""

    sample: ClassVar = {
        "type": "user",
        "uuid": "00000000-0000-4000-8000-0000000000bb",
        "parentUuid": None,
        "sessionId": "5b0c5a53-0000-4000-8000-00000000000a",
        "timestamp": "2026-03-05T10:00:00.000Z",
        "cwd": "/srv/app",
        "version": "2.1.0",
        "isSidechain": False,
        "message": {"role": "user", "content": "hello"},
    }

    def good(self, number: int) -> bytes:
        said = {"role": "user", "content": f"good-{number}"}
        uuid = f"00000000-0000-4000-8000-{number:012}"
        return json.dumps({**self.sample, "uuid": uuid, "message": said}).encode()

    def write(self, body: bytes) -> None:
        with (self.folder / "log.jsonl").open("ab") as stream:
            stream.write(body)

    def read(self) -> None:
        import_logs(self.ledger, [self.folder / "log.jsonl"], scope="here")

    def found(self) -> Counter[str]:
        said = (one for one in every(self.ledger, "here") if one.kind == "conversation.user")
        texts = (str((one.payload or {}).get("text")) for one in said)
        return Counter(text for text in texts if text.startswith("good-"))


LANES: Final[dict[str, Callable[[Ledger, Path], Lane]]] = {
    "hooks": Hooks, "ingest": Episodes, "extract": Transcripts, "import": Imports,
}  # fmt: skip


def every(ledger: Ledger, scope: str, session: str | None = None) -> list[Any]:
    return [one for one in every_event(ledger, scope) if session in {None, one.session_id}]


@pytest.fixture(params=LANES)
def lane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lane]:
    with treering.open(":memory:") as ledger:
        yield LANES[request.param](ledger, tmp_path)


def assert_around(lane: Lane, bad: Sequence[bytes]) -> None:
    """Assert that the lines around each bad one are recorded once, and that reading continues."""
    lane.write(mixed(bad, lane.good))
    lane.read()
    lane.read()
    # A log's last good line may be one with the value of a torn line before it: ask a new one.
    lane.write(lane.good(len(bad) + 1) + b"\n")
    lane.read()

    assert lane.found() == Counter(f"good-{number}" for number in range(len(bad) + 2))
    assert lane.ledger.admin.verify().intact


def test_the_lines_around_a_hostile_one_are_recorded_once(lane: Lane) -> None:
    assert_around(lane, list(hostile(lane.sample)))


@pytest.mark.long
def test_the_lines_around_thousands_of_mutated_ones_are_recorded_once(lane: Lane) -> None:
    bad = [line for line in hostile(lane.sample) if len(line) < 20_000]

    assert_around(lane, list(mutated(bad, 3_000)))


BEHIND: Final = (
    b'{"schema":"treering.spool.v1","agent":"x","ts_ms":"then","content":{"k":"%b"}}'
    % SECRET.encode()
)
HIDDEN: Final = BEHIND.replace(SECRET.encode(), b"\\u0073k" + SECRET[2:].encode())


@pytest.mark.parametrize("line", [BEHIND, BEHIND[:-1], HIDDEN, HIDDEN[:-1], BEHIND + b" " * 9_000])
def test_a_line_that_is_set_aside_is_masked_counted_and_for_its_owner_alone(
    tmp_path: Path, line: bytes
) -> None:
    aside = Quarantine(tmp_path / "aside.log", guard=GUARD)

    aside.add(f"{SECRET} is no name", line)
    aside.flush()

    text = aside.path.read_text()
    assert SECRET[4:] not in text
    assert text.count("[redacted:") == 2
    assert aside.path.stat().st_mode & 0o777 == 0o600


def test_a_flood_of_bad_lines_is_counted_and_does_not_fill_the_disk(tmp_path: Path) -> None:
    aside = Quarantine(tmp_path / "aside.log", guard=GUARD)

    for number in range(5_000):
        aside.add("not JSON", b"x" * 100_000, offset=number)
    aside.flush()

    entries = read_quarantine(aside.path)
    assert sum(entry.lines for entry in entries) == 5_000
    assert aside.path.stat().st_size < 1_000_000


def test_bytes_that_are_not_utf_8_are_mended_and_counted(tmp_path: Path) -> None:
    with treering.open(":memory:") as ledger:
        lane = Episodes(ledger, tmp_path)
        lane.write(
            lane.good(0).replace(b'"text": "', b'"text": "caf\xe9 ') + b"\n" + lane.good(1) + b"\n"
        )
        lane.read()

        first, second = every(ledger, "here", "good")
        assert (first.payload, second.payload) == ({"text": "caf\ufffd hello"}, {"text": "hello"})
        assert list(quarantined(quarantine_folder())) == []


def test_a_database_that_is_busy_skips_no_line(tmp_path: Path) -> None:
    with treering.open(":memory:") as ledger:
        lane = Hooks(ledger, tmp_path)
        lane.write(lane.good(0) + b"\n" + lane.good(1) + b"\n")

        def note(_: Any) -> None:
            raise Busy

        with pytest.raises(Busy):
            drain(tmp_path / "spool", take=len, note=note, guard=GUARD)
        lane.read()

        assert lane.found() == Counter(["good-0", "good-1"])
        assert not (tmp_path / "spool" / "unread.log").exists()


def test_a_permission_for_an_odd_tool_is_recorded_with_what_can_be(tmp_path: Path) -> None:
    content = {"tool_name": "T" * 9_000, "tool_input": nested(200, "k"), "tool_use_id": {"a": 1}}
    with treering.open(":memory:") as ledger:
        lane = Hooks(ledger, tmp_path)
        lane.write(json.dumps({**lane.sample, "content_file": None, "content": content}).encode())
        lane.read()

        [decision] = [one for one in every(ledger, "here") if one.kind == "ops.decision"]
        assert decision.payload["tool"] == "T" * 9_000
        assert "[TRUNCATED_DEPTH]" in json.dumps(decision.payload["input"])
        assert len(decision.refs["tool"]) < 1_000


def test_empty_values_and_blank_lines_are_counted_and_recorded_as_nothing(tmp_path: Path) -> None:
    with treering.open(":memory:") as ledger:
        lane = Imports(ledger, tmp_path)
        lane.write(lane.good(0) + b"\n" + b"{}\n" * 2_000 + b"\n" * 50_000 + lane.good(1) + b"\n")

        receipt = import_logs(ledger, [tmp_path / "log.jsonl"], scope="here")

        assert (receipt.lines, receipt.imported, receipt.errors) == (52_002, 2, 0)
        assert receipt.skipped == {"blank": 50_000, "empty": 2_000}
        lane.write(lane.good(2) + b"\n" + b"{torn")
        assert import_logs(ledger, [tmp_path / "log.jsonl"], scope="here").faults[0].line == 52_004
