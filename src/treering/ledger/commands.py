"""The latest commands that tools ran in a scope, read from their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.context.texts import call_arguments, tool_output_text
from treering.derive.project_commands import ShellCall, command_runs, is_piped
from treering.lazy import lazy_pattern
from treering.ledger.tool_calls import read_page
from treering.model.queries import PAGE_ITEMS_MAX
from treering.model.tools import ToolQuery

if TYPE_CHECKING:
    from treering.derive.project_commands import CommandRun
    from treering.ledger.ports import EventStore
    from treering.model.scopes import Scope
    from treering.model.tools import ToolRecord

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
    for event in store.reader.session_events(scope, session_id, after_seq=0, limit=FIRST_EVENTS):
        folder = event.payload.get("cwd") if isinstance(event.payload, dict) else None
        if event.kind == "session.imported" and isinstance(folder, str):
            return folder
    return None
