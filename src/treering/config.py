"""Where things are: the default ledger, the keys of sealed scopes, and the key of the masks."""

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
    named = os.environ.get(DATABASE_VARIABLE)
    if named:
        return named
    import platformdirs  # noqa: PLC0415  (only needed when nothing was named)

    return str(Path(platformdirs.user_data_dir("treering", appauthor=False)) / "ledger.db")


def keys_folder(named: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder ``named``, else ``TREERING_KEYS``, else one beside the user's settings."""
    chosen = named or os.environ.get(KEYS_VARIABLE)
    return Path(chosen).expanduser() if chosen else _settings_folder() / "keys"


def mask_key() -> bytes:
    """Return the key of this machine's masks, made when first needed; it is not in the ledger."""
    folder = _settings_folder()
    path = folder / "mask.key"
    with contextlib.suppress(OSError):
        key = path.read_bytes()
        if len(key) == KEY_BYTES:
            return key
    key = os.urandom(KEY_BYTES)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Written beside and linked into place: two processes that start together agree on one.
        draft = folder / f"mask.key.{os.getpid()}"
        draft.touch(mode=0o600)
        draft.write_bytes(key)
        try:
            os.link(draft, path)
        except FileExistsError:
            found = path.read_bytes()
            # One that is no key (a full disk may leave an empty file) is put right.
            key = found if len(found) == KEY_BYTES else _replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError:
        # No place to keep a key: masks then differ from process to process, and nothing else.
        return key
    return key


def _settings_folder() -> Path:
    import platformdirs  # noqa: PLC0415  (only needed for a key)

    return Path(platformdirs.user_config_dir("treering", appauthor=False))


def _replace(draft: Path, path: Path) -> bytes:
    key = draft.read_bytes()
    draft.replace(path)
    return key
