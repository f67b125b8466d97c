"""Extraction by a model: within a budget, with recorded calls and checked answers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from treering.errors import TreeringError
from treering.lazy import lazy_pattern
from treering.memory.conversations import AttributedCandidate, shown
from treering.memory.events import AGENT
from treering.memory.monthly_budget import ORIGIN, MonthlyBudget
from treering.memory.records import MEMORY_SESSION
from treering.model.events import NAME_CHARACTERS_MAX, NewEvent
from treering.model.parts import Noted, UsageReported
from treering.rules.fact_extraction import Candidate
from treering.rules.terms import terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from treering.ledger.memory_factory import Recorder
    from treering.memory.conversations import ConversationPart, Spoken
    from treering.memory.ports import Extractor
    from treering.model.scopes import Scope
    from treering.rules.fact_extraction import Utterance

SUPPORT_MIN: Final = 0.5
"""The share of a statement's terms that must occur in the messages."""
_SPEAKER: Final = frozenset(terms("user person speaker they says said mentioned"))
"""Words that name the speaker."""
_DENIAL: Final = lazy_pattern(
    r"\b(?:not|no|never|none|nor|cannot|without|nothing|nobody)\b|n['\u2019]t\b"
)
_STOPPED: Final = lazy_pattern(r"\b(?:stop|stopped|quit|gave up|used to|avoid|hate|dislike)\b")
_NUMBER: Final = lazy_pattern(r"\d+")
_NAME: Final = lazy_pattern(r"(?<=[^.!?:] )[^\W\d_a-z][\w'-]*")
"""A capitalised word that does not begin a sentence."""

FAILURES_MAX: Final = 3
"""A model that failed this often in a row is not called again."""
CONFIDENCE_MAX: Final = 0.9
"""A model is never surer than a user who asks to remember something."""

Count = Annotated[int, msgspec.Meta(ge=0)]


class Extraction(msgspec.Struct, frozen=True, kw_only=True):
    """The facts a model found in a conversation, and the tokens it used."""

    candidates: tuple[Candidate, ...] = ()
    """Each cites the ids of its messages, which also tell who said it."""
    input_tokens: Count
    output_tokens: Count


class ModelExtractor:
    """Lets a model extract facts from conversations of one scope."""

    def __init__(
        self, model: Extractor, recorder: Recorder, scope: Scope, *, budget_tokens: int
    ) -> None:
        self.name = str(model.name)[:NAME_CHARACTERS_MAX]
        self.calls = 0
        self.spent_tokens = 0
        self.proposed = 0
        """Candidates returned by the model, including unsupported ones."""
        self._model = model
        self._recorder = recorder
        self._scope = scope
        self._budget = MonthlyBudget(recorder, scope, budget_tokens)
        self._failures = 0

    def affords(self, part: ConversationPart) -> bool:
        """Return whether the budget allows asking the model about a part, or no call is needed."""
        if self._is_given_up or not _is_heard(part):
            return True
        return self._budget.permits([message.text for message in self._messages(part)])

    def read(self, part: ConversationPart) -> list[AttributedCandidate] | None:
        """Return the candidates that the messages support; None if the model cannot be asked."""
        if self._is_given_up:
            return None
        if not _is_heard(part):
            return []
        messages = self._messages(part)
        self.calls += 1
        try:
            extraction = _checked(self._model(messages))
        except Exception as error:  # noqa: BLE001 - the rules work without a model, so no error may stop them.
            self._failures += 1
            self._warn(error)
            return None
        self._failures = 0
        self._budget.learn([message.text for message in messages], extraction.input_tokens)
        checked = [_supported(candidate, part, messages) for candidate in extraction.candidates]
        supported = [candidate for candidate in checked if candidate is not None]
        # Record usage before results: it is spent whatever happens next.
        self._report(extraction, unsupported=len(checked) - len(supported))
        return supported

    @property
    def _is_given_up(self) -> bool:
        return self._failures >= FAILURES_MAX

    def _messages(self, part: ConversationPart) -> list[Utterance]:
        """Return the messages shown to the model: shortened, with secrets masked."""
        cut = [shown(message.utterance) for message in part.spoken]
        return [
            msgspec.structs.replace(utterance, text=self._recorder.masked(utterance.text))
            for utterance in cut
        ]

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
        # Only our own errors are known not to quote the conversation.
        message = {"message": str(error)} if isinstance(error, TreeringError) else {}
        self._record("ops.warning", "facts found without the model", {**noted, **message}, noted)

    def _record(
        self, kind: str, summary: str, payload: dict[str, Any], refs: dict[str, Any]
    ) -> None:
        # Not in the session that is read: there, a model's name says who answered.
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


def _is_heard(part: ConversationPart) -> bool:
    """Return whether the part has a message that a fact may cite."""
    return any(message.utterance.role != "assistant" for message in part.spoken)


def _checked(extraction: Extraction) -> Extraction:
    """Return the model's answer validated against its type. Raise ValidationError."""
    return msgspec.convert(msgspec.to_builtins(extraction), Extraction)


def _supported(
    candidate: Candidate, part: ConversationPart, messages: Sequence[Utterance]
) -> AttributedCandidate | None:
    """Return a candidate with its speaker; None if its evidence does not support it."""
    cited = [
        (spoken, message.text)
        for spoken, message in zip(part.spoken, messages, strict=True)
        if message.event_id in candidate.evidence and message.role != "assistant"
    ]
    if not cited or not candidate.text.isprintable():
        return None
    # One person's message does not prove what another one said.
    user = cited[0][0].user
    cited = [(spoken, text) for spoken, text in cited if spoken.user == user]
    if not is_supported(candidate.text, [text for _, text in cited]):
        return None
    return AttributedCandidate(_clamped(candidate, [spoken for spoken, _ in cited]), user)


def _clamped(candidate: Candidate, cited: Sequence[Spoken]) -> Candidate:
    is_tool = any(message.utterance.role == "tool" for message in cited)
    confidence = candidate.confidence if math.isfinite(candidate.confidence) else 0.0
    return msgspec.structs.replace(
        candidate,
        importance=min(max(candidate.importance, 1), 10),
        confidence=min(max(confidence, 0.0), CONFIDENCE_MAX),
        evidence=tuple(message.utterance.event_id for message in cited),
        sayings=(),
        role="tool" if is_tool else "user",
    )


def is_supported(statement: str, said: Iterable[str]) -> bool:
    """Return whether ``said`` supports a statement: most of its words, all numbers and names.

    It may paraphrase, but it must not add a negation.
    """
    source = " ".join(said)
    wanted = set(terms(statement)) - _SPEAKER
    source_terms = set(terms(source))
    if not wanted or len(wanted & source_terms) < SUPPORT_MIN * len(wanted):
        return False
    if not set(_NUMBER.findall(statement)) <= set(_NUMBER.findall(source)):
        return False
    named = {term for name in _NAME.findall(statement) for term in terms(name)} - _SPEAKER
    if not named <= source_terms:
        return False
    if _DENIAL.search(statement.lower()) is None:
        return True
    lowered = source.lower()
    return _DENIAL.search(lowered) is not None or _STOPPED.search(lowered) is not None
