"""``treering export``: one session as a file, for people, for providers, for other ledgers."""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Any, Final, Literal
from uuid import NAMESPACE_URL, uuid5

import msgspec

from treering.clock import now_ms
from treering.errors import InvalidInput
from treering.model.fields import instant
from treering.model.queries import items_of
from treering.surfaces.cli.commands import invocation, show, show_aside
from treering.surfaces.cli.declare import choice, command, flag, out_option, session_argument
from treering.surfaces.cli.finding import open_to_read
from treering.surfaces.cli.ledgers import database_path, open_to_ask
from treering.surfaces.cli.output import STANDARD, is_url, note, output_stream, refuse_folder
from treering.surfaces.cli.progress import counting
from treering.surfaces.shared.texts import Mask, counted
from treering.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.formats.claude_code.export import Subagent
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.events import Event
    from treering.model.scopes import Scope
    from treering.model.sessions import SessionOutline

_SUFFIXES: Final = {"jsonl": "jsonl", "markdown": "md", "html": "html", "claude-code": "jsonl",
                    "openai": "json", "bundle": "zip", "atif": "json", "otlp": "json",
                    "apeira": "jsonl", "apeira-state": "json", "clawser": "jsonl"}  # fmt: skip
FORMATS: Final = tuple(_SUFFIXES)
_ENDINGS: Final = {".html": "html", ".htm": "html", ".md": "markdown", ".markdown": "markdown",
                   ".jsonl": "jsonl", ".zip": "bundle"}  # fmt: skip
"""Formats that the last ending of a file is enough for; several write .json."""
_SPOKEN: Final = frozenset({"claude-code", "openai", "atif", "apeira", "apeira-state", "clawser"})
"""Formats that are nothing without what was said."""
_NOUNS: Final = {"jsonl": "event", "openai": "message", "claude-code": "line", "apeira": "episode",
                 "apeira-state": "episode", "clawser": "event", "bundle": "event", "atif": "step",
                 "otlp": "span"}  # fmt: skip
"""What a file consists of; one for people, of entries."""
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")


class SessionExport(msgspec.Struct, frozen=True, kw_only=True):
    """What was exported."""

    scope: str
    session_id: str
    format: str
    out: str
    payloads: str
    items: int
    """Events of jsonl and clawser, messages of openai, lines of claude-code, steps of atif, spans
    of otlp, episodes of apeira, entries of the others."""
    masked: int
    """How many texts held a secret, which is masked in the file."""
    withheld: int
    """Entries that still looked like a secret when the file was checked."""
    secrets: int
    """Of jsonl, which is an exact copy: lines with a secret that is recorded as it is."""
    left_out: int
    """Of claude-code: events that are not in the file."""
    root: str | None = None
    """Of a bundle: the digest that its proof comes to."""


@command(
    scope="wide",
    examples="""
    treering export main:telegram:jo --scope acme/app --format html --out jo.html
    treering export main:tele --scope acme/app --format markdown --payload | less
    treering export main:tele --scope acme/app --out main.atif.json
    treering export main:tele --scope acme/app --payload --out share.zip
    treering export main:tele --scope acme/app --format otlp --out http://localhost:4318
    """,
    if_stopped="a file appears when it is complete; run it again",
)
def export(
    *,
    scope: Scope,
    session: str = session_argument,
    form: str | None = choice(
        FORMATS,
        "The format to write. Default: by the ending of --out, as .html, .md, .jsonl, .zip or"
        " .atif.json.",
        "--format",
    ),
    out: str = out_option(
        "The file to write; for otlp also the URL of a collector. Default: standard output.",
        default=STANDARD,
    ),
    payload: bool = flag(
        "Include private content: full messages, tool inputs and outputs. Formats of other agents"
        " always do."
    ),
    force: bool = flag("Overwrite an existing file."),
) -> None:
    """Write SESSION to a file, readable by you alone.

    markdown and html are for people. openai is a list of chat messages. claude-code is a log in
    Claude Code's format, from which another ledger imports the whole session, except for what was
    undone or erased; apeira and clawser are logs of those agents; apeira-state is the state that
    Apeira stores for a session. bundle is the page and the events in one file, with a proof that
    treering verify-bundle checks anywhere. atif is a trajectory for evaluations and training; otlp
    is a list of OpenTelemetry spans, with texts only if you pass --payload. jsonl is an exact copy
    that treering episodes import reads. Secrets are masked, except in jsonl; in a bundle, an event
    that holds one has no content.

    The file appears under its name when it is complete. An export to standard output puts its
    receipt on standard error.
    """
    form = form or _format_of(out)
    held = "included" if payload or form in _SPOKEN else "withheld"
    if is_url(out):
        _check_collector(form)
    else:
        _check_target(out, form, force=force)
    with open_to_ask() as ledger:
        opened = open_to_read(ledger, scope, session)
        example = f"session.{_SUFFIXES[form]}"
        target = (
            _posting(out)
            if is_url(out)
            else output_stream(out, database=database_path(), example=example)
        )
        with target as stream:
            done = write_session(
                ledger, opened, stream, form=form, with_payloads=held == "included"
            )
    receipt = SessionExport(
        scope=opened.scope,
        session_id=opened.session_id,
        format=form,
        out=out,
        payloads=held,
        **msgspec.structs.asdict(done),
    )
    if out == STANDARD:
        show_aside(receipt)
        if done.left_out and not invocation().as_json:
            note(_left_out(done.left_out))
    else:
        show(receipt, *_lines(receipt, done), done=f"the export was written to {out}")


def _format_of(out: str) -> str:
    """Return the format that a file's name asks for. Raise InvalidInput if it asks for none."""
    *_, before, last = ["", "", *PurePath(out).suffixes]
    named = before.lower().removeprefix(".")
    if f".{_SUFFIXES.get(named)}" == last.lower():
        return named
    form = _ENDINGS.get(last.lower())
    if form is None or is_url(out):
        raise InvalidInput(
            "--format is required", hint=f"pass one of {', '.join(FORMATS)}, or --out FILE.html"
        )
    return form


def _check_collector(form: str) -> None:
    if form != "otlp":
        raise InvalidInput(
            f"{form} cannot be sent to a URL", hint="name a file, or use --format otlp"
        )


@contextlib.contextmanager
def _posting(url: str) -> Iterator[IO[bytes]]:
    """Collect what is written, and send it to a collector."""
    from treering.sinks.otlp import Collector  # noqa: PLC0415  (only where it is asked for)

    body = io.BytesIO()
    yield body
    with contextlib.closing(Collector(url)) as collector:
        collector.post(body.getvalue())


def _check_target(out: str, form: str, *, force: bool) -> None:
    if out == STANDARD:
        return
    refuse_folder(out, example=f"session.{_SUFFIXES[form]}")
    # A pipe or a device is written to, never replaced.
    if os.path.lexists(out) and not force and (os.path.isfile(out) or os.path.islink(out)):  # noqa: PTH113, PTH114
        raise InvalidInput(
            f"{out} already exists", hint="name another file, or pass --force to overwrite it"
        )


def _lines(receipt: SessionExport, done: Exported) -> list[str]:
    noun = _NOUNS.get(receipt.format)
    size = counted(done.items, noun) if noun else _entries(done.items)
    lines = [f"exported session {receipt.session_id} to {receipt.out}: {size}"]
    if receipt.payloads == "withheld":
        texts = "it holds no texts" if receipt.format == "otlp" else "texts are shortened"
        lines.append(f"{texts}; --payload includes full messages, tool inputs and outputs")
    else:
        lines.append("it holds private content: be careful whom you give it to")
    if done.masked:
        lines.append(f"{counted(done.masked, 'text')} held secrets, which are masked in it")
    if done.withheld:
        lines.append(_withheld(done.withheld))
    if done.left_out:
        lines.append(_left_out(done.left_out))
    if done.root:
        lines.append(f"root {done.root}: give it to the receiver of the file separately")
        lines.append(f"they check it with: treering verify-bundle {PurePath(receipt.out).name}")
    if done.secrets:
        lines.append(f"secrets as recorded in {counted(done.secrets, 'line')}: it is an exact copy")
    return lines


def _entries(number: int) -> str:
    return f"{number:,} {'entry' if number == 1 else 'entries'}"


def _left_out(number: int) -> str:
    verb = "is" if number == 1 else "are"
    what = "undone or erased, or of runs, memory and state"
    return f"{counted(number, 'event')} {verb} not in it: {what}"


def _withheld(number: int) -> str:
    looked = "looked like a secret and was" if number == 1 else "looked like secrets and were"
    return f"{_entries(number)} {looked} withheld"


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    items: int
    masked: int = 0
    withheld: int = 0
    secrets: int = 0
    left_out: int = 0
    root: str | None = None


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
        case "bundle":
            return _write_bundle(ledger, session, stream, with_payloads=with_payloads)
        case "atif":
            return _write_atif(ledger, session, stream)
        case "otlp":
            return _write_spans(ledger, session, stream, with_content=with_payloads)
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


def _write_bundle(
    ledger: Ledger, session: Session, stream: IO[bytes], *, with_payloads: bool
) -> Exported:
    """Write the page, the events and a proof; events that hold a secret have no content in it."""
    from treering.ledger.proof_bundles import without_secrets, write_bundle  # noqa: PLC0415

    page, exact = io.BytesIO(), io.BytesIO()
    shown = _write_page(ledger, session, page, "html", with_payloads=with_payloads)
    ledger.admin.export(
        session.scope,
        exact,
        session_id=session.session_id,
        payloads="included" if with_payloads else "withheld",
    )
    look = Mask()

    def is_secret(line: Any) -> bool:
        before = look.masked
        look.value(line)
        return look.masked > before

    checked = [without_secrets(line, is_secret) for line in exact.getvalue().splitlines()]
    secrets = sum(is_left_out for _, is_left_out in checked)
    proof = write_bundle(
        stream,
        page=page.getvalue(),
        lines=[line for line, _ in checked],
        secrets=secrets,
        session_id=session.session_id,
        version=__version__,
        at=instant(now_ms()),
    )
    return Exported(
        items=proof.events, masked=shown.masked, withheld=shown.withheld + secrets, root=proof.root
    )


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
    name, lines, left_out = _uuid_of(session), 0, 0
    cwd, branch = _origin_of(session)
    for source, subagent in _with_subagents(ledger, session):
        events = [_masked(event, mask) for event in source.events()]
        exported = lines_of(
            visible(events),
            session_id=name,
            cwd=cwd,
            git_branch=branch,
            beside=events,
            subagent=subagent,
        )
        stream.writelines(exported.lines)
        lines += len(exported.lines)
        left_out += exported.left_out
    return Exported(items=lines, masked=mask.masked, left_out=left_out)


def _write_atif(ledger: Ledger, session: Session, stream: IO[bytes]) -> Exported:
    """Write the session as a trajectory, with those of its subagents in it."""
    from treering.formats.atif import SubagentTrajectory, trajectory  # noqa: PLC0415

    mask, seen = Mask(), {session.session_id}
    spawned = _spawned(ledger, session.scope)

    def made(one: Session, agent: str) -> dict[str, Any] | None:
        subagents = []
        for outline in spawned.get(one.session_id, []):
            if outline.session_id in seen:
                continue
            seen.add(outline.session_id)
            child = ledger.session(outline.session_id, scope=one.scope, agent=outline.agent)
            its = made(child, outline.agent)
            if its is not None:
                call_id = child.settings.spawned_call
                subagents.append(SubagentTrajectory(trajectory=its, call_id=call_id))
        events = [_masked(event, mask) for event in one.events()]
        return trajectory(events, session_id=one.session_id, agent=agent, subagents=subagents)

    whole = made(session, session.outline().agent)
    if whole is None:
        raise InvalidInput(
            f"session {session.session_id} has no messages, and a trajectory has at least one",
            hint="choose another session, or --format jsonl",
        )
    stream.write(msgspec.json.format(msgspec.json.encode(whole), indent=1) + b"\n")
    return Exported(items=len(whole["steps"]), masked=mask.masked)


def _write_spans(
    ledger: Ledger, session: Session, stream: IO[bytes], *, with_content: bool
) -> Exported:
    """Write the runs of the session, and of its subagents, as spans of OpenTelemetry."""
    from treering.ledger.spans import trace_request, units  # noqa: PLC0415

    mask = Mask()
    builder = ledger.admin.span_builder(with_content=with_content)
    spans = []
    for source, _ in _with_subagents(ledger, session):
        events = (_masked(event, mask) for event in source.events())
        for unit in units(events):
            spans += builder.of_unit(unit)
    stream.write(msgspec.json.encode(trace_request(spans, service="treering")) + b"\n")
    return Exported(items=len(spans), masked=mask.masked)


def _spawned(ledger: Ledger, scope: str) -> dict[str, list[SessionOutline]]:
    """Return the sessions of subagents, by the session that began them, the oldest first."""
    spawned: dict[str, list[SessionOutline]] = {}
    outlines = items_of(lambda after: ledger.sessions(scope, subagents=True, after=after))
    for outline in sorted(outlines, key=lambda outline: outline.created_ms):
        if outline.spawned_by is not None:
            spawned.setdefault(outline.spawned_by, []).append(outline)
    return spawned


def _with_subagents(ledger: Ledger, session: Session) -> Iterator[tuple[Session, Subagent | None]]:
    """Yield a session, then those of its subagents, and of theirs."""
    from treering.formats.claude_code import export  # noqa: PLC0415

    spawned = _spawned(ledger, session.scope)
    yield session, None
    ahead, seen = [(session.session_id, "")], {session.session_id}
    while ahead:
        parent, above = ahead.pop(0)
        for outline in spawned.get(parent, []):
            if outline.session_id in seen:
                continue
            seen.add(outline.session_id)
            agent_id = above + outline.session_id.rpartition("/agent-")[2]
            ahead.append((outline.session_id, f"{agent_id}/agent-"))
            child = ledger.session(outline.session_id, scope=session.scope, agent=outline.agent)
            yield (
                child,
                export.Subagent(
                    agent_id=agent_id,
                    sort=outline.agent.partition(":")[2] or None,
                    call_id=child.settings.spawned_call,
                ),
            )


def _write_apeira(session: Session, stream: IO[bytes], *, as_state: bool) -> Exported:
    """Write what counts of a session as a log of episodes, or as the state that holds one."""
    from treering.formats.apeira import Episodic, SessionState, save_state, state_from_session  # noqa: PLC0415  (only where it is asked for)

    mask = Mask()
    state = state_from_session(session)
    episodic = Episodic([mask.value(entry) for entry in state.episodic.read(from_id=float("-inf"))])
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


def _origin_of(session: Session) -> tuple[str, str | None]:
    """Return the folder that a session worked in, by default the current one, and its branch."""
    origin = next((e.payload for e in session.events() if e.kind == "session.imported"), None)
    origin = origin if isinstance(origin, dict) else {}
    branch = origin.get("branch") or origin.get("git_branch")
    folder = origin.get("cwd")
    return (
        folder if isinstance(folder, str) and folder else str(Path.cwd()),
        branch if isinstance(branch, str) else None,
    )


def _write_page(
    ledger: Ledger, session: Session, stream: IO[bytes], form: str, *, with_payloads: bool
) -> Exported:
    from treering.surfaces.pages.session_files import write_html, write_markdown  # noqa: PLC0415  (only where asked for)
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
