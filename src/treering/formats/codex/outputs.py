"""The output of a tool of Codex: its text, how it ended and how long it took."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from treering.formats.codex.drafts import texts_of
from treering.formats.loose import fields_of
from treering.model.codec import decode
from treering.spine.words import shorten

HEAD_CHARACTERS: Final = 400
"""Characters of a text in which its heading is looked for."""
DURATION_MS_MAX: Final = 2**40
_EXIT: Final = re.compile(
    r"^(?:Exit code: |Process exited with code )(-?[0-9]{1,9})$", re.MULTILINE
)
_WALL_TIME: Final = re.compile(r"^Wall time: ([0-9]{1,9}(?:\.[0-9]{1,9})?) ?s", re.MULTILINE)
_FAILURES: Final = {
    "failed in sandbox": "Sandbox",
    "patch rejected": "Rejected",
    "exec command rejected": "Rejected",
    "rejected by user": "Rejected",
    "exec_command failed": "Failed",
    "execution error": "Failed",
    "apply_patch verification failed": "Failed",
    "failed to parse function arguments": "Failed",
    "aborted": "Aborted",
    "err: ": "Failed",
    "unsupported call": "Unsupported",
}
"""How outputs begin that report a failure in words only, and the class of that failure."""


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a tool."""

    output: Any
    error: dict[str, str] | None = None
    exit_code: int | None = None
    duration_ms: int | None = None


def read_output(output: Any) -> Returned:
    """Return what ``output`` says: a text, JSON in a text, an object or a list of parts."""
    if isinstance(output, str):
        return _read_text(output)
    if isinstance(output, list):
        texts = texts_of(output)
        only_words = len(texts) == len(output)
        return _read_text("\n".join(texts)) if only_words else Returned(output=output)
    stated = fields_of(output)
    if isinstance(stated.get("output"), str):
        return _read_object(stated)
    content = stated.get("content", output)
    read = read_output(content) if isinstance(content, str | list) else Returned(output=output)
    if stated.get("success") is False and read.error is None:
        return msgspec.structs.replace(read, error=_error("Failed", read.output))
    return read


def milliseconds(seconds: Any) -> int | None:
    """Return a duration in seconds, as a number or as Rust writes one, in milliseconds."""
    if isinstance(seconds, dict):
        whole, nanos = seconds.get("secs"), seconds.get("nanos")
        if type(whole) is not int or type(nanos) is not int:
            return None
        seconds = whole + nanos / 1e9
    if type(seconds) not in {int, float} or not 0 <= seconds < DURATION_MS_MAX / 1_000:
        return None
    return round(float(seconds) * 1_000)


def _read_text(text: str) -> Returned:
    stated = _json_of(text)
    if isinstance(stated.get("output"), str) and isinstance(stated.get("metadata"), dict):
        return _read_object(stated)
    head = text[:HEAD_CHARACTERS].partition("\nOutput:")[0]
    code, took = _EXIT.search(head), _WALL_TIME.search(head)
    read = _ended(text, int(code[1]) if code else None, float(took[1]) if took else None)
    return read if code else msgspec.structs.replace(read, error=_failure_in(text))


def _read_object(stated: dict[str, Any]) -> Returned:
    metadata = fields_of(stated.get("metadata"))
    code = metadata.get("exit_code")
    return _ended(
        stated["output"], code if type(code) is int else None, metadata.get("duration_seconds")
    )


def _ended(output: str, exit_code: int | None, seconds: Any) -> Returned:
    failed = {"class": "ExitCode", "message": f"exit code {exit_code}"} if exit_code else None
    return Returned(
        output=output, error=failed, exit_code=exit_code, duration_ms=milliseconds(seconds)
    )


def _failure_in(text: str) -> dict[str, str] | None:
    start = text[:HEAD_CHARACTERS].lstrip().lower()
    return next(
        (_error(named, text) for words, named in _FAILURES.items() if start.startswith(words)), None
    )


def _error(named: str, output: Any) -> dict[str, str]:
    return {"class": named, "message": shorten(output if isinstance(output, str) else "failed")}


def _json_of(text: str) -> dict[str, Any]:
    if not text.startswith("{"):
        return {}
    try:
        return fields_of(decode(text))
    except (msgspec.DecodeError, RecursionError):
        return {}
