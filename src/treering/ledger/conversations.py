"""What was said in a session, and the latest commands of a scope: read from events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from treering.context.texts import call_arguments, message_text, tool_output_text
from treering.derive.search_texts import own_words
from treering.derive.visible import UndoFilter, redone_by, undone_by
from treering.lazy import lazy_pattern
from treering.ledger.lineage import NO_END, Lineage
from treering.ledger.people import talking
from treering.ledger.tool_calls import read_page
from treering.memory.conversations import Conversation, Spoken
from treering.model.events import Event, Header
from treering.model.kinds import HIDING_KINDS
from treering.model.queries import PAGE_ITEMS_MAX
from treering.model.tools import ToolQuery, ToolRecord
from treering.rules.fact_extraction import CORRECTION_REACH, Utterance
from treering.rules.fact_sentences import own_sentences
from treering.rules.project_commands import CommandRun, ShellCall, command_runs, is_piped

if TYPE_CHECKING:
    from treering.ledger.ports import EventStore
    from treering.model.scopes import Scope
    from treering.model.sessions import SessionSettings

LONG_CHARACTERS: Final = 4_000
"""Of a longer text only the user's own words are read: the rest was pasted or printed."""
FIRST_HEADERS: Final = 20
"""So many of the first events are asked whose session it is."""
PAGE_FIRST: Final = 32
PAGE_LAST: Final = 1_000

_ROLES: Final[dict[str, Literal["user", "assistant", "tool"]]] = {
    "conversation.user": "user",
    "conversation.assistant": "assistant",
    "tool.result": "tool",
}
_KINDS: Final = HIDING_KINDS | frozenset(_ROLES)


def read_conversation(
    store: EventStore, scope: Scope, session_id: str, settings: SessionSettings, *, after_seq: int
) -> Conversation:
    """Return what was said after ``after_seq`` and counts.

    Runs that failed, turns that were undone and what was erased are left out; what a fork shares
    is its parent's. It ends before the first run that is under way. Turns that were undone when
    they were read first, and are not any more, are read now.
    """
    lineage = Lineage(store, scope, session_id)
    # In this order, a run that ends or begins meanwhile is read now or later, but never missed.
    head_seq = lineage.head_seq()
    running = [run.first_seq - 1 for run in store.reader.open_runs(scope, session_id)]
    until_seq = min([head_seq, *running])
    in_group = settings.mode == "group"
    user = None if in_group else _user(lineage) or settings.sole_participant
    reading = _ConversationScan(lineage, after_seq=after_seq, user=user)
    reading.read(until_seq)
    return Conversation(
        session_id=session_id,
        in_group=in_group,
        earlier=reading.earlier[:CORRECTION_REACH][::-1],
        spoken=reading.spoken[::-1],
        until_seq=max(until_seq, after_seq),
    )


class _ConversationScan:
    """Goes through a session from its end backwards."""

    def __init__(self, lineage: Lineage, *, after_seq: int, user: str | None) -> None:
        self._lineage = lineage
        self._after_seq = after_seq
        self._user = user
        self._own_seq = lineage.own_after_seq()
        self._floor = max(after_seq, self._own_seq)
        self._hidden = UndoFilter()
        self.spoken: list[Spoken] = []
        self.earlier: list[Spoken] = []

    def read(self, until_seq: int) -> None:
        """Read what is new, and a little of what was said before."""
        before, limit = until_seq + 1, PAGE_FIRST
        while before > self._own_seq + 1 and len(self.earlier) < CORRECTION_REACH:
            page = self._lineage.committed_before(before, kinds=_KINDS, limit=limit)
            if not page:
                break
            for event in reversed(page):
                if event.seq > self._own_seq and self._hidden.is_visible(event):
                    self._take(event)
            before = min(page[0].seq, self._hidden.before or NO_END)
            limit = min(limit * 2, PAGE_LAST)

    def _take(self, event: Event) -> None:
        self._lower(event)
        message = _spoken(event, self._user)
        if message is not None:
            (self.spoken if message.seq > self._floor else self.earlier).append(message)

    def _lower(self, event: Event) -> None:
        """Go back to before turns that were undone at the last reading, and are not any more."""
        undone_seq = redone_by(event)
        if undone_seq is None or not undone_seq <= self._after_seq < event.seq:
            return
        for undone in map(undone_by, self._lineage.events_at([undone_seq])):
            if undone is not None:
                self._floor = max(min(self._floor, undone.from_seq - 1), self._own_seq)


def _user(lineage: Lineage) -> str | None:
    """Return whose session it is, as its first events say."""
    return talking(lineage.after(Header, lineage.own_after_seq(), FIRST_HEADERS))


def _spoken(event: Event, user: str | None) -> Spoken | None:
    role = _ROLES.get(event.kind)
    if role is None or event.redacted:
        return None
    text = tool_output_text(event) if role == "tool" else message_text(event)
    text = own_words(text) if role == "user" else text
    if len(text) > LONG_CHARACTERS:
        text = "\n".join(own_sentences(text)) if role == "user" else ""
    if not text.strip():
        return None
    return Spoken(
        utterance=Utterance(event_id=event.event_id, role=role, text=text, ts_ms=event.ts_ms),
        seq=event.seq,
        # What an agent or a tool says in a group is addressed to no one user.
        user=(event.user_id or user) if role == "user" else user,
    )


FIRST_EVENTS: Final = 8
"""So many of the first events are asked for the project's folder."""
_SHELLS: Final = lazy_pattern(r"(?i)bash|shell|exec|command|terminal|cmd|run")


def read_commands(store: EventStore, scope: Scope, session_id: str | None) -> list[CommandRun]:
    """Return the commands of the latest tool calls, in order, of a session or of all."""
    query = ToolQuery(scope=scope, session_id=session_id, limit=PAGE_ITEMS_MAX, backwards=True)
    roots: dict[str, str | None] = {}
    runs: list[CommandRun] = []
    for record in read_page(store, query).items:
        if record.call_event_id is None or _SHELLS.search(record.tool or "") is None:
            continue
        event = store.reader.find(scope, record.call_event_id)
        arguments = {} if event is None or event.redacted else call_arguments(event.payload)
        if not arguments:
            continue
        if record.session_id not in roots:
            roots[record.session_id] = _project_folder(store, scope, record.session_id)
        call = ShellCall(
            event_id=record.call_event_id,
            session_id=record.session_id,
            arguments=arguments,
            is_ok={"ok": True, "failed": False}.get(record.status),
            root=roots[record.session_id],
        )
        output = _output(store, scope, record) if is_piped(arguments) else None
        runs += command_runs(call, output)
    return runs


def _output(store: EventStore, scope: Scope, record: ToolRecord) -> str | None:
    result = None
    if record.result_event_id is not None:
        result = store.reader.find(scope, record.result_event_id)
    return None if result is None else tool_output_text(result)


def _project_folder(store: EventStore, scope: Scope, session_id: str) -> str | None:
    """Return the folder that an imported session was in."""
    for event in store.reader.by_seq(Event, scope, session_id, after_seq=0, limit=FIRST_EVENTS):
        folder = event.payload.get("cwd") if isinstance(event.payload, dict) else None
        if event.kind == "session.imported" and isinstance(folder, str):
            return folder
    return None
