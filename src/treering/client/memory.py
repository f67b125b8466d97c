"""The memory of a scope on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from treering.client.connection import path_of
from treering.client.refusal import refuse_others
from treering.errors import NotPermitted, ReadOnly
from treering.memory.memory import Memory
from treering.memory.recall_result import RecallResult
from treering.model.arguments import checks_arguments, checks_arguments_of
from treering.model.episodes import Episode
from treering.model.fields import check_list, check_name
from treering.model.memories import Fact, FactChange, LearnResult, NewFact
from treering.model.queries import Page

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.client.connection import Answer, ServerConnection
    from treering.model.scopes import Scope


@checks_arguments
@refuse_others("learn", also=("users",))
@checks_arguments_of(Memory)
class RemoteMemory(Memory):
    """What is remembered in one scope, asked over HTTP."""

    def __init__(self, connection: ServerConnection, scope: Scope) -> None:
        self.scope = scope
        self._connection = connection

    def learn_all(
        self, facts: Sequence[NewFact], *, progress: Callable[[int], None] | None = None
    ) -> list[LearnResult]:
        """Learn several facts in order."""
        listed = list(check_list(facts, "facts"))
        learnt = self._post([], {"facts": listed}, list[LearnResult]) if listed else []
        if progress is not None:
            progress(len(listed))
        return learnt

    def accept(self, fact_id: str) -> Fact:
        """Accept a quarantined, refused or archived fact."""
        return self._post([check_name(fact_id, "fact_id"), "accept"], {}, Fact)

    def reject(self, fact_id: str, *, reason: str | None = None) -> Fact:
        """Never recall a fact again."""
        return self._post([check_name(fact_id, "fact_id"), "reject"], {"reason": reason}, Fact)

    def recall(self, query: str | None, **options: Any) -> RecallResult:
        """Return what answers ``query``; its use is recorded if the token may write."""
        record = options.pop("record", True)
        if record or "weights" in options:
            body = msgspec.to_builtins({"query": query, **options})
            path = path_of("scopes", self.scope, "recall")
            try:
                return self._connection.post(path, body, RecallResult)
            except (NotPermitted, ReadOnly):
                options.pop("weights", None)  # A read-only ledger can still be asked.
        return self._get("recall", RecallResult, query=query, **options)

    def fact(self, fact_id: str) -> Fact:
        """Return one fact in any state."""
        return self._get("facts", Fact, names=[check_name(fact_id, "fact_id")])

    def history(self, fact_id: str) -> list[FactChange]:
        """Return every change to a fact, in order."""
        names = [check_name(fact_id, "fact_id"), "history"]
        return self._get("facts", list[FactChange], names=names)

    def facts(self, **filters: Any) -> Page[Fact]:
        """Return one page of the scope's facts, newest first."""
        if isinstance(filters.get("state"), str):
            filters["state"] = [filters["state"]]
        return self._get("facts", Page[Fact], **filters)

    def episodes(self, **filters: Any) -> Page[Episode]:
        """Return one page of the scope's episodes, newest first."""
        return self._get("episodes", Page[Episode], **filters)

    def _get(
        self, part: str, kind: type[Answer], *, names: Sequence[str] = (), **query: Any
    ) -> Answer:
        return self._connection.get(path_of("scopes", self.scope, part, *names), kind, **query)

    def _post(self, names: Sequence[str], body: Any, kind: type[Answer]) -> Answer:
        path = path_of("scopes", self.scope, "facts", *names)
        return self._connection.post(path, msgspec.to_builtins(body), kind)
