"""Assembles the input of one model call: events as messages that fit, in a provider's format."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.context.attachments import with_media
from treering.context.budgets import MESSAGE_TOKENS, Budget, shorten_to
from treering.context.dialects import (
    Dialect,
    declare,
    read_tools,
    render,
    render_system,
    supported_tools,
)
from treering.context.fitting import EarlierSummary, fit
from treering.context.items import messages_of, read_item, with_unique_ids
from treering.context.pairing import pair
from treering.context.summaries import summarise
from treering.context.texts import text_of
from treering.context.thoughts import thoughts_of, with_thoughts
from treering.context.tokens import counter_name, estimate
from treering.errors import InvalidInput
from treering.model.codec import canonical, encode
from treering.model.events import Event
from treering.model.messages import AssistantMessage, ModelMessage, Repair, UserMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.tools import SyntheticPolicy

MESSAGES_SHARE: Final = 4
"""One part in this many of the room is reserved for messages."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a timeline, as far back as it was read."""

    events: list[Event]
    """In order; begins at the start of a turn, if there is one."""
    lead: list[Event] = []
    """The end of the previous turn: too little to be shown, but part of a summary."""
    summary: str | None = None
    """The summary of everything before, written by a compaction."""
    summary_id: str | None = None
    """The event that holds the summary."""
    opening: Event | None = None
    """The user's input that began the turn of ``events``, if it is older than what was read."""
    cut: bool = False
    """Whether older events were not read."""
    until_seq: int = 0
    """The last seq of the timeline when it was read: later events are not in the window."""
    ratio: float = 1.0
    """Recent ratio of the provider's token count to our estimate."""


class Contribution(msgspec.Struct, frozen=True, kw_only=True):
    """What one contributor adds to one call."""

    name: str
    system: str = ""
    messages: tuple[ModelMessage, ...] = ()
    memory_ids: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Return a hash that identifies its content."""
        return _digest([self.system, self.messages])


class Contributed(msgspec.Struct, frozen=True, kw_only=True):
    """Records that a contributor added something, without the content."""

    name: str
    digest: str
    memory_ids: tuple[str, ...] = ()


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The input of one model call: always valid, always within its budget."""

    dialect: Dialect
    messages: list[dict[str, Any]]
    """In the provider's format."""
    system: Any
    """The system text, if the provider takes it separately from the messages; else None."""
    request: dict[str, Any]
    """All of it, as keyword arguments for the provider's own client."""
    tokens: int
    """Expected cost in tokens, as the provider counts."""
    tokens_between: tuple[int, int]
    """Lower and upper bound of the cost, by the known error of the estimate."""
    accuracy: str
    """How reliable ``tokens`` is, in words."""
    max_tokens: int | None
    reserve_output_tokens: int
    report: list[Repair]
    """Every repair and cut, with the event that it affects."""
    event_ids: list[str]
    """The events shown, in order."""
    shown: list[tuple[int, int]]
    """The same as ranges: first and last seq, of which every message is shown."""
    contributed: list[Contributed]
    until_seq: int
    """The last seq of the session when it was read: later events could not be shown."""
    estimated_tokens: int
    """``tokens`` before calibration."""
    fixed_tokens: int
    """The part of ``estimated_tokens`` for system text, tools and contributions."""
    ratio: float
    counter: str | None
    """The name of the token counter, if it is not the built-in estimate."""
    digest: str
    """A hash of the content shown from the ledger: the same content has the same digest."""
    recipe: str
    """A hash of the shown events, by their salted digests, and of the cuts. Unlike ``digest`` it
    reveals no text, and may be recorded."""


class ContextTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The model that a context is for, and its limits."""

    dialect: Dialect
    model: str | None = None
    max_tokens: int | None
    reserve_output_tokens: int = 0

    @property
    def input_tokens_max(self) -> int | None:
        """Return how many tokens the input may have; None is unlimited."""
        if self.max_tokens is None:
            return None
        return max(self.max_tokens - self.reserve_output_tokens, 0)


def assemble(
    window: Window,
    target: ContextTarget,
    *,
    policy: SyntheticPolicy,
    system: str = "",
    tools: Any = None,
    contributions: Sequence[Contribution] = (),
    budget: Budget | None = None,
    fixed_tokens: int | None = None,
) -> Context:
    """Return what the model sees of ``window``, with ``contributions`` for this call only.

    ``tools`` may be declared in any provider's format. ``fixed_tokens`` is the recorded cost of
    system text and contributions, for a context that is assembled again.
    """
    dialect, model = target.dialect, target.model
    budget = msgspec.structs.replace(
        budget or Budget(ratio=window.ratio), limit=target.input_tokens_max
    )
    declared, unsupported = supported_tools(read_tools(tools) if tools else [], dialect)
    needed = 0 if not declared else budget.count(encode(declare(declared, dialect)).decode())
    room = None if budget.room is None else max(budget.room - needed, 0)
    priced, unsupported_media = _priced(contributions, dialect, model)
    system, added, fixed, repairs = _fixed(system, priced, budget, room)
    repairs += unsupported_media
    repairs += [
        Repair(code="left_out_tool", detail=f"{tool.name}: {dialect} does not take it")
        for tool in unsupported
    ]
    fixed = needed + fixed if fixed_tokens is None else fixed_tokens
    opening = [] if window.opening is None else [window.opening]
    paired, pairing_repairs = pair([*opening, *window.events], policy)
    messages, dropped_thoughts = with_thoughts(paired, dialect, model)
    messages, dropped_media = with_media(messages, dialect, model)
    if window.cut:
        pairing_repairs.insert(0, Repair(code="dropped_turn", detail="what lies further back"))
    earlier = _earlier(window, policy, budget)
    fitted = fit(
        messages,
        earlier=earlier,
        room=None if budget.room is None else max(budget.room - fixed, 0),
        budget=budget,
        summarise=lambda dropped, before, tokens: (
            summarise(dropped, earlier=before, limit=tokens, count=budget.count).text
        ),
    )
    shown = fitted.messages
    repairs = [*pairing_repairs, *dropped_thoughts, *dropped_media, *fitted.repairs, *repairs]
    event_ids = [event_id for message in shown for event_id in _ids_of(message)]
    placed = _placed(shown, added)
    if placed:
        rendered = render(placed, system=system, dialect=dialect, tools=declared)
    else:
        # If messages exist but none fits, a system text alone would be misleading.
        nothing_said = not messages and earlier is None
        system = system if nothing_said else ""
        rendered = render_system(system, dialect=dialect, tools=declared)
    counted = fitted.cost + fixed
    tokens = budget.expected(counted) if rendered.messages or rendered.system else 0
    return Context(
        dialect=dialect,
        messages=rendered.messages,
        system=rendered.system,
        request=rendered.request(),
        tokens=tokens,
        tokens_between=budget.between(tokens),
        accuracy=budget.accuracy,
        max_tokens=target.max_tokens,
        reserve_output_tokens=target.reserve_output_tokens,
        report=repairs,
        event_ids=event_ids,
        shown=_seq_ranges(opening, set(event_ids)) + _seq_ranges(window.events, set(event_ids)),
        contributed=[
            Contributed(name=addition.name, digest=addition.digest, memory_ids=addition.memory_ids)
            for addition in added
        ],
        until_seq=window.until_seq,
        estimated_tokens=counted,
        fixed_tokens=fixed,
        ratio=budget.ratio,
        counter=None if budget.count is estimate else counter_name(budget.count),
        digest=_digest(shown),
        recipe=_recipe(
            shown, [*opening, *window.lead, *window.events], [*pairing_repairs, *fitted.repairs]
        ),
    )


def contribution(name: str, given: Any, memory_ids: Sequence[str] = ()) -> Contribution:
    """Return a contributor's return value as a contribution. Raise InvalidInput if it is invalid.

    It may be a text, an item in any provider's format, or a list of these.
    """
    if given is None:
        return Contribution(name=name)
    ids = [str(memory_id) for memory_id in memory_ids]
    canonical([name, *ids], f"what contributor {name} is made of")
    values = given if isinstance(given, list | tuple) else [given]
    canonical(list(values), f"what contributor {name} returned")
    try:
        conversation = [item for value in values for item in read_item(value)]
        messages = messages_of(conversation)
    except InvalidInput as error:
        raise InvalidInput(
            f"contributor {name} returned something that is not a message", hint=error.hint
        ) from error
    system = [text_of(item.content) for item in conversation if item.sort == "system"]
    return Contribution(
        name=name,
        system="\n\n".join(text for text in system if text.strip()),
        messages=tuple(messages),
        memory_ids=tuple(ids),
    )


def _priced(
    contributions: Sequence[Contribution], dialect: Dialect, model: str | None
) -> tuple[list[Contribution], list[Repair]]:
    """Return contributions with the pictures and files that ``dialect`` accepts."""
    priced: list[Contribution] = []
    repairs: list[Repair] = []
    for addition in contributions:
        messages, left = with_media(addition.messages, dialect, model)
        repairs += left
        priced.append(msgspec.structs.replace(addition, messages=tuple(messages)))
    return priced, repairs


def _fixed(
    system: str, contributions: Sequence[Contribution], budget: Budget, all_room: int | None
) -> tuple[str, list[Contribution], int, list[Repair]]:
    """Return the system text and contributions that fit, their cost, and the repairs."""
    repairs: list[Repair] = []
    added: list[Contribution] = []
    text = system.strip()
    cost = MESSAGE_TOKENS + budget.count(text) if text else 0
    room = None if all_room is None else all_room - all_room // MESSAGES_SHARE
    if room is not None and cost > room:
        text = shorten_to(text, room - MESSAGE_TOKENS, budget.count).strip()
        cost = MESSAGE_TOKENS + budget.count(text) if text else 0
        repairs.append(Repair(code="shortened_message", detail="the system text"))
    for addition in contributions:
        if not addition.system and not addition.messages:
            continue
        needs = (
            sum(map(budget.cost, addition.messages))
            + 2 * MESSAGE_TOKENS
            + budget.count(addition.system)
        )
        if room is not None and cost + needs > room:
            repairs.append(Repair(code="contributor_dropped", detail=addition.name))
            continue
        added.append(addition)
        cost += needs
        text = f"{text}\n\n{addition.system}".strip()
    return text, added, cost, repairs


def _ids_of(message: ModelMessage) -> Sequence[str]:
    """Return the events that a message shows, thoughts first."""
    thoughts = thoughts_of(message)
    if not thoughts:
        return message.event_ids
    return list(dict.fromkeys([*(thought.event_id for thought in thoughts), *message.event_ids]))


def _earlier(window: Window, policy: SyntheticPolicy, budget: Budget) -> EarlierSummary | None:
    """Return the summary of everything before the window, if there is one."""
    summary = window.summary
    messages, _ = pair(window.lead, policy)
    if messages:
        room = budget.room
        tokens = 500 if room is None else min(500, room // 8)
        # The compaction's summary keeps its own room, beside the little that is added.
        tokens += budget.count(summary or "")
        summary = summarise(messages, earlier=summary, limit=tokens, count=budget.count).text
    if summary is None or not summary.strip():
        return None
    ids = () if window.summary_id is None else (window.summary_id,)
    return EarlierSummary(words=summary, event_ids=ids)


def _placed(messages: Sequence[ModelMessage], added: Sequence[Contribution]) -> list[ModelMessage]:
    """Return the messages with contributions before the last user message."""
    used = {
        call.call_id
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
    }
    extra = with_unique_ids([message for addition in added for message in addition.messages], used)
    insert_at = len(messages)
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, UserMessage) and message.mark is None:
            insert_at = index
            break
    return [*messages[:insert_at], *extra, *messages[insert_at:]]


def _seq_ranges(events: Sequence[Event], shown: set[str]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    first = last = 0
    for event in events:
        if event.event_id in shown:
            first, last = first or event.seq, event.seq
        elif first:
            ranges.append((first, last))
            first = 0
    return [*ranges, (first, last)] if first else ranges


def _recipe(
    shown: Sequence[ModelMessage], events: Sequence[Event], repairs: Sequence[Repair]
) -> str:
    """Return a digest of what is shown, made without text."""
    digests = {event.event_id: [event.content_digest.hex(), event.redacted] for event in events}
    messages = [
        [type(message).__name__, [[cited, *digests.get(cited, [])] for cited in _ids_of(message)]]
        for message in shown
    ]
    return _digest([messages, [[repair.code, repair.event_id] for repair in repairs]])


def _digest(value: Any) -> str:
    return sha256(encode(value)).hexdigest()
