"""Thoughts go back to the model that thought them, sealed as they were, and to no other."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

import pytest

from capture.intake_logs import EVERYWHERE, session_in, write
from context.legality import check_legal
from context.provider_types import check_types
from formats.logs import pi
from treering.app import import_logs

if TYPE_CHECKING:
    from pathlib import Path

    from treering import Context, Ledger, Session

SEAL: Final = base64.b64encode(b"sealed").decode()
MODELS: Final = {
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3-pro",
    "openai-responses": "gpt-5",
}
SEALS: Final[dict[str, dict[str, Any]]] = {
    "anthropic": {"signature": SEAL},
    "gemini": {"thought_signature": SEAL},
    "openai-responses": {"id": "rs_1", "summary": [], "encrypted_content": SEAL},
}
BLOCKS: Final[dict[str, dict[str, Any]]] = {
    "anthropic": {"type": "thinking", "thinking": "Hm.", "signature": SEAL},
    "openai-responses": {
        "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": SEAL,
    },
}  # fmt: skip


def loop(session: Session, dialect: str, *, words: str = "", model: str | None = None) -> None:
    """Record a turn of a thinking model that calls a tool."""
    with session.turn(model=model or MODELS[dialect]) as turn:
        turn.user("Look.")
        turn.thinking("Hm.", **SEALS[dialect])
        if words:
            turn.assistant(words)
        turn.tools.started("look", {}, call_id="c1").finish("seen")


def asked(session: Session, dialect: str, **given: Any) -> Context:
    context = session.context(dialect=dialect, **given)
    check_legal(dialect, context.request)
    check_types(dialect, context.request)
    return context


def dropped(context: Context) -> list[str | None]:
    return [one.detail for one in context.report if one.code == "dropped_thinking"]


def is_sent(context: Context) -> bool:
    return SEAL in str(context.messages) or "b'sealed'" in str(context.messages)


@pytest.mark.parametrize("words", ["", "I look."])
@pytest.mark.parametrize("given", ["named", "unnamed"])
@pytest.mark.parametrize("dialect", MODELS)
def test_a_thought_goes_back_in_its_place(
    session: Session, dialect: str, given: str, words: str
) -> None:
    loop(session, dialect, words=words)

    context = asked(session, dialect, model=MODELS[dialect] if given == "named" else None)

    assert dropped(context) == []
    if dialect == "anthropic":
        assert context.messages[1]["content"][0] == BLOCKS[dialect]
    elif dialect == "openai-responses":
        assert context.messages[1] == BLOCKS[dialect]
    else:
        assert context.messages[1]["parts"][0]["thought_signature"] == b"sealed"


def test_redacted_thinking_goes_back_too(session: Session) -> None:
    with session.turn(model="claude-opus-4-1") as turn:
        turn.user("Look.")
        turn.assistant("I look.", thinking=[{"type": "redacted_thinking", "data": SEAL}])

    context = asked(session, "anthropic", model="claude-opus-4-1-20250805")

    assert context.messages[1]["content"][0] == {"type": "redacted_thinking", "data": SEAL}


@pytest.mark.parametrize("maker", MODELS)
@pytest.mark.parametrize("dialect", [*MODELS, "openai-chat", "plain"])
def test_it_is_dropped_whole_and_reported_when_the_provider_changes(
    session: Session, maker: str, dialect: str
) -> None:
    loop(session, maker)

    context = asked(session, dialect)

    assert is_sent(context) == (maker == dialect)
    assert len(dropped(context)) == (0 if maker == dialect else 1)


@pytest.mark.parametrize("dialect", MODELS)
def test_it_is_dropped_when_the_model_changes(session: Session, dialect: str) -> None:
    loop(session, dialect)

    context = asked(session, dialect, model="another-1")

    assert not is_sent(context)
    assert dropped(context) == [f"{MODELS[dialect]} thought it, and another-1 is asked"]


def test_where_nobody_names_a_model_it_is_the_one_that_thought_last(session: Session) -> None:
    loop(session, "anthropic", model="claude-opus-4-1")
    loop(session, "anthropic", model="claude-sonnet-4-5")

    context = asked(session, "anthropic")

    assert dropped(context) == ["claude-opus-4-1 thought it, and claude-sonnet-4-5 is asked"]


def test_gemini_3_is_given_the_documented_stand_in_where_a_call_has_no_signature(
    session: Session,
) -> None:
    with session.turn() as turn:
        turn.user("Look.")
        first, second = (turn.tools.started("look", {}, call_id=one) for one in ("c1", "c2"))
        first.finish("seen")
        second.finish("seen")

    context = asked(session, "gemini", model="gemini-3-pro")

    calls = context.messages[1]["parts"]
    assert calls[0]["thought_signature"] == b"skip_thought_signature_validator"
    assert "thought_signature" not in calls[1]
    assert [one.code for one in context.report] == ["missing_thinking"]
    older = asked(session, "gemini", model="gemini-2.5-pro")
    assert "thought_signature" not in str(older.messages)


def test_a_thought_that_would_not_stand_first_is_dropped(session: Session) -> None:
    with session.turn(model="claude-sonnet-4-5") as turn:
        turn.user("Look.")
        turn.assistant("First,")
        turn.thinking("Hm.", signature=SEAL)
        turn.assistant("I look.")

    context = asked(session, "anthropic")

    assert dropped(context) == ["it would not stand first in its message"]


def test_a_thought_before_nothing_is_dropped(session: Session) -> None:
    with session.turn(model="claude-sonnet-4-5") as turn:
        turn.user("Look.")
        turn.thinking("Hm.", signature=SEAL)
    with session.turn(model="claude-sonnet-4-5") as turn:
        turn.user("Well?")

    assert dropped(asked(session, "anthropic")) == ["nothing was said after"]


def test_a_masked_thought_is_not_what_was_sealed(session: Session) -> None:
    with session.turn(model="claude-sonnet-4-5") as turn:
        turn.user("Look.")
        turn.thinking("The key is [redacted:key].", signature=SEAL)
        turn.assistant("I look.")

    assert not is_sent(asked(session, "anthropic"))


@pytest.mark.parametrize("dialect", MODELS)
def test_of_earlier_turns_thoughts_go_first_when_there_is_little_room(
    session: Session, dialect: str
) -> None:
    seal = {name: value * 300 if value == SEAL else value for name, value in SEALS[dialect].items()}
    for _ in range(2):
        with session.turn(model=MODELS[dialect]) as turn:
            turn.user("Look.")
            turn.thinking("Hm.", **seal)
            turn.tools.started("look", {}, call_id="c1").finish("seen")

    whole = asked(session, dialect)
    context = asked(session, dialect, max_tokens=whole.tokens - 100)

    assert dropped(context) == ["an earlier turn"]
    assert len(context.messages) == len(whole.messages) - (dialect == "openai-responses")


def test_what_was_shown_is_known_exactly(session: Session) -> None:
    loop(session, "anthropic")
    with session.turn(model="claude-sonnet-4-5") as turn:
        turn.user("And now?")
        sent = turn.context(4_000, dialect="anthropic")

    [shown] = session.shown()

    assert shown.exact
    assert shown.context.messages == sent.messages
    assert is_sent(sent)


# What logs keep of them.


def test_pi_keeps_who_thought_and_what_was_signed(ledger: Ledger, tmp_path: Path) -> None:
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "thinkingSignature": SEAL},
        {"type": "text", "text": "At 14:10."},
    ]
    answer = {
        "role": "assistant", "content": blocks, "provider": "anthropic", "stopReason": "stop",
        "api": "anthropic-messages", "model": "claude-sonnet-4-5",
    }  # fmt: skip
    log = [pi.header(), pi.said(1, "Tide?"), pi.entry(2, "message", message=answer)]
    receipt = import_logs(ledger, [write(tmp_path / "s.jsonl", log)], scope=EVERYWHERE)
    [name] = {name for one in receipt.sources for name in one.sessions}

    context = asked(session_in(ledger, name), "anthropic", model="claude-sonnet-4-5")

    assert context.messages[1]["content"][0] == BLOCKS["anthropic"]
