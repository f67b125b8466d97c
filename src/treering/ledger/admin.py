"""Administration of a ledger: proofs, anchors, copies, exports and rebuilds."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import msgspec

from treering.derive.search_texts import event_texts, search_text
from treering.errors import InvalidInput, NotFound
from treering.ledger.copying import copy
from treering.ledger.derived import SAMPLE, Rules, compare_derived, find_stray
from treering.ledger.exporting import write_export
from treering.ledger.rekeying import rekey
from treering.ledger.restoring import read_export
from treering.ledger.scopes import scope_names
from treering.ledger.search import catch_up
from treering.ledger.search_meaning import masked
from treering.ledger.spans import SpanBuilder
from treering.ledger.verification import (
    check_anchor,
    find_flaw,
    verify_part,
    with_coverage,
    write_anchor,
)
from treering.memory.records import INDEX_NAMES
from treering.model.arguments import checks_arguments
from treering.model.receipts import VectorsReceipt, Verification
from treering.model.scopes import Scope, parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from treering.ledger.drafts import Drafter
    from treering.ledger.jsonl import Payloads
    from treering.ledger.ledger import Ledger
    from treering.ledger.memory_factory import MemoryFactory
    from treering.ledger.people import People
    from treering.ledger.ports import Clock, EventStore
    from treering.model.events import Event
    from treering.model.receipts import (
        AnchorReceipt,
        Broken,
        CopyReceipt,
        ExportReceipt,
        Physical,
        RebuildReceipt,
        RestoreReceipt,
    )


@checks_arguments
class LedgerAdmin:
    """Operations on a whole ledger: ``ledger.admin``."""

    def __init__(
        self,
        store: EventStore,
        *,
        drafter: Drafter,
        clock: Clock,
        memory_factory: MemoryFactory,
        people: People,
    ) -> None:
        self._store = store
        self._drafter = drafter
        self._clock = clock
        self._memory_factory = memory_factory
        self._people = people

    def verify(
        self,
        scope: str | None = None,
        *,
        session_id: str | None = None,
        anchor: IO[bytes] | None = None,
        derived: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Verification:
        """Prove one session, one scope or, with no argument, the whole ledger.

        ``derived`` also compares every derived row with the events; ``rebuild`` corrects rows that
        differ.
        """
        if session_id is not None and scope is None:
            raise InvalidInput("a session needs its scope", hint="name the scope")
        name = None if scope is None else parse_scope(scope)
        result = verify_part(self._store, name, session_id, progress)
        if session_id is not None and not result.sessions:
            broken = find_flaw(self._store, name)
            if broken is not None:  # It may be the one that is missing.
                return msgspec.structs.replace(result, intact=False, first_broken=broken)
            raise NotFound(f"no session {session_id} in scope {scope}", hint="check both names")
        if derived and result.intact:
            scopes = scope_names(self._store) if name is None else [name]
            rows, broken = compare_derived(self._store, scopes, self._rules())
            if name is None:
                broken = broken or find_stray(self._store)
            result = self._with_derived(result, rows, broken)
        if anchor is None:
            return result
        anchored, broken = check_anchor(self._store, anchor, name)
        first = result.first_broken or broken
        compared = msgspec.structs.replace(
            result, intact=first is None, first_broken=first, anchored_sessions=anchored
        )
        return with_coverage(compared, ["anchor"])

    def span_builder(self, *, with_content: bool) -> SpanBuilder:
        """Return a converter from runs to OpenTelemetry spans, with texts if ``with_content``."""
        return SpanBuilder(self._store, with_content=with_content)

    def sample_derived(self, scope: str | None = None) -> Verification:
        """Compare a sample of the derived rows of a scope, or of several, with the events.

        The events themselves are not verified.
        """
        names = scope_names(self._store)
        scopes = names[: SAMPLE.scopes] if scope is None else [parse_scope(scope)]
        compared = compare_derived(self._store, scopes, self._rules(), SAMPLE)
        nothing = Verification(
            intact=True, sessions=0, events=0, redacted=0, expired=0, sealed=0, broken_sessions=0,
            first_broken=None,
        )  # fmt: skip
        return self._with_derived(nothing, *compared)

    def rebuild(self) -> RebuildReceipt:
        """Delete all derived data, and rebuild it from the events."""
        searched = self._store.words.scopes()
        shelved = self._memory_factory.shelved(scope_names(self._store))
        receipt = self._store.rebuild()
        for scope in searched:
            self.index(scope)
        scopes = scope_names(self._store)
        self._memory_factory.rebuild(scopes, shelved, self._texts)
        return msgspec.structs.replace(receipt, documents=self._documents(scopes))

    def rebuild_vectors(
        self, scope: str | None = None, *, progress: Callable[[int], None] | None = None
    ) -> VectorsReceipt:
        """Compute all vectors again, in one scope or all, with the current embedder.

        Until then, texts with vectors of another embedder are found by words only. ``progress`` is
        called with the number of events done since its last call.
        """
        scopes = scope_names(self._store) if scope is None else [parse_scope(scope)]
        embedder = self._memory_factory.embedder()
        if embedder is not None:
            # An embedder that does not answer must not cost the vectors that are there.
            embedder.embed(["a text"])
        shelved = self._memory_factory.shelved(scopes)
        for name in scopes:
            self._store.memory.drop_documents(name)
        self._memory_factory.rebuild(scopes, shelved, self._texts, progress)
        return VectorsReceipt(
            scopes=len(scopes),
            documents=self._documents(scopes),
            embedder=None if embedder is None else embedder.name,
        )

    def anchor(self, stream: IO[bytes]) -> AnchorReceipt:
        """Write the root over all session heads to ``stream``, for ``verify`` to check later."""
        return write_anchor(self._store.sessions.records(), stream, at_ms=self._clock())

    def export(
        self,
        scope: str,
        stream: IO[bytes],
        *,
        session_id: str | None = None,
        payloads: Payloads = "withheld",
        progress: Callable[[int], None] | None = None,
    ) -> ExportReceipt:
        """Write a scope, or one session, as native JSONL.

        ``payloads="included"`` makes a full copy that ``restore`` reads back; without payloads the
        export is for reading only.
        """
        if payloads not in {"included", "withheld"}:
            raise InvalidInput(f"invalid payloads: {payloads}", hint="use included or withheld")
        return write_export(
            self._store,
            parse_scope(scope),
            stream,
            session_id=session_id,
            payloads=payloads,
            at_ms=self._clock(),
            progress=progress,
        )

    def restore(
        self, stream: IO[bytes], *, progress: Callable[[int], None] | None = None
    ) -> RestoreReceipt:
        """Read native JSONL back, chain included; existing events are not duplicated."""
        return read_export(self._store, stream, progress)

    def copy_to(
        self,
        target: Ledger,
        *,
        scope: str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> CopyReceipt:
        """Copy to ``target`` the events it lacks, of one scope or of all; verify the chain there.

        An interrupted copy continues where it stopped. Sessions that cannot be copied are reported;
        the others are copied. ``progress`` is called with the events done and their total.
        """
        name = None if scope is None else parse_scope(scope)
        other: LedgerAdmin = target.admin
        return copy(self._store, other._store, name, progress)

    def index(
        self, scope: str | None = None, *, progress: Callable[[int], None] | None = None
    ) -> int:
        """Bring the search index of a scope, or of all scopes, up to date.

        Return how many events that took. A search updates the index of its scope automatically.
        """
        scopes = scope_names(self._store) if scope is None else [parse_scope(scope)]
        guard = self._drafter.guard()
        return sum(catch_up(self._store, guard, name, progress) for name in scopes)

    def search_lag(self, scope: str) -> int:
        """Return how many events of a scope the search index does not contain yet."""
        return self._store.words.lag(parse_scope(scope))

    def lags(self, scope: str) -> dict[str, int]:
        """Return how many events of a scope each projection has not processed yet, by its name.

        Answers are always complete: a projection is brought up to date when it is queried.
        """
        name = parse_scope(scope)
        return {projection.name: projection.lag(name) for projection in self._store.projections}

    def erasure_state(self) -> Physical:
        """Return ``done`` if the bytes of erased content are gone from all files, else ``pending``.

        Every erasure tries to remove them at once; readers that are open meanwhile delay it.
        """
        return self._store.erasure.state()

    def rekey(self) -> int:
        """Hide ids that earlier versions derived from erased words; return how many.

        Opening a ledger does it once.
        """
        return rekey(self._store, self._drafter)

    def joined_users(self, scope: str) -> dict[str, list[tuple[str, str]]]:
        """Return users with unlinked main sessions on several channels, with channels and handles.

        They may be several people.
        """
        return self._people.joined(parse_scope(scope))

    def relinked_handles(self, scope: str) -> list[tuple[str, str, str, str]]:
        """Return channel and handle of main sessions that were opened for another user.

        Each with that user and the one that the handle is linked to now.
        """
        return self._people.relinked(parse_scope(scope))

    def _rules(self) -> Rules:
        guard = self._drafter.guard()
        return Rules(
            search_text=lambda event: search_text(masked(guard, event)),
            event_texts=self._texts,
            embedder=self._memory_factory.embedder(),
            fact_embedder=self._memory_factory.fact_embedder(),
        )

    def _with_derived(
        self, result: Verification, rows: dict[str, int], broken: Broken | None
    ) -> Verification:
        compared = msgspec.structs.replace(
            result, intact=broken is None, first_broken=broken, derived_rows=rows
        )
        return with_coverage(compared, ["derived"])

    def _documents(self, scopes: Iterable[Scope]) -> int:
        return sum(
            self._store.memory.index_state(scope, name).count
            for scope in scopes
            for name in INDEX_NAMES
        )

    def _texts(self, event: Event) -> list[str]:
        return event_texts(masked(self._drafter.guard(), event))
