"""``treering episodes append``, ``ingest`` and ``extract-sessions``: an event, or a whole spool."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click
import msgspec

from treering.config import mask_key
from treering.errors import DuplicateEvent, InvalidInput, NotFound, SensitiveContent, TooLarge
from treering.model.codec import (
    PAYLOAD_BYTES_MAX,
    REFS_BYTES_MAX,
    SPILL_BYTES_MAX,
    canonical,
    parse_json,
)
from treering.model.events import NewEvent
from treering.model.fields import check_id, check_summary
from treering.model.scopes import parse_scope
from treering.surfaces.cli.commands import show
from treering.surfaces.cli.declare import (
    command,
    parse_episode_kind,
    parse_time,
    require,
    resolve_scope,
    scope_options,
)
from treering.surfaces.cli.episodes.read import ITEM_SCHEMA
from treering.surfaces.cli.ledgers import MEMORY, database_path, is_on_server, open_to_write, shown
from treering.surfaces.cli.output import STANDARD, read_input
from treering.surfaces.shared.texts import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.capture.episodes.extraction import Extracted, SpoolExtractor
    from treering.capture.episodes.ingest import FollowReceipt, IngestReceipt
    from treering.model.codec import Json
    from treering.model.events import Header


_OVERSIZE_HINT: Final = "pass --spill to keep it whole beside the event, or refer to it with refs"


class AppendOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The event as the command line states it."""

    session_id: str | None
    agent_id: str | None
    kind: str | None
    summary: str | None
    payload_json: str | None
    payload_file: str | None
    refs_json: str | None
    refs_file: str | None
    event_id: str | None
    ts_ms: str | None
    allow_sensitive: bool
    allow_tool_output: bool


@command(
    "append",
    options=scope_options("required"),
    short_help="Record one event.",
    examples=r"""
    treering episodes append --scope acme/app --session-id s1 --agent-id lyria \
      --type conversation.user --summary "Asked for status" \
      --payload-json '{"intent":"status"}' --refs-json '{"recordRef":"obs:42"}'
    git diff | jq -Rs . | treering episodes append --scope acme/app \
      --session-id s1 --agent-id lyria --type tool.result \
      --summary "git diff" --payload-file - --spill
    """,
    if_stopped="the event was recorded whole or not at all;"
    " look with treering episodes query before you run it again",
)
@click.option("--session-id", metavar="ID", help="The session it belongs to.")
@click.option("--agent-id", metavar="ID", help="Who acts, such as lyria, worker or cron-lite.")
@click.option("--type", "kind", metavar="TYPE", help="One of the seven types above.")
@click.option("--summary", metavar="TEXT", help="What happened, in up to 1,000 characters.")
@click.option(
    "--payload-json",
    "--payload",
    "payload_json",
    metavar="JSON",
    help="Private content, up to 8,192 bytes.",
)
@click.option("--payload-file", metavar="FILE", help="The same from a file; - is standard input.")
@click.option("--refs-json", metavar="JSON", help="Links safe to show, up to 4,096 bytes.")
@click.option("--refs-file", metavar="FILE", help="The same from a file; - is standard input.")
@click.option("--event-id", metavar="ID", help="Its id. Default: a new one.")
@click.option(
    "--ts-ms", metavar="WHEN", help="When it happened: milliseconds, a date, or 3d. Default: now."
)
@click.option("--spill", is_flag=True, help="Accept a larger payload and keep it as a blob.")
@click.option(
    "--allow-sensitive", is_flag=True, help="Record secrets and personal details as they are."
)
@click.option("--allow-tool-output", is_flag=True, hidden=True)
def append(*, scope: str | None, is_global: bool, spill: bool, **options: Any) -> None:
    """Record one event. It is durable when the command returns.

    The types are conversation.user, conversation.assistant, tool.call, tool.result,
    ops.decision, ops.alert and ops.observation. Secrets, e-mail addresses and phone numbers are
    refused, and so is a known event id: then nothing is recorded.
    """
    given = AppendOptions(**options)
    if given.payload_file == given.refs_file == STANDARD:
        raise InvalidInput(
            "payload and refs cannot both come from standard input", hint="use a file for one"
        )
    # Arguments are checked from top to bottom: the first mistake is the one that is reported.
    event = NewEvent(
        kind=parse_episode_kind(given.kind),
        scope=resolve_scope(scope, is_global=is_global),
        ts_ms=parse_time(given.ts_ms),
        session_id=require(given.session_id, "session_id"),
        agent_id=require(given.agent_id, "agent_id"),
        summary=check_summary(given.summary or ""),
        payload=_read_json("payload", given.payload_json, given.payload_file),
        refs=_read_json("refs", given.refs_json, given.refs_file),
        event_id=None if given.event_id is None else check_id(given.event_id),
    )
    payload_cap = SPILL_BYTES_MAX if spill else PAYLOAD_BYTES_MAX
    _check_size("payload", event.payload, payload_cap, _OVERSIZE_HINT)
    refs_bytes = _check_size("refs", event.refs, REFS_BYTES_MAX, "put the bulk into the payload")
    if not (given.allow_sensitive or given.allow_tool_output):
        _refuse_sensitive(event)
    header = _record(event)
    show(
        {
            "event": _account(header, refs_bytes),
            "caps": {"payload_cap_bytes": payload_cap, "refs_cap_bytes": REFS_BYTES_MAX},
        },
        f"recorded {header.kind} {header.event_id}"
        f" as number {header.seq} of session {header.session_id} in scope {header.scope}",
        done="the event was recorded",
    )


def _read_json(name: str, text: str | None, file: str | None) -> Json:
    if text is not None and file is not None:
        raise InvalidInput(
            f"provide only one of --{name}-json or --{name}-file", hint="drop one of the two"
        )
    if file is not None:
        return parse_json(read_input(file), name)
    return None if text is None else parse_json(text, name)


def _check_size(name: str, value: Json, cap: int, hint: str) -> int:
    """Return the size of ``value`` in canonical JSON. Raises TooLarge beyond ``cap``."""
    size = 0 if value is None else len(canonical(value, name))
    if size > cap:
        raise TooLarge(f"{name} exceeds cap ({size} > {cap} bytes)", hint=hint)
    return size


def _refuse_sensitive(event: NewEvent) -> None:
    from treering.app import new_guard  # noqa: PLC0415  (not for --help)

    guard = new_guard(personal=True)
    in_summary = next((finding.rule for finding in guard.find_text(event.summary)), None)
    for field, rule in (
        ("summary", in_summary),
        ("payload", guard.find_value(event.payload)),
        ("refs", guard.find_value(event.refs)),
    ):
        if rule is not None:
            raise SensitiveContent(
                f"{field} appears to hold a secret or personal detail ({rule})",
                hint="remove it, or pass --allow-sensitive to record it as it is",
            )


def _record(event: NewEvent) -> Header:
    try:
        with open_to_write() as ledger:
            return ledger.append_new(event)
    except DuplicateEvent as error:
        raise DuplicateEvent(
            "event_id already exists", hint="give another --event-id, or leave it out"
        ) from error


def _account(header: Header, refs_bytes: int) -> dict[str, Any]:
    return {
        "event_id": header.event_id,
        "ts_ms": header.ts_ms,
        "scope": header.scope,
        "session_id": header.session_id,
        "agent_id": header.agent_id,
        "type": header.kind,
        "summary": header.summary,
        "payload_bytes": header.payload_bytes,
        "refs_bytes": refs_bytes,
        "schema_version": ITEM_SCHEMA,
        "redacted": header.redacted,
        "payload_present": header.payload_bytes > 0,
        "refs_present": refs_bytes > 0,
    }


SPOOL: Final = "~/.openclaw/memory/openclaw-mem-episodes.jsonl"
"""Where plugins of OpenClaw write to by default."""
STATE_SUFFIX: Final = ".treering-state.json"
markers_option = click.option(
    "--allow-scope-markers",
    "allows_markers",
    is_flag=True,
    help="Let text that begins with [SCOPE: x] choose its scope, unless --scope is given.",
)
"""What is typed into a chat can begin so: it chooses a scope only where the operator says so."""
_poll_option = click.option(
    "--poll-interval-ms", "--poll-ms", "poll_ms",
    type=int, default=1_000, metavar="MS",
    help="With --follow: poll interval, at least 100. Default: 1000.",
)  # fmt: skip


def size_option(name: str, text: str, default: int) -> Callable[[Any], Any]:
    """Return an option that takes a number of bytes."""
    return click.option(
        name,
        type=click.IntRange(min=1),
        default=default,
        metavar="N",
        help=f"{text} Default: {default}.",
    )


class IngestOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a spool is followed, and where its lines are cut."""

    poll_ms: int
    idle_exit: float
    rotate_on_idle: float
    rotate_min_bytes: int
    payload_cap_bytes: int
    conversation_payload_cap_bytes: int
    refs_cap_bytes: int


@command(
    "ingest",
    short_help="Import a spool of events.",
    examples=r"""
    treering episodes ingest --rotate
    treering episodes ingest --file spool.jsonl --follow --idle-exit-seconds 60
    """,
    if_stopped="what was imported is kept; run it again for the rest: nothing is duplicated",
)
@click.option(
    "--file", "--spool", "spool",
    default=SPOOL, metavar="SPOOL", help=f"The spool: JSONL. Default: {SPOOL}.",
)  # fmt: skip
@click.option(
    "--state",
    metavar="STATE",
    help=f"Where to store the read position. Default: SPOOL{STATE_SUFFIX}.",
)
@click.option(
    "--scope",
    metavar="SCOPE",
    help="Put all lines here. Default: what each line's scope field says, else global.",
)
@markers_option
@click.option("--follow", is_flag=True, help="Keep reading as the spool grows, until you stop it.")
@_poll_option
@click.option(
    "--idle-exit-seconds", "--idle-exit", "idle_exit",
    type=click.FloatRange(min=0), default=0.0, metavar="S",
    help="With --follow: exit after S idle seconds. Default: 0, never.",
)  # fmt: skip
@click.option(
    "--rotate-on-idle-seconds", "--rotate-on-idle", "rotate_on_idle",
    type=click.FloatRange(min=0), default=0.0, metavar="S",
    help="With --follow: rotate the spool after S idle seconds. Default: 0, never.",
)  # fmt: skip
@size_option("--rotate-min-bytes", "With --follow: put no smaller spool aside.", 1_048_576)
@click.option("--truncate", is_flag=True, help="Empty the spool once all of it is imported.")
@click.option("--rotate", is_flag=True, help="Rename it instead.")
@size_option("--payload-cap-bytes", "Cut larger payloads, 256 to 8192.", 8_192)
@size_option("--conversation-payload-cap-bytes", "The same for what was said.", 4_096)
@size_option("--refs-cap-bytes", "Cut larger refs, 128 to 4096.", 4_096)
def ingest(
    *,
    spool: str,
    state: str | None,
    scope: str | None,
    allows_markers: bool,
    follow: bool,
    truncate: bool,
    rotate: bool,
    **options: Any,
) -> None:
    """Import a spool: one JSON object per line, as plugins and extract-sessions write it.

    It continues where the last pass ended. Known events are counted and skipped; secrets and
    personal details are masked; a last line without a newline waits for it. Lines that are not
    events are counted, and shown by their beginnings.
    """
    if truncate and rotate:
        raise InvalidInput("--truncate cannot be combined with --rotate", hint="drop one of them")
    if follow and (truncate or rotate):
        raise InvalidInput(
            "--follow cannot be combined with --truncate or --rotate",
            hint="use --rotate-on-idle-seconds",
        )
    given = IngestOptions(**options)
    if given.rotate_on_idle and not follow:
        raise InvalidInput("--rotate-on-idle-seconds needs --follow", hint="use --rotate")
    from treering.capture.episodes.bounds import EventLimits  # noqa: PLC0415  (not for --help)
    from treering.capture.episodes.ingest import Follow, FollowPlan, Ingest  # noqa: PLC0415

    caps = EventLimits.within(
        payload=given.payload_cap_bytes,
        conversation=given.conversation_payload_cap_bytes,
        refs=given.refs_cap_bytes,
    )
    path = Path(spool).expanduser()
    where = Path(state).expanduser() if state else path.with_name(path.name + STATE_SUFFIX)
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder", hint="name the spool in it")
    # Checked first: a misspelt name must not create a ledger.
    if not follow and not path.exists() and not where.exists():
        raise NotFound(f"no spool at {path}", hint="name it with --file")
    with open_to_write() as ledger:
        rules = _rules(path, scope, allows_markers=allows_markers)
        work = Ingest(ledger, path, where, caps=caps, location=_place(), **rules)
        if not follow:
            receipt = work.once("truncate" if truncate else "rotate" if rotate else "none")
            show(receipt, *_lines(receipt), done="the spool was imported")
            return
        plan = FollowPlan(
            poll_ms=given.poll_ms,
            idle_exit_s=given.idle_exit,
            rotate_idle_s=given.rotate_on_idle,
            rotate_bytes_min=given.rotate_min_bytes,
        )
        following = Follow(work, plan)
        following.run()
        totals = following.receipt()
    show(totals, *_followed(totals), done="the spool was imported")


def _rules(source: Path, scope: str | None, *, allows_markers: bool) -> dict[str, Any]:
    """Return what masks the lines of ``source``, which scopes they get, and where bad ones go."""
    from treering.app import new_guard  # noqa: PLC0415  (not for --help)
    from treering.capture.episodes.lines import ScopeRule  # noqa: PLC0415
    from treering.capture.quarantine import quarantine_of  # noqa: PLC0415

    guard = new_guard(personal=True)
    return {
        "guard": guard,
        "scope_rule": ScopeRule(None if scope is None else parse_scope(scope), allows_markers),
        "quarantine": quarantine_of(source, guard),
    }


def _place() -> str:
    """Return the ledger's name, the same wherever the command is run."""
    path = database_path()
    return shown(path) if is_on_server() or path == MEMORY else str(Path(path).resolve())


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def _lines(receipt: IngestReceipt) -> Iterator[str]:
    counts, source = receipt.lines, receipt.source
    yield f"imported {counted(receipt.inserted, 'event')} of {source.file}"
    if source.offset_recovery:
        yield f"  read from its beginning: {source.offset_recovery}"
    if counts.duplicates:
        yield f"  {counts.duplicates:,} {_were(counts.duplicates)} here already"
    if counts.invalid_json or counts.invalid_event:
        lines = counted(counts.invalid_json + counts.invalid_event, "line")
        yield f"  {lines} could not be imported"
        yield from (f"    {fault}" for fault in receipt.errors_sample)
    if counts.mended:
        yield f"  {counted(counts.mended, 'line')} not sound, and mended"
    if source.trailing_partial_bytes:
        size = counted(source.trailing_partial_bytes, "byte")
        yield f"  a last line of {size} waits for its newline"
    done = receipt.maintenance
    if done.requested != "none":
        yield (
            f"  the spool was {done.applied}{f': {done.rotated_to}' if done.rotated_to else ''}"
            if (done.applied != "none")
            else f"  the spool was left as it is: {done.reason}"
        )


def _followed(receipt: FollowReceipt) -> Iterator[str]:
    total, counts = receipt.aggregate, receipt.aggregate.lines
    yield f"imported {counted(total.inserted, 'event')} of {receipt.source.file}"
    if counts.duplicates:
        yield f"  {counts.duplicates:,} {_were(counts.duplicates)} here already"
    if counts.invalid_json or counts.invalid_event:
        lines = counted(counts.invalid_json + counts.invalid_event, "line")
        yield f"  {lines} could not be imported"
    if receipt.rotate_on_idle.rotated:
        yield f"  put aside {counted(receipt.rotate_on_idle.rotated, 'time')}"
    yield f"  stopped: {receipt.follow.stop_reason}"


EXTRACT_SUFFIX: Final = ".treering-extract.json"
POLL_MS_MIN: Final = 100

StopReason = Literal["one_shot", "max_duration", "interrupted"]


class ExtractOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How transcripts are followed, and where their messages are cut."""

    summary_max_chars: int
    payload_cap_bytes: int
    poll_ms: int
    max_duration: float


@command(
    "extract-sessions",
    keys=False,
    short_help="Extract messages of OpenClaw's transcripts to a spool.",
    examples=r"""
    treering episodes extract-sessions --file spool.jsonl
    treering episodes extract-sessions \
      --sessions-root ~/.openclaw/agents/main/sessions \
      --file spool.jsonl --follow --max-duration-seconds 3600 --json
    """,
    if_stopped="what was brought over is kept; run it again for the rest: nothing is duplicated",
)
@click.option(
    "--sessions-root",
    metavar="DIR",
    help="Where the transcripts are. Default: those of all agents of OpenClaw.",
)
@click.option(
    "--file", "--spool", "spool",
    default=SPOOL, metavar="SPOOL", help=f"The spool to write to. Default: {SPOOL}.",
)  # fmt: skip
@click.option(
    "--state",
    metavar="STATE",
    help=f"Where to store the read positions. Default: SPOOL{EXTRACT_SUFFIX}.",
)
@click.option(
    "--scope",
    metavar="SCOPE",
    help="Put all of it here. Default: openclaw/AGENT, or global where no agent is known.",
)
@markers_option
@click.option(
    "--summary-max-chars",
    type=int,
    default=220,
    metavar="N",
    help="Characters of a summary, 40 to 400. Default: 220.",
)
@size_option("--payload-cap-bytes", "Cut larger payloads, 256 to 8192.", 4_096)
@click.option(
    "--follow", is_flag=True, help="Keep reading as the transcripts grow, until you stop it."
)
@_poll_option
@click.option(
    "--max-duration-seconds", "--max-duration", "max_duration",
    type=click.FloatRange(min=0), default=0.0, metavar="S",
    help="With --follow: exit after S seconds. Default: 0, never.",
)  # fmt: skip
def extract_sessions(
    *,
    sessions_root: str | None,
    spool: str,
    state: str | None,
    scope: str | None,
    allows_markers: bool,
    follow: bool,
    **options: Any,
) -> None:
    """Extract the messages of users and agents to a spool, for ingest to import.

    Gateway wrappers are left out; secrets and personal details are masked; tool output is
    withheld. Tool calls and the rest stay in the transcripts: treering import reads those
    completely.
    """
    given = ExtractOptions(**options)
    if given.max_duration and not follow:
        raise InvalidInput("--max-duration-seconds needs --follow", hint="add it")
    from treering.capture.episodes.extraction import (  # noqa: PLC0415  (not for --help)
        Extracted,
        SpoolExtractor,
        TextLimits,
        default_root,
    )

    root = Path(sessions_root).expanduser() if sessions_root else default_root()
    path = Path(spool).expanduser()
    where = Path(state).expanduser() if state else path.with_name(path.name + EXTRACT_SUFFIX)
    cap = min(max(256, given.payload_cap_bytes), 8_192)
    limits = TextLimits(payload_bytes=cap, summary_characters=given.summary_max_chars)
    source = root.absolute()
    rules = _rules(source, scope, allows_markers=allows_markers)
    extraction = SpoolExtractor(source, path, where, key=mask_key, limits=limits, **rules)
    done = Extracted()
    began = time.monotonic()
    reason: StopReason = "one_shot"
    if follow:
        reason = _follow(extraction, done, began, given.poll_ms, given.max_duration)
    else:
        extraction.once(done)
    body: dict[str, Any] = {
        "source": {"sessions_root": str(root), "state": str(where), "spool": str(path)},
        **msgspec.structs.asdict(done),
        "payload_cap_bytes": cap,
        "duration_ms": round((time.monotonic() - began) * 1_000),
        "stop_reason": reason,
        "counters": {"ignored": {"files": done.ignored_files}},
    }
    show(body, *_extracted(done, path), done="the spool was written to")


def _follow(
    extraction: SpoolExtractor, done: Extracted, began: float, poll_ms: int, max_duration: float
) -> StopReason:
    try:
        while True:
            extraction.once(done)
            if 0 < max_duration <= time.monotonic() - began:
                return "max_duration"
            time.sleep(max(POLL_MS_MIN, poll_ms) / 1_000)
    except KeyboardInterrupt:
        return "interrupted"


def _extracted(done: Extracted, spool: Path) -> Iterator[str]:
    files = counted(done.files_seen, "transcript")
    yield f"brought {counted(done.emitted, 'event')} of {files} to {spool}"
    if done.invalid_json:
        yield f"  {counted(done.invalid_json, 'line')} could not be read"
    yield from (f"    {fault}" for fault in done.errors_sample)
    if done.trailing_partial_bytes:
        yield f"  waiting for the end of a line: {counted(done.trailing_partial_bytes, 'byte')}"
