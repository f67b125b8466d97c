"""Requests to a server: repeated where that is safe, and calls that cannot be made over HTTP."""

from __future__ import annotations

import contextlib
import functools
import inspect
import queue
import select
import threading
import time
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, ParamSpec, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from treering.errors import (
    Busy,
    Closed,
    Conflict,
    InvalidInput,
    OutcomeUnknown,
    TreeringError,
    Unavailable,
    Unsupported,
)
from treering.ledger.following import Follower, Item, cursor_at, mark_of
from treering.model.events import Event
from treering.model.fields import check_id, check_name
from treering.model.scopes import Scope, parse_scope

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Sequence

Answer = TypeVar("Answer")
P = ParamSpec("P")
R = TypeVar("R")

ANSWER_S: Final = 90.0
"""How long to wait for an answer: longer than a server takes to give up."""
PATIENCE_S: Final = 30.0
"""How long to try again while a server is away or busy."""
PAUSE_S: Final = 0.05
PAUSE_S_MAX: Final = 1.0
_RETRIED: Final = frozenset({"busy", "unavailable", "closed"})
"""Codes of answers to requests that had no effect."""


class _ProblemBody(msgspec.Struct, frozen=True):
    code: str = "error"
    message: str = ""
    hint: str | None = None
    current_seq: int | None = None
    event_ids: list[str] = []


class ServerConnection:
    """A connection to one server. Safe to share between threads; each has a socket of its own."""

    def __init__(self, url: str, token: str | None, *, patience_s: float = PATIENCE_S) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/"):
            raise InvalidInput(
                f"{url} is not the address of a server", hint="write http://127.0.0.1:8720"
            )
        self.url = url.rstrip("/")
        self._host, self._port = parts.hostname, parts.port
        self._is_secure = parts.scheme == "https"
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._patience_s = patience_s
        self._local = threading.local()
        self._sockets: set[HTTPConnection] = set()
        self._is_closed = False

    def stream(self, path: str, headers: dict[str, str]) -> tuple[HTTPConnection, HTTPResponse]:
        """Return a stream that has begun, on a socket of its own. Raise what the server answers."""
        self.check_open()
        connection = self._connect()
        try:
            connection.request("GET", path, headers=self._headers | headers)
            answer = connection.getresponse()
            refused = None if answer.status == 200 else _error(answer.read())
        except (OSError, HTTPException) as error:
            connection.close()
            raise _away(self.url) from error
        except BaseException:
            connection.close()
            raise
        if refused is not None:
            connection.close()
            raise refused
        return connection, answer

    def close(self) -> None:
        """Close all sockets; every later request raises Closed."""
        self._is_closed = True
        for connection in list(self._sockets):
            connection.close()

    def ask(
        self, method: str, path: str, body: bytes | None, kind: type[Answer], *, is_repeatable: bool
    ) -> Answer:
        """Return the answer to a request, as ``kind``; a repeatable one is sent until it arrives.

        Raise OutcomeUnknown if another one may have arrived.
        """
        until = time.monotonic() + self._patience_s
        for pause_s in _pauses():
            self.check_open()
            try:
                status, answer = self._send(method, path, body)
            except (OSError, HTTPException) as error:
                if not is_repeatable and not isinstance(error, ConnectionRefusedError):
                    raise OutcomeUnknown(
                        f"the connection to {self.url} broke before the answer",
                        hint="check whether it was done before you repeat it",
                    ) from error
                if time.monotonic() + pause_s > until:
                    raise _away(self.url) from error
            else:
                if status == 200:
                    return msgspec.json.decode(answer, type=kind)
                failed = _error(answer)
                if failed.code not in _RETRIED or time.monotonic() + pause_s > until:
                    raise failed
            time.sleep(pause_s)
        raise AssertionError

    def _send(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        connection: HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
            self._sockets.add(connection)
        elif connection.sock is not None and _is_over(connection.sock):
            # The server closed the idle connection: the request uses a new one.
            connection.close()
        headers = self._headers
        if body is not None:
            headers = headers | {"Content-Type": "application/json"}
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except BaseException:
            # Also after an interrupt: the next request must not read the rest of this answer.
            connection.close()
            self._sockets.discard(connection)
            self._local.connection = None
            raise

    def _connect(self) -> HTTPConnection:
        kind = HTTPSConnection if self._is_secure else HTTPConnection
        return kind(self._host, self._port, timeout=ANSWER_S)

    def check_open(self) -> None:
        """Raise Closed if it was closed."""
        if self._is_closed:
            raise Closed("the ledger is closed", hint="open it again")


class Resource:
    """What a server has below one path: all scopes, one of them, a session."""

    def __init__(self, connection: ServerConnection, *names: str) -> None:
        self.connection = connection
        self._names = names

    def get(self, kind: type[Answer], *names: str, **query: Any) -> Answer:
        """Return the answer to a GET request for what ``names`` lead to, as ``kind``."""
        path = path_of(*self._names, *names)
        given = {
            name: _text(value)
            for name, value in query.items()
            if value is not None and value is not False and value not in ((), [])
        }
        full = f"{path}?{urlencode(given, doseq=True)}" if given else path
        return self.connection.ask("GET", full, None, kind, is_repeatable=True)

    def post(
        self, kind: type[Answer], *names: str, body: Any, is_repeatable: bool = False
    ) -> Answer:
        """Return the answer to a POST request, as ``kind``; see ``ServerConnection.ask``."""
        path, sent = path_of(*self._names, *names), msgspec.json.encode(body)
        return self.connection.ask("POST", path, sent, kind, is_repeatable=is_repeatable)


def asked(
    local: Callable[P, R], kind: Any, path: str, *, by: Literal["GET", "POST"] = "GET"
) -> Callable[P, R]:
    """Return the call ``local`` as a request that is answered with a ``kind``.

    Arguments that the path names go there; the others are the query, or the body of a POST.
    """
    signature = inspect.signature(local)
    _, *parameters = signature.parameters

    @functools.wraps(local)
    def ask(remote: Any, *args: Any, **named: Any) -> Any:
        signature.bind(remote, *args, **named)  # Raises TypeError as the call itself would.
        given = dict(zip(parameters, args, strict=False)) | named
        given.pop("progress", None)  # The server catches up.
        names = [
            _checked(part[1:-1], given.pop(part[1:-1])) if part.startswith("{") else part
            for part in path.split("/")
        ]
        resource: Resource = remote._resource  # noqa: SLF001  (this is one of its methods)
        if by == "POST":
            return resource.post(kind, *names, body=given)
        return resource.get(kind, *names, **given)

    return cast("Callable[P, R]", ask)


def _checked(parameter: str, text: str) -> str:
    """Return an argument that is part of a path. Raise InvalidInput if nothing has such a name."""
    if parameter == "scope":
        return parse_scope(text)
    return check_id(text) if parameter == "event_id" else check_name(text, parameter)


def path_of(*names: str) -> str:
    """Return a path of ``/v1`` with ``names`` encoded, slashes included."""
    return "/v1/" + "/".join(quote(name, safe="") for name in names)


def _is_over(connection: socket.socket) -> bool:
    """Return whether the other side has closed an idle connection."""
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    return bool(waiting.poll(0))


def _away(url: str) -> Unavailable:
    return Unavailable(f"no answer from {url}", hint="check that treering serve runs there")


def _error(answer: bytes) -> TreeringError:
    """Return the error that an answer describes, as the kind that the ledger raised."""
    try:
        problem = msgspec.json.decode(answer, type=_ProblemBody)
    except msgspec.MsgspecError:
        return Unavailable("the answer is not one of treering serve", hint="check the address")
    kind = _kinds().get(problem.code, TreeringError)
    if issubclass(kind, Conflict):
        return kind(problem.message, current_seq=problem.current_seq or 0, hint=problem.hint)
    if issubclass(kind, OutcomeUnknown):
        return kind(problem.message, event_ids=problem.event_ids, hint=problem.hint)
    return kind(problem.message, hint=problem.hint)


def _kinds() -> dict[str, type[TreeringError]]:
    kinds: dict[str, type[TreeringError]] = {}
    left = [TreeringError]
    while left:
        kind = left.pop()
        kinds.setdefault(kind.code, kind)
        left += kind.__subclasses__()
    return kinds


def _pauses() -> Iterator[float]:
    pause_s = PAUSE_S
    while True:
        yield pause_s
        pause_s = min(pause_s * 2, PAUSE_S_MAX)


def _text(value: Any) -> Any:
    if value is True:
        return "true"
    with contextlib.suppress(TypeError):
        if not isinstance(value, str | bytes):
            return list(value)
    return value


Remote = TypeVar("Remote", bound=type)


def refuse_others(*inherited: str, also: Sequence[str] = ()) -> Callable[[Remote], Remote]:
    """Return a decorator: public names that a class neither defines nor inherits are refused.

    ``also`` are those that its parent gives to each instance.
    """

    def refusing(kind: Remote) -> Remote:
        for name in (*dir(kind), *also):
            if name.startswith("_") or name in vars(kind) or name in inherited:
                continue
            is_called = inspect.isfunction(inspect.getattr_static(kind, name, None))
            refused = _refusal(f"{kind.__name__.removeprefix('Remote').lower()}.{name}")
            setattr(kind, name, refused if is_called else property(refused))
        return kind

    return refusing


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise Unsupported(
            f"{name} cannot be used over HTTP", hint="open the ledger where it is: its file or URL"
        )

    return refuse


_BEAT_S: Final = 0.1
"""How often to check whether to stop."""
_CAUGHT_UP: Final = b": caught up"
_BROKEN: Final = b""
"""Takes the place of a line: the stream has ended."""
_LINES_MAX: Final = 4_096
"""Lines that are read ahead; then the server waits for the reader."""


class RemoteFollower(Follower[Item]):
    """An iterator over the events of a scope on a server."""

    def __init__(
        self,
        connection: ServerConnection,
        scope: Scope,
        kind: type[Item],
        *,
        after: str | None = None,
        committed: bool = False,
        idle_s: float | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        if committed:
            raise Unsupported("committed cannot be used over HTTP", hint="look at run.ended")
        self._connection = connection
        self._scope = scope
        self._kind = kind
        if after:
            mark_of(after, scope)
        self._cursor = after or cursor_at(scope, ())
        query = {"payloads": "true"} if kind is Event else {}
        self._path = f"{path_of('scopes', scope, 'stream')}?{urlencode(query)}"
        self._idle_s = idle_s
        self._stop: threading.Event = stop or threading.Event()
        self._left = 0
        self._items = self._deliver()

    @property
    def cursor(self) -> str:
        """Return the cursor after the last event that was delivered."""
        return self._cursor

    def _deliver(self) -> Iterator[Item]:
        heard = time.monotonic()
        is_current = False
        cursor = self._cursor
        with contextlib.closing(_Lines(self._connection, self._path, self._cursor)) as lines:
            while not self._stop.is_set():
                line = lines.next(self._cursor)
                if line is None:
                    idle = time.monotonic() - heard
                    if is_current and self._idle_s is not None and idle >= self._idle_s:
                        return
                elif line == _BROKEN:
                    cursor = self._cursor  # The id of an event that did not arrive does not count.
                elif line.startswith(b"id: "):
                    cursor = line[4:].strip().decode()
                elif line.startswith(b"data: "):
                    heard = time.monotonic()
                    self._cursor = cursor
                    yield msgspec.json.decode(line[6:], type=self._kind)
                elif line.startswith(_CAUGHT_UP):
                    heard, is_current = time.monotonic(), True
                    if self._idle_s == 0:
                        return
                elif not line.strip():
                    # The end of a heartbeat, or of an event: the cursor counts from here.
                    self._cursor = cursor


class _Lines:
    """The lines of a stream, read ahead by a thread, connected again whenever it breaks."""

    def __init__(self, connection: ServerConnection, path: str, cursor: str) -> None:
        self._connection = connection
        self._path = path
        self._lines: queue.Queue[bytes] = queue.Queue(_LINES_MAX)
        self._sockets: HTTPConnection | None = None
        self._is_over = False
        self._begin(cursor)

    def next(self, cursor: str) -> bytes | None:
        """Return the next line; None if none comes for a moment. ``cursor`` is where to resume."""
        self._connection.check_open()
        try:
            line = self._lines.get(timeout=_BEAT_S)
        except queue.Empty:
            return None
        if line == _BROKEN:
            self._begin_again(cursor)
        return line

    def close(self) -> None:
        """End the stream, and the thread that reads it."""
        self._is_over = True
        if self._sockets is not None:
            _break(self._sockets)
        with contextlib.suppress(queue.Empty):
            while True:  # Makes room for what the thread may be about to add.
                self._lines.get_nowait()

    def _begin(self, cursor: str) -> None:
        connection, answer = self._connection.stream(self._path, {"Last-Event-ID": cursor})
        self._sockets = connection
        threading.Thread(
            target=self._read, args=(connection, answer), name="treering-follow", daemon=True
        ).start()

    def _begin_again(self, cursor: str) -> None:
        try:
            self._begin(cursor)
        except (Busy, Unavailable):
            time.sleep(PAUSE_S_MAX / 4)
            self._lines.put(_BROKEN)

    def _read(self, connection: HTTPConnection, answer: HTTPResponse) -> None:
        with contextlib.suppress(OSError, HTTPException, ValueError, AttributeError):
            while line := answer.readline():
                if self._is_over:
                    break
                self._lines.put(line)
        connection.close()
        if not self._is_over:
            self._lines.put(_BROKEN)


def _break(connection: HTTPConnection) -> None:
    """End a connection, and a read in another thread that waits for it."""
    if connection.sock is not None:
        with contextlib.suppress(OSError):
            connection.sock.shutdown(2)
