"""Messages of a log that are neither the user's nor the model's stand in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import pytest

from builders import exchange
from capture.intake_logs import EVERYWHERE, session_in, write
from context.legality import check_legal
from context.provider_types import check_types
from formats.logs import codex, pi
from treering.app import import_logs
from treering.context.dialects import Dialect
from treering.formats.apeira import Episodic, to_session

if TYPE_CHECKING:
    from pathlib import Path

    from treering import Ledger, Session

DIALECTS = get_args(Dialect)
ROLES = ("system", "developer")


def codex_log() -> list[dict[str, Any]]:
    return [
        codex.opened(),
        *(
            codex.line("response_item", message(role, [{"type": "input_text", "text": role}]), 1)
            for role in ROLES
        ),
        *codex.turn("Tide?", "At 14:10."),
    ]  # fmt: skip


def apeira_log() -> list[dict[str, Any]]:
    items = [
        *(message(role, f"As {role}.") for role in ROLES),
        message("user", "Tide?"),
        message("assistant", "At 14:10."),
    ]
    log = Episodic()
    log.append_items(items, source="user")
    return log.read(from_id=0)


def tape_log() -> list[dict[str, Any]]:
    said = [
        ("system", {"content": "As system."}),
        ("message", {"role": "developer", "content": "As developer."}),
        ("message", {"role": "user", "content": "Tide?"}),
        ("message", {"role": "assistant", "content": "At 14:10."}),
    ]
    return [
        {"id": n, "kind": kind, "payload": payload, "meta": {}, "date": "2026-03-05T09:00:00+00:00"}
        for n, (kind, payload) in enumerate(said, start=1)
    ]


def pi_log() -> list[dict[str, Any]]:
    return [
        pi.header(),
        *(
            pi.entry(n, "message", message={"role": role, "content": f"As {role}."})
            for n, role in enumerate(ROLES, start=1)
        ),
        pi.said(3, "Tide?"),
        pi.answered(4, "At 14:10."),
    ]


def message(role: str, content: Any) -> dict[str, Any]:
    return {"content": content, "role": role, "type": "message"}


LOGS = {"codex": codex_log, "apeira": apeira_log, "tape": tape_log, "pi": pi_log}


def left_out(session: Session, **asked: Any) -> list[str]:
    """Return what the report of a context says of messages that are left out."""
    context = session.context(**asked)
    assert "Tide?" in str(context.messages)
    found = [one for one in context.report if one.code == "left_out_message"]
    assert all(one.event_id is not None for one in found)
    return [str(one.detail) for one in found]


WORDS = {"codex": ROLES}
"""What the logs have the roles say, where that is not "As …."."""


def words(form: str) -> list[str]:
    return list(WORDS.get(form, [f"As {role}." for role in ROLES]))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("form", LOGS)
def test_system_and_developer_messages_stand_where_the_dialect_has_a_place_for_them(
    ledger: Ledger, tmp_path: Path, form: str, dialect: str
) -> None:
    receipt = import_logs(ledger, [write(tmp_path / "s.jsonl", LOGS[form]())], scope=EVERYWHERE)
    [session] = {name for one in receipt.sources for name in one.sessions}

    context = session_in(ledger, session).context(dialect=dialect, system="Be brief.")

    check_legal(dialect, context.request)
    check_types(dialect, context.request)
    said = [*words(form)]
    if dialect in {"openai-chat", "openai-responses"}:
        told = [one for one in context.messages if one.get("role") in ROLES]
        if dialect == "openai-chat":
            assert told.pop(0)["content"] == "Be brief."
        assert [(one["role"], one["content"]) for one in told] == list(
            zip(ROLES, said, strict=True)
        )
    else:
        system = context.messages[0]["content"] if dialect == "plain" else context.system
        assert system == "\n\n".join(["Be brief.", *said])
    # Codex's answers have thoughts, which go to no other provider.
    assert {one.code for one in context.report} <= {"dropped_thinking"}


def test_an_instruction_in_the_midst_of_a_talk_stays_there(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=EVERYWHERE, agent="lyria")
    exchange(session, "Tide?", "At 14:10.")
    with session.turn() as turn:
        turn.emit("ops.observation", {"record": "message", **message("developer", "In metres.")})
        turn.user("How high?")

    found = [(one["role"], one["content"]) for one in session.context().messages]

    assert found[2:] == [("developer", "In metres."), ("user", "How high?")]


def test_so_it_is_for_a_log_that_was_brought_in_by_hand(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=EVERYWHERE, agent="lyria")
    to_session(Episodic(apeira_log()), session)

    assert [one["role"] for one in session.context(1_000).messages][:2] == list(ROLES)


def test_a_message_of_another_role_is_left_out_and_reported(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=EVERYWHERE, agent="lyria")
    with session.turn() as turn:
        turn.user("Tide?")
        turn.emit("ops.observation", {"record": "message", **message("narrator", "It rains.")})

    assert left_out(session) == ["a message of role narrator; the agent's program wrote it"]


def test_a_message_that_was_undone_is_not_reported(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=EVERYWHERE, agent="lyria")
    with session.turn() as turn:
        turn.user("Tide?")
    with session.turn() as turn:
        turn.user("And wind?")
        turn.emit("ops.observation", {"record": "message", **message("system", "Be brief.")})
    session.undo()

    assert left_out(session) == []


def test_observations_that_are_no_messages_are_not_reported(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=EVERYWHERE, agent="lyria")
    with session.turn() as turn:
        turn.user("Tide?")
        for payload in (None, {}, {"thinking": "Hm."}, {"role": 5}, {"item": "reasoning"}):
            turn.emit("ops.observation", payload)

    assert left_out(session) == []
