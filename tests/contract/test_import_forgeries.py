"""What an import refuses or reports, however well its chain is made."""

from __future__ import annotations

import io
import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from builders import DAY, HERE, NOON, called, said
from treering.ledger import chain
from treering.model.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Ledger
    from treering.receipts import RestoreReceipt

SALT = bytes(range(16))
EVENT = {
    "kind": "ops.alert",
    "source": "system",
    "agent_id": "lyria",
    "ts_ms": NOON,
    "recorded_ms": NOON,
    "visibility": "safe",
    "schema_version": 1,
    "summary": "disk is full",
}
HEADER = (
    "event_id", "run_id", "run_seq", "turn_id", "agent_id", "user_id", "kind", "source", "origin",
    "ts_ms", "recorded_ms", "visibility", "schema_version",
)  # fmt: skip


def forged(*events: dict[str, Any], session_id: str = "s1", **session: str) -> list[bytes]:
    """Return the lines of an export that nobody wrote, with a chain that holds."""
    link = chain.genesis(SALT, HERE, session_id)
    lines: list[dict[str, Any]] = [
        {"record": "export", "format": "treering.export.v1", "scope": HERE, "at_ms": NOON,
         "payloads": "included"},
        {"record": "session", "session_id": session_id, "salt": SALT.hex(),
         "genesis": link.hex(), "scope_key": "ab" * 32, **session},
    ]  # fmt: skip
    for seq, stated in enumerate(events, start=1):
        event = {"event_id": f"e{seq}", **EVENT, **stated}
        digest = b"" if event.get("erasure") == "expired" else content_digest(event)
        header = chain.header_digest(tuple(event.get(field) for field in HEADER))  # type: ignore[arg-type]
        link = chain.link(link, seq, header, digest)
        lines.append(
            {"record": "event", "session_id": session_id, "seq": seq, "salt": SALT.hex(),
             "content_digest": digest.hex(), "link": link.hex(), **event}
        )  # fmt: skip
        if "erasure" in event:
            del lines[-1]["salt"]
    lines.append({"record": "end", "sessions": 1, "events": len(events)})
    return [json.dumps(line).encode() for line in lines]


def content_digest(event: dict[str, Any]) -> bytes:
    encoded = (encode(event[name]) if name in event else None for name in ("refs", "payload"))
    return chain.content_digest(SALT, event["summary"] or "", *encoded)


def links(lines: list[bytes]) -> list[bytes]:
    return [bytes.fromhex(json.loads(line)["link"]) for line in lines if b'"link"' in line]


def restored(ledger: Ledger, lines: list[bytes]) -> RestoreReceipt:
    receipt = ledger.admin.restore(io.BytesIO(b"\n".join(lines) + b"\n"))
    counted = receipt.imported + receipt.duplicates + receipt.other + receipt.errors
    assert counted == receipt.lines
    return receipt


def test_a_forgery_of_what_a_ledger_could_hold_is_taken(ledger: Ledger) -> None:
    everything = {
        "refs": {"a": 1}, "payload": [1], "payload_bytes": 3, "run_id": "r", "run_seq": 1,
        "turn_id": "t", "user_id": "u", "origin": "kernel", "visibility": "private",
        "schema_version": 99, "event_id": "#" + "0" * 32,
    }  # fmt: skip

    receipt = restored(ledger, forged({}, everything))

    assert (receipt.complete, receipt.imported, receipt.errors_sample) == (True, 2, [])


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("visibility", "weird", "visibility"),
        ("source", "evil\x1b[31m", "source"),
        ("source", "", "source"),
        ("kind", "weird.kind", "kind"),
        ("kind", "user_message", "kind"),
        ("kind", "assistant.delta", "kind"),
        ("kind", "\x1b[31mevil", "kind"),
        ("kind", "k" * 201, "kind"),
        ("event_id", "", "event_id"),
        ("event_id", "e" * 201, "event_id"),
        ("run_id", "", "run_id"),
        ("run_id", "r\n", "run_id"),
        ("run_seq", 0, "run_seq"),
        ("turn_id", "", "turn_id"),
        ("turn_id", "t" * 201, "turn_id"),
        ("user_id", " ", "user_id"),
        ("user_id", "\0", "user_id"),
        ("origin", "", "origin"),
        ("origin", "o" * 201, "origin"),
        ("agent_id", "", "agent_id"),
        ("agent_id", "a" * 5_000, "agent_id"),
        ("ts_ms", 0, "ts_ms"),
        ("ts_ms", 2**63, "ts_ms"),
        ("recorded_ms", 0, "recorded_ms"),
        ("recorded_ms", 2**63, "recorded_ms"),
        ("schema_version", 0, "schema_version"),
        ("summary", "", "summary"),
        ("summary", "x" * 1_001, "summary"),
        ("summary", "a\0b", "summary"),
        ("refs", {"a": "x" * 5_000}, "refs"),
        ("payload", json.loads("[" * 65 + "]" * 65), "payload"),
    ],
)
def test_what_no_ledger_could_hold_is_refused_by_its_name(
    ledger: Ledger, field: str, value: object, reason: str
) -> None:
    receipt = restored(ledger, forged({}, {field: value}))

    assert (receipt.imported, receipt.errors, receipt.complete) == (1, 1, False)
    (error,) = receipt.errors_sample
    assert error.line == 4
    assert reason in error.reason
    assert "\x1b" not in error.reason
    assert ledger.headers(HERE).items[0].summary == "disk is full"


@pytest.mark.parametrize(
    "session",
    [
        {"session_id": ""},
        {"session_id": "s\x1b"},
        {"session_id": "s" * 201},
        {"scope_key": ""},
        {"salt": "", "genesis": chain.genesis(b"", HERE, "s1").hex()},
    ],
)
def test_a_session_that_no_ledger_could_open_is_refused(
    ledger: Ledger, session: dict[str, str]
) -> None:
    receipt = restored(ledger, forged({}, **session))

    assert (receipt.imported, receipt.errors) == (0, 2)
    assert receipt.errors_sample[0].line == 2


def test_a_scope_in_another_spelling_is_refused(ledger: Ledger) -> None:
    lines = [line.replace(b'"acme/app"', b'"ACME/App"') for line in forged({})]

    receipt = restored(ledger, lines)

    assert (receipt.imported, receipt.complete) == (0, False)
    assert "acme/app" in receipt.errors_sample[0].reason


TOMBSTONE = {
    "kind": "tool.call", "source": "", "agent_id": "", "ts_ms": 0, "recorded_ms": 0,
    "summary": None, "erasure": "expired", "event_id": "#" + "0" * 32,
}  # fmt: skip


def vouching(kind: str, erasure: str, of: list[bytes], **changes: Any) -> dict[str, Any]:
    payload = {
        "erasure": erasure,
        "count": len(of),
        "digest": sha256(b"".join(of)).hexdigest(),
        "ranges": [[1, len(of)]],
    } | changes
    return {"kind": kind, "payload": payload}


def test_what_is_left_of_an_expired_event_is_taken(ledger: Ledger) -> None:
    cover = vouching("ledger.expired", "expired", links(forged(TOMBSTONE)))

    receipt = restored(ledger, forged(TOMBSTONE, cover))

    assert (receipt.complete, receipt.errors_sample) == (True, [])


@pytest.mark.parametrize(
    "change",
    [
        {"source": "system"}, {"agent_id": "lyria"}, {"ts_ms": NOON}, {"recorded_ms": NOON},
        {"origin": "kernel"}, {"turn_id": "t"}, {"user_id": "u"}, {"run_seq": 1},
        {"summary": "x"}, {"refs": {}}, {"payload": 1}, {"payload_bytes": 1},
        {"event_id": "e1"}, {"event_id": "#zz"}, {"event_id": "#" + "0" * 31},
    ],
)  # fmt: skip
def test_an_expired_event_says_nothing_beyond_its_blanks(
    ledger: Ledger, change: dict[str, Any]
) -> None:
    receipt = restored(ledger, forged(TOMBSTONE | change))

    assert (receipt.imported, receipt.errors) == (0, 1)


def test_a_redacted_event_with_content_is_refused(ledger: Ledger) -> None:
    receipt = restored(ledger, forged({"erasure": "null"}))

    assert (receipt.imported, receipt.errors) == (0, 1)
    assert "there is content" in receipt.errors_sample[0].reason


@pytest.mark.parametrize(
    ("kind", "erasure"), [("ledger.redacted", "placeholder"), ("ledger.expired", "expired")]
)
@pytest.mark.parametrize("change", [{"digest": "x"}, {"count": 7}, {"ranges": [[1, 2]]}])
def test_a_forged_word_about_an_erasure_is_reported(
    ledger: Ledger, kind: str, erasure: str, change: dict[str, Any]
) -> None:
    cover = vouching(kind, erasure, links(forged({})), **change)

    receipt = restored(ledger, forged({}, cover))

    assert (receipt.imported, receipt.errors, receipt.complete) == (2, 0, False)
    (error,) = receipt.errors_sample
    assert error.line == 0
    assert "s1" in error.reason


def test_a_blank_event_that_nothing_vouches_for_is_reported(ledger: Ledger) -> None:
    receipt = restored(ledger, forged({"summary": None, "erasure": "null"}))

    assert (receipt.imported, receipt.errors, receipt.complete) == (1, 0, False)
    assert "no event vouches" in receipt.errors_sample[0].reason


def test_sessions_that_do_not_hold_are_reported_as_far_as_there_is_room(ledger: Ledger) -> None:
    blank = {"summary": None, "erasure": "null"}
    lines = [
        line
        for at in range(9)
        for line in forged({**blank, "event_id": f"x{at}"}, session_id=f"s{at}")
    ]

    receipt = restored(ledger, lines)

    assert (receipt.imported, receipt.complete, len(receipt.errors_sample)) == (9, False, 5)


@pytest.mark.parametrize(
    "payload", [b"1e400", b"[" * 3_000 + b"]" * 3_000, b"[" * 500 + b"]" * 500, b'"\\ud800"']
)
@pytest.mark.parametrize("field", [b"payload", b"refs"])
def test_content_that_cannot_be_read_costs_one_line(
    ledger: Ledger, payload: bytes, field: bytes
) -> None:
    lines = forged({}, {"payload": {"a": 1}})
    others = forged({"event_id": "other"}, session_id="s2")
    lines[3] = lines[3].replace(b'"payload": {"a": 1}', b'"%b": %b' % (field, payload))

    receipt = restored(ledger, [*lines, *others])

    assert (receipt.imported, receipt.errors) == (2, 1)
    assert (receipt.errors_sample[0].line, receipt.errors_sample[0].offset) == (
        4,
        sum(len(line) + 1 for line in lines[:3]),
    )


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"record":' + b"[" * 3_000 + b"]" * 3_000])
def test_a_line_that_is_nested_without_end_costs_one_line(ledger: Ledger, line: bytes) -> None:
    lines = forged({})

    receipt = restored(ledger, [*lines[:2], line, *lines[2:]])

    assert (receipt.imported, receipt.errors) == (1, 1)
    assert receipt.errors_sample[0].line == 3


def test_all_behind_a_record_that_is_not_taken_is_refused_for_the_same_reason(
    ledger: Ledger,
) -> None:
    ledger.append([said("taken", session_id="s9", event_id="e2")])

    receipt = restored(ledger, forged({}, {}, {}))

    assert (receipt.imported, receipt.errors) == (1, 2)
    assert {error.reason for error in receipt.errors_sample} == {"event_id already exists: e2"}


def test_a_word_about_an_erasure_takes_nothing_that_it_does_not_prove(
    open_ledger: Callable[[], Ledger],
) -> None:
    ledger = open_ledger()
    restored(ledger, forged({}))
    cover = vouching("ledger.redacted", "null", links(forged({})), digest="00" * 32)

    receipt = restored(ledger, forged({}, cover))

    assert not receipt.complete
    assert ledger.headers(HERE).items[0].summary == "disk is full"


def test_an_import_of_what_expired_elsewhere_is_refused_where_its_ids_would_not_be_known(
    open_ledger: Callable[[], Ledger],
) -> None:
    source, target = open_ledger(), open_ledger()
    source.append([said("kept"), called(event_id="old", ts_ms=NOON), said("later")])
    source.append([called(session_id="s2", ts_ms=NOON)])
    source.expire(HERE, now_ms=NOON + 45 * DAY)
    target.append([said("theirs", session_id="s3")])
    stream = io.BytesIO()
    source.admin.export(HERE, stream, payloads="included")

    receipt = restored(target, stream.getvalue().splitlines())

    assert (receipt.imported, receipt.errors, receipt.complete) == (3, 3, False)
    (reason,) = {error.reason for error in receipt.errors_sample}
    assert "session s1" in reason
    assert "a ledger that does not have the scope yet" in reason
    assert target.admin.verify(HERE, session_id="s2").expired == 1
