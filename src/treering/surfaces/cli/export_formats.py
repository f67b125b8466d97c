"""The formats that a session is exported in, each written as it is read where that can be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal
from uuid import NAMESPACE_URL, uuid5

import msgspec

from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.progress import counting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.formats.claude_code.export import Subagent
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.events import Event
    from treering.model.sessions import SessionOutline

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    items: int
    masked: int = 0
    withheld: int = 0
    secrets: int = 0


def write_session(
    ledger: Ledger, session: Session, stream: IO[bytes], *, form: str, with_payloads: bool
) -> Exported:
    """Write a session to ``stream`` in a format that ``export`` names."""
    match form:
        case "jsonl":
            return _write_copy(ledger, session, stream, with_payloads=with_payloads)
        case "openai":
            return _write_messages(session, stream)
        case "claude-code":
            return _write_claude_code(ledger, session, stream)
        case "apeira" | "apeira-state":
            return _write_apeira(session, stream, as_state=form == "apeira-state")
        case "clawser":
            return _write_clawser(session, stream)
        case _:
            return _write_page(ledger, session, stream, form, with_payloads=with_payloads)


def _write_copy(
    ledger: Ledger, session: Session, stream: IO[bytes], *, with_payloads: bool
) -> Exported:
    """Write native JSONL. Its chain holds over what was recorded, so nothing can be masked."""
    watched: Any = _Watched(stream)
    payloads: Literal["included", "withheld"] = "included" if with_payloads else "withheld"
    with counting("exported", "events") as advance:
        receipt = ledger.admin.export(
            session.scope,
            watched,
            session_id=session.session_id,
            payloads=payloads,
            progress=advance,
        )
    return Exported(items=receipt.events, secrets=watched.secrets)


class _Watched:
    """Counts the lines that hold a secret on their way to a stream."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._look = Mask()
        self.secrets = 0

    def write(self, lines: bytes) -> int:
        for line in lines.splitlines():
            before = self._look.masked
            self._look.value(msgspec.json.decode(line))
            self.secrets += self._look.masked > before
        return self._stream.write(lines)


def _write_messages(session: Session, stream: IO[bytes]) -> Exported:
    """Write the whole conversation as chat completions take it: paired, repaired, nothing cut."""
    mask = Mask()
    messages = session.history()
    stream.write(b'{"messages":[')
    for number, message in enumerate(messages):
        stream.write((b",\n" if number else b"\n") + msgspec.json.encode(mask.value(message)))
    stream.write(b"\n]}\n")
    return Exported(items=len(messages), masked=mask.masked)


def _write_claude_code(ledger: Ledger, session: Session, stream: IO[bytes]) -> Exported:
    """Write the session as a log that Claude Code can resume, with its subagents."""
    from treering.derive.visible import visible  # noqa: PLC0415  (only where it is asked for)
    from treering.formats.claude_code.export import write_session as lines_of  # noqa: PLC0415

    mask = Mask()
    name, lines = _uuid_of(session), 0
    cwd = _cwd_of(list(session.events()))
    for one, subagent in _with_subagents(ledger, session):
        events = [_masked(event, mask) for event in one.events()]
        for line in lines_of(
            visible(events), session_id=name, cwd=cwd, beside=events, subagent=subagent
        ):
            stream.write(line)
            lines += 1
    return Exported(items=lines, masked=mask.masked)


def _with_subagents(ledger: Ledger, session: Session) -> Iterator[tuple[Session, Subagent | None]]:
    """Give a session, then those of the subagents that it set to work, and that these did."""
    from treering.formats.claude_code import export  # noqa: PLC0415

    spawned: dict[str, list[SessionOutline]] = {}
    for outline in _outlines(ledger, session.scope):
        if outline.spawned_by is not None:
            spawned.setdefault(outline.spawned_by, []).append(outline)
    yield session, None
    ahead, seen = [session.session_id], {session.session_id}
    while ahead:
        for outline in spawned.get(ahead.pop(0), []):
            if outline.session_id in seen:
                continue
            seen.add(outline.session_id)
            ahead.append(outline.session_id)
            child = ledger.session(outline.session_id, scope=session.scope, agent=outline.agent)
            yield (
                child,
                export.Subagent(
                    agent_id=outline.session_id.rpartition("/agent-")[2],
                    sort=outline.agent.partition(":")[2] or None,
                    call_id=child.settings.spawned_call,
                ),
            )


def _outlines(ledger: Ledger, scope: str) -> Iterator[SessionOutline]:
    after: str | None = None
    while True:
        page = ledger.sessions(scope, subagents=True, after=after)
        yield from page.items
        after = page.next_cursor
        if after is None:
            return


def _write_apeira(session: Session, stream: IO[bytes], *, as_state: bool) -> Exported:
    """Write what counts of a session as a log of episodes, or as the state that holds one."""
    from treering.formats.apeira import (  # noqa: PLC0415  (only where it is asked for)
        Episodic,
        SessionState,
        save_state,
        state_from_session,
    )

    mask = Mask()
    state = state_from_session(session)
    episodic = Episodic([mask.value(one) for one in state.episodic.read(from_id=float("-inf"))])
    if as_state:
        context = mask.value(state.context)
        stream.write(save_state(SessionState(context=context, episodic=episodic)).encode())
    else:
        stream.write(episodic.to_jsonl().encode())
    return Exported(items=len(episodic), masked=mask.masked)


def _write_clawser(session: Session, stream: IO[bytes]) -> Exported:
    """Write what counts of a session as Clawser's log of events."""
    from treering.formats.clawser import EventLog, from_session  # noqa: PLC0415

    mask, log = Mask(), EventLog()
    log.load(mask.value(event) for event in from_session(session).events)
    stream.write(log.to_jsonl().encode())
    return Exported(items=log.size, masked=mask.masked)


def _masked(event: Event, mask: Mask) -> Event:
    return msgspec.structs.replace(
        event, payload=mask.value(event.payload), summary=mask.text(event.summary)
    )


def _uuid_of(session: Session) -> str:
    """Return the id that a session has in its own log, or else one that is always the same."""
    match = _UUID.search(session.session_id)
    return match[0] if match else str(uuid5(NAMESPACE_URL, f"{session.scope} {session.session_id}"))


def _cwd_of(events: list[Event]) -> str:
    """Return the folder that a session worked in; the current one if it is unknown."""
    for event in events:
        if event.kind == "session.imported" and isinstance(event.payload, dict):
            folder = event.payload.get("cwd")
            if isinstance(folder, str) and folder:
                return folder
    return str(Path.cwd())


def _write_page(
    ledger: Ledger, session: Session, stream: IO[bytes], form: str, *, with_payloads: bool
) -> Exported:
    from treering.surfaces.pages.html_page import write_html  # noqa: PLC0415  (only where asked for)
    from treering.surfaces.pages.markdown_page import write_markdown  # noqa: PLC0415
    from treering.surfaces.pages.transcripts import pieces, read_cover, whole  # noqa: PLC0415

    mask = Mask()
    write = write_html if form == "html" else write_markdown
    done = write(
        stream,
        read_cover(ledger, session),
        pieces(ledger, session, whole(), with_payloads=with_payloads),
        mask,
        with_payloads=with_payloads,
    )
    return Exported(items=done.entries, masked=mask.masked, withheld=done.withheld)
