"""Messages of a log that are neither the user's nor the model's are never left out in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import pytest

from capture.intake_logs import EVERYWHERE, session_in, write
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


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("form", LOGS)
def test_the_report_names_each_system_and_developer_message_that_a_context_lacks(
    ledger: Ledger, tmp_path: Path, form: str, dialect: str
) -> None:
    receipt = import_logs(ledger, [write(tmp_path / "s.jsonl", LOGS[form]())], scope=EVERYWHERE)
    [session] = {name for one in receipt.sources for name in one.sessions}

    found = left_out(session_in(ledger, session), dialect=dialect)

    assert found == [f"a message of role {role}; the system text is the caller's" for role in ROLES]


def test_so_it_is_for_a_log_that_was_brought_in_by_hand(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=EVERYWHERE, agent="lyria")
    to_session(Episodic(apeira_log()), session)

    assert len(left_out(session, max_tokens=1_000)) == len(ROLES)


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
