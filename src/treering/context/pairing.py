"""Turns events into messages: every call is followed by exactly one result, whatever was recorded.

Results are matched to their calls in any order. What cannot be paired is dropped, what is missing
is made up, and each repair is reported with its event.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.context.texts import (
    UNNAMED,
    boundary_text,
    call_arguments,
    call_names,
    instruction_text,
    message_media,
    message_role,
    message_text,
    tool_output,
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
from treering.model.tools import REASONS, SyntheticPolicy

if TYPE_CHECKING:
    from treering.model.messages import ModelMessage, RepairCode

VISIBLE_BOUNDARIES: Final = {
    "boundary.checkpoint": "checkpoint",
    "boundary.interrupt": "interrupt",
    "boundary.overflow": "overflow",
}
"""Boundaries that a model sees; the others are for people and queries."""
MESSAGE_KINDS: Final = frozenset(
    {"conversation.user", "conversation.assistant", "tool.call", "tool.result", *VISIBLE_BOUNDARIES}
)
"""Kinds that become messages; so do observations with instructions or thoughts."""

_CALL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Ids that every provider accepts."""
_ASSISTANT: Final = frozenset({"conversation.assistant", "tool.call"})


def pair(
    events: Iterable[Event], policy: SyntheticPolicy
) -> tuple[list[ModelMessage], list[Repair]]:
    """Return the messages for ``events``, and the repairs that were necessary."""
    pairing = _Pairing()
    for event in events:
        pairing.take(event)
    return pairing.finish(policy), pairing.repairs


class _PairedCall(msgspec.Struct, gc=False):
    """A call and, once found, its result."""

    event: Event
    given_id: str
    tool: str
    arguments: dict[str, Any]
    message: int
    """The number of its message: a reference would be a cycle, which is never freed without gc."""
    result: Event | None = None
    thoughts: Sequence[Thought] = ()


class _Draft(msgspec.Struct, gc=False):
    """A message under construction."""

    number: int
    event: Event
    text: str
    answers: list[_PairedCall] = []
    thoughts: Sequence[Thought] = ()
    closed: bool = False
    """Whether further calls belong to another message."""


class _Pairing:
    """The messages so far, and calls and results that are not paired yet."""

    def __init__(self) -> None:
        self.repairs: list[Repair] = []
        self._drafts: list[_Draft] = []
        self._last_said = -1
        """The number of the last message with text."""
        self._pending: dict[str, list[_PairedCall]] = {}
        self._known: set[str] = set()
        self._paired_runs: set[tuple[str, str]] = set()
        """Pairs of id and run that have a call or result: a result of that run matches no other
        call."""
        self._early: dict[str, deque[Event]] = defaultdict(deque)
        self._erased: dict[str | None, deque[Event]] = defaultdict(deque)
        self._used: set[str] = set()
        self._thoughts: list[Thought] = []
        """Thoughts that belong to the next message."""

    def take(self, event: Event) -> None:
        """Add one event."""
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
            self._add(event, f"<{reason}>\n{boundary_text(event)}\n</{reason}>")

    def finish(self, policy: SyntheticPolicy) -> list[ModelMessage]:
        """Return the messages; what is still unpaired is dropped or made up."""
        self._drop_thoughts()
        for early in self._early.values():
            for event in early:
                self._note("orphan_result", event)
        messages = [self._message(draft, policy) for draft in self._drafts]
        for unclaimed in self._erased.values():
            for event in unclaimed:
                self._note("erased", event)
        return messages

    # Adding events.

    def _say(self, event: Event) -> None:
        text = message_text(event)
        if event.kind == "conversation.assistant":
            for attachment in message_media(event):
                # No provider accepts the pictures and sounds of its own model.
                text = f"{text}\n{attachment.placeholder()}".strip()
                self._note(
                    "left_out_attachment",
                    event,
                    f"{attachment.mime or attachment.sort}: the model's own",
                )
        if event.redacted:
            self._note("erased", event)
        elif not text.strip() and not message_media(event):
            self._note("empty_message", event)
            # Calls after an empty answer are a message of their own.
            self._close()
            return
        draft = self._add(event, text)
        if event.kind == "conversation.assistant" and not event.redacted:
            draft.thoughts = self._thought_before(event)

    def _observe(self, event: Event) -> None:
        """Add an observation, which may hold an instruction or a thought."""
        if event.redacted:
            return
        if is_thought(event):
            self._thoughts += thoughts_in(event)
        elif (role := message_role(event)) is None:
            return
        elif role not in INSTRUCTIONS:
            detail = f"a message of role {role}; the agent's program wrote it"
            self._note("left_out_message", event, detail)
        elif not (text := instruction_text(event)).strip():
            self._note("empty_message", event)
        else:
            self._add(event, text)

    def _thought_before(self, event: Event) -> Sequence[Thought]:
        """Take the pending thoughts for ``event``; unless they name a model, its own made them."""
        own = thoughts_in(event)
        if not own and not self._thoughts:
            return ()
        own, self._thoughts = self._thoughts + own, []
        refs = event.refs if isinstance(event.refs, dict) else {}
        payload = event.payload if isinstance(event.payload, dict) else {}
        model = refs.get("model") or payload.get("model")
        named = model if isinstance(model, str) else None
        return [
            thought if thought.model is not None else msgspec.structs.replace(thought, model=named)
            for thought in own
        ]

    def _drop_thoughts(self) -> None:
        """Drop pending thoughts without a message: no provider accepts a thought alone."""
        for thought in self._thoughts:
            self.repairs.append(
                Repair(
                    code="dropped_thinking",
                    event_id=thought.event_id,
                    detail="nothing was said after",
                )
            )
        self._thoughts = []

    def _call(self, event: Event) -> None:
        if event.redacted:
            self._note("erased", event)
            return
        given_id, tool = call_names(event)
        if given_id and given_id in self._pending and self._repeats(event, given_id, tool):
            self._note("duplicate_call_id", event, "the same call again")
            return
        if not given_id:
            self._note("missing_call_id", event)
        draft = self._drafts[-1] if self._drafts else None
        if draft is None or draft.closed or draft.event.kind not in _ASSISTANT:
            draft = self._add(event, "")
        answer = _PairedCall(event, given_id, tool, call_arguments(event.payload), draft.number)
        answer.thoughts = self._thought_before(event)
        draft.answers.append(answer)
        if given_id in self._early:
            answer.result = self._take_early_result(answer)
        if answer.result is None:
            self._pending.setdefault(given_id, []).append(answer)
        self._known.add(given_id)
        self._note_run(given_id, event.run_id)

    def _return(self, event: Event) -> None:
        if event.redacted:
            self._erased[event.run_id].append(event)
            return
        refs = event.refs if isinstance(event.refs, dict) else {}
        if refs.get("late") or refs.get("run"):
            # Another outcome counts, or the run does not count at all.
            return
        given_id, tool = call_names(event)
        answer = self._take_call_for(given_id, tool, event.run_id)
        if answer is None:
            if given_id and given_id in self._known:
                self._note("duplicate_result", event)
            else:
                if not self._early[given_id]:
                    self._note_run(given_id, event.run_id)
                self._early[given_id].append(event)
            return
        answer.result = event
        if answer.event.run_id is None:
            # A run that answers a call without a run adopts it.
            self._note_run(given_id, event.run_id)
        self._drafts[answer.message].closed = True
        if self._last_said > answer.message:
            self._note("moved_result", event, "something stood between it and its call")

    def _take_early_result(self, answer: _PairedCall) -> Event | None:
        """Take the result that came before its call; without an id, match by tool."""
        early = self._early[answer.given_id]
        at = _early_for(answer, early)
        if at is None:
            return None
        event = early[at]
        del early[at]
        self._note("moved_result", event, "it came before its call")
        while answer.given_id and early:
            self._note("duplicate_result", early.popleft())
        return event

    def _repeats(self, event: Event, given_id: str, tool: str) -> bool:
        """Return whether the same call is already pending, with nothing said since."""
        last = len(self._drafts) - 1
        return any(
            answer.message == last
            and answer.tool == tool
            and answer.event.run_id == event.run_id
            and answer.arguments == call_arguments(event.payload)
            for answer in self._pending[given_id]
        )

    def _take_call_for(self, given_id: str, tool: str, run_id: str | None) -> _PairedCall | None:
        """Take the call for a result: one of its own run, else the latest pending one.

        Within one message the first call comes first. Without an id, match by tool.
        """
        waiting = self._pending.get(given_id, [])
        if given_id and len(waiting) == 1 and waiting[0].event.run_id == run_id is not None:
            del self._pending[given_id]  # As nearly always.
            return waiting[0]
        fits = [at for at, call in enumerate(waiting) if given_id or tool in {call.tool, UNNAMED}]
        own = [at for at in fits if run_id is not None and waiting[at].event.run_id == run_id]
        if own or (given_id, run_id) in self._paired_runs:
            fits = own
        if not fits:
            return None
        message = waiting[fits[-1]].message
        answer = waiting.pop(next(at for at in fits if waiting[at].message == message))
        if not waiting:
            del self._pending[given_id]
        return answer

    def _note_run(self, given_id: str, run_id: str | None) -> None:
        if given_id and run_id is not None:
            self._paired_runs.add((given_id, run_id))

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

    # Building messages.

    def _message(self, draft: _Draft, policy: SyntheticPolicy) -> ModelMessage:
        event = draft.event
        if event.kind not in _ASSISTANT:
            mark: Any = VISIBLE_BOUNDARIES.get(event.kind)
            if event.kind == "ops.observation":
                mark = message_role(event)
            return UserMessage(
                text=draft.text,
                seq=event.seq,
                event_ids=(event.event_id,),
                mark=mark,
                media=() if mark else tuple(message_media(event)),
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
        """Return an id that every provider accepts and no other call has."""
        wanted = answer.given_id
        if not _CALL_ID.fullmatch(wanted):
            wanted = _derived_id(wanted or answer.event.event_id)
        if wanted in self._used:
            self._note("duplicate_call_id", answer.event, "the id was used before")
            number = 1
            while wanted in self._used:
                number += 1
                wanted = _derived_id(f"{answer.event.event_id} {number}")
        self._used.add(wanted)
        return wanted


def _early_for(answer: _PairedCall, early: Iterable[Event]) -> int | None:
    """Return the index of the result for a call; of several with its id only the first counts."""
    own = answer.event.run_id
    for at, event in enumerate(early):
        if answer.given_id:
            return at if own is None or event.run_id in {None, own} else None
        if call_names(event)[1] in {answer.tool, UNNAMED}:
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
    output, media = tool_output(event)
    return Result(
        call_id=call_id,
        tool=tool,
        output=output,
        is_error=is_error,
        reason=reason if reason in REASONS else None,
        event_id=event.event_id,
        media=tuple(media),
    )


def _derived_id(text: str) -> str:
    return "call_" + sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
