"""``treering forward``: send what is recorded to other systems, from where it stopped last."""

from __future__ import annotations

import contextlib
import os
import time
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering import sinks
from treering.errors import InvalidInput, StorageError
from treering.surfaces.cli.commands import fail, invocation, show
from treering.surfaces.cli.declare import Options, argument, command, flag, option, together
from treering.surfaces.cli.ledgers import open_existing
from treering.surfaces.cli.output import note
from treering.surfaces.shared.texts import counted, scope_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope
    from treering.spine.dispatcher import Spine
    from treering.spine.ports import Sink

TARGETS: Final = ("webhook", "otlp", "nats")
SECRET_VARIABLE: Final = "TREERING_WEBHOOK_SECRET"  # noqa: S105  (its name)
PATIENCE_S: Final = 30.0
"""How long ``--once`` waits for a receiver that takes nothing."""
LOOK_S: Final = 0.5
SCOPES_S: Final = 5.0
"""How often new scopes are looked for."""


class Forwarded(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent."""

    target: str
    name: str
    """The name of its cursor in the ledger."""
    scopes: list[str]
    delivered: int
    declined: int
    """Events that were not meant to be sent: of other kinds, or not the end of a run."""
    refused: int
    """Events that the receiver refused for good; each has an alert in its session."""
    retried: int
    last_error: str | None


class _Sending(Options, frozen=True, kw_only=True):
    """What is sent, and what the receiver needs for it."""

    payload: bool = flag("Send private content: messages, inputs, outputs.")
    kinds: Sequence[str] = option(
        "KIND",
        "Only events of this kind; repeatable. Not for otlp, which sends whole runs.",
        "--kind",
        multiple=True,
    )
    secret_file: Path | None = option(
        "FILE",
        "For webhook: the secrets that sign, one per line; created if it does not exist."
        f" Default: {SECRET_VARIABLE}.",
        type=click.Path(path_type=Path),
    )
    stream: str | None = option("NAME", "For nats: the stream. Default: TREERING.")


@command(
    scope="project",
    all_scopes="Forward all scopes, including new ones.",
    examples="""
    treering forward webhook https://example.org/hooks/treering --secret-file hook.secret
    treering forward otlp http://localhost:4318 --all-scopes
    treering forward nats nats://localhost:4222 --kind 'run.*,tool.result' --from-now
    treering forward webhook https://example.org/hook --once --json
    """,
    if_stopped="run it again: it continues where it stopped",
)
def forward(
    *,
    scope: Scope | None,
    target: str = argument(type=click.Choice(TARGETS)),
    url: str = argument(),
    sending: _Sending = together(_Sending),
    name: str | None = option("NAME", "The name of the cursor. Default: derived from the URL."),
    from_now: bool = flag("On the first start, skip existing events."),
    once: bool = flag("Send what is there, then exit."),
) -> None:
    """Send events to the URL of a TARGET: those it has not received, then new ones.

    webhook posts signed batches of CloudEvents. otlp posts the spans of each run that has ended
    to a collector. nats publishes to a stream of JetStream. A receiver that is down gets
    everything later: the ledger stores a cursor for each. What it refuses for good is recorded as
    an alert. Ctrl-C stops it and prints the totals.
    """
    name = name or f"{target}-{sha256(url.encode()).hexdigest()[:8]}"
    sink = _sink(target, url, name, sending)
    with open_existing("change") as ledger:
        spine = ledger.spine(sinks=[sink])
        forwarding = _Forwarding(ledger, spine, scope, from_now=from_now)
        is_whole = True
        # A signal ends it in the ordinary way: that is what it is waiting for.
        with contextlib.suppress(KeyboardInterrupt):
            if not once and not invocation().as_json:
                note(f"forwarding as {name}; Ctrl-C ends it")
            is_whole = forwarding.once() if once else forwarding.run()
        receipt = forwarding.receipt(target, name)
    if not is_whole:
        fail(
            receipt,
            receipt.last_error or "the receiver took nothing",
            code="unavailable",
            hint="run it again: it continues where it stopped",
        )
    show(receipt, *_lines(receipt), done="the events were sent")


def _lines(receipt: Forwarded) -> list[str]:
    noun = "run" if receipt.target == "otlp" else "event"
    lines = [f"sent {counted(receipt.delivered, noun)} as {receipt.name}"]
    if receipt.refused:
        alerts = counted(receipt.refused, "event")
        lines.append(f"{alerts} refused for good: treering tail --kind ops.alert")
    return lines


def _sink(target: str, url: str, name: str, sending: _Sending) -> Sink:
    for named, given, owner in (
        ("--secret-file", sending.secret_file, "webhook"),
        ("--stream", sending.stream, "nats"),
    ):
        if given is not None and target != owner:
            raise InvalidInput(f"{named} is for {owner}, not for {target}", hint="drop it")
    if target == "otlp" and sending.kinds:
        raise InvalidInput("otlp sends whole runs, not kinds of events", hint="drop --kind")
    options: dict[str, Any] = {"name": name}
    if target != "otlp":
        # Options that name no kind, as of an unset variable, are no kinds: the sink refuses that.
        chosen = (kind.strip() for text in sending.kinds for kind in text.split(","))
        options["accepts"] = tuple(filter(None, chosen)) if sending.kinds else None
    if target == "webhook":
        options["secret"] = _secrets(sending.secret_file)
    elif sending.stream is not None:
        options["stream"] = sending.stream
    made = {
        "webhook": sinks.PrivateWebhookSink if sending.payload else sinks.WebhookSink,
        "otlp": sinks.PrivateOtlpSink if sending.payload else sinks.OtlpSink,
        "nats": sinks.PrivateNatsSink if sending.payload else sinks.NatsSink,
    }[target]
    sink: Sink = made(url, **options)
    return sink


def _secrets(file: Path | None) -> list[str]:
    """Return the secrets that sign: of the file, which is made if need be, or the environment."""
    from treering.sinks.webhook import new_secret  # noqa: PLC0415  (not for --help)

    if file is None:
        stated = os.environ.get(SECRET_VARIABLE, "").split()
        if not stated:
            raise InvalidInput(
                "a webhook is signed and needs a secret",
                hint=f"pass --secret-file FILE, or set {SECRET_VARIABLE}",
            )
        return stated
    try:
        if not file.exists():
            descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(descriptor, "w") as stream:
                stream.write(f"{new_secret()}\n")
            note(f"a new secret is in {file}: the receiver needs it to check signatures")
        return file.read_text().split()
    except OSError as error:
        raise StorageError(f"cannot read {file}: {error.strerror}", hint="name another") from error


class _Forwarding:
    """The followed scopes, and what was sent."""

    def __init__(
        self, ledger: Ledger, spine: Spine, scope: Scope | None, *, from_now: bool
    ) -> None:
        self._ledger = ledger
        self._spine = spine
        self._scope = scope
        self._from_now = from_now
        self._followed: set[str] = set()

    def once(self) -> bool:
        """Send what is there; return False if the receiver accepts nothing for a while."""
        self._follow_all()
        moved_at, moved = time.monotonic(), 0
        while not self._spine.flush(LOOK_S):
            count = sum(status.delivered + status.declined for status in self._spine.status())
            if count > moved:
                moved_at, moved = time.monotonic(), count
            if time.monotonic() - moved_at > PATIENCE_S or self._is_stopped():
                return False
        return not self._is_stopped()

    def run(self) -> bool:
        """Send existing and new events, until it is stopped."""
        reported: str | None = None
        looked_at = -SCOPES_S
        while not self._is_stopped():
            if time.monotonic() - looked_at >= SCOPES_S:
                looked_at = time.monotonic()
                self._follow_all()
            error = next(
                (status.last_error for status in self._spine.status() if status.last_error), None
            )
            if error != reported and error is not None and not invocation().as_json:
                note(f"{error}; trying again")
            reported = error
            time.sleep(LOOK_S)
        return False

    def receipt(self, target: str, name: str) -> Forwarded:
        states = self._spine.status()
        return Forwarded(
            target=target,
            name=name,
            scopes=sorted(self._followed),
            delivered=sum(state.delivered for state in states),
            declined=sum(state.declined for state in states),
            refused=sum(state.failed for state in states),
            retried=sum(state.retried for state in states),
            last_error=next((state.last_error for state in states if state.last_error), None),
        )

    def _follow_all(self) -> None:
        for scope in scope_names(self._ledger) if self._scope is None else [self._scope]:
            if scope not in self._followed:
                self._followed.add(scope)
                self._spine.follow(scope, from_now=self._from_now)

    def _is_stopped(self) -> bool:
        return any(status.stopped for status in self._spine.status())
