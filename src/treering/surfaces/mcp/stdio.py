"""MCP over standard input and output, until the client leaves or asks the process to end.

The streams are our own rather than the SDK's: they read in a thread that cannot be cancelled, so a
signal would wait for the next line of the client.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Final

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server.lowlevel import Server

LINE_BYTES_MAX: Final = 4 * 1024 * 1024
"""The longest message, as over HTTP; a longer one is dropped."""
ANSWERS_S_MAX: Final = 60.0
"""How long the last answers may take after the end of the input."""
_READ_BYTES: Final = 65_536
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve(server: Server[Any]) -> None:
    """Serve one client. Returns at the end of its input, when it stops reading, or at a signal."""
    source, target = _take_streams()
    anyio.run(_serve, server, source, target)


def _take_streams() -> tuple[int, int]:
    """Return the streams of the client, and replace them with neutral ones.

    Nothing else can then read or corrupt a message: stray prints go to standard error.
    """
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    sys.stdout.flush()
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return source, target


async def _serve(server: Server[Any], source: int, target: int) -> None:
    async with anyio.create_task_group() as tasks:
        client = _Client(target, leave=tasks.cancel_scope.cancel)
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, tasks.cancel_scope.cancel)

        def hand_over(line: bytes | None) -> bool:
            try:
                return asyncio.run_coroutine_threadsafe(client.receive(line), loop).result()
            except (RuntimeError, CancelledError):  # The server has ended meanwhile.
                return False

        # A daemon: nobody can wake a thread that waits for input.
        threading.Thread(target=_read_lines, args=(source, hand_over), daemon=True).start()
        tasks.start_soon(client.send)
        options = server.create_initialization_options()
        await server.run(client.requests, client.answers, options)
        tasks.cancel_scope.cancel()


class _Client:
    """The streams between one client and the server, and which requests have no answer yet."""

    def __init__(self, target: int, *, leave: Callable[[], None]) -> None:
        self._target = target
        self._leave = leave
        self._incoming, self.requests = anyio.create_memory_object_stream[
            SessionMessage | Exception
        ](0)
        self.answers, self._outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        self._pending: set[types.RequestId] = set()
        self._is_idle = anyio.Event()

    async def receive(self, line: bytes | None) -> bool:
        """Hand a line to the server; after the last one, None. Return whether it takes more."""
        try:
            if line is None:
                await self._end()
                return False
            message = _message(line)
            if isinstance(message, SessionMessage):
                self._note(message.message)
            await self._incoming.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False
        return True

    async def send(self) -> None:
        """Write answers until the server or the client has left."""
        async for message in self._outgoing:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                _write(self._target, text.encode() + b"\n")
            except OSError:
                self._leave()
                return
            if isinstance(message.message, types.JSONRPCResponse | types.JSONRPCError):
                self._pending.discard(message.message.id)
            if not self._pending:
                self._is_idle.set()

    def _note(self, message: types.JSONRPCMessage) -> None:
        match message:
            case types.JSONRPCRequest():
                self._pending.add(message.id)
            case types.JSONRPCNotification(method="notifications/cancelled"):
                # A cancelled request may never be answered.
                self._pending.discard((message.params or {}).get("requestId", ""))

    async def _end(self) -> None:
        """Close the input once everything is answered: a pipe may end before its answers."""
        if self._pending:
            self._is_idle = anyio.Event()
            with anyio.move_on_after(ANSWERS_S_MAX):
                await self._is_idle.wait()
        await self._incoming.aclose()


def _read_lines(source: int, hand_over: Callable[[bytes | None], bool]) -> None:
    """Hand over each line of ``source``, and None at its end."""
    buffer = bytearray()
    is_dropping = False
    while True:
        try:
            block = os.read(source, _READ_BYTES)
        except OSError:
            block = b""
        if not block:
            if buffer and not is_dropping:
                hand_over(bytes(buffer))
            hand_over(None)
            return
        *lines, rest = (bytes(buffer) + block).split(b"\n")
        for line in lines:
            if not is_dropping and line.strip() and not hand_over(line):
                return
            is_dropping = False
        is_dropping = is_dropping or len(rest) > LINE_BYTES_MAX
        buffer = bytearray() if is_dropping else bytearray(rest)


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


def _write(target: int, body: bytes) -> None:
    view = memoryview(body)
    while view:
        try:
            view = view[os.write(target, view) :]
        except BlockingIOError:
            select.select([], [target], [])
