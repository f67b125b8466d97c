"""Refuse what cannot be done over HTTP: every call that a remote class does not define."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from treering.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
