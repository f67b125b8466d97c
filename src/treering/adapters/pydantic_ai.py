"""Conversations of Pydantic AI in a ledger, and a capability that records its runs.

store = TreeringConversationStore(ledger, scope="acme/app")
agent = Agent(…, capabilities=[TreeringRecorder(session)])
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from treering.adapters.item_log import (
    RECORDS_AT_ONCE,
    Claims,
    MessagePart,
    MessageRecorder,
    all_records,
)
from treering.adapters.lenient_writer import LenientWriter, Reply, record_reply
from treering.adapters.record_buffer import RecordBuffer
from treering.adapters.wire import arguments_of
from treering.clock import now_ms
from treering.errors import Conflict, RunInterrupted, ToolDenied, Unsupported
from treering.ledger.erasure import TRANSCRIPTS
from treering.ledger.keyed_records import KeyedRecord, KeyedRecords, RecordChange, keys_of
from treering.model.codec import encode
from treering.model.fields import fit_name
from treering.model.parts import UsageReported
from treering.model.scopes import parse_scope
from treering.spine.conversion import plain, to_json
from treering.spine.off_loop import Lanes

try:
    from pydantic import TypeAdapter
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
    from pydantic_ai.messages import (
        ModelResponse,
        NativeToolCallPart,
        NativeToolReturnPart,
        RetryPromptPart,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
except ImportError as missing:
    raise Unsupported(
        f"Pydantic AI is not installed ({missing})", hint="pip install 'treering[pydantic-ai]'"
    ) from missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pydantic_ai import RunContext, ToolDefinition
    from pydantic_ai.capabilities.abstract import (
        WrapModelRequestHandler,
        WrapRunHandler,
        WrapToolExecuteHandler,
    )
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult

    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.spine.runs import Run, ToolCall

__all__ = ["TreeringConversationStore", "TreeringRecorder"]

CLAIMS_MAX: Final = 1_000
_CONVERSATIONS: Final = "conversations"
_RECORD: Final = TypeAdapter(ConversationRecord)
_ENTRY: Final = TypeAdapter(ConversationEntry)


class TreeringConversationStore(ConversationStore):
    """Keeps conversations in a scope of a ledger; what is said is in the ledger's sessions.

    It behaves like the in-memory store. Deleting a conversation erases the entries that no other
    shares, and what they say. An entry that was erased as an event is left out of its history. If
    the ledger fails, the agent continues: saves wait in memory and in the spool, and are loaded
    from there. With ``strict``, errors are raised. Deleting always raises them.
    """

    def __init__(
        self, ledger: Ledger, *, scope: str, agent: str = "pydantic-ai", strict: bool = False
    ) -> None:
        self._ledger = ledger
        self.buffer = RecordBuffer(ledger, "pydantic-ai", strict=strict)
        """The buffer of writes to the ledger, with what waits or was lost."""
        self._scope = parse_scope(scope)
        self._agent = agent
        self._records = self.buffer.records(self._scope, TRANSCRIPTS, agent=agent)
        self._lanes = Lanes()
        self._claims: dict[str, Claims] = {}
        self._since_ms = now_ms()

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation; None if it does not exist."""
        key = _record_key(conversation_id)
        return await self._lanes.run(None, lambda: _to_record(self._records.get(key)))

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Return records, those of ``scope`` if it is given, the last saved first."""
        records = await self._lanes.run(None, self._all_records)
        matching = [record for record in records if scope is None or record.scope == scope]
        return sorted(matching, key=lambda record: record.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and new entries, unless another writer came first."""
        await self._lanes.complete(
            record.conversation_id, self._write, record, list(new_entries), expected_revision
        )

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Erase a conversation, unless it was saved meanwhile."""
        await self._lanes.complete(
            conversation_id, self._delete, conversation_id, expected_revision
        )

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry. Raise LookupError if it does not exist."""
        record = await self._lanes.run(None, self._records.get, _entry_key(entry_id))
        if record is None:
            raise LookupError(entry_id)
        return _ENTRY.validate_json(encode(record.value))

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """Return the entries up to ``head_id`` in order, or the last of them."""
        return await self._lanes.run(None, self._history, head_id, limit)

    # In the ledger.

    def _session(self, conversation_id: str) -> Session:
        name, _ = fit_name(conversation_id, "conversation_id")
        return self._ledger.session(name, scope=self._scope, agent=self._agent)

    def _kept_in(self, conversation_id: str) -> KeyedRecords:
        """Return the records of one conversation, in a session that lists leave out."""
        name, _ = fit_name(f"conversation:{conversation_id}", "conversation_id")
        spawned_by, _ = fit_name(conversation_id, "conversation_id")
        held = self._ledger.session(
            name, scope=self._scope, agent=self._agent, spawned_by=spawned_by
        )
        self.buffer.open(held)
        return self.buffer.records(self._scope, TRANSCRIPTS, session_id=name, agent=self._agent)

    def _all_records(self) -> list[ConversationRecord]:
        parsed = [_to_record(record) for record in all_records(self._records, f"{_CONVERSATIONS}/")]
        return [record for record in parsed if record is not None]

    def _write(
        self,
        record: ConversationRecord,
        new_entries: Sequence[ConversationEntry],
        expected_revision: str | None,
    ) -> None:
        name = record.conversation_id
        stored = self._records.get(_record_key(name))
        before = _to_record(stored)
        if (None if before is None else before.revision) != expected_revision:
            raise ConversationConflict(name)
        head = record.head_id
        is_linked = head is None or head in {e.id for e in new_entries} or self._is_linked(head)
        if not is_linked:
            raise ConversationConflict(name)
        records = self._kept_in(name)
        session = self._session(name)
        recorder = MessageRecorder(session, self._records, self._claims_of(name))
        entries: list[RecordChange] = []
        for entry in new_entries:
            recorded = [recorder.record(part) for part in parts_of(entry.message)]
            ids = tuple(dict.fromkeys(filter(None, recorded)))
            value = to_json(_ENTRY.dump_python(entry, mode="json"))[0]
            key = f"entries:{_held_in(name)}/{quote(entry.id, safe='')}"
            entries.append(RecordChange(key=key, value=value, also=(_entry_key(entry.id), *ids)))
        links = [(entry.id, entry.parent_id) for entry in new_entries]
        changes = [
            *self._link(name, links),
            RecordChange(
                key=_record_key(name),
                value=to_json(_RECORD.dump_python(record, mode="json"))[0],
                expected="" if stored is None else stored.version,
            ),
        ]
        if recorder.beside:
            self.buffer.open(session)
        try:
            while len(entries) > RECORDS_AT_ONCE:
                some, entries = entries[:RECORDS_AT_ONCE], entries[RECORDS_AT_ONCE:]
                records.put_all(some)
            records.put_all([*entries, *changes], beside=recorder.beside)
        except Conflict:
            raise ConversationConflict(name) from None

    def _link(self, name: str, links: Sequence[tuple[str, str | None]]) -> Iterable[RecordChange]:
        """Yield the order of the entries, without content, so that it survives erasures."""
        if links:
            listed = [list(pair) for pair in links]
            also = tuple(f"follows/{quote(entry_id, safe='')}" for entry_id, _ in links)
            yield RecordChange(
                key=f"{_links(name)}/{quote(links[0][0], safe='')}", value=listed, also=also
            )

    def _is_linked(self, entry_id: str) -> bool:
        return self._records.get(f"follows/{quote(entry_id, safe='')}") is not None

    def _claims_of(self, name: str) -> Claims:
        claims = self._claims.setdefault(name, Claims(self._since_ms))
        if len(self._claims) > CLAIMS_MAX:
            del self._claims[next(iter(self._claims))]
        return claims

    def _history(self, head_id: str | None, limit: int | None) -> list[ConversationEntry]:
        entries: dict[str, ConversationEntry] = {}
        parents: dict[str, str | None] = {}
        history: list[ConversationEntry] = []
        at = head_id
        while at is not None and (limit is None or len(history) < limit):
            if at not in parents and limit is not None:
                # The last entries are mostly the last events of their conversation.
                self._read_around(at, entries, parents, last=4 * limit + 16)
            if at not in parents:
                # All of the conversation that the entry is from; a fork continues in another one.
                self._read_around(at, entries, parents, last=None)
            if at in entries:
                history.append(entries[at])
            at = parents[at]
        return history[::-1]

    def _read_around(
        self,
        entry_id: str,
        entries: dict[str, ConversationEntry],
        parents: dict[str, str | None],
        *,
        last: int | None = None,
    ) -> None:
        """Read the conversation that an entry is from: its entries, and which follows which."""
        linked = self._records.get(f"follows/{quote(entry_id, safe='')}")
        if linked is None:
            raise LookupError(entry_id)
        held = self._ledger.session(linked.session_id, scope=self._scope, agent=self._agent)
        for event in self.buffer.events(held, kinds=["state.value"], last=last):
            if event.redacted or not isinstance(event.payload, dict):
                continue
            key, value = keys_of(event)[0], event.payload["value"]
            if key.startswith("links:"):
                parents.update((child, parent) for child, parent in value)
            elif key.startswith("entries:"):
                entry = _ENTRY.validate_json(encode(value))
                entries[entry.id] = entry

    def _delete(self, conversation_id: str, expected_revision: str) -> None:
        key = _record_key(conversation_id)
        stored = self._records.get(key)
        record = _to_record(stored)
        if stored is None or record is None or record.revision != expected_revision:
            raise ConversationConflict(conversation_id)
        records = self._kept_in(conversation_id)
        try:
            # A record without a value: a save at the same time finds another version.
            gone = records.put(key, None, expected=stored.version)
        except Conflict:
            raise ConversationConflict(conversation_id) from None
        own = self._reached([record])
        others = self._reached(
            other for other in self._all_records() if other.conversation_id != conversation_id
        )
        ids = [r.version for r in records.history(key) if r.version != gone.version]
        for entry_id in own - others:
            entry = self._records.get(_entry_key(entry_id))
            if entry is not None:
                ids.append(entry.version)
                event = self._ledger.event(self._scope, entry.version)
                ids += [name for name in keys_of(event)[2:] if self._knows(name)]
        self.buffer.redact(self._scope, event_ids=list(dict.fromkeys(ids)))

    def _knows(self, event_id: str) -> bool:
        return event_id in self._ledger.find_ids(self._scope, [event_id])

    def _reached(self, records: Iterable[ConversationRecord]) -> set[str]:
        """Return the entries that conversations hold, in their histories and branches."""
        entries: dict[str, ConversationEntry] = {}
        parents: dict[str, str | None] = {}
        reached: set[str] = set()
        for record in records:
            for tip in (record.head_id, *record.branches):
                at = tip
                while at is not None and at not in reached:
                    if at not in parents:
                        try:
                            self._read_around(at, entries, parents)
                        except LookupError:
                            break
                    reached.add(at)
                    at = parents[at]
        return reached


def _record_key(conversation_id: str) -> str:
    return f"{_CONVERSATIONS}/{_short(conversation_id)}"


def _entry_key(entry_id: str) -> str:
    return f"entry/{_short(entry_id)}"


def _links(conversation_id: str) -> str:
    return f"links:{_held_in(conversation_id)}"


def _held_in(conversation_id: str) -> str:
    return quote(fit_name(f"conversation:{conversation_id}", "conversation_id")[0], safe="")


def _short(name: str) -> str:
    return fit_name(quote(name, safe=""), "id")[0]


def _to_record(stored: KeyedRecord | None) -> ConversationRecord | None:
    if stored is None or stored.value is None:
        return None
    return _RECORD.validate_json(encode(stored.value))


class TreeringRecorder(AbstractCapability[Any]):
    """Records each run in a session: what is said, tool calls and usage.

    Within a turn, a run belongs to that turn. Raises ToolDenied for a tool
    that may not run, and RunInterrupted once the session is interrupted. Any other failure to
    record is counted in ``writer.lost`` and logged, unless ``strict``.
    """

    def __init__(self, session: Session, *, strict: bool = False) -> None:
        super().__init__()
        self.session = session
        self.writer = LenientWriter(session, strict=strict, raising=(RunInterrupted, ToolDenied))
        self._lanes = Lanes()

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:  # noqa: ARG002
        """Return a recorder of one run."""
        return RunRecorder(self)

    async def attempt(self, act: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Return what ``act`` returns, off the event loop, in order; None if it fails."""
        return await self._lanes.run("run", partial(self.writer.attempt, act, *args, **named))


class RunRecorder(AbstractCapability[Any]):
    """Records one run."""

    def __init__(self, recorder: TreeringRecorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._run: Run | None = None
        self._is_nested = False
        """Whether this agent is a tool of another run: its words are that tool's output."""
        self._ids: set[str] = set()

    async def wrap_run(
        self, ctx: RunContext[Any], *, handler: WrapRunHandler
    ) -> AgentRunResult[Any]:
        """Record the start, the user's words and the end."""
        begun = await self._recorder.attempt(self._begin, ctx.prompt)
        try:
            result = await handler()
        except BaseException as error:
            if begun is not None:
                trace = error.__traceback__
                await self._recorder.attempt(begun.__exit__, type(error), error, trace)
            await self._recorder.attempt(self._recorder.writer.flush)
            raise
        if begun is not None:
            await self._recorder.attempt(begun.__exit__, None, None, None)
        await self._recorder.attempt(self._recorder.writer.flush)
        return result

    async def wrap_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002  (the capability's)
        *,
        request_context: ModelRequestContext,
        handler: WrapModelRequestHandler,
    ) -> ModelResponse:
        """Record the answer and its usage."""
        response = await handler(request_context)
        if self._run is not None:
            await self._recorder.attempt(self._reply, response)
        return response

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],  # noqa: ARG002  (the capability's)
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,  # noqa: ARG002  (the capability's)
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> Any:
        """Record a tool call: its intent before it runs, and its outcome."""
        started: ToolCall | None = None
        if self._run is not None:
            started = await self._recorder.attempt(self._start, call, args)
        try:
            output = await handler(args)
        except BaseException as error:
            if started is not None:
                end = partial(started.__exit__, type(error), error, error.__traceback__)
                await self._recorder.attempt(end)
            raise
        if started is not None:
            await self._recorder.attempt(started.finish, output)
        return output

    # In the ledger.

    def _begin(self, prompt: Any) -> Run | None:
        """Begin a run, or join the current one; return it if it must be ended here."""
        session = self._recorder.session
        run, begun = session.running, None
        if run is None:
            run = begun = session.turn(entry_point="pydantic-ai")
            begun.start()
        self._run = run
        self._is_nested = bool(run.tools.open_calls())
        if prompt is not None and not self._is_nested:
            message = user_of(prompt)
            users = session.events(kinds=["conversation.user"], turn_id=run.turn_id)
            if message.text not in [event.payload["text"] for event in users if not event.redacted]:
                run.user(message.text, **message.extra)
        return begun

    def _reply(self, response: ModelResponse) -> None:
        reply = reply_of(response)
        if self._run is not None:
            record_reply(self._run, reply.without_text() if self._is_nested else reply)

    def _start(self, call: ToolCallPart, args: dict[str, Any]) -> ToolCall | None:
        if self._run is None:
            return None
        # Some models restart their ids in every answer; the ledger needs unique ones.
        call_id = None if call.tool_call_id in self._ids else call.tool_call_id
        self._ids.add(call.tool_call_id)
        return self._run.tools.started(call.tool_name, args, call_id=call_id)


def parts_of(message: ModelMessage) -> list[MessagePart]:
    """Return what a message says to others."""
    return list(_parts(message))


def _parts(message: ModelMessage) -> Iterator[MessagePart]:
    if isinstance(message, ModelResponse):
        text = text_of(message)
        if text:
            yield MessagePart(sort="assistant", text=text)
    for part in message.parts:
        if isinstance(part, UserPromptPart):
            yield user_of(part.content)
        elif isinstance(part, ToolCallPart | NativeToolCallPart):
            yield MessagePart(
                sort="call",
                call_id=part.tool_call_id,
                tool=part.tool_name,
                value=arguments_of(part.args),
            )
        elif isinstance(part, ToolReturnPart | NativeToolReturnPart):
            yield MessagePart(
                sort="output",
                call_id=part.tool_call_id,
                tool=part.tool_name,
                value=part.content,
                is_error=getattr(part, "outcome", "success") == "failed",
            )
        elif isinstance(part, RetryPromptPart) and part.tool_name is not None:
            yield MessagePart(
                sort="output",
                call_id=part.tool_call_id,
                tool=part.tool_name,
                value=part.content,
                is_error=True,
            )


def user_of(content: Any) -> MessagePart:
    """Return what a user says, with what is attached to it."""
    if isinstance(content, str):
        return MessagePart(sort="user", text=plain(content))
    parts = list(content or ())
    text = "\n".join(
        part if isinstance(part, str) else str(getattr(part, "content", ""))
        for part in parts
        if isinstance(part, str) or getattr(part, "kind", None) == "text-content"
    )
    rest = [
        to_json(part)[0]
        for part in parts
        if getattr(part, "kind", "text") not in {"text", "text-content"}
    ]
    return MessagePart(sort="user", text=plain(text), extra={"attachments": rest} if rest else {})


def text_of(message: ModelResponse) -> str:
    """Return what a model says in an answer."""
    texts = [part.content for part in message.parts if isinstance(part, TextPart)]
    return plain("\n".join(text for text in texts if text))


def reply_of(message: ModelResponse) -> Reply:
    """Return an answer of a model in the form of all runtimes."""
    thoughts = [part for part in message.parts if isinstance(part, ThinkingPart)]
    sealed = tuple(
        {"thinking": plain(part.content or ""), "signature": part.signature}
        for part in thoughts
        if part.signature
    )
    open_thoughts = [part.content for part in thoughts if not part.signature and part.content]
    calls = any(isinstance(part, ToolCallPart) for part in message.parts)
    used = message.usage
    usage = None
    if used.input_tokens or used.output_tokens:
        usage = UsageReported(
            model=message.model_name,
            provider=message.provider_name,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cached_tokens=used.cache_read_tokens,
            total_tokens=used.input_tokens + used.output_tokens,
        )
    return Reply(
        text=text_of(message),
        thinking=plain("\n".join(open_thoughts)) or None,
        sealed=sealed,
        model=message.model_name,
        provider=message.provider_name,
        stop_reason="tool_use" if calls else "stop",
        usage=usage,
    )
