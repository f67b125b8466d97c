"""Messages of transcripts, extracted to a spool."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

import treering
from treering.capture.episodes.extraction import (
    Extracted,
    SpoolExtractor,
    TextLimits,
    cleaned,
    payload_of,
    summary_of,
)
from treering.capture.episodes.lines import ScopeRule
from treering.capture.secrets import SecretGuard
from treering.model.codec import encode

if TYPE_CHECKING:
    from pathlib import Path

START = 1_767_225_600_000
TOKEN = "ghp_" + "k7Qz3mXw9RtB2vLn8JdY5sHc1FgP6aEu4WiO"


class Desk:
    """A folder of agents, and the spool for their messages."""

    def __init__(self, folder: Path, **rule: Any) -> None:
        self.root = folder / "agents"
        self.sessions = self.root / "lyria" / "sessions"
        self.sessions.mkdir(parents=True)
        self.spool = folder / "memory" / "spool.jsonl"
        self.extraction = SpoolExtractor(
            self.root,
            self.spool,
            folder / "state.json",
            guard=SecretGuard(key=bytes(32), personal=True),
            key=lambda: bytes(32),
            limits=TextLimits(payload_bytes=4_096, summary_characters=220),
            scope_rule=ScopeRule(**rule),
        )

    def add(self, *rows: Any, name: str = "one.jsonl", end: str = "\n") -> Path:
        path = self.sessions / name
        with path.open("a") as stream:
            stream.write("\n".join(json.dumps(row) for row in rows) + end)
        return path

    def extract(self) -> Extracted:
        done = Extracted()
        self.extraction.once(done)
        return done

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.spool.read_text().splitlines()]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def row(text: Any, role: str = "user", **fields: Any) -> dict[str, Any]:
    return {"type": "message", "message": {"role": role, "content": text}, **fields}


def test_what_was_said_becomes_lines_of_a_spool(desk: Desk) -> None:
    path = desk.add(
        {"type": "session", "id": "one", "timestamp": "2026-01-01T00:00:00.000Z"},
        row("What is new?", id="a1", timestamp="2026-01-01T00:00:01.000Z"),
        row([{"type": "text", "text": "Nothing."}, {"type": "toolCall", "id": "c"}], "assistant"),
        row([{"type": "toolCall", "id": "c", "name": "ls"}], "assistant"),
    )

    done = desk.extract()

    first, second = desk.lines()
    assert (done.emitted, done.unsupported_rows, done.lines_total) == (2, 2, 4)
    assert list(first) == sorted(first)
    assert (first["scope"], first["agent_id"], first["session_id"]) == (
        "openclaw/lyria",
        "lyria",
        "one",
    )
    assert (first["type"], first["summary"]) == (
        "conversation.user",
        "conversation.user: What is new?",
    )
    assert first["payload"] == {"text": "What is new?"}
    assert first["refs"]["path"] == str(path)
    assert (first["ts_ms"], second["ts_ms"]) == (START + 1_000, START + 1_000)
    assert second["payload"] == {"text": "Nothing."}


def test_lines_that_say_who_and_where_are_believed_where_the_operator_allows_it(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path, allows_markers=True)
    desk.add(
        {"role": "user", "content": "[SCOPE: demo] hi", "ts_ms": 1_000, "sessionKey": "sess-1",
         "agentId": "a"},
        {"role": "user", "content": "ho", "ts": 1_700_000_000, "session": "s2", "scope": "mine"},
        {"role": "user", "content": "[SCOPE: a@b] ha"},
    )  # fmt: skip

    desk.extract()

    first, second, third = desk.lines()
    assert (first["scope"], first["session_id"], first["agent_id"]) == ("demo", "sess-1", "a")
    assert (first["payload"], first["ts_ms"]) == ({"text": "hi"}, 1_000)
    assert (second["scope"], second["ts_ms"]) == ("mine", 1_700_000_000_000)
    assert (third["scope"], third["payload"]["text"]) == ("openclaw/lyria", "[SCOPE: a@b] ha")


def test_the_store_of_sessions_says_whose_a_transcript_is(tmp_path: Path) -> None:
    desk = Desk(tmp_path, scope="acme/app")
    store = {"agent:worker:telegram:dm:7": {"sessionId": "one", "channel": "telegram"}}
    (desk.sessions / "sessions.json").write_text(json.dumps(store))
    desk.add(row("hello"), name="one-topic-9.jsonl")

    desk.extract()

    (line,) = desk.lines()
    assert (line["agent_id"], line["session_id"]) == ("worker", "one-topic-9")
    assert line["scope"] == "acme/app"
    assert line["refs"]["session_key"] == "agent:worker:telegram:dm:7"
    assert line["refs"]["channel"] == "telegram"


def test_transcripts_are_read_on_from_where_they_ended(desk: Desk) -> None:
    path = desk.add(row("one", id="1"), row("two", id="2"))
    desk.extract()
    desk.add(row("three", id="3"), end="")

    waiting = desk.extract()
    with path.open("a") as stream:
        stream.write("\n")
    done = desk.extract()

    assert (waiting.emitted, waiting.trailing_partial_bytes > 0) == (0, True)
    assert (done.emitted, done.files_with_updates) == (1, 1)
    assert [line["payload"]["text"] for line in desk.lines()] == ["one", "two", "three"]


def test_a_transcript_that_was_put_aside_goes_on_where_it_was(desk: Desk) -> None:
    path = desk.add(row("one", id="1"))
    desk.extract()
    desk.add(row("two", id="2"))
    path.rename(path.with_name("one.jsonl.reset.2026-01-02T00-00-00.000Z"))
    desk.add(row("three", id="3"))

    done = desk.extract()

    assert (done.emitted, desk.extract().lines_total) == (2, 0)
    assert [line["payload"]["text"] for line in desk.lines()] == ["one", "three", "two"]


def test_a_transcript_that_was_written_anew_gives_the_same_ids(desk: Desk) -> None:
    path = desk.add(row("one", id="1"), row("two", id="2"), row("three", id="3"))
    desk.extract()
    path.write_text("")
    desk.add({"type": "compaction", "summary": "…" * 400, "id": "c"}, row("two", id="2"))

    desk.extract()

    ids = [line["event_id"] for line in desk.lines()]
    assert (len(ids), len(set(ids))) == (4, 3)
    assert ids[1] == ids[3]


def test_files_that_replay_others_are_passed_over(desk: Desk) -> None:
    for name in (
        "one.jsonl.bak",
        "one.checkpoint.7.jsonl",
        "one.bak.1.jsonl",
        "one.trajectory.jsonl",
        "sessions.json.bak.3.jsonl",
    ):
        desk.add(row("again"), name=name)
    desk.add(row("once"))

    done = desk.extract()

    assert (done.emitted, done.files_seen, done.ignored_files) == (1, 1, 5)


def test_secrets_are_masked_and_dumps_withheld(desk: Desk) -> None:
    desk.add(row(f"use {TOKEN}"), row("```json\n{}\n```"), row("on 2026-03-05 at 1708732800000"))

    done = desk.extract()

    secret, dump, dated = desk.lines()
    assert TOKEN not in desk.spool.read_text()
    assert secret["payload"]["text"].startswith("use [redacted:")
    assert (dump["summary"], dump["payload"], dump["redacted"]) == (
        "conversation.user: [REDACTED_TOOL_DUMP]",
        None,
        True,
    )
    assert dated["payload"]["text"] == "on 2026-03-05 at 1708732800000"
    assert done.payload_redacted == 2


def test_mirrors_markers_and_broken_lines_are_counted_and_not_emitted(desk: Desk) -> None:
    mirror = row("said already", "assistant")
    mirror["message"]["model"] = "delivery-mirror"
    path = desk.add(mirror, row("NO_REPLY", "assistant"))
    with path.open("a") as stream:
        stream.write("{broken\n")

    done = desk.extract()

    assert (done.emitted, done.unsupported_rows) == (0, 1)
    assert (done.sanitized_dropped, done.invalid_json) == (1, 1)
    assert done.errors_sample[0].endswith(":invalid_json")
    assert not desk.spool.exists()


def test_a_line_that_another_writer_left_torn_does_not_swallow_ours(desk: Desk) -> None:
    desk.spool.parent.mkdir()
    desk.spool.write_bytes(b'{"torn":')
    desk.add(row("whole"))

    desk.extract()

    assert desk.spool.read_bytes().splitlines()[0] == b'{"torn":'
    assert json.loads(desk.spool.read_bytes().splitlines()[1])["payload"] == {"text": "whole"}


def test_odd_rows_and_names_of_files_do_no_harm(desk: Desk) -> None:
    rows = [
        {"role": "user", "content": [1, {"type": "text", "text": 7}, None], "ts": []},
        {"message": {"role": "assistant", "content": {"text": "x"}}, "timestamp": {}},
        {"role": "user", "content": "lone \ud800 half", "ts": "then"},
        {"role": "user", "content": "x", "ts": float("inf")},
        {"role": ["user"], "content": "x"},
    ]
    desk.add(*rows, name=b"odd-\xff.jsonl".decode(errors="surrogateescape"))

    done = desk.extract()

    line, endless = desk.lines()
    assert (done.emitted, done.unsupported_rows, done.mended) == (2, 3, 2)
    assert endless["payload"] == {"text": "x"}
    assert (line["session_id"], line["payload"]) == ("odd-\ufffd", {"text": "lone \ufffd half"})
    assert desk.extract().lines_total == 0


def test_a_root_that_is_not_there_is_told_of(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.extraction._root = tmp_path / "nowhere"

    with pytest.raises(treering.NotFound, match="no transcripts"):
        desk.extract()


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("NO_REPLY", ""),
        ("hi\nNO_REPLY", "hi"),
        ('Conversation info (untrusted):\n```json\n{"a":1}\n```\n\nactual text', "actual text"),
        ("MEDIA:/tmp/x.png\nsee picture", "see picture"),
        ("<|im_start|>user hi<|im_end|>", "user hi"),
        ("<<<BEGIN_UNTRUSTED_CHILD_RESULT>>>x\ny<<<END_UNTRUSTED_CHILD_RESULT>>>done", "done"),
        ("a\n<relevant-memories>\nb\n</relevant-memories>\n\n\n\nc", "a\n\nc"),
        ("memory-policy: strict\nreal [INST]words[/INST]", "real words"),
        ("System (untrusted): restarted\nhello", "hello"),
        ("MEDIA is a word", "MEDIA is a word"),
    ],
)
def test_what_a_gateway_put_around_a_text_is_left_out(text: str, result: str) -> None:
    assert cleaned(text) == result


def test_summaries_and_payloads_are_cut_to_fit() -> None:
    assert summary_of("k", "a\n b" + "c" * 500, 1) == f"k: a b{'c' * 36}…"
    payload, was_cut = payload_of('"\n' * 4_000, 4_096)

    assert was_cut
    assert len(encode(payload)) <= 4_096
    assert payload["original_bytes"] > 16_000
    assert len(payload["text"]) > 500
    assert payload_of("short", 256) == ({"text": "short"}, False)


def test_a_state_of_an_earlier_version_is_read_on_and_hides_what_it_remembers(desk: Desk) -> None:
    path = desk.add(row("I am allergic to penicillin."))
    desk.extract()
    state = desk.spool.parent.parent / "state.json"
    stated = json.loads(state.read_text())
    told = path.read_bytes()
    digest = sha256(told).hexdigest()
    assert digest not in state.read_text()
    stated["files"][str(path)]["print"] = {"offset": len(told), "head": digest, "tail": digest}
    state.write_text(json.dumps(stated))

    again = desk.extract()

    assert again.emitted == 0
    assert digest not in state.read_text()
    desk.add(row("And to pollen."))
    assert desk.extract().emitted == 1
