"""One model call's input: events become messages, made to fit, in a provider's spelling."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.context.attachments import with_media
from treering.context.budgets import MESSAGE_TOKENS, Budget
from treering.context.dialects import (
    Dialect,
    declare,
    read_tools,
    render,
    render_system,
    spoken,
)
from treering.context.fitting import Earlier, fit
from treering.context.items import acts_in, distinct, messages_of
from treering.context.pairing import pair
from treering.context.shortening import shorten_to
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
"""One part in so many of the room is for messages, whatever else wants to be told."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a timeline: what counts of it, as far back as it was read."""

    events: list[Event]
    """In order; from the start of a turn on, if one starts in it."""
    lead: list[Event] = []
    """The end of the turn before: too little to be shown, and told in a summary if need be."""
    summary: str | None = None
    """What a compaction said of all that went before."""
    summary_id: str | None = None
    """The event that says it."""
    opening: Event | None = None
    """The words that began the turn of ``events``, if it began before what was read."""
    cut: bool = False
    """Whether there is more before it that was not read."""
    until_seq: int = 0
    """The last seq that the timeline had when it was read: nothing behind it is in here."""
    ratio: float = 1.0
    """What the provider counted to one token of ours, lately."""


class Contribution(msgspec.Struct, frozen=True, kw_only=True):
    """What one contributor adds to one call."""

    name: str
    system: str = ""
    messages: tuple[ModelMessage, ...] = ()
    memory_ids: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Return a hash that tells it from any other contribution."""
        return _digest([self.system, self.messages])


class Contributed(msgspec.Struct, frozen=True, kw_only=True):
    """That a contributor added something: not what."""

    name: str
    digest: str
    memory_ids: tuple[str, ...] = ()


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The input of one model call: always legal, always within its budget."""

    dialect: Dialect
    messages: list[dict[str, Any]]
    """In the provider's spelling."""
    system: Any
    """The system text as the provider takes it apart from the messages; None if it does not."""
    request: dict[str, Any]
    """All of it, as keyword arguments of the provider's own client."""
    tokens: int
    """What it is expected to cost, as the provider counts."""
    tokens_between: tuple[int, int]
    """What it costs at least and at most, as far as estimates are known to err."""
    accuracy: str
    """How far ``tokens`` can be relied on, in words."""
    max_tokens: int | None
    reserve_output_tokens: int
    report: list[Repair]
    """Every repair and every cut, with the event that it befell."""
    event_ids: list[str]
    """The events that it shows, in order."""
    shown: list[tuple[int, int]]
    """The same as stretches: first and last seq of each, of which every message is shown."""
    contributed: list[Contributed]
    until_seq: int
    """The last seq that the session had when it was read: nothing behind it could be shown."""
    estimated_tokens: int
    """The same as ``tokens`` before any calibration."""
    fixed_tokens: int
    """What of ``estimated_tokens`` is the system text, tools and contributions."""
    ratio: float
    counter: str | None
    """What counted its tokens, if that was not the built-in estimate."""
    digest: str
    """Of what it shows of the ledger: two contexts that show the same have the same."""
    recipe: str
    """Of the events that it shows, by their salted digests, and of what was cut of them. Unlike
    ``digest`` it gives no word back, and may be recorded."""


def assemble(
    window: Window,
    *,
    dialect: Dialect,
    max_tokens: int | None,
    reserve_output_tokens: int = 0,
    system: str = "",
    tools: Any = None,
    contributions: Sequence[Contribution] = (),
    policy: SyntheticPolicy,
    budget: Budget | None = None,
    fixed_tokens: int | None = None,
    model: str | None = None,
) -> Context:
    """Return what ``model`` sees of ``window``, with ``contributions`` for this call alone.

    ``tools`` are declared in whatever shape, and go with the request in that of ``dialect``.
    ``fixed_tokens`` is what system text and contributions once cost, for one that is made again.
    """
    limit = None if max_tokens is None else max(max_tokens - reserve_output_tokens, 0)
    known = budget or Budget(ratio=window.ratio)
    budget = msgspec.structs.replace(known, limit=limit)
    declared, unspoken = spoken(read_tools(tools) if tools else [], dialect)
    needed = 0 if not declared else budget.count(encode(declare(declared, dialect)).decode())
    room = None if budget.room is None else max(budget.room - needed, 0)
    priced, unadded = _priced(contributions, dialect, model)
    system, added, fixed, repairs = _fixed(system, priced, budget, room)
    repairs += unadded
    repairs += [
        Repair(code="left_out_tool", detail=f"{tool.name}: {dialect} does not take it")
        for tool in unspoken
    ]
    fixed = needed + fixed if fixed_tokens is None else fixed_tokens
    opening = [] if window.opening is None else [window.opening]
    paired, mended = pair([*opening, *window.events], policy)
    messages, unthought = with_thoughts(paired, dialect, model)
    messages, unshown = with_media(messages, dialect, model)
    if window.cut:
        mended.insert(0, Repair(code="dropped_turn", detail="what lies further back"))
    earlier = _earlier(window, policy, budget)
    fitted = fit(
        messages,
        earlier=earlier,
        room=None if budget.room is None else max(budget.room - fixed, 0),
        budget=budget,
        summarise=lambda dropped, told, tokens: (
            summarise(dropped, earlier=told, limit=tokens, count=budget.count).text
        ),
    )
    shown = fitted.messages
    repairs = [*mended, *unthought, *unshown, *fitted.repairs, *repairs]
    event_ids = [event_id for message in shown for event_id in _ids_of(message)]
    placed = _placed(shown, added)
    if placed:
        rendered = render(placed, system=system, dialect=dialect, tools=declared)
    else:
        # What was said and does not fit is not made up for by a system text.
        nothing_said = not messages and earlier is None
        system = system if nothing_said else ""
        rendered = render_system(system, dialect=dialect, tools=declared)
    counted = fitted.cost + fixed
    tokens = budget.told(counted) if rendered.messages or rendered.system else 0
    return Context(
        dialect=dialect,
        messages=rendered.messages,
        system=rendered.system,
        request=rendered.request(),
        tokens=tokens,
        tokens_between=budget.between(tokens),
        accuracy=budget.accuracy,
        max_tokens=max_tokens,
        reserve_output_tokens=reserve_output_tokens,
        report=repairs,
        event_ids=event_ids,
        shown=_stretches(opening, set(event_ids)) + _stretches(window.events, set(event_ids)),
        contributed=[
            Contributed(name=one.name, digest=one.digest, memory_ids=one.memory_ids)
            for one in added
        ],
        until_seq=window.until_seq,
        estimated_tokens=counted,
        fixed_tokens=fixed,
        ratio=budget.ratio,
        counter=None if budget.count is estimate else counter_name(budget.count),
        digest=_digest(shown),
        recipe=_recipe(shown, [*opening, *window.lead, *window.events], [*mended, *fitted.repairs]),
    )


def contribution(name: str, given: Any, memory_ids: Sequence[str] = ()) -> Contribution:
    """Return what a contributor gave, as one contribution. Raises InvalidInput.

    It may be a text, an item of a talk in the shape of any provider, or a list of these.
    """
    if given is None:
        return Contribution(name=name)
    ids = [str(one) for one in memory_ids]
    canonical([name, *ids], f"what contributor {name} is made of")
    items = given if isinstance(given, list | tuple) else [given]
    canonical(list(items), f"what contributor {name} gave")
    try:
        acts = [act for item in items for act in acts_in(item)]
        messages = messages_of(acts)
    except InvalidInput as error:
        raise InvalidInput(
            f"contributor {name} gave something that is no message", hint=error.hint
        ) from error
    system = [text_of(act.content) for act in acts if act.sort == "system"]
    return Contribution(
        name=name,
        system="\n\n".join(text for text in system if text.strip()),
        messages=tuple(messages),
        memory_ids=tuple(ids),
    )


def _priced(
    contributions: Sequence[Contribution], dialect: Dialect, model: str | None
) -> tuple[list[Contribution], list[Repair]]:
    """Return contributions with what ``dialect`` takes of their pictures and files."""
    found: list[Contribution] = []
    repairs: list[Repair] = []
    for one in contributions:
        messages, left = with_media(one.messages, dialect, model)
        repairs += left
        found.append(msgspec.structs.replace(one, messages=tuple(messages)))
    return found, repairs


def _fixed(
    system: str, contributions: Sequence[Contribution], budget: Budget, all_room: int | None
) -> tuple[str, list[Contribution], int, list[Repair]]:
    """Return system text and contributions that leave room, and what they cost."""
    repairs: list[Repair] = []
    added: list[Contribution] = []
    text = system.strip()
    cost = MESSAGE_TOKENS + budget.count(text) if text else 0
    room = None if all_room is None else all_room - all_room // MESSAGES_SHARE
    if room is not None and cost > room:
        text = shorten_to(text, room - MESSAGE_TOKENS, budget.count).strip()
        cost = MESSAGE_TOKENS + budget.count(text) if text else 0
        repairs.append(Repair(code="shortened_message", detail="the system text"))
    for one in contributions:
        if not one.system and not one.messages:
            continue
        needs = sum(map(budget.cost, one.messages)) + 2 * MESSAGE_TOKENS + budget.count(one.system)
        if room is not None and cost + needs > room:
            repairs.append(Repair(code="contributor_dropped", detail=one.name))
            continue
        added.append(one)
        cost += needs
        text = f"{text}\n\n{one.system}".strip()
    return text, added, cost, repairs


def _ids_of(message: ModelMessage) -> Sequence[str]:
    """Return the events that a message shows, what was thought in it first."""
    thoughts = thoughts_of(message)
    if not thoughts:
        return message.event_ids
    return list(dict.fromkeys([*(one.event_id for one in thoughts), *message.event_ids]))


def _earlier(window: Window, policy: SyntheticPolicy, budget: Budget) -> Earlier | None:
    """Return the summary of what lies before the window, if one was made."""
    told = window.summary
    messages, _ = pair(window.lead, policy)
    if messages:
        room = budget.room
        tokens = 500 if room is None else min(500, room // 8)
        # What a compaction told is not pressed into the room of the little that is added.
        tokens += budget.count(told or "")
        told = summarise(messages, earlier=told, limit=tokens, count=budget.count).text
    if told is None or not told.strip():
        return None
    ids = () if window.summary_id is None else (window.summary_id,)
    return Earlier(words=told, event_ids=ids)


def _placed(messages: Sequence[ModelMessage], added: Sequence[Contribution]) -> list[ModelMessage]:
    """Return the messages with contributions in front of what the user said last."""
    used = {
        call.call_id for one in messages if isinstance(one, AssistantMessage) for call in one.calls
    }
    extra = distinct([message for one in added for message in one.messages], used)
    place = len(messages)
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, UserMessage) and message.mark is None:
            place = index
            break
    return [*messages[:place], *extra, *messages[place:]]


def _stretches(events: Sequence[Event], shown: set[str]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    first = last = 0
    for event in events:
        if event.event_id in shown:
            first, last = first or event.seq, event.seq
        elif first:
            found.append((first, last))
            first = 0
    return [*found, (first, last)] if first else found


def _recipe(
    shown: Sequence[ModelMessage], events: Sequence[Event], repairs: Sequence[Repair]
) -> str:
    """Return a digest of what is shown that is made of no text."""
    told = {one.event_id: [one.content_digest.hex(), one.redacted] for one in events}
    messages = [
        [type(one).__name__, [[cited, *told.get(cited, [])] for cited in _ids_of(one)]]
        for one in shown
    ]
    return _digest([messages, [[one.code, one.event_id] for one in repairs]])


def _digest(value: Any) -> str:
    return sha256(encode(value)).hexdigest()
