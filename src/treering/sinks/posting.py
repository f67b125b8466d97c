"""Posting to a web endpoint: one kept connection, and answers sorted by what to do.

2xx ─► accepted     408, 425, 429, 5xx, no answer ─► try again later     other 4xx ─► refused
"""

from __future__ import annotations

import contextlib
import ssl
from base64 import b64encode
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from treering.errors import InvalidInput, Unavailable
from treering.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

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
                    f"no answer from {self.shown}: {str(error) or type(error).__name__}",
                    hint=_HINT,
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
