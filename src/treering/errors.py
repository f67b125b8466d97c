"""Every error Treering raises, as one tree.

    TreeringError
    ├── InvalidInput              the input cannot be recorded or queried
    │   ├── InvalidScope
    │   ├── InvalidKind
    │   ├── InvalidCursor
    │   ├── TooLarge              over a limit
    │   └── SensitiveContent      the guard refused it
    ├── Conflict                  the session has moved on
    ├── DuplicateEvent            the event id is taken by something else
    ├── RunClosed                 the run has ended
    │   └── RunInterrupted        it was interrupted from outside
    ├── RunActive                 the session is busy with another run
    ├── ToolDenied                the tool may not run in this session
    ├── NotFound
    ├── NotAuthenticated          no valid token came with the request
    ├── StorageError              the database operation failed
    │   ├── Busy                  other writers kept the lock too long
    │   ├── StorageFull
    │   ├── OutcomeUnknown        the commit failed half-way
    │   ├── LedgerMoved           its file is no longer at its path
    │   ├── NotALedger
    │   ├── SchemaTooNew
    │   ├── SchemaTooOld
    │   ├── ReadOnly
    │   └── Closed
    ├── Corrupt                   stored bytes are not what was written
    ├── KeyMissing                the key of an encrypted payload is missing
    └── Disabled                  switched off by the operator

``code`` is for machines; exit status and the like are tables over it. ``hint`` says what to do and
is shown in tracebacks as a note.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final


class TreeringError(Exception):
    """Something Treering could not do."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str | None = None, *, hint: str | None = None) -> None:
        super().__init__(message or type(self).__doc__)
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")

    def __reduce__(self) -> tuple[Callable[..., TreeringError], tuple[Any, ...]]:
        # Restore the fields directly: calling the class with ``args`` would lose keyword arguments.
        state = dict(self.__dict__)
        if "__notes__" in state:
            state["__notes__"] = list(state["__notes__"])
        return _restored, (type(self), self.args, state)


def _restored(
    kind: type[TreeringError], args: tuple[Any, ...], state: dict[str, Any]
) -> TreeringError:
    """Return an error with the fields it had before it was pickled or copied."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class InvalidInput(TreeringError):
    """The input cannot be recorded as it is."""

    code = "invalid"


class InvalidScope(InvalidInput):
    """The text is not a scope."""

    code = "invalid_scope"


class InvalidKind(InvalidInput):
    """The text is not a kind of event."""

    code = "invalid_kind"


class InvalidCursor(InvalidInput):
    """The cursor was not made by this query."""

    code = "invalid_cursor"


class TooLarge(InvalidInput):
    """The content is over its limit."""

    code = "too_large"


class SensitiveContent(InvalidInput):
    """The content looks like a secret or personal detail."""

    code = "sensitive"


class Conflict(TreeringError):
    """The session has moved on since it was last read."""

    code = "conflict"

    def __init__(self, message: str, *, current_seq: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.current_seq = current_seq


class DuplicateEvent(TreeringError):
    """The event id is taken by another event of the scope."""

    code = "duplicate"


class RunClosed(TreeringError):
    """The run has ended and accepts no more events."""

    code = "run_closed"


class RunInterrupted(RunClosed):
    """The run was interrupted from outside and accepts no more events."""

    code = "run_interrupted"


class RunActive(TreeringError):
    """The session is busy with another run."""

    code = "run_active"


class ToolDenied(TreeringError):
    """The tool may not run here; the call is recorded as denied."""

    code = "tool_denied"


class NotFound(TreeringError):
    """It does not exist in this scope."""

    code = "not_found"


class NotAuthenticated(TreeringError):
    """No valid token came with the request."""

    code = "not_authenticated"


class StorageError(TreeringError):
    """The database operation failed."""

    code = "storage"


class Busy(StorageError):
    """Other writers kept the ledger locked."""

    code = "busy"


class StorageFull(StorageError):
    """The disk is full; nothing of this call was recorded."""

    code = "storage_full"


class Unavailable(StorageError):
    """The database server cannot be reached or cannot answer now."""

    code = "unavailable"


class NotPermitted(StorageError):
    """The database role, or the token, does not have the permission."""

    code = "not_permitted"


class Unsupported(StorageError):
    """The server or the installation lacks something that is needed."""

    code = "unsupported"


class OutcomeUnknown(StorageError):
    """The commit failed half-way: the events may or may not be recorded."""

    code = "outcome_unknown"

    def __init__(
        self, message: str, *, event_ids: Sequence[str] = (), hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.event_ids = tuple(event_ids)


class LedgerMoved(StorageError):
    """The ledger's file was removed, renamed or replaced while it was open."""

    code = "ledger_moved"


class NotALedger(StorageError):
    """The file is not a Treering ledger."""

    code = "not_a_ledger"


class SchemaTooNew(StorageError):
    """The ledger was written by a newer Treering."""

    code = "schema_too_new"


class SchemaTooOld(StorageError):
    """The ledger needs an upgrade that a read-only opening cannot do."""

    code = "schema_too_old"


class ReadOnly(StorageError):
    """The ledger was opened read-only."""

    code = "read_only"


class Closed(StorageError):
    """The ledger has been closed."""

    code = "closed"


class Corrupt(TreeringError):
    """Stored bytes are not what was written."""

    code = "corrupt"


class KeyMissing(TreeringError):
    """The key that encrypts the scope's payloads is missing."""

    code = "key_missing"


class Disabled(TreeringError):
    """This part is disabled."""

    code = "disabled"


USAGE_CODES: Final = frozenset(
    {
        "invalid",
        "invalid_scope",
        "invalid_kind",
        "invalid_cursor",
        "too_large",
        "sensitive",
        "disabled",
    }
)
"""Codes that mean the caller should change the request."""


def check_from_system(error: OSError) -> None:
    """Raise ``error`` again if it does not come from the operating system.

    A TimeoutError is an OSError, too, and a signal handler of the caller may raise one anywhere.
    """
    if error.errno is None:
        raise error


def is_interruption(error: Exception) -> bool:
    """Return whether ``error`` came from outside: out of memory, or a timeout of the caller's."""
    return isinstance(error, MemoryError) or (
        isinstance(error, TimeoutError) and error.errno is None
    )


def exit_status(error: TreeringError) -> int:
    """Return the process exit status for ``error``: 2 for the caller's mistakes, otherwise 1."""
    return 2 if error.code in USAGE_CODES else 1
