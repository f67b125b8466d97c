"""The OTLP sink: runs as OpenTelemetry spans, posted to a collector when they have ended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import unquote, urlsplit

import msgspec

from treering.errors import InvalidInput
from treering.lazy import lazy_logger
from treering.ledger.spans import trace_request
from treering.model.arguments import check_arguments
from treering.model.kinds import RUN_ENDS
from treering.sinks.webhook import WebEndpoint
from treering.spine.ports import Delivery, SafePast, Undeliverable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.model.carried import PrivateEvent, SafeEvent

PATH: Final = "/v1/traces"
HEADERS_VARIABLE: Final = "OTEL_EXPORTER_OTLP_HEADERS"
_TURN_ENDS: Final = frozenset({"conversation.user", "session.closed"})
_log = lazy_logger("treering.sinks")


class Collector:
    """A collector of spans. ``url`` is its base, or the whole address of its traces."""

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, timeout_s: float = 20.0
    ) -> None:
        parts = urlsplit(url)
        path = parts.path.rstrip("/")
        whole = parts._replace(path=path if path.endswith(PATH) else path + PATH).geturl()
        given = _stated_headers() if headers is None else headers
        self._endpoint = WebEndpoint(whole, headers=given, timeout_s=timeout_s)

    def post(self, body: bytes) -> None:
        """Send spans. Raise Unavailable if they may be sent again, InvalidInput if not."""
        answer = self._endpoint.post(body, {"Content-Type": "application/json"})
        try:
            partial = msgspec.json.decode(answer or b"{}", type=_Answer).partial
        except msgspec.MsgspecError:
            return  # Accepted, whatever the body says.
        if partial is not None and int(partial.rejected or 0):
            why = partial.message or "no reason given"
            _log.warning("%s refused %s spans: %s", self._endpoint.shown, partial.rejected, why)

    def close(self) -> None:
        """Close the connection."""
        self._endpoint.close()


class OtlpSink:
    """Posts the spans of every run that has ended; durable, so none is missed.

    Ids of spans are digests of what they describe: spans sent again after a crash have the same
    ids. A turn outside of runs is posted when the next one begins, or the session is closed.
    """

    visibility: Literal["safe", "private"] = "safe"

    @check_arguments
    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        service: str = "treering",
        timeout_s: float = 20.0,
        name: str = "otlp",
    ) -> None:
        self.name = name
        self.delivery = Delivery(
            durable=True, on_error="retry", timeout_s=timeout_s + 10, batch_events_max=100
        )
        self._service = service
        self._collector = Collector(url, headers=headers, timeout_s=timeout_s)
        self._past: SafePast | None = None

    def attach_past(self, past: SafePast) -> None:
        """Use ``past`` to read the spans of a run."""
        self._past = past

    def accepts(self, event: SafeEvent, /) -> bool:
        """Return whether ``event`` ends a run, or a turn outside of runs."""
        if event.run_id is None:
            return event.kind in _TURN_ENDS
        return event.kind in RUN_ENDS

    def handle(self, event: SafeEvent, /) -> None:
        """Post the spans of the run that ``event`` ends."""
        self.handle_batch([event])

    def handle_batch(self, events: Sequence[SafeEvent], /) -> None:
        """Post the spans of the runs that ``events`` end."""
        past = self._past
        spans = [] if past is None else [span for event in events for span in _spans(past, event)]
        if not spans:
            return
        try:
            self._collector.post(msgspec.json.encode(trace_request(spans, service=self._service)))
        except InvalidInput as error:
            if len(events) == 1:
                raise Undeliverable(events, str(error)) from error
            _one_by_one(self, events)

    def close(self) -> None:
        """Close the connection."""
        self._collector.close()


class PrivateOtlpSink(OtlpSink):
    """Posts the spans of every run with what was said, and what tools were given and returned."""

    visibility = "private"


def _one_by_one(sink: Any, events: Sequence[SafeEvent | PrivateEvent]) -> None:
    """Hand over events singly. Raise Undeliverable with all that are refused."""
    refused: list[Any] = []
    why = ""
    for event in events:
        try:
            sink.handle_batch([event])
        except Undeliverable as error:
            refused.append(event)
            why = error.reason
    if refused:
        raise Undeliverable(refused, why)


def _spans(past: SafePast, event: SafeEvent) -> list[dict[str, Any]]:
    if event.run_id is not None:
        return past.run_spans(event.scope, event.session_id, event.run_id)
    return past.turn_spans(event.scope, event.session_id, event.seq or 0)


class _PartialSuccess(msgspec.Struct, frozen=True):
    rejected: str | int = msgspec.field(default=0, name="rejectedSpans")
    message: str = msgspec.field(default="", name="errorMessage")


class _Answer(msgspec.Struct, frozen=True):
    partial: _PartialSuccess | None = msgspec.field(default=None, name="partialSuccess")


def _stated_headers() -> dict[str, str]:
    """Return the headers that the environment states for collectors: ``name=value,name=value``."""
    headers = {}
    for pair in os.environ.get(HEADERS_VARIABLE, "").split(","):
        name, equals, value = pair.partition("=")
        if equals and name.strip():
            headers[name.strip()] = unquote(value.strip())
    return headers
