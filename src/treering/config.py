"""Default locations: the ledger, the keys of encrypted scopes, and the key of the masks."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

KEY_BYTES: Final = 32
DATABASE_VARIABLE: Final = "TREERING_DB"
KEYS_VARIABLE: Final = "TREERING_KEYS"


def default_database() -> str:
    """Return ``TREERING_DB``, or the ledger in the user's data folder."""
    return os.environ.get(DATABASE_VARIABLE) or str(default_folder() / "ledger.db")


def default_folder() -> Path:
    """Return the folder of the default ledger."""
    import platformdirs  # noqa: PLC0415  (not needed for a ledger that was named)

    return Path(platformdirs.user_data_dir("treering", appauthor=False))


def keys_folder(named: str | os.PathLike[str] | None = None) -> Path:
    """Return ``named``, else ``TREERING_KEYS``, else a folder beside the user's settings."""
    chosen = named or os.environ.get(KEYS_VARIABLE)
    return Path(chosen).expanduser() if chosen else settings_folder() / "keys"


def mask_key() -> bytes:
    """Return the key of this machine's masks, created on first use; it is not in the ledger."""
    folder = settings_folder()
    path = folder / "mask.key"
    with contextlib.suppress(OSError):
        key = path.read_bytes()
        if len(key) == KEY_BYTES:
            return key
    key = os.urandom(KEY_BYTES)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Written to a temporary file and linked, so that two processes starting together agree.
        draft = folder / f"mask.key.{os.getpid()}"
        draft.touch(mode=0o600)
        draft.write_bytes(key)
        try:
            os.link(draft, path)
        except FileExistsError:
            existing = path.read_bytes()
            # Replace an invalid key: a full disk may have left an empty file.
            key = existing if len(existing) == KEY_BYTES else _replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError:
        # Without a place for the key, masks differ between processes; nothing else changes.
        return key
    return key


def settings_folder() -> Path:
    """Return the folder of the user's settings."""
    import platformdirs  # noqa: PLC0415  (only needed for a key)

    return Path(platformdirs.user_config_dir("treering", appauthor=False))


def _replace(draft: Path, path: Path) -> bytes:
    key = draft.read_bytes()
    draft.replace(path)
    return key
