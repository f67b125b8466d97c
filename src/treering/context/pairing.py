"""From events to messages: every call answered once and right behind it, whatever was recorded.

Results find their calls wherever they stand. What cannot be paired is dropped, what is missing is
made up, and each such repair is reported with the event that it befell.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.context.texts import (
    UNNAMED,
    arguments_in,
    instruction_in,
    marked_in,
    names_in,
    returned_in,
    role_in,
    said_in,
    shown_in,
)
from treering.context.thoughts import is_thought, thoughts_in
from treering.model.events import REDACTED, Event
from treering.model.messages import (
    INSTRUCTIONS,
    AssistantMessage,
    Call,
    Repair,
    Result,
    Thought,
    UserMessage,
)
from treering.model.tools import REASONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.model.messages import ModelMessage, RepairCode
    from treering.model.tools import SyntheticPolicy

VISIBLE_BOUNDARIES: Final = {
    "boundary.checkpoint": "checkpoint",
    "boundary.interrupt": "interrupt",
    "boundary.overflow": "overflow",
}
"""Boundaries that a model is shown; the others are for people and queries."""
MESSAGE_KINDS: Final = frozenset(
    {
        "conversation.user",
        "conversation.assistant",
        "tool.call",
        "tool.result",
        *VISIBLE_BOUNDARIES,
    }
)
"""What becomes messages; observations do so, too, that hold instructions or thoughts."""

_CALL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""What every provider takes for an id."""
_ASSISTANT: Final = frozenset({"conversation.assistant", "tool.call"})


def pair(
    events: Iterable[Event], policy: SyntheticPolicy
) -> tuple[list[ModelMessage], list[Repair]]:
    """Return the messages that ``events`` make, and what had to be repaired for it."""
    pairing = _Pairing()
    for event in events:
        pairing.take(event)
    return pairing.finish(policy), pairing.repairs


class _PairedCall(msgspec.Struct, gc=False):
    """A call and, once it is found, its result."""

    event: Event
    given_id: str
    tool: str
    arguments: dict[str, Any]
    message: int
    """The number of its message: not the message, which would never be let go of then."""
    result: Event | None = None
    thoughts: list[Thought] = []


class _Draft(msgspec.Struct, gc=False):
    """A message in the making."""

    number: int
    event: Event
    text: str
    answers: list[_PairedCall] = []
    thoughts: list[Thought] = []
    closed: bool = False
    """Whether further calls belong to another message."""


class _Pairing:
    """Messages so far, and the calls and results that wait for each other."""

    def __init__(self) -> None:
        self.repairs: list[Repair] = []
        self._drafts: list[_Draft] = []
        self._last_said = -1
        """The number of the last message that is more than calls."""
        self._waiting: dict[str, list[_PairedCall]] = {}
        self._known: set[str] = set()
        self._met: set[tuple[str, str]] = set()
        """Ids with runs that have a call or a result of that id: their results are for no other."""
        self._early: dict[str, deque[Event]] = defaultdict(deque)
        self._erased: dict[str | None, deque[Event]] = defaultdict(deque)
        self._used: set[str] = set()
        self._thoughts: list[Thought] = []
        """What was thought, and belongs to what comes next."""

    def take(self, event: Event) -> None:
        """Put one event where it belongs."""
        kind = event.kind
        if kind == "ops.observation":
            self._observe(event)
            return
        if kind not in _ASSISTANT:
            self._drop_thoughts()
        if kind in {"conversation.user", "conversation.assistant"}:
            self._say(event)
        elif kind == "tool.call":
            self._call(event)
        elif kind == "tool.result":
            self._return(event)
        elif kind in VISIBLE_BOUNDARIES and not event.redacted:
            reason = VISIBLE_BOUNDARIES[kind]
            self._add(event, f"<{reason}>\n{marked_in(event)}\n</{reason}>")

    def finish(self, policy: SyntheticPolicy) -> list[ModelMessage]:
        """Return the messages; what still waits is dropped or made up."""
        self._drop_thoughts()
        for early in self._early.values():
            for event in early:
                self._note("orphan_result", event)
        messages = [self._message(draft, policy) for draft in self._drafts]
        for unclaimed in self._erased.values():
            for event in unclaimed:
                self._note("erased", event)
        return messages

    # Taking.

    def _say(self, event: Event) -> None:
        text = said_in(event)
        if event.kind == "conversation.assistant":
            for one in shown_in(event):
                # No provider takes back what its model drew or spoke.
                text = f"{text}\n{one.placeholder()}".strip()
                self._note("left_out_attachment", event, f"{one.mime or one.sort}: the model's own")
        if event.redacted:
            self._note("erased", event)
        elif not text.strip() and not shown_in(event):
            self._note("empty_message", event)
            # Calls that follow an empty answer are a message of their own.
            self._close()
            return
        draft = self._add(event, text)
        if event.kind == "conversation.assistant" and not event.redacted:
            draft.thoughts = self._thought_before(event)

    def _observe(self, event: Event) -> None:
        """Take what is no part of the talk, and is shown all the same."""
        if event.redacted:
            return
        if is_thought(event):
            self._thoughts += thoughts_in(event)
        elif (role := role_in(event)) is None:
            return
        elif role not in INSTRUCTIONS:
            detail = f"a message of role {role}; the agent's program wrote it"
            self._note("left_out_message", event, detail)
        elif not (text := instruction_in(event)).strip():
            self._note("empty_message", event)
        else:
            self._add(event, text)

    def _thought_before(self, event: Event) -> list[Thought]:
        """Take what was thought before ``event``, whose model thought it unless it says another."""
        own = self._thoughts + thoughts_in(event)
        if not own:
            return own
        self._thoughts = []
        refs = event.refs if isinstance(event.refs, dict) else {}
        payload = event.payload if isinstance(event.payload, dict) else {}
        model = refs.get("model") or payload.get("model")
        named = model if isinstance(model, str) else None
        return [
            one if one.model is not None else msgspec.structs.replace(one, model=named)
            for one in own
        ]

    def _drop_thoughts(self) -> None:
        """Leave out what was thought before nothing: no provider takes a thought alone."""
        for one in self._thoughts:
            self.repairs.append(
                Repair(
                    code="dropped_thinking", event_id=one.event_id, detail="nothing was said after"
                )
            )
        self._thoughts = []

    def _call(self, event: Event) -> None:
        if event.redacted:
            self._note("erased", event)
            return
        given_id, tool = names_in(event)
        if given_id and self._repeats(event, given_id, tool):
            self._note("duplicate_call_id", event, "the same call again")
            return
        if not given_id:
            self._note("missing_call_id", event)
        draft = self._drafts[-1] if self._drafts else None
        if draft is None or draft.closed or draft.event.kind not in _ASSISTANT:
            draft = self._add(event, "")
        answer = _PairedCall(event, given_id, tool, arguments_in(event.payload), draft.number)
        answer.thoughts = self._thought_before(event)
        draft.answers.append(answer)
        answer.result = self._came_early(answer)
        if answer.result is None:
            self._waiting.setdefault(given_id, []).append(answer)
        self._known.add(given_id)
        self._meet(given_id, event.run_id)

    def _return(self, event: Event) -> None:
        if event.redacted:
            self._erased[event.run_id].append(event)
            return
        refs = event.refs if isinstance(event.refs, dict) else {}
        if refs.get("late") or refs.get("run"):
            # The outcome that counts is another, or its run does not count at all.
            return
        given_id, tool = names_in(event)
        answer = self._waited_for(given_id, tool, event.run_id)
        if answer is None:
            if given_id and given_id in self._known:
                self._note("duplicate_result", event)
            else:
                if not self._early[given_id]:
                    self._meet(given_id, event.run_id)
                self._early[given_id].append(event)
            return
        answer.result = event
        if answer.event.run_id is None:
            # Whoever answers a call of no run makes it one of theirs.
            self._meet(given_id, event.run_id)
        self._drafts[answer.message].closed = True
        if self._last_said > answer.message:
            self._note("moved_result", event, "something stood between it and its call")

    def _came_early(self, answer: _PairedCall) -> Event | None:
        """Take the result that came before its call; the tool tells, where no id does."""
        early = self._early.get(answer.given_id)
        at = _early_for(answer, early) if early else None
        if not early or at is None:
            return None
        event = early[at]
        del early[at]
        self._note("moved_result", event, "it came before its call")
        while answer.given_id and early:
            self._note("duplicate_result", early.popleft())
        return event

    def _repeats(self, event: Event, given_id: str, tool: str) -> bool:
        """Whether the same call waits for its result already, and nothing was said since."""
        waiting = self._waiting.get(given_id)
        if waiting is None:
            return False
        last = len(self._drafts) - 1
        return any(
            answer.message == last
            and answer.tool == tool
            and answer.event.run_id == event.run_id
            and answer.arguments == arguments_in(event.payload)
            for answer in waiting
        )

    def _waited_for(self, given_id: str, tool: str, run_id: str | None) -> _PairedCall | None:
        """Take the call that a result belongs to: one of its own run, else the latest that waits.

        In one message the first goes first. Where there is no id, the tool tells.
        """
        waiting = self._waiting.get(given_id, [])
        fits = [at for at, one in enumerate(waiting) if given_id or tool in {one.tool, UNNAMED}]
        own = [at for at in fits if run_id is not None and waiting[at].event.run_id == run_id]
        if own or (given_id, run_id) in self._met:
            fits = own
        if not fits:
            return None
        message = waiting[fits[-1]].message
        answer = waiting.pop(next(at for at in fits if waiting[at].message == message))
        if not waiting:
            del self._waiting[given_id]
        return answer

    def _meet(self, given_id: str, run_id: str | None) -> None:
        if given_id and run_id is not None:
            self._met.add((given_id, run_id))

    def _add(self, event: Event, text: str) -> _Draft:
        self._close()
        draft = _Draft(len(self._drafts), event, text)
        self._drafts.append(draft)
        if event.kind != "tool.call":
            self._last_said = draft.number
        return draft

    def _close(self) -> None:
        if self._drafts:
            self._drafts[-1].closed = True

    def _note(self, code: RepairCode, event: Event, detail: str | None = None) -> None:
        self.repairs.append(Repair(code=code, event_id=event.event_id, detail=detail))

    # Finishing.

    def _message(self, draft: _Draft, policy: SyntheticPolicy) -> ModelMessage:
        event = draft.event
        if event.kind not in _ASSISTANT:
            mark: Any = VISIBLE_BOUNDARIES.get(event.kind)
            if event.kind == "ops.observation":
                mark = role_in(event)
            return UserMessage(
                text=draft.text,
                seq=event.seq,
                event_ids=(event.event_id,),
                mark=mark,
                media=() if mark else tuple(shown_in(event)),
            )
        calls: list[Call] = []
        results: list[Result] = []
        ids = [event.event_id] if event.kind == "conversation.assistant" else []
        for answer in draft.answers:
            call_id, source = self._unique(answer), answer.event.event_id
            calls.append(
                Call(
                    call_id=call_id,
                    tool=answer.tool,
                    arguments=answer.arguments,
                    event_id=source,
                    thoughts=tuple(answer.thoughts),
                )
            )
            results.append(self._result(answer, call_id, policy))
            ids += [source, *([results[-1].event_id] if results[-1].event_id else [])]
        return AssistantMessage(
            text=draft.text,
            seq=event.seq,
            event_ids=tuple(ids),
            calls=tuple(calls),
            results=tuple(results),
            thoughts=tuple(draft.thoughts),
        )

    def _result(self, answer: _PairedCall, call_id: str, policy: SyntheticPolicy) -> Result:
        event, tool = answer.result, answer.tool
        if event is not None:
            return _returned(event, call_id, tool)
        erased = self._erased.get(answer.event.run_id)
        if erased:
            event = erased.popleft()
            self._note("erased", event)
            return Result(call_id=call_id, tool=tool, output=REDACTED, event_id=event.event_id)
        self._note("missing_result", answer.event)
        return Result(
            call_id=call_id,
            tool=tool,
            output=policy.text(tool, "missing_result"),
            is_error=True,
            reason="missing_result",
        )

    def _unique(self, answer: _PairedCall) -> str:
        """Return an id for a call that every provider takes, and that no other call has."""
        wanted = answer.given_id
        if not _CALL_ID.fullmatch(wanted):
            wanted = _minted(wanted or answer.event.event_id)
        if wanted in self._used:
            self._note("duplicate_call_id", answer.event, "the id was used before")
            number = 1
            while wanted in self._used:
                number += 1
                wanted = _minted(f"{answer.event.event_id} {number}")
        self._used.add(wanted)
        return wanted


def _early_for(answer: _PairedCall, early: Iterable[Event]) -> int | None:
    """Return the place of the result for a call; of several with its id only the first counts."""
    own = answer.event.run_id
    for at, event in enumerate(early):
        if answer.given_id:
            return at if own is None or event.run_id in {None, own} else None
        if names_in(event)[1] in {answer.tool, UNNAMED}:
            return at
    return None


def _returned(event: Event, call_id: str, tool: str) -> Result:
    payload = event.payload if isinstance(event.payload, dict) else {}
    refs = event.refs if isinstance(event.refs, dict) else {}
    status = str(payload.get("status") or refs.get("status") or "")
    is_error = status in {"failed", "synthetic", "error"} or (
        not status and payload.get("error") is not None and payload.get("output") is None
    )
    reason: Any = payload.get("reason") if status == "synthetic" else None
    output, media = returned_in(event)
    return Result(
        call_id=call_id,
        tool=tool,
        output=output,
        is_error=is_error,
        reason=reason if reason in REASONS else None,
        event_id=event.event_id,
        media=tuple(media),
    )


def _minted(text: str) -> str:
    return "call_" + sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
