"""The webhook sink: events as CloudEvents, posted in batches that are signed.

    webhook-id         a digest of the ids in the body: the same when a batch is sent again
    webhook-timestamp  seconds since 1970
    webhook-signature  v1,BASE64(HMAC-SHA256(secret, id.timestamp.body)), one for each secret

The headers are those of Standard Webhooks, whose libraries check them in any language.
"""

from __future__ import annotations

import hmac
import secrets
import time
from base64 import b64decode, b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

import msgspec

from treering.errors import InvalidInput, Unavailable
from treering.model.carried import PrivateEvent
from treering.model.times import instant
from treering.sinks.posting import WebEndpoint
from treering.spine.ports import Delivery, Undeliverable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from treering.model.carried import SafeEvent

BATCH_EVENTS_MAX: Final = 100
BODY_BYTES_MAX: Final = 1_000_000
"""The largest body, unless it is one event."""
GIVE_UP_S: Final = 3 * 86_400.0
"""How long the same events are tried before they count as undeliverable."""
SECRET_PREFIX: Final = "whsec_"  # noqa: S105  (how such a secret begins)
SECRET_BYTES_MIN: Final = 24
CONTENT_TYPE: Final = "application/cloudevents-batch+json"


class WebhookSink:
    """Posts every event to a URL; durable, so none is missed. Events come at least once.

    ``secret`` is one of Standard Webhooks, ``whsec_`` and base 64, or several while it is changed.
    ``accepts`` names kinds; all if left out. A body that the receiver refuses with a 4xx is sent
    event by event; what is refused alone, or fails for ``give_up_s``, is recorded as an alert.
    """

    visibility: Literal["safe", "private"] = "safe"

    def __init__(
        self,
        url: str,
        *,
        secret: str | Sequence[str],
        accepts: Collection[str] | None = None,
        headers: Mapping[str, str] | None = None,
        batch_events_max: int = BATCH_EVENTS_MAX,
        timeout_s: float = 20.0,
        give_up_s: float = GIVE_UP_S,
        name: str = "webhook",
    ) -> None:
        self.name = name
        self.accepts: Callable[[Any], bool] | Collection[str] = accepts or _all
        self.delivery = Delivery(
            durable=True,
            on_error="retry",
            timeout_s=timeout_s + 10,
            batch_events_max=batch_events_max,
        )
        self._keys = [_key(text) for text in ([secret] if isinstance(secret, str) else secret)]
        self._endpoint = WebEndpoint(url, headers=headers, timeout_s=timeout_s)
        self._give_up_s = give_up_s
        self._failing: tuple[str | None, float] | None = None
        """The first event of the batch that fails, and since when."""

    def handle(self, event: Any, /) -> None:
        """Post one event."""
        self.handle_batch([event])

    def handle_batch(self, events: Sequence[Any], /) -> None:
        """Post events. Raise Unavailable if they must be delivered again, Undeliverable if not."""
        refused: list[Any] = []
        why = ""
        for batch, body in _bodies([(event, cloud_event(event)) for event in events]):
            try:
                self._post(batch, body)
            except Undeliverable as error:
                refused += error.events
                why = error.reason
        if refused:
            raise Undeliverable(refused, why)

    def close(self) -> None:
        """Close the connection."""
        self._endpoint.close()

    def _post(self, events: Sequence[SafeEvent | PrivateEvent], body: bytes) -> None:
        names = "\0".join(event.event_id or "" for event in events)
        message_id = f"msg_{sha256(names.encode()).hexdigest()[:32]}"
        now = int(time.time())
        headers = {
            "Content-Type": CONTENT_TYPE,
            "webhook-id": message_id,
            "webhook-timestamp": str(now),
            "webhook-signature": " ".join(sign(k, message_id, now, body) for k in self._keys),
        }
        try:
            self._endpoint.post(body, headers)
        except Unavailable as error:
            first, since = self._failing or (None, 0.0)
            if first != events[0].event_id:
                self._failing = (events[0].event_id, time.monotonic())
            elif time.monotonic() - since >= self._give_up_s:
                raise Undeliverable(events, str(error)) from error
            raise
        except InvalidInput as error:
            if len(events) == 1:
                raise Undeliverable(events, str(error)) from error
            self._post_singly(events)
        self._failing = None

    def _post_singly(self, events: Sequence[SafeEvent | PrivateEvent]) -> None:
        refused: list[SafeEvent | PrivateEvent] = []
        why = ""
        for event in events:
            try:
                self._post([event], b"[" + msgspec.json.encode(cloud_event(event)) + b"]")
            except Undeliverable as error:
                refused.append(event)
                why = error.reason
        if refused:
            raise Undeliverable(refused, why)


class PrivateWebhookSink(WebhookSink):
    """Posts every event with its private content."""

    visibility = "private"


def cloud_event(event: SafeEvent | PrivateEvent) -> dict[str, Any]:
    """Return ``event`` as a CloudEvent 1.0, with private content only if the event is private."""
    content = {
        "seq": event.seq,
        "session_id": event.session_id,
        "session_key": event.session_key,
        "run_id": event.run_id,
        "turn_id": event.turn_id,
        "agent_id": event.agent_id,
        "kind": event.kind,
        "source": event.source,
        "origin": event.origin,
        "visibility": event.visibility,
        "summary": event.summary,
        "part": event.part.as_refs(),
        "refs": event.refs,
        "payload_bytes": event.payload_bytes,
    }
    if isinstance(event, PrivateEvent):
        content["payload"] = event.payload
    return {
        "specversion": "1.0",
        "id": event.event_id,
        "source": f"/treering/{quote(event.scope)}",
        "type": f"treering.{event.kind}",
        "subject": event.session_id,
        "time": instant(event.ts_ms),
        "datacontenttype": "application/json",
        "data": content,
    }


def sign(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a body, as Standard Webhooks writes it."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return f"v1,{b64encode(hmac.digest(key, signed, 'sha256')).decode()}"


def new_secret() -> str:
    """Return a random secret for a webhook and its receiver."""
    return SECRET_PREFIX + b64encode(secrets.token_bytes(32)).decode()


def _key(secret: str) -> bytes:
    """Return the key in a secret. Raise InvalidInput if it is none, or too short to be one."""
    try:
        key = b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError as error:
        raise InvalidInput(
            "the secret of the webhook is not base 64", hint="make one with new_secret()"
        ) from error
    if len(key) < SECRET_BYTES_MIN:
        raise InvalidInput(
            f"the secret of the webhook has {len(key)} bytes, fewer than {SECRET_BYTES_MIN}",
            hint="make one with new_secret()",
        )
    return key


def _bodies(
    events: Sequence[tuple[Any, dict[str, Any]]],
) -> Iterator[tuple[list[Any], bytes]]:
    """Yield events with their body, in parts that are not too large."""
    batch: list[Any] = []
    parts: list[bytes] = []
    size = 0
    for event, written in events:
        part = msgspec.json.encode(written)
        if batch and size + len(part) > BODY_BYTES_MAX:
            yield batch, b"[" + b",".join(parts) + b"]"
            batch, parts, size = [], [], 0
        batch.append(event)
        parts.append(part)
        size += len(part) + 1
    if batch:
        yield batch, b"[" + b",".join(parts) + b"]"


def _all(_: Any) -> bool:
    return True
