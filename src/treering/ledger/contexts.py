"""Contexts of a session: what a model is shown next, and what it was shown before."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict

import msgspec

from treering.context.assemble import Context, ContextTarget, Contribution, assemble, contribution
from treering.context.attachments import media_tokens_of
from treering.context.budgets import Budget
from treering.context.dialects import Dialect, check_dialect
from treering.context.tokens import Counter, exact_counter
from treering.errors import InvalidInput, NotFound, TreeringError
from treering.ledger.paging import pages_by_time
from treering.ledger.windows import read_window
from treering.model.codec import canonical
from treering.model.events import Event, Header
from treering.model.fields import check_text
from treering.model.messages import Repair
from treering.model.parts import ContextAssembled, safe_part
from treering.model.queries import PAGE_ITEMS_MAX, Query
from treering.spine.showing import ContextRecord

if TYPE_CHECKING:
    from treering.ledger.lineage import Lineage, Segment
    from treering.model.tools import SyntheticPolicy

DIALECT_DEFAULT: Final[Dialect] = "openai-chat"
WORKING_EVENTS: Final = 100
"""Events that a contributor is given when it does not say how many."""


class Contributor(Protocol):
    """Adds temporary input to one model call. What it returns is never stored."""

    @property
    def name(self) -> str:
        """Return its name in reports."""

    def extend(self, working: Working) -> Any:
        """Return texts, or items in any provider's shape, for this call alone."""


class Working:
    """What a contributor can read, and its only way to write."""

    def __init__(
        self, lineage: Lineage, run_id: str | None, record: Callable[..., Header | None]
    ) -> None:
        self._lineage = lineage
        self._run_id = run_id
        self._record = record
        self.memory_ids: list[str] = []
        """The ids of memories in its text; add them here to have their use recorded."""

    @property
    def session_id(self) -> str:
        """Return the session of the call."""
        return self._lineage.session_id

    @property
    def run_id(self) -> str | None:
        """Return the run of the call; None if the context is only previewed."""
        return self._run_id

    def events(self, *, last: int = WORKING_EVENTS) -> list[Event]:
        """Return the last events that the model may see, including those of this turn."""
        if last <= 0:
            return []
        window = read_window(self._lineage, tokens=None, events=last, run_id=self._run_id)
        return [*window.lead, *window.events][-last:]

    def append(self, kind: str, payload: Any = None, **content: Any) -> Header | None:
        """Record an event: all else from a contributor is temporary."""
        return self._record(kind, payload, **content)


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A context that a model was shown."""

    event_id: str
    """The id of its event."""
    seq: int
    run_id: str | None
    ts_ms: int
    context: Context
    exact: bool
    """False if its content was erased since, or would be assembled differently today."""


class EstimateOptions(TypedDict, total=False):
    """How tokens are estimated."""

    model: str | None
    count: Counter | None


class ContextRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a context is assembled for."""

    max_tokens: int | None
    dialect: str
    contributors: Sequence[Contributor] = ()
    reserve_output_tokens: int = 0
    system: str = ""
    tools: Any = None
    model: str | None = None
    """The model to be called: its usage reports calibrate the estimate."""
    count: Counter | None = None
    """Counts tokens, instead of the built-in estimate."""

    def __post_init__(self) -> None:
        """Raise InvalidInput if ``model`` or ``count`` has a wrong type."""
        if self.model is not None:
            check_text(self.model, "model")
        if self.count is not None and not callable(self.count):
            raise InvalidInput(
                f"count is a {type(self.count).__name__}", hint="give a function of a text"
            )


class Contexts:
    """Assembles what a session's model is shown."""

    def __init__(self, lineage: Lineage, policy: Callable[[], SyntheticPolicy]) -> None:
        self._lineage = lineage
        self._policy = policy

    def assemble(
        self,
        request: ContextRequest,
        *,
        prepended: str | None = None,
        run_id: str | None = None,
        record: Callable[..., Header | None],
    ) -> Context:
        """Return what the model is shown now; ``record`` is how contributors write.

        Gates put ``prepended`` before the user's words.
        """
        spelling = check_dialect(request.dialect)
        limit = _check_tokens(request.max_tokens, request.reserve_output_tokens)
        canonical([request.system, request.tools], "system and tools")
        working = Working(self._lineage, run_id, record)
        contributions, failures = _ask(request.contributors, working)
        if prepended:
            contributions.append(contribution("gates", prepended))
        # A contributor may have written: the window is read after it.
        window = read_window(
            self._lineage,
            tokens=limit,
            run_id=run_id,
            model=request.model,
            media_tokens=lambda media: media_tokens_of(media, spelling, request.model),
        )
        context = assemble(
            window,
            ContextTarget(
                dialect=spelling,
                model=request.model,
                max_tokens=request.max_tokens,
                reserve_output_tokens=request.reserve_output_tokens,
            ),
            policy=self._policy(),
            system=request.system,
            tools=request.tools,
            contributions=contributions,
            budget=None if request.count is None else Budget(count=request.count, margin=1.0),
        )
        return msgspec.structs.replace(context, report=[*context.report, *failures])

    def shown(self, run_ids: Sequence[str], *, last: int) -> list[Shown]:
        """Reconstruct what models were shown in some runs; without runs, the last times.

        Contexts that were erased, or recorded by another system, are left out.
        """
        events = self._assembled_in(run_ids) if run_ids else self._last_assembled(last)
        made: list[Shown] = []
        for event in events:
            with contextlib.suppress(NotFound):
                made.append(self._made_again(event))
        return made

    def _made_again(self, event: Event) -> Shown:
        """Return what a model was shown, as the event of its assembly says."""
        asked = _asked(event)
        before_seq = event.seq if asked.until_seq is None else asked.until_seq + 1
        spelling, model = check_dialect(asked.dialect), _model_of(event)
        window = read_window(
            self._lineage,
            tokens=asked.limit,
            run_id=event.run_id,
            before_seq=before_seq,
            media_tokens=lambda media: media_tokens_of(media, spelling, model),
        )
        context = assemble(
            msgspec.structs.replace(window, ratio=asked.ratio),
            ContextTarget(
                dialect=spelling,
                model=model,
                max_tokens=asked.max_tokens,
                reserve_output_tokens=asked.reserve_output_tokens,
            ),
            policy=self._policy(),
            budget=_budget_of(asked),
            fixed_tokens=asked.fixed_tokens,
        )
        return Shown(
            event_id=event.event_id,
            seq=event.seq,
            run_id=event.run_id,
            ts_ms=event.ts_ms,
            context=context,
            # Earlier versions recorded the digest of the texts.
            exact=asked.digest in {context.recipe, context.digest},
        )

    def _assembled_in(self, run_ids: Sequence[str]) -> Iterator[Event]:
        """Return the assemblies of some runs, in order."""
        store, scope = self._lineage.store, self._lineage.scope
        for segment in reversed(list(self._lineage.segments())):
            for run_id in run_ids:
                for event in store.reader.by_run(Event, scope, segment.session_id, run_id):
                    if event.kind == "context.assembled" and segment.holds(event.seq):
                        yield event

    def _last_assembled(self, count: int) -> list[Event]:
        """Return the last assemblies, in order."""
        events: list[Event] = []
        for segment in self._lineage.segments():
            if len(events) >= count:
                break
            events += islice(self._assembled_backwards(segment, count), count - len(events))
        return events[::-1]

    def _assembled_backwards(self, segment: Segment, count: int) -> Iterator[Event]:
        query = Query(
            scope=self._lineage.scope,
            session_id=segment.session_id,
            kinds=("context.assembled",),
            limit=min(count, PAGE_ITEMS_MAX),
            backwards=True,
        )
        for page in pages_by_time(self._lineage.store, Event, query):
            # A session may have continued after it was forked.
            yield from (event for event in reversed(page) if segment.holds(event.seq))


def _model_of(event: Event) -> str | None:
    """Return the model that was asked, if it was named."""
    part = safe_part(event.kind, event.refs)
    return part.model if isinstance(part, ContextAssembled) else None


def _budget_of(asked: ContextRecord) -> Budget | None:
    """Return how the tokens of a context were counted; None if that is not possible again."""
    if asked.counter is None:
        return None
    try:
        count = exact_counter(asked.counter)
    except TreeringError:
        # Somebody's own, or one that is not installed here: what comes out may be another context.
        return None
    return Budget(count=count, margin=1.0, ratio=asked.ratio)


def _asked(event: Event) -> ContextRecord:
    """Return the request for a context. Raises NotFound if the event does not have it."""
    try:
        if event.kind == "context.assembled" and not event.redacted:
            return msgspec.convert(event.payload, ContextRecord, strict=False)
    except msgspec.ValidationError:
        pass
    raise NotFound(
        f"event {event.event_id} does not say what a model was shown",
        hint="name one of kind context.assembled",
    )


def _ask(
    contributors: Sequence[Contributor], working: Working
) -> tuple[list[Contribution], list[Repair]]:
    """Return the input of contributors; one that fails is reported, and left out."""
    given: list[Contribution] = []
    failures: list[Repair] = []
    for contributor in contributors:
        name = type(contributor).__name__
        working.memory_ids = []
        try:
            name = str(getattr(contributor, "name", None) or name)
            given.append(contribution(name, contributor.extend(working), working.memory_ids))
        except Exception as error:  # noqa: BLE001 - somebody else's code must not cost the call.
            detail = f"{name}: {type(error).__name__}"
            failures.append(Repair(code="contributor_failed", detail=detail))
    return given, failures


def _check_tokens(max_tokens: int | None, reserve: int) -> int | None:
    """Return the tokens for the input. Raises InvalidInput."""
    for name, value in (("max_tokens", max_tokens), ("reserve_output_tokens", reserve)):
        if value is not None and (type(value) is not int or value < 0):
            raise InvalidInput(
                f"invalid {name}: {value}", hint="give a number of tokens, 0 or more"
            )
    return None if max_tokens is None else max(max_tokens - reserve, 0)
