"""Reading by a model: it is asked within a budget, its calls are recorded, its answers checked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from treering.derive.fact_extraction import Candidate
from treering.derive.fact_support import is_supported
from treering.errors import TreeringError
from treering.memory.allowance import ORIGIN, Allowance
from treering.memory.conversations import AttributedCandidate, shown
from treering.memory.events import AGENT
from treering.memory.records import MEMORY_SESSION
from treering.model.events import NAME_CHARACTERS_MAX, NewEvent
from treering.model.parts import Noted, UsageReported

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from treering.derive.fact_extraction import Utterance
    from treering.ledger.memory_factory import Recorder
    from treering.memory.conversations import ConversationPart, Spoken
    from treering.memory.ports import Extractor
    from treering.model.scopes import Scope

FAILURES_MAX: Final = 3
"""A model that failed so often in a row is not asked again."""
CONFIDENCE_MAX: Final = 0.9
"""No model is surer than a user who asks for something to be remembered."""

Count = Annotated[int, msgspec.Meta(ge=0)]


class Extraction(msgspec.Struct, frozen=True, kw_only=True):
    """What a model found in a conversation, and what that used."""

    candidates: tuple[Candidate, ...] = ()
    """Each with the ids of its messages, which also say who said it."""
    input_tokens: Count
    output_tokens: Count


class ModelReading:
    """Has a model read conversations of one scope."""

    def __init__(
        self, model: Extractor, recorder: Recorder, scope: Scope, *, budget_tokens: int
    ) -> None:
        self.name = str(model.name)[:NAME_CHARACTERS_MAX]
        self.calls = 0
        self.spent_tokens = 0
        self.proposed = 0
        """Candidates that the model gave, also those that nothing bears out."""
        self._model = model
        self._recorder = recorder
        self._scope = scope
        self._allowance = Allowance(recorder, scope, budget_tokens)
        self._failures = 0

    def affords(self, stretch: ConversationPart) -> bool:
        """Whether the model may be asked about a stretch, or is not going to be."""
        if self._is_given_up or not _is_heard(stretch):
            return True
        return self._allowance.permits([one.text for one in self._messages(stretch)])

    def read(self, stretch: ConversationPart) -> list[AttributedCandidate] | None:
        """Return what the model finds that was really said; None if it cannot be asked."""
        if self._is_given_up:
            return None
        if not _is_heard(stretch):
            return []
        messages = self._messages(stretch)
        self.calls += 1
        try:
            extraction = _checked(self._model(messages))
        except Exception as error:  # noqa: BLE001 - rules need no model, and none may stop them.
            self._failures += 1
            self._warn(error)
            return None
        self._failures = 0
        self._allowance.learn([one.text for one in messages], extraction.input_tokens)
        found = [_supported(one, stretch, messages) for one in extraction.candidates]
        kept = [one for one in found if one is not None]
        # What was used is told before what came of it: it is spent whatever happens next.
        self._report(extraction, unsupported=len(found) - len(kept))
        return kept

    @property
    def _is_given_up(self) -> bool:
        return self._failures >= FAILURES_MAX

    def _messages(self, stretch: ConversationPart) -> list[Utterance]:
        """Return what the model is shown: cut to size, and without secrets."""
        cut = [shown(one.utterance) for one in stretch.spoken]
        return [msgspec.structs.replace(one, text=self._recorder.masked(one.text)) for one in cut]

    def _report(self, extraction: Extraction, *, unsupported: int) -> None:
        used = UsageReported(
            model=self.name,
            input_tokens=extraction.input_tokens,
            output_tokens=extraction.output_tokens,
        ).as_refs()
        proposed = len(extraction.candidates)
        self.proposed += proposed
        self.spent_tokens += extraction.input_tokens + extraction.output_tokens
        counted = {**used, "candidates": proposed, "unsupported": unsupported}
        self._record("usage.reported", "usage reported", counted, used)

    def _warn(self, error: Exception) -> None:
        noted = Noted(code="model_not_heard", error_class=type(error).__name__).as_refs()
        # Only our own errors are known to quote nothing of the conversation.
        told = {"message": str(error)} if isinstance(error, TreeringError) else {}
        self._record("ops.warning", "facts found without the model", {**noted, **told}, noted)

    def _record(
        self, kind: str, summary: str, payload: dict[str, Any], refs: dict[str, Any]
    ) -> None:
        # Not in the session that is read: there, a model's name says who answered in it.
        event = NewEvent(
            scope=self._scope,
            session_id=MEMORY_SESSION,
            kind=kind,
            agent_id=AGENT,
            summary=summary,
            payload=payload,
            refs=refs,
            origin=ORIGIN,
        )
        self._recorder.engine.append([event])


def _is_heard(stretch: ConversationPart) -> bool:
    """Whether there is anything that a fact may cite."""
    return any(one.utterance.role != "assistant" for one in stretch.spoken)


def _checked(extraction: Extraction) -> Extraction:
    """Return what was made of a model's answer, if it is what it says. Raises ValidationError."""
    return msgspec.convert(msgspec.to_builtins(extraction), Extraction)


def _supported(
    candidate: Candidate, stretch: ConversationPart, messages: Sequence[Utterance]
) -> AttributedCandidate | None:
    """Return a candidate with who said it; None if what it cites does not bear it out."""
    cited = [
        (one, message.text)
        for one, message in zip(stretch.spoken, messages, strict=True)
        if message.event_id in candidate.evidence and message.role != "assistant"
    ]
    if not cited or not candidate.text.isprintable():
        return None
    # A statement of one person is no evidence for what another one said.
    user = cited[0][0].user
    cited = [(one, text) for one, text in cited if one.user == user]
    if not is_supported(candidate.text, [text for _, text in cited]):
        return None
    return AttributedCandidate(_clamped(candidate, [one for one, _ in cited]), user)


def _clamped(candidate: Candidate, cited: Sequence[Spoken]) -> Candidate:
    is_tool = any(one.utterance.role == "tool" for one in cited)
    sure = candidate.confidence if math.isfinite(candidate.confidence) else 0.0
    return msgspec.structs.replace(
        candidate,
        importance=min(max(candidate.importance, 1), 10),
        confidence=min(max(sure, 0.0), CONFIDENCE_MAX),
        evidence=tuple(one.utterance.event_id for one in cited),
        sayings=(),
        role="tool" if is_tool else "user",
    )
