"""``treering episodes append``: one event, checked before the ledger is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.errors import DuplicateEvent, InvalidInput, SensitiveContent, TooLarge
from treering.model.codec import (
    PAYLOAD_BYTES_MAX,
    REFS_BYTES_MAX,
    SPILL_BYTES_MAX,
    canonical,
    parse_json,
)
from treering.model.events import NewEvent
from treering.model.fields import check_id, check_summary
from treering.surfaces.cli.commands import show
from treering.surfaces.cli.declare import command, scope_options
from treering.surfaces.cli.episodes.read import ITEM_SCHEMA
from treering.surfaces.cli.ledgers import open_to_write
from treering.surfaces.cli.options import parse_episode_kind, parse_time, require, resolve_scope
from treering.surfaces.cli.output import STANDARD, read_input

if TYPE_CHECKING:
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
