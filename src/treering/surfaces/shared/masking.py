"""Mask the secrets in private content on its way out, and count them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.model.codec import encode

if TYPE_CHECKING:
    from treering.capture.secrets import SecretGuard


class Mask:
    """Masks secrets in what is shown; creates its guard when it is first needed."""

    def __init__(self) -> None:
        self.masked = 0
        """How many of the values that it was given held a secret."""
        self._guard: SecretGuard | None = None

    def text(self, text: str | None) -> str | None:
        """Return ``text`` with its secrets masked."""
        masked: str | None = self.value(text)
        return masked

    def value(self, value: Any) -> Any:
        """Return a JSON value with its secrets masked; a clean one comes back as it is."""
        if not value:
            return value
        guard = self._guard = self._guard or _guard()
        if not guard.suspicious(encode(value)):
            return value
        clean = guard.mask_value(value)
        self.masked += clean != value
        return clean


def _guard() -> SecretGuard:
    from treering.app import new_guard  # noqa: PLC0415  (only for private content)

    return new_guard()
