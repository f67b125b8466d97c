"""The types of ``treering.aio``. Written by scripts/make_aio_types.py."""

from collections.abc import Awaitable
from collections.abc import Callable
from collections.abc import Generator
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from datetime import tzinfo
import os
import threading
from treering import async_objects
from treering.app import ModelOptions
from treering.async_objects import AsyncItems as AsyncItems
from treering.async_objects import AsyncObject as AsyncObject
from treering.context.assemble import Context
from treering.context.summaries import Summariser
from treering.context.tokens import Counter
from treering.ledger.admin import LedgerAdmin
from treering.ledger.contexts import Contributor
from treering.ledger.contexts import EstimateOptions
from treering.ledger.contexts import Shown
from treering.ledger.drafts import GuardMode
from treering.ledger.erasure import Replacement
from treering.ledger.families import Family
from treering.ledger.following import Follower
from treering.ledger.import_access import Bookmarks
from treering.ledger.import_access import ImportAccess
from treering.ledger.jsonl import Payloads
from treering.ledger.keyed_records import KeyedRecord
from treering.ledger.keyed_records import KeyedRecords
from treering.ledger.keyed_records import LedgerRecords
from treering.ledger.keyed_records import RecordAccess
from treering.ledger.keyed_records import RecordChange
from treering.ledger.keys import LedgerKeys
from treering.ledger.ledger import Ledger
from treering.ledger.records import EventLocation
from treering.ledger.runs import RunOutline
from treering.ledger.runs import RunView
from treering.ledger.scopes import ScopeOutline
from treering.ledger.sessions import Session
from treering.ledger.spans import SpanBuilder
from treering.locks import Lock
from treering.memory.contributor import MemoryContributor
from treering.memory.identity import UserIdentities
from treering.memory.memory import Memory
from treering.memory.ports import Embedder
from treering.memory.ports import Extractor
from treering.memory.recall_query import RankingOptions
from treering.memory.recall_result import RecallResult
from treering.model.events import Event
from treering.model.events import EventFields
from treering.model.events import Header
from treering.model.events import NewEvent
from treering.model.kinds import Boundary
from treering.model.memories import Category
from treering.model.memories import DoubtfulChange
from treering.model.memories import Episode
from treering.model.memories import ExtractReceipt
from treering.model.memories import Fact
from treering.model.memories import FactAudit
from treering.model.memories import FactChange
from treering.model.memories import FactDetails
from treering.model.memories import FactState
from treering.model.memories import FadeReceipt
from treering.model.memories import LearnResult
from treering.model.memories import MaintenanceReceipt
from treering.model.memories import MergeReceipt
from treering.model.memories import NewFact
from treering.model.memories import Origin
from treering.model.memories import UserHandle
from treering.model.parts import SessionClosed
from treering.model.queries import EventFilters
from treering.model.queries import Page
from treering.model.receipts import AnchorReceipt
from treering.model.receipts import CopyReceipt
from treering.model.receipts import DestroyReceipt
from treering.model.receipts import ExpireReceipt
from treering.model.receipts import ExportReceipt
from treering.model.receipts import ForgetReceipt
from treering.model.receipts import KeyGeneration
from treering.model.receipts import KeyReceipt
from treering.model.receipts import Physical
from treering.model.receipts import RebuildReceipt
from treering.model.receipts import RedactReceipt
from treering.model.receipts import RestoreReceipt
from treering.model.receipts import SweepReceipt
from treering.model.receipts import VectorsReceipt
from treering.model.receipts import Verification
from treering.model.scopes import Retention
from treering.model.scopes import Scope
from treering.model.searches import SearchResult
from treering.model.sessions import Isolation
from treering.model.sessions import Mode
from treering.model.sessions import SessionFilters
from treering.model.sessions import SessionOptions
from treering.model.sessions import SessionOutline
from treering.model.sessions import SessionSettings
from treering.model.sessions import SessionState
from treering.model.tools import Order
from treering.model.tools import Reason
from treering.model.tools import SyntheticPolicy
from treering.model.tools import ToolFilters
from treering.model.tools import ToolRecord
from treering.model.tools import ToolStatistics
from treering.model.views import Counts
from treering.model.views import Goal
from treering.model.views import MemoryRecord
from treering.model.views import Message
from treering.model.views import Schedule
from treering.model.views import TurnView
from treering.model.views import Usage
from treering.spine.dispatcher import Spine
from treering.spine.off_loop import Lanes as Lanes
from treering.spine.ports import Sink
from treering.spine.run_state import State
from treering.spine.runs import F
from treering.spine.runs import Run
from treering.spine.runs import ToolCall
from treering.spine.tools import Tools
from treering.storage import Durability
from treering.storage import Mode as Mode_
from typing import Any
from typing import IO
from typing import Unpack
from typing import overload

class AsyncLedger(async_objects.AsyncLedger):
    sync: Ledger
    @property
    def admin(self) -> AsyncLedgerAdmin: ...
    async def append(
        self, events: Sequence[NewEvent], *, expected_seq: int | None = ...
    ) -> list[Header]: ...
    async def append_new(self, event: NewEvent) -> Header: ...
    @property
    def embedder(self) -> Embedder | None: ...
    async def end_cursor(self, scope: str) -> str: ...
    async def event(self, scope: str, event_id: str) -> Event: ...
    async def event_ids(self, scope: str, prefix: str, *, limit: int = ...) -> list[str]: ...
    async def events(
        self,
        scope: str,
        *,
        first: int | None = ...,
        last: int | None = ...,
        after: str | None = ...,
        **filters: Unpack[EventFilters],
    ) -> Page[Event]: ...
    async def expire(
        self,
        scope: str,
        *,
        policy: Retention | None = ...,
        now_ms: int | None = ...,
        dry_run: bool = ...,
    ) -> ExpireReceipt: ...
    async def families(
        self, scope: str, *, limit: int = ..., after: str | None = ...
    ) -> Page[Family]: ...
    async def family(self, scope: str, session_id: str) -> Family: ...
    async def find_ids(self, scope: str, event_ids: Sequence[str]) -> dict[str, EventLocation]: ...
    def follow(
        self,
        scope: str,
        *,
        after: str | None = ...,
        committed: bool = ...,
        idle_s: float | None = ...,
        stop: threading.Event | None = ...,
    ) -> AsyncItems[Header]: ...
    def follow_events(
        self,
        scope: str,
        *,
        after: str | None = ...,
        committed: bool = ...,
        idle_s: float | None = ...,
        stop: threading.Event | None = ...,
    ) -> AsyncItems[Event]: ...
    async def forget(
        self,
        scope: str,
        *,
        user: str,
        dry_run: bool = ...,
        progress: Callable[[int], None] | None = ...,
    ) -> ForgetReceipt: ...
    async def generation(self, scope: str, session_id: str) -> int: ...
    def group_session(
        self,
        channel: str,
        group_id: str,
        *,
        scope: str,
        agent: str,
        participants: Sequence[str] = ...,
        tools: Sequence[str] | None = ...,
        isolation: Isolation | None = ...,
    ) -> AsyncSession: ...
    async def headers(
        self,
        scope: str,
        *,
        first: int | None = ...,
        last: int | None = ...,
        after: str | None = ...,
        **filters: Unpack[EventFilters],
    ) -> Page[Header]: ...
    importing: AsyncImportAccess
    @property
    def keys(self) -> AsyncLedgerKeys: ...
    async def main_session(
        self, channel: str, user: str, *, scope: str, agent: str
    ) -> AsyncSession: ...
    async def maintain(
        self,
        scope: str,
        *,
        model: Extractor | None = ...,
        budget_tokens: int | None = ...,
        idle_minutes: float = ...,
        progress: Callable[[int], None] | None = ...,
    ) -> MaintenanceReceipt: ...
    async def matches_elsewhere(
        self, query: str, *, scope: str, include_failed: bool = ..., zone: tzinfo = ...
    ) -> int: ...
    def memory(self, scope: str) -> AsyncMemory: ...
    async def own_retention(self, scope: str) -> Retention: ...
    async def prune(
        self,
        scope: str,
        *,
        older_than_days: float,
        include_imported: bool = ...,
        now_ms: int | None = ...,
        dry_run: bool = ...,
    ) -> SweepReceipt: ...
    @property
    def record_access(self) -> LedgerRecords: ...
    def records(
        self,
        scope: str,
        name: str,
        *,
        session_id: str | None = ...,
        agent: str = ...,
        access: RecordAccess | None = ...,
    ) -> AsyncKeyedRecords: ...
    async def recover(self, scope: str | None = ...) -> int: ...
    async def redact(
        self,
        scope: str,
        *,
        event_id: str | None = ...,
        session_id: str | None = ...,
        event_ids: Sequence[str] | None = ...,
        replacement: Replacement = ...,
    ) -> RedactReceipt: ...
    async def replay(
        self, scope: str, session_id: str, *, first: int | None = ..., after: str | None = ...
    ) -> Page[Header]: ...
    async def replay_events(
        self, scope: str, session_id: str, *, first: int | None = ..., after: str | None = ...
    ) -> Page[Event]: ...
    async def retention(self, scope: str) -> Retention: ...
    async def run(self, scope: str, run_id: str, *, session_id: str | None = ...) -> RunOutline: ...
    def run_events(self, scope: str, session_id: str, run_id: str) -> AsyncItems[Event]: ...
    def run_headers(self, scope: str, session_id: str, run_id: str) -> AsyncItems[Header]: ...
    async def run_ids(
        self, scope: str, *, session_id: str | None = ..., limit: int = ..., after: str | None = ...
    ) -> Page[str]: ...
    async def run_view(
        self,
        scope: str,
        run_id: str,
        *,
        session_id: str | None = ...,
        events_max: int = ...,
        progress: Callable[[int], None] | None = ...,
    ) -> RunView: ...
    async def runs(
        self,
        scope: str,
        *,
        session_id: str | None = ...,
        since_ms: int | None = ...,
        until_ms: int | None = ...,
        failing: bool = ...,
        limit: int = ...,
        after: str | None = ...,
    ) -> Page[RunOutline]: ...
    async def scopes(self, *, limit: int = ..., after: str | None = ...) -> Page[ScopeOutline]: ...
    async def search(
        self,
        query: str,
        *,
        scope: str | Sequence[str] | None = ...,
        all_scopes: bool = ...,
        mode: str = ...,
        limit: int = ...,
        include_failed: bool = ...,
        zone: tzinfo = ...,
        progress: Callable[[int], None] | None = ...,
    ) -> SearchResult: ...
    def session(
        self,
        session_id: str,
        *,
        scope: str,
        agent: str,
        user: str | None = ...,
        mode: Mode | None = ...,
        **settings: Unpack[SessionOptions],
    ) -> AsyncSession: ...
    async def session_ids(self, scope: str) -> list[str]: ...
    async def sessions(
        self,
        scope: str | Sequence[str] | None = ...,
        *,
        all_scopes: bool = ...,
        since_ms: int | None = ...,
        until_ms: int | None = ...,
        state: SessionState | Sequence[SessionState] = ...,
        subagents: bool = ...,
        limit: int = ...,
        after: str | None = ...,
        **names: Unpack[SessionFilters],
    ) -> Page[SessionOutline]: ...
    async def set_retention(self, scope: str, policy: Retention) -> None: ...
    async def spine(
        self, sinks: Sequence[Sink] = ..., *, synthetic: SyntheticPolicy | None = ...
    ) -> Spine: ...
    async def sweep(
        self,
        scope: str,
        *,
        idle_minutes: float | None = ...,
        prune_days: float | None = ...,
        include_imported: bool = ...,
        now_ms: int | None = ...,
        dry_run: bool = ...,
    ) -> SweepReceipt: ...
    async def tool_calls(
        self,
        scope: str,
        *,
        status: str | Sequence[str] | None = ...,
        reason: str | None = ...,
        order: Order = ...,
        first: int | None = ...,
        last: int | None = ...,
        after: str | None = ...,
        progress: Callable[[int], None] | None = ...,
        **filters: Unpack[ToolFilters],
    ) -> Page[ToolRecord]: ...
    async def tool_statistics(
        self,
        scope: str,
        *,
        session_id: str | None = ...,
        tool: str | None = ...,
        since_ms: int | None = ...,
        until_ms: int | None = ...,
        progress: Callable[[int], None] | None = ...,
    ) -> list[ToolStatistics]: ...
    async def with_masking(self) -> AsyncLedger: ...

class AsyncSession(async_objects.AsyncSession):
    sync: Session
    agent: str
    async def append(
        self, events: Sequence[NewEvent], *, expected_seq: int | None = ...
    ) -> list[Header]: ...
    async def boundary(self, reason: Boundary, title: str, content: str | None = ...) -> Header: ...
    async def checkpoint(self, title: str, content: str | None = ...) -> Header: ...
    async def close(
        self, reason: str | SessionClosed = ..., *, expected_seq: int | None = ...
    ) -> Header: ...
    async def compact(
        self, max_tokens: int | None = ..., *, keep: int = ..., summariser: Summariser | None = ...
    ) -> Header | None: ...
    async def compact_if_needed(self, max_tokens: int) -> None: ...
    async def context(
        self,
        max_tokens: int | None = ...,
        *,
        dialect: str = ...,
        contributors: Sequence[Contributor] = ...,
        reserve_output_tokens: int = ...,
        system: str = ...,
        tools: Sequence[Any] = ...,
        turn: Run | AsyncRun | None = ...,
        **estimates: Unpack[EstimateOptions],
    ) -> Context: ...
    def events(
        self,
        *,
        kinds: str | Sequence[str] = ...,
        turn_id: str | None = ...,
        first: int | None = ...,
        last: int | None = ...,
        after_seq: int = ...,
    ) -> AsyncItems[Event]: ...
    async def fork(
        self,
        session_id: str | None = ...,
        *,
        at: str | None = ...,
        agent: str | None = ...,
        title: str | None = ...,
        whole_turn: bool = ...,
        ts_ms: int | None = ...,
    ) -> AsyncSession: ...
    async def goals(self) -> list[Goal]: ...
    def headers(
        self,
        *,
        kinds: str | Sequence[str] = ...,
        turn_id: str | None = ...,
        first: int | None = ...,
        last: int | None = ...,
        after_seq: int = ...,
    ) -> AsyncItems[Header]: ...
    async def hide(self, event_ids: Sequence[str]) -> Header: ...
    async def history(self, *, last: int | None = ...) -> list[dict[str, Any]]: ...
    async def interrupt(self, why: str = ...) -> Header | None: ...
    async def is_addressed(
        self, text: str, *, names: Sequence[str] = ..., reply_to: str | None = ...
    ) -> bool: ...
    @property
    def isolation(self) -> Awaitable[Isolation | None]: ...
    @property
    def key(self) -> Awaitable[str | None]: ...
    def live_events(
        self, *, kinds: str | Sequence[str] = ..., last: int | None = ...
    ) -> AsyncItems[Event]: ...
    async def memories(self) -> list[MemoryRecord]: ...
    @property
    def memory_refs(self) -> Awaitable[list[str]]: ...
    def new_event(self, kind: str, summary: str, **fields: Any) -> NewEvent: ...
    async def open(self, *, ts_ms: int | None = ...) -> None: ...
    async def outline(self) -> SessionOutline: ...
    async def permits(self, tool: str) -> bool: ...
    async def post(self, text: str, *, event_id: str | None = ..., **content: Any) -> Header: ...
    async def record(
        self,
        kind: str,
        summary: str,
        *,
        payload: Any = ...,
        refs: Any = ...,
        event_id: str | None = ...,
        ts_ms: int | None = ...,
        **fields: Unpack[EventFields],
    ) -> Header: ...
    async def redo(self) -> Header: ...
    async def rename(self, title: str) -> Header: ...
    @property
    def running(self) -> AsyncRun | None: ...
    async def schedules(self) -> list[Schedule]: ...
    scope: Scope
    session_id: str
    @property
    def settings(self) -> Awaitable[SessionSettings]: ...
    async def shown(
        self, *, turn: int | None = ..., run_id: str | None = ..., last: int = ...
    ) -> list[Shown]: ...
    async def summary(self) -> Counts: ...
    async def take(self, *, wait_s: float = ...) -> AsyncRun | None: ...
    @property
    def template(self) -> NewEvent: ...
    def tool_calls(self, *, last: int | None = ...) -> AsyncItems[ToolRecord]: ...
    def turn(
        self,
        *,
        entry_point: str | None = ...,
        model: str | None = ...,
        prompt: str | None = ...,
        wait_s: float | None = ...,
    ) -> AsyncRun: ...
    @property
    def turn_wait_s(self) -> Awaitable[float]: ...
    def turns(self, *, last: int | None = ...) -> AsyncItems[TurnView]: ...
    async def undo(self, *, turns: int = ...) -> Header: ...
    async def usage(self) -> Usage: ...
    user: str | None
    async def write_episode(
        self, *, summariser: Summariser | None = ..., expected_seq: int | None = ...
    ) -> Header | None: ...

class AsyncRun(async_objects.AsyncRun):
    sync: Run
    @property
    def agent(self) -> str: ...
    async def assistant(self, text: str, **content: Any) -> Header: ...
    async def context(
        self,
        max_tokens: int | None = ...,
        *,
        dialect: str = ...,
        contributors: Sequence[Any] = ...,
        reserve_output_tokens: int = ...,
        system: str = ...,
        tools: Sequence[Any] = ...,
        model: str | None = ...,
        count: Counter | None = ...,
    ) -> Context: ...
    async def deliver(
        self,
        text: str,
        *,
        to: str | None = ...,
        by: str | None = ...,
        chunk: int | None = ...,
        media: Sequence[str] = ...,
        send: Callable[[str], object] | None = ...,
    ) -> Header | None: ...
    async def delta(self, text: str, **content: Any) -> None: ...
    async def emit(
        self,
        kind: str,
        payload: Mapping[str, Any] | None = ...,
        *,
        summary: str | None = ...,
        refs: Mapping[str, Any] | None = ...,
        origin: str = ...,
    ) -> Header | None: ...
    async def end(self) -> Header: ...
    async def fail(self, error: BaseException | str) -> Header: ...
    async def interrupt(self, why: str = ...) -> Header: ...
    @property
    def interrupted(self) -> bool: ...
    @property
    def is_open(self) -> bool: ...
    message: Message | None
    @property
    def prepend_context(self) -> str | None: ...
    @property
    def run_id(self) -> str: ...
    @property
    def session(self) -> AsyncSession: ...
    async def start(self) -> Header: ...
    @property
    def state(self) -> State: ...
    @property
    def system_prompt(self) -> str | None: ...
    async def thinking(self, text: str = ..., **content: Any) -> Header: ...
    @overload
    def tool(self, name: F, /) -> F: ...
    @overload
    def tool(self, name: str, input: Any = ..., *, call_id: str | None = ...) -> AsyncToolCall: ...
    @property
    def tools(self) -> Tools: ...
    @property
    def turn_id(self) -> str | None: ...
    async def user(self, text: str, **content: Any) -> Header: ...

class AsyncToolCall(async_objects.AsyncToolCall):
    sync: ToolCall
    call_id: str
    @property
    def duration_ms(self) -> int: ...
    async def fail(self, error: BaseException | str) -> Header: ...
    async def finish(self, output: Any = ...) -> Header: ...
    async def give_up(self, reason: Reason) -> Header: ...
    given_name: str | None
    input: Any
    intent: Header | None
    is_awaited: bool
    is_settled: bool
    lock: Lock
    outcome: Header | None
    started_at: float

class AsyncMemory(async_objects.AsyncMemory):
    sync: Memory
    async def accept(self, fact_id: str) -> Fact: ...
    async def audit(self) -> FactAudit: ...
    async def brief(
        self,
        *,
        user: str | None = ...,
        session_id: str | None = ...,
        limit: int = ...,
        episodes: int = ...,
        record: bool = ...,
    ) -> RecallResult: ...
    async def contributor(
        self,
        *,
        user: str | None = ...,
        session_id: str | None = ...,
        limit: int = ...,
        max_tokens: int = ...,
    ) -> MemoryContributor: ...
    async def doubts(self, *, user: str | None = ...) -> list[DoubtfulChange]: ...
    async def episodes(
        self, *, user: str | None = ..., limit: int = ..., after: str | None = ...
    ) -> Page[Episode]: ...
    async def extract(
        self,
        session_id: str | None = ...,
        *,
        model: Extractor | None = ...,
        budget_tokens: int = ...,
        again: bool = ...,
        progress: Callable[[int], None] | None = ...,
    ) -> ExtractReceipt: ...
    async def fact(self, fact_id: str) -> Fact: ...
    async def fact_ids(self, prefix: str, *, limit: int = ...) -> list[str]: ...
    async def facts(
        self,
        *,
        user: str | None = ...,
        state: FactState | Sequence[FactState] = ...,
        category: Category | None = ...,
        as_of_ms: int | None = ...,
        valid_at_ms: int | None = ...,
        limit: int = ...,
        after: str | None = ...,
    ) -> Page[Fact]: ...
    async def facts_citing(self, event_id: str) -> list[Fact]: ...
    async def fade(self, *, now_ms: int | None = ..., dry_run: bool = ...) -> FadeReceipt: ...
    async def history(self, fact_id: str) -> list[FactChange]: ...
    async def learn(
        self,
        text: str,
        *,
        user: str | None = ...,
        category: Category | None = ...,
        importance: int = ...,
        confidence: float = ...,
        evidence: Sequence[str] = ...,
        session_id: str | None = ...,
        origin: Origin = ...,
        **details: Unpack[FactDetails],
    ) -> LearnResult: ...
    async def learn_all(
        self, facts: Sequence[NewFact], *, progress: Callable[[int], None] | None = ...
    ) -> list[LearnResult]: ...
    async def note_recalled(
        self,
        ids: Sequence[str],
        *,
        user: str | None = ...,
        session_id: str | None = ...,
        run_id: str | None = ...,
    ) -> str: ...
    async def recall(
        self,
        query: str | None,
        *,
        user: str | None = ...,
        session_id: str | None = ...,
        limit: int = ...,
        episodes: int = ...,
        turns: int = ...,
        as_of_ms: int | None = ...,
        record: bool = ...,
        **ranking: Unpack[RankingOptions],
    ) -> RecallResult: ...
    async def reject(self, fact_id: str, *, reason: str | None = ...) -> Fact: ...
    scope: Scope
    async def settle(self, fact_id: str, *, ended: bool) -> Fact: ...
    users: AsyncUserIdentities
    async def write_episode(
        self, session: Session | AsyncSession, *, summariser: Summariser | None = ...
    ) -> Header | None: ...

class AsyncUserIdentities(async_objects.AsyncUserIdentities):
    sync: UserIdentities
    async def handles(self, user: str | None = ...) -> list[UserHandle]: ...
    async def ids_of(self, user: str) -> list[str]: ...
    async def link(self, user: str, channel: str, handle: str) -> UserHandle: ...
    async def merge(self, user: str, other: str) -> MergeReceipt: ...
    async def merged_into(self, user: str) -> str: ...
    async def resolve(self, channel: str, handle: str) -> str: ...
    async def unlink(self, channel: str, handle: str) -> str: ...
    async def unmerge(self, user: str, other: str) -> MergeReceipt: ...
    async def user_of(self, channel: str, handle: str) -> str | None: ...

class AsyncKeyedRecords(async_objects.AsyncKeyedRecords):
    sync: KeyedRecords
    ABSENT: str
    async def erase(self, keys: Sequence[str]) -> RedactReceipt | None: ...
    async def get(self, key: str) -> KeyedRecord | None: ...
    async def get_many(self, keys: Sequence[str]) -> dict[str, KeyedRecord]: ...
    def history(self, key: str) -> AsyncItems[KeyedRecord]: ...
    async def keys(self, prefix: str = ..., *, limit: int = ..., after: str = ...) -> list[str]: ...
    name: str
    async def put(self, key: str, value: Any, *, expected: str | None = ...) -> KeyedRecord: ...
    async def put_all(
        self, changes: Sequence[RecordChange], *, beside: Sequence[NewEvent] = ...
    ) -> list[KeyedRecord]: ...
    async def remove(self, keys: Sequence[str]) -> int: ...
    scope: Scope
    session_id: str
    async def versions(self, keys: Sequence[str]) -> dict[str, str]: ...

class AsyncLedgerAdmin(async_objects.AsyncLedgerAdmin):
    sync: LedgerAdmin
    async def anchor(self, stream: IO[bytes]) -> AnchorReceipt: ...
    async def copy_to(
        self,
        target: Ledger | AsyncLedger,
        *,
        scope: str | None = ...,
        progress: Callable[[int, int], None] | None = ...,
    ) -> CopyReceipt: ...
    async def erasure_state(self) -> Physical: ...
    async def export(
        self,
        scope: str,
        stream: IO[bytes],
        *,
        session_id: str | None = ...,
        payloads: Payloads = ...,
        progress: Callable[[int], None] | None = ...,
    ) -> ExportReceipt: ...
    async def index(
        self, scope: str | None = ..., *, progress: Callable[[int], None] | None = ...
    ) -> int: ...
    async def joined_users(self, scope: str) -> dict[str, list[tuple[str, str]]]: ...
    async def lags(self, scope: str) -> dict[str, int]: ...
    async def rebuild(self) -> RebuildReceipt: ...
    async def rebuild_vectors(
        self, scope: str | None = ..., *, progress: Callable[[int], None] | None = ...
    ) -> VectorsReceipt: ...
    async def rekey(self) -> int: ...
    async def relinked_handles(self, scope: str) -> list[tuple[str, str, str, str]]: ...
    async def restore(
        self, stream: IO[bytes], *, progress: Callable[[int], None] | None = ...
    ) -> RestoreReceipt: ...
    async def sample_derived(self, scope: str | None = ...) -> Verification: ...
    async def search_lag(self, scope: str) -> int: ...
    async def span_builder(self, *, with_content: bool) -> SpanBuilder: ...
    async def verify(
        self,
        scope: str | None = ...,
        *,
        session_id: str | None = ...,
        anchor: IO[bytes] | None = ...,
        derived: bool = ...,
        progress: Callable[[int], None] | None = ...,
    ) -> Verification: ...

class AsyncLedgerKeys(async_objects.AsyncLedgerKeys):
    sync: LedgerKeys
    async def accept_id_key(self, scope: str) -> None: ...
    async def create(self, scope: str) -> KeyReceipt: ...
    async def destroy(self, scope: str, *, generation: int | None = ...) -> DestroyReceipt: ...
    async def fits_id_key(self, scope: str) -> bool: ...
    async def list(self, scope: str | None = ...) -> list[KeyGeneration]: ...
    async def rotate(self, scope: str) -> KeyReceipt: ...

class AsyncImportAccess(async_objects.AsyncImportAccess):
    sync: ImportAccess
    async def append(
        self, events: Sequence[NewEvent], *, expected_seq: int | None = ...
    ) -> tuple[list[Header], list[str]]: ...
    async def append_missing(self, events: Sequence[NewEvent]) -> list[Header]: ...
    async def bookmarks(self, scope: str) -> Bookmarks: ...
    async def close_silent_runs(
        self, scope: str | None, *, prefix: str, silent_ms: int
    ) -> set[str]: ...
    async def id_key(self, scope: str | None = ...) -> bytes: ...
    async def is_unknown(self, scope: str, session_id: str) -> bool: ...
    async def rekeyed_ms(self) -> int | None: ...
    async def withdraw(self, scope: str, event_ids: Sequence[str]) -> None: ...

class AsyncLedgerOpening(async_objects.LedgerOpening):
    def __await__(self) -> Generator[Any, None, AsyncLedger]: ...
    async def __aenter__(self) -> AsyncLedger: ...

def open(
    location: str | os.PathLike[str],
    *,
    mode: Mode_ = ...,
    durability: Durability = ...,
    guard: GuardMode = ...,
    keys: str | os.PathLike[str] | None = ...,
    sinks: Sequence[Sink] = ...,
    synthetic: SyntheticPolicy | None = ...,
    token: str | None = ...,
    **models: Unpack[ModelOptions],
) -> AsyncLedgerOpening: ...
