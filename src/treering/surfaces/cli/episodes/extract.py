"""``treering episodes extract-sessions``: what was said in transcripts, brought to a spool."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click
import msgspec

from treering.errors import InvalidInput
from treering.surfaces.cli.commands import show
from treering.surfaces.cli.declare import command
from treering.surfaces.cli.episodes.ingest import SPOOL, markers_option, size_option
from treering.surfaces.shared.texts import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.capture.episodes.extraction import Extracted, SpoolExtractor, TextLimits

STATE_SUFFIX: Final = ".treering-extract.json"
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
    help=f"Where to store the read positions. Default: SPOOL{STATE_SUFFIX}.",
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
@click.option(
    "--poll-interval-ms", "--poll-ms", "poll_ms",
    type=int, default=1_000, metavar="MS",
    help="With --follow: poll interval, at least 100. Default: 1000.",
)  # fmt: skip
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
    from treering.capture.episodes.extraction import Extracted, TextLimits  # noqa: PLC0415  (not for --help)
    from treering.capture.episodes.extraction_sources import default_root  # noqa: PLC0415

    root = Path(sessions_root).expanduser() if sessions_root else default_root()
    path = Path(spool).expanduser()
    where = Path(state).expanduser() if state else path.with_name(path.name + STATE_SUFFIX)
    cap = min(max(256, given.payload_cap_bytes), 8_192)
    extraction = _extraction(
        root.absolute(),
        path,
        where,
        scope,
        TextLimits(payload_bytes=cap, summary_characters=given.summary_max_chars),
        allows_markers=allows_markers,
    )
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
    show(body, *_lines(done, path), done="the spool was written to")


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


def _extraction(
    root: Path,
    spool: Path,
    state: Path,
    scope: str | None,
    limits: TextLimits,
    *,
    allows_markers: bool,
) -> SpoolExtractor:
    from treering.app import new_guard  # noqa: PLC0415
    from treering.capture.episodes.extraction import SpoolExtractor  # noqa: PLC0415  (not for --help)
    from treering.capture.episodes.lines import ScopeRule  # noqa: PLC0415
    from treering.capture.quarantine import quarantine_of  # noqa: PLC0415
    from treering.config import mask_key  # noqa: PLC0415
    from treering.model.scopes import parse_scope  # noqa: PLC0415

    guard = new_guard(personal=True)
    return SpoolExtractor(
        root,
        spool,
        state,
        guard=guard,
        key=mask_key,
        limits=limits,
        scope_rule=ScopeRule(None if scope is None else parse_scope(scope), allows_markers),
        quarantine=quarantine_of(root, guard),
    )


def _lines(done: Extracted, spool: Path) -> Iterator[str]:
    files = counted(done.files_seen, "transcript")
    yield f"brought {counted(done.emitted, 'event')} of {files} to {spool}"
    if done.invalid_json:
        yield f"  {counted(done.invalid_json, 'line')} could not be read"
    yield from (f"    {fault}" for fault in done.errors_sample)
    if done.trailing_partial_bytes:
        yield f"  waiting for the end of a line: {counted(done.trailing_partial_bytes, 'byte')}"
