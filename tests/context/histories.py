"""Histories for tests: one event by hand, or any that a hostile author could have left behind."""

from __future__ import annotations

import base64
import random
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from hypothesis import strategies as st

from builders import DAY
from treering import InvalidInput, Ledger, NewEvent, NotFound, Session
from treering.context.dialects import DIALECTS
from treering.derive.visible import ended_runs
from treering.errors import RunClosed
from treering.model.codec import encode
from treering.model.events import REDACTED, Event
from treering.model.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from treering.spine.runs import Run

# By hand.


def event(kind: str, payload: Any = None, *, seq: int = 1, **fields: Any) -> Event:
    """Return a recorded event; ``e<seq>`` is its id."""
    stated: dict[str, Any] = {
        "position": seq,
        "seq": seq,
        "event_id": f"e{seq}",
        "scope": "acme/app",
        "session_id": "s1",
        "kind": kind,
        "source": "system",
        "origin": None,
        "run_id": None,
        "run_seq": None,
        "turn_id": None,
        "agent_id": "lyria",
        "user_id": None,
        "ts_ms": seq,
        "recorded_ms": seq,
        "visibility": "private",
        "summary": "",
        "refs": None,
        "payload_bytes": 0 if payload is None else len(encode(payload)),
        "redacted": False,
        "expired": False,
        "schema_version": 1,
        "content_digest": b"",
        "link": b"",
        "payload": payload,
    }
    return Event(**(stated | fields))


def user(text: Any = "What is new?", **fields: Any) -> Event:
    return event("conversation.user", {"text": text}, **fields)


def assistant(text: Any = "Nothing.", **fields: Any) -> Event:
    return event("conversation.assistant", {"text": text}, **fields)


def call(call_id: str = "c1", tool: str = "look", arguments: Any = None, **fields: Any) -> Event:
    given = {} if arguments is None else arguments
    return event("tool.call", {"call_id": call_id, "name": tool, "input": given}, **fields)


def result(call_id: str = "c1", output: Any = "seen", tool: str = "look", **fields: Any) -> Event:
    return event("tool.result", {"call_id": call_id, "name": tool, "output": output}, **fields)


def erased(one: Event) -> Event:
    """Return an event as it is read after its redaction."""
    blank: dict[str, Any] = {"summary": REDACTED, "refs": None, "payload": None, "payload_bytes": 0}
    return msgspec.structs.replace(one, redacted=True, **blank)


def in_order(*events: Event) -> list[Event]:
    """Return ``events`` numbered from 1."""
    return [
        msgspec.structs.replace(one, seq=seq, position=seq, event_id=f"e{seq}")
        for seq, one in enumerate(events, 1)
    ]


class Listed:
    """A timeline that is a plain list: what a window is read from, without a database."""

    def __init__(self, events: Sequence[Event], *, page: int = 5) -> None:
        self._events = events
        self._page = page

    def head_seq(self) -> int:
        """Return the last seq."""
        return self._events[-1].seq if self._events else 0

    def committed_before(
        self,
        seq: int,
        *,
        kinds: Collection[str],
        until_seq: int = 2**63 - 1,
        run_id: str | None = None,
        limit: int,
    ) -> list[Event]:
        """Return the last events of ``kinds`` before ``seq`` that count, in pages of a few."""
        ended = ended_runs(one for one in self._events if one.seq <= until_seq)
        found = [
            one
            for one in self._events
            if one.seq < seq
            and one.kind in kinds
            and (one.run_id is None or one.run_id == run_id or one.run_id in ended)
        ]
        return found[-min(limit, self._page) :]


# Any.

PROSE: Final = (
    "The harbour is closed on Sundays, and whoever arrives then has to wait outside until the"
    " pilot comes; she has done so for thirty years. "
)
CODE: Final = "def tide(at: Time) -> float:\n    return AMPLITUDE * sin(at.hours / 6.21) + 0.4\n"
LOG: Final = "2026-03-08 09:41:07,318 WARNING worker-3: retry 2 after 1.50s (port 8080)\n"
BASE64: Final = base64.b64encode(random.Random(7).randbytes(30_000)).decode()
CHINESE: Final = "港口星期天关闭、谁在那时到达就得在外面等领航员来。"
DIGITS: Final = "".join(random.Random(8).choices("0123456789", k=30_000))

LARGE: Final = (
    PROSE * 200,
    CODE * 300,
    LOG * 300,
    BASE64,
    CHINESE * 800,
    DIGITS,
    "a" * 40_000,
    " x" * 9_000,
    "\n" * 20_000 + "end",
    "🙂" * 3_000,
    "{[(<>)]}" * 2_000,
)
BLANK: Final = ("", " ", "\n\t", "\u00a0", "\u2028")
texts = st.one_of(
    st.text(max_size=30),
    st.sampled_from(BLANK),
    st.sampled_from(("yes", "</summary>", "<summary>\nno\n</summary>", "Error: no", "{}", "null")),
    st.integers(1, 40).map(lambda times: PROSE * times),
    st.sampled_from(LARGE).flatmap(
        lambda text: st.integers(1, len(text)).map(lambda length: text[:length])
    ),
)
small_texts = st.text(max_size=12) | st.sampled_from(BLANK)
call_ids = st.sampled_from(
    ("c1", "c2", "c3", "c1", "c2", "", None, 5, ["c1"], "日本", "a b", "x" * 41, "f0" * 20, "c|1")
)
tools = st.sampled_from(
    ("look", "look", "write", "web.look", "web look", "", None, 7, "n" * 90, "look\n", "読む")
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(-1e9, 1e9) | small_texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(small_texts, inner, max_size=2),
    max_leaves=4,
)
odd_payloads = st.one_of(
    st.none(),
    texts,
    json_values,
    st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": small_texts}), max_size=2),
    st.just('{"input": {"path": "a"}}'),
)
runs = st.sampled_from((None, None, "r1", "r2", "r3"))
PNG: Final = base64.b64encode(
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\2\0\0\0\1\0" + b"\0" * 60
).decode()
media = st.sampled_from(
    (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image", "data": PNG, "mimeType": "image/svg+xml"},
        {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}},
        {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PNG},
        },
        {"type": "image", "source": None},
        {"inlineData": {"mimeType": "image/png", "data": ""}},
    )
)
seals = st.sampled_from(
    (
        {"thinking": "Hm.", "signature": "c2lnbmVk"},
        {"thinking": "", "data": "c2VhbGVk"},
        {"thinking": "", "encrypted_content": "c2VhbGVk" * 40, "id": "rs_1"},
        {"thinking": "", "encrypted_content": "c2VhbGVk"},
        {"thinking": "Hm.", "thoughtSignature": "c2lnbmVk"},
        {"thinking": "Hm.", "thinkingSignature": "c2lnbmVk", "provider": "anthropic"},
        {"thinking": "[redacted:key]", "signature": "c2lnbmVk"},
        {"thinking": "Hm."},
    )
)
observed_payloads = st.one_of(
    st.tuples(seals, st.sampled_from(({}, {"model": "m1"}, {"model": "m2"}))).map(
        lambda both: {**both[0], **both[1]}
    ),
    st.fixed_dictionaries(
        {"role": st.sampled_from(("system", "developer", "narrator", "")), "content": texts}
    ),
)
observed_refs = st.sampled_from(({"observed": "thinking"}, {"observed": "thinking"}, None))
said_payloads = st.one_of(
    st.tuples(small_texts, st.lists(media, max_size=2)).map(
        lambda both: {"text": both[0], "attachments": both[1]}
    ),
    st.lists(media, max_size=2).map(lambda parts: {"content": parts}),
    st.tuples(small_texts, seals).map(lambda both: {"text": both[0], "thinking": [both[1]]}),
    texts.map(lambda text: {"text": text}),
    texts.map(lambda text: {"content": text}),
    st.lists(small_texts, max_size=2).map(
        lambda parts: {"content": [{"type": "text", "text": part} for part in parts]}
    ),
    odd_payloads,
)
marks = st.one_of(
    st.fixed_dictionaries({"title": small_texts}, optional={"content": texts}), odd_payloads
)
asked_payloads = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            "call_id": call_ids,
            "name": tools,
            "input": json_values | texts.map(lambda text: {"text": text}),
            "arguments": st.sampled_from(('{"a": 1}', "[1]", "{", "")) | json_values,
        },
    ),
    st.fixed_dictionaries({"call_id": call_ids, "name": tools, "input": json_values}),
    odd_payloads,
)
returned_payloads = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            "call_id": call_ids,
            "name": tools,
            "output": texts | json_values | st.lists(media, max_size=2) | media,
            "error": small_texts | st.just({"class": "OSError", "message": "no"}) | json_values,
            "status": st.sampled_from(("ok", "failed", "synthetic", 3, None)),
            "reason": st.sampled_from(("crashed", "because", None, ["crashed"])),
        },
    ),
    st.fixed_dictionaries({"call_id": call_ids, "name": tools, "output": texts}),
    odd_payloads,
)
returned_refs = st.sampled_from(
    (None, None, None, {"late": True}, {"call_id": "c1", "tool": "look"}, ["c1"], "c1", {"run": 1})
)
seqs = st.integers(-1, 45)
compactions = st.one_of(
    st.fixed_dictionaries({"summary": texts, "through_seq": seqs}),
    st.fixed_dictionaries({"summary": st.just(PROSE), "through_seq": st.integers(1, 15)}),
    odd_payloads,
)
counts = st.sampled_from((None, 0, 1, 100, 5_000, 10**9))


Strategies = tuple[st.SearchStrategy[Any], st.SearchStrategy[Any]]
"""Of payloads, and of refs."""

any_refs = st.none() | json_values
STATED: Final[dict[str, tuple[int, Strategies]]] = {
    "conversation.user": (8, (said_payloads, any_refs)),
    "conversation.assistant": (8, (said_payloads, any_refs)),
    "tool.call": (12, (asked_payloads, st.sampled_from((None, None, {"call_id": "c3"}, ["c1"])))),
    "tool.result": (12, (returned_payloads, returned_refs)),
    "ops.observation": (8, (observed_payloads, observed_refs)),
    "run.started": (2, (odd_payloads, any_refs)),
    "run.ended": (6, (odd_payloads, any_refs)),
    "run.failed": (2, (odd_payloads, any_refs)),
    "run.interrupted": (2, (odd_payloads, any_refs)),
    "boundary.checkpoint": (2, (marks, any_refs)),
    "boundary.interrupt": (2, (marks, any_refs)),
    "boundary.overflow": (1, (marks, any_refs)),
    "boundary.segment": (1, (marks, any_refs)),
    "goal.added": (1, (odd_payloads, any_refs)),
    "context.compacted": (3, (compactions, any_refs)),
    "context.assembled": (1, (odd_payloads, st.fixed_dictionaries({"estimated_tokens": counts}))),
    "usage.reported": (
        1,
        (odd_payloads, st.fixed_dictionaries({"input_tokens": counts, "model": st.just("m")})),
    ),
    "session.undone": (
        2,
        (odd_payloads, st.fixed_dictionaries({"from_seq": seqs, "turns": st.just(1)})),
    ),
    "session.redone": (
        2,
        (odd_payloads, st.fixed_dictionaries({"undone_seq": seqs, "turns": st.just(1)})),
    ),
}
"""How often each kind comes, and what it says."""
kinds = st.sampled_from([kind for kind, (times, _) in STATED.items() for _ in range(times)])


@st.composite
def stated(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Return a kind, and what an event of it says."""
    kind = draw(kinds)
    payloads, refs = STATED[kind][1]
    run_id = draw(runs)
    return kind, {
        "payload": draw(payloads),
        "refs": draw(refs),
        "summary": draw(st.sampled_from(("", "said", "looked\nat it"))),
        "run_id": "r1" if run_id is None and kind.startswith("run.") else run_id,
    }


@st.composite
def histories(draw: st.DrawFn, events_max: int = 25) -> list[Event]:
    """Return any list of recorded events, numbered from 1; some of them are erased."""
    found: list[Event] = []
    for seq, (kind, said) in enumerate(draw(st.lists(stated(), max_size=events_max)), start=1):
        source = KINDS[kind].source
        one = event(kind, seq=seq, source=source, **said)
        found.append(erased(one) if draw(st.integers(0, 9)) == 0 else one)
    return found


budgets = st.one_of(
    st.none(),
    st.integers(0, 60),
    st.integers(0, 3_000),
    st.integers(0, 1_000_000),
    st.sampled_from((0, 1, 13, 14, 19, 20, 128_000)),
)
reserves = st.just(0) | st.integers(0, 500) | st.just(10**6)
systems = st.sampled_from(("", "", "You are brief.", " ", "\n", PROSE * 3, PROSE * 60))


# Through a session.

Step = tuple[str, Any]
"""What is done to a session, and with what."""

moves = st.one_of(
    st.tuples(st.just("user"), texts),
    st.tuples(st.just("assistant"), texts),
    st.tuples(st.just("tool"), texts),
    st.tuples(st.just("failing tool"), small_texts),
    st.tuples(st.just("context"), st.tuples(budgets, st.sampled_from(DIALECTS), reserves, systems)),
    st.tuples(st.just("usage"), st.integers(0, 50_000)),
)
turn_steps = st.tuples(
    st.just("turn"),
    st.tuples(
        st.lists(moves, max_size=6),
        st.sampled_from(("ended", "ended", "ended", "failed", "interrupted")),
    ),
)
turning_steps = st.one_of(
    st.tuples(st.just("undo"), st.integers(1, 2)),
    st.tuples(st.just("redo"), st.none()),
    st.tuples(st.just("fork"), st.integers(0, 40)),
    st.tuples(st.just("compact"), st.integers(1, 4)),
    st.tuples(st.just("checkpoint"), small_texts.map(lambda text: text or "here")),
)
record_steps = st.tuples(st.just("record"), st.lists(stated(), min_size=1, max_size=8))
erasing_steps = st.one_of(
    st.tuples(st.just("redact"), st.integers(0, 40)),
    st.tuples(st.just("redact"), st.integers(0, 40)),
    st.tuples(st.just("expire"), st.sampled_from((45, 75, 100))),
)


def play(ledger: Ledger, session: Session, steps: Sequence[Step]) -> Session:
    """Do all of ``steps``, as far as they can be done; return the session that they end in."""
    for name, given in steps:
        with suppress(InvalidInput, NotFound):
            session = _step(ledger, session, name, given)
    return session


def _step(ledger: Ledger, session: Session, name: str, given: Any) -> Session:
    ids = [header.event_id for header in session.headers()]
    match name:
        case "turn":
            _take_turn(session, *given)
        case "undo":
            session.undo(turns=given)
        case "redo":
            session.redo()
        case "fork":
            at = ids[given % len(ids)] if ids else None
            return session.fork(f"{session.session_id}f", at=at)
        case "compact":
            session.compact(keep=given)
        case "checkpoint":
            session.checkpoint(given)
        case "redact":
            ledger.redact(session.scope, event_id=ids[given % len(ids)] if ids else "none")
        case "expire":
            ledger.expire(session.scope, now_ms=round(time.time() * 1_000) + given * DAY)
        case _:
            for kind, said in given:
                with suppress(RunClosed):
                    session.append([_new(session, kind, said)])
    return session


def _take_turn(session: Session, moves: Sequence[Step], end: str) -> None:
    turn = session.turn()
    turn.start()
    for name, given in moves:
        with suppress(InvalidInput):
            _move(turn, name, given)
    if end == "ended":
        turn.end()
    elif end == "failed":
        turn.fail("no luck")
    else:
        turn.interrupt()


def _move(turn: Run, name: str, given: Any) -> None:
    match name:
        case "user":
            turn.user(given)
        case "assistant":
            turn.assistant(given)
        case "tool":
            turn.tools.started("look", {"at": "it"}).finish(given)
        case "failing tool":
            turn.tools.started("look", {"at": "it"}).fail(f"no {given}")
        case "usage":
            turn.emit("usage.reported", {"input_tokens": given, "model": "m"})
        case _:
            max_tokens, dialect, reserve, system = given
            turn.context(max_tokens, dialect=dialect, reserve_output_tokens=reserve, system=system)


def _new(session: Session, kind: str, said: dict[str, Any]) -> NewEvent:
    return NewEvent(
        scope=session.scope,
        session_id=session.session_id,
        kind=kind,
        agent_id=session.agent,
        **(said | {"summary": said["summary"].strip() or kind}),
    )
