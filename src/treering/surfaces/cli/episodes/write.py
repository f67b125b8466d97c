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
from treering.model.events import Header, NewEvent
from treering.model.fields import check_id, check_summary
from treering.model.scopes import parse_scope
from treering.surfaces.cli.commands import show
from treering.surfaces.cli.declare import (
    Options,
    command,
    flag,
    option,
    parse_episode_kind,
    parse_time,
    require,
    resolve_scope,
    scope_options,
    together,
)
from treering.surfaces.cli.episodes.read import ITEM_SCHEMA
from treering.surfaces.cli.ledgers import MEMORY, database_path, is_on_server, open_to_write, shown
from treering.surfaces.cli.output import STANDARD, read_input
from treering.surfaces.shared.texts import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.capture.episodes.extraction import Extracted, SpoolExtractor
    from treering.capture.episodes.ingest import FollowReceipt, IngestReceipt
    from treering.model.codec import Json

_OVERSIZE_HINT: Final = "pass --spill to keep it whole beside the event, or refer to it with refs"


class _Given(Options, frozen=True, kw_only=True):
    """An event as it was given."""

    session_id: str | None = option("ID", "The session it belongs to.")
    agent_id: str | None = option("ID", "Who acts, such as lyria, worker or cron-lite.")
    kind: str | None = option("TYPE", "One of the seven types above.", "--type")
    summary: str | None = option("TEXT", "What happened, in up to 1,000 characters.")
    payload_json: str | None = option(
        "JSON", "Private content, up to 8,192 bytes.", "--payload-json", "--payload"
    )
    payload_file: str | None = option("FILE", "The same from a file; - is standard input.")
    refs_json: str | None = option("JSON", "Links safe to show, up to 4,096 bytes.")
    refs_file: str | None = option("FILE", "The same from a file; - is standard input.")
    event_id: str | None = option("ID", "Its id. Default: a new one.")
    ts_ms: str | None = option(
        "WHEN", "When it happened: milliseconds, a date, or 3d. Default: now."
    )

    def event(self, scope: str | None, *, is_global: bool) -> NewEvent:
        """Return the event. Raise InvalidInput, which names the first mistake."""
        if self.payload_file == self.refs_file == STANDARD:
            raise InvalidInput(
                "payload and refs cannot both come from standard input", hint="use a file for one"
            )
        # Arguments are checked from top to bottom.
        return NewEvent(
            kind=parse_episode_kind(self.kind),
            scope=resolve_scope(scope, is_global=is_global),
            ts_ms=parse_time(self.ts_ms),
            session_id=require(self.session_id, "session_id"),
            agent_id=require(self.agent_id, "agent_id"),
            summary=check_summary(self.summary or ""),
            payload=_read_json("payload", self.payload_json, self.payload_file),
            refs=_read_json("refs", self.refs_json, self.refs_file),
            event_id=None if self.event_id is None else check_id(self.event_id),
        )


@command(
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
def append(
    *,
    scope: str | None,
    is_global: bool,
    given: _Given = together(_Given),
    spill: bool = flag("Accept a larger payload and keep it as a blob."),
    allow_sensitive: bool = flag("Record secrets and personal details as they are."),
    allow_tool_output: bool = flag(None, hidden=True),
) -> None:
    """Record one event. It is durable when the command returns.

    The types are conversation.user, conversation.assistant, tool.call, tool.result,
    ops.decision, ops.alert and ops.observation. Secrets, e-mail addresses and phone numbers are
    refused, and so is a known event id: then nothing is recorded.
    """
    event = given.event(scope, is_global=is_global)
    payload_cap = SPILL_BYTES_MAX if spill else PAYLOAD_BYTES_MAX
    _check_size("payload", event.payload, payload_cap, _OVERSIZE_HINT)
    refs_bytes = _check_size("refs", event.refs, REFS_BYTES_MAX, "put the bulk into the payload")
    if not (allow_sensitive or allow_tool_output):
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
markers_option = flag(
    "Let text that begins with [SCOPE: x] choose its scope, unless --scope is given.",
    "--allow-scope-markers",
)
"""What is typed into a chat can begin so: it chooses a scope only where the operator says so."""
_poll_option = option(
    "MS",
    "With --follow: poll interval, at least 100. Default: 1000.",
    "--poll-interval-ms",
    "--poll-ms",
    default=1_000,
)


def size_option(text: str, default: int) -> Any:
    """Return an option that takes a number of bytes."""
    text = f"{text} Default: {default}."
    return option("N", text, type=click.IntRange(min=1), default=default)


class _FollowOptions(Options, frozen=True, kw_only=True):
    """How to follow a spool. 0 seconds means never."""

    poll_ms: int = _poll_option
    idle_exit: float = option(
        "S",
        "With --follow: exit after S idle seconds. Default: 0, never.",
        "--idle-exit-seconds",
        "--idle-exit",
        type=click.FloatRange(min=0),
        default=0.0,
    )
    rotate_on_idle: float = option(
        "S",
        "With --follow: rotate the spool after S idle seconds. Default: 0, never.",
        "--rotate-on-idle-seconds",
        "--rotate-on-idle",
        type=click.FloatRange(min=0),
        default=0.0,
    )
    rotate_min_bytes: int = size_option("With --follow: put no smaller spool aside.", 1_048_576)


class _Caps(Options, frozen=True, kw_only=True):
    """The limits of an event, in bytes."""

    payload_cap_bytes: int = size_option("Cut larger payloads, 256 to 8192.", 8_192)
    conversation_payload_cap_bytes: int = size_option("The same for what was said.", 4_096)
    refs_cap_bytes: int = size_option("Cut larger refs, 128 to 4096.", 4_096)


@command(
    short_help="Import a spool of events.",
    examples=r"""
    treering episodes ingest --rotate
    treering episodes ingest --file spool.jsonl --follow --idle-exit-seconds 60
    """,
    if_stopped="what was imported is kept; run it again for the rest: nothing is duplicated",
)
def ingest(
    *,
    spool: str = option(
        "SPOOL", f"The spool: JSONL. Default: {SPOOL}.", "--file", "--spool", default=SPOOL
    ),
    state: str | None = option(
        "STATE", f"Where to store the read position. Default: SPOOL{STATE_SUFFIX}."
    ),
    scope: str | None = option(
        "SCOPE", "Put all lines here. Default: what each line's scope field says, else global."
    ),
    allows_markers: bool = markers_option,
    follow: bool = flag("Keep reading as the spool grows, until you stop it."),
    following: _FollowOptions = together(_FollowOptions),
    truncate: bool = flag("Empty the spool once all of it is imported."),
    rotate: bool = flag("Rename it instead."),
    caps: _Caps = together(_Caps),
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
    if following.rotate_on_idle and not follow:
        raise InvalidInput("--rotate-on-idle-seconds needs --follow", hint="use --rotate")
    from treering.capture.episodes.bounds import EventLimits  # noqa: PLC0415  (not for --help)
    from treering.capture.episodes.ingest import Follow, FollowPlan, Ingest  # noqa: PLC0415

    limits = EventLimits.within(
        payload=caps.payload_cap_bytes,
        conversation=caps.conversation_payload_cap_bytes,
        refs=caps.refs_cap_bytes,
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
        work = Ingest(ledger, path, where, caps=limits, location=_place(), **rules)
        if not follow:
            receipt = work.once("truncate" if truncate else "rotate" if rotate else "none")
            show(receipt, *_lines(receipt), done="the spool was imported")
            return
        plan = FollowPlan(
            poll_ms=following.poll_ms,
            idle_exit_s=following.idle_exit,
            rotate_idle_s=following.rotate_on_idle,
            rotate_bytes_min=following.rotate_min_bytes,
        )
        passes = Follow(work, plan)
        passes.run()
        totals = passes.receipt()
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


class _Cuts(Options, frozen=True, kw_only=True):
    """How much of a message is kept."""

    summary_max_chars: int = option(
        "N", "Characters of a summary, 40 to 400. Default: 220.", default=220
    )
    payload_cap_bytes: int = size_option("Cut larger payloads, 256 to 8192.", 4_096)


@command(
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
def extract_sessions(
    *,
    sessions_root: str | None = option(
        "DIR", "Where the transcripts are. Default: those of all agents of OpenClaw."
    ),
    spool: str = option(
        "SPOOL", f"The spool to write to. Default: {SPOOL}.", "--file", "--spool", default=SPOOL
    ),
    state: str | None = option(
        "STATE", f"Where to store the read positions. Default: SPOOL{EXTRACT_SUFFIX}."
    ),
    scope: str | None = option(
        "SCOPE", "Put all of it here. Default: openclaw/AGENT, or global where no agent is known."
    ),
    allows_markers: bool = markers_option,
    cuts: _Cuts = together(_Cuts),
    follow: bool = flag("Keep reading as the transcripts grow, until you stop it."),
    poll_ms: int = _poll_option,
    max_duration: float = option(
        "S",
        "With --follow: exit after S seconds. Default: 0, never.",
        "--max-duration-seconds",
        "--max-duration",
        type=click.FloatRange(min=0),
        default=0.0,
    ),
) -> None:
    """Extract the messages of users and agents to a spool, for ingest to import.

    Gateway wrappers are left out; secrets and personal details are masked; tool output is
    withheld. Tool calls and the rest stay in the transcripts: treering import reads those
    completely.
    """
    if max_duration and not follow:
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
    cap = min(max(256, cuts.payload_cap_bytes), 8_192)
    limits = TextLimits(payload_bytes=cap, summary_characters=cuts.summary_max_chars)
    source = root.absolute()
    rules = _rules(source, scope, allows_markers=allows_markers)
    extraction = SpoolExtractor(source, path, where, key=mask_key, limits=limits, **rules)
    done = Extracted()
    began = time.monotonic()
    reason: StopReason = "one_shot"
    if follow:
        reason = _follow(extraction, done, began, poll_ms, max_duration)
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
