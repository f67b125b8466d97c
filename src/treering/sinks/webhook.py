"""The webhook sink: events as CloudEvents, posted in batches that are signed.

    webhook-id         a digest of the ids in the body: the same when a batch is sent again
    webhook-timestamp  seconds since 1970
    webhook-signature  v1,BASE64(HMAC-SHA256(secret, id.timestamp.body)), one for each secret

The headers are those of Standard Webhooks, whose libraries check them in any language.

Answers to a post:

2xx ─► accepted     408, 425, 429, 5xx, no answer ─► try again later     other 4xx ─► refused
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import ssl
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final, Literal
from urllib.parse import quote, unquote, urlsplit

import msgspec

from treering.errors import InvalidInput, Unavailable
from treering.model.arguments import check_arguments
from treering.model.carried import PrivateEvent, SafeEvent
from treering.model.fields import instant
from treering.spine.ports import Delivery, Undeliverable
from treering.version import __version__

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

    @check_arguments
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
        self.accepts: Callable[[Any], bool] | Collection[str] = _all if accepts is None else accepts
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


def _bodies(events: Sequence[tuple[Any, dict[str, Any]]]) -> Iterator[tuple[list[Any], bytes]]:
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


ANSWER_BYTES_MAX: Final = 65_536
RETRY_AFTER_S_MAX: Final = 300.0
_HINT: Final = "check that it is running there; nothing is lost, it can be sent again"
_AGAIN: Final = frozenset({408, 425, 429})


class WebEndpoint:
    """Posts to one URL. Not to be shared between threads."""

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, timeout_s: float = 20.0
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InvalidInput(
                f"{url} is not a web address", hint="write https://example.org/events"
            )
        self.shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        """The address without possible secrets: a password, or a token in the query."""
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._address = (parts.hostname, parts.port)
        self._is_secure = parts.scheme == "https"
        self._headers = {"User-Agent": f"treering/{__version__}", **(headers or {})}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        self._timeout_s = timeout_s
        self._connection: HTTPConnection | None = None

    def post(self, body: bytes, headers: Mapping[str, str]) -> bytes:
        """Send ``body`` and return the answer.

        Raise Unavailable if it may be sent again, and InvalidInput if it is refused for good. The
        former has ``retry_after_s`` if the endpoint asks for a pause.
        """
        is_fresh = self._connection is None
        try:
            status, answer, retry_after = self._ask(body, headers)
        except (HTTPException, OSError) as error:
            self.close()
            if is_fresh or isinstance(error, TimeoutError):
                raise Unavailable(
                    f"no answer from {self.shown}: {str(error) or type(error).__name__}", hint=_HINT
                ) from error
            # The endpoint may have closed a connection that was idle; a new one tells.
            return self.post(body, headers)
        if 200 <= status < 300:
            return answer
        if status in _AGAIN or status >= 500:
            failed = Unavailable(f"{self.shown} answered {status}", hint=_HINT)
            failed.__dict__["retry_after_s"] = retry_after
            raise failed
        raise InvalidInput(
            f"{self.shown} answered {status}", hint="check the address, its path and its key"
        )

    def close(self) -> None:
        """Close the connection; the next post opens another."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
        self._connection = None

    def _ask(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes, float]:
        if self._connection is None:
            host, port = self._address
            if self._is_secure:
                self._connection = HTTPSConnection(
                    host, port, timeout=self._timeout_s, context=ssl.create_default_context()
                )
            else:
                self._connection = HTTPConnection(host, port, timeout=self._timeout_s)
        self._connection.request("POST", self._target, body, {**self._headers, **headers})
        response = self._connection.getresponse()
        answer = response.read(ANSWER_BYTES_MAX)
        if not response.isclosed() or response.will_close:
            self.close()  # Otherwise the next request would read the rest of a long answer.
        return response.status, answer, _seconds(response.getheader("Retry-After"))


def _seconds(header: str | None) -> float:
    """Return how long an endpoint asks to wait; one that names a time of day is asked at once."""
    try:
        return min(max(float(header or 0), 0.0), RETRY_AFTER_S_MAX)
    except ValueError:
        return 0.0
