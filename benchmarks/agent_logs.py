"""Logs as agents write them, made up: the lines of Claude Code and of Codex, in a likely mix.

A prompt, then rounds of a thought, a text, a call and its result, each on a line of its own; the
parts of one message share its id, and each of them reports what it used so far. Results are code,
listings and logs of 0.2 to 10 KB. Always the same for the same seed.

A small session is what most files of an agent's folder are: a snapshot, one to four turns with
mostly short results, a line of the system and a title, about 30 KB in all.
"""

import json
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from workload import SEED, START_MS

ROUNDS: Final = (3, 12)
"""Calls of a turn, at least and at most."""
SESSION_TURNS: Final = 60
RESULTS: Final = (200, 500, 1_000, 2_000, 5_000, 10_000)
"""Characters of results."""
SMALL_TURNS: Final = (1, 1, 1, 2, 2, 3, 4)
"""Turns of a small session."""
SMALL_ROUNDS: Final = (0, 5)
SMALL_RESULTS: Final = (100, 200, 300, 500, 500, 1_000, 1_000, 2_000, 8_000)
_WORDS: Final = (
    "the", "of", "to", "and", "a", "in", "is", "it", "for", "that", "with", "as", "on", "be",
    "this", "are", "by", "at", "from", "or", "an", "not", "we", "can", "will", "if", "file",
    "test", "error", "value", "function", "returns", "class", "import", "line", "module", "config",
    "build", "server", "client", "request", "response", "handle", "parse", "index", "cache",
    "query", "result", "state", "event", "record", "path",
)  # fmt: skip
_DELICATE: Final = ("token", "key", "password", "session", "secret")
_DELICATE_SHARE: Final = 0.01
"""Lines that speak of secrets without holding any, as much code does."""
_CODE: Final = (
    "def {0}_{1}(self, {2}: str, *, limit: int = 100) -> list[str]:",
    "    return [one.{0} for one in self._{1} if one.{2} is not None]",
    "    if {0} is None or len({1}) > {2}_MAX:",
    '        raise ValueError(f"{0} {1}: {{{2}!r}}")',
    "import {0}.{1} as {2}",
    "-rw-r--r-- 1 dev dev 48213 Sep 21 14:13 src/{0}/{1}_{2}.py",
    "2026-09-21T14:13:20.123Z INFO {0}.{1}: {2} took 12.4 ms",
    "tests/{0}/test_{1}.py::test_{2} PASSED                                  [ 42%]",
    "  {0}: {1}, // {2}",
    "",
)


class Maker:
    """Makes the lines of one file."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(SEED + seed)
        self._made = 0

    def claude_code(self, size: int) -> Iterator[bytes]:
        """Give the lines of a log of about ``size`` bytes, several sessions long."""
        written = 0
        while written < size:
            for line in self._claude_session():
                written += len(line)
                yield line
                if written >= size:
                    break

    def small_session(self) -> Iterator[bytes]:
        """Give the lines of one session of Claude Code, as most are."""
        session, parent = self._uuid(), None
        snapshot = {"messageId": self._uuid(), "trackedFileBackups": {}}
        yield _line({
            "type": "file-history-snapshot", "messageId": snapshot["messageId"],
            "snapshot": {**snapshot, "timestamp": self._instant()}, "isSnapshotUpdate": False,
        })  # fmt: skip
        turns = self._dice.choice(SMALL_TURNS)
        lines = [
            told for _ in range(turns) for told in self._claude_turn(SMALL_RESULTS, SMALL_ROUNDS)
        ]
        lines.append({"type": "system", "subtype": "turn_duration", "durationMs": 48_213})
        for told in lines:
            own = self._uuid()
            yield _line(self._enveloped(told, session, own, parent))
            parent = own
        title = {"type": "summary", "summary": self._prose(4, 8), "leafUuid": parent}
        yield _line(title)

    def codex(self, size: int) -> Iterator[bytes]:
        """Give the lines of a log of about ``size`` bytes."""
        session = self._uuid()
        written = 0
        about = {
            "id": session, "timestamp": self._instant(), "cwd": "/home/dev/app",
            "originator": "codex_cli_rs", "cli_version": "0.99.0", "model_provider": "openai",
        }  # fmt: skip
        yield self._record("session_meta", about)
        while written < size:
            for sort, payload in self._codex_turn():
                line = self._record(sort, payload)
                written += len(line)
                yield line

    def steps(self) -> Iterator[tuple[str, str, Any]]:
        """Give the steps of turns without end: what it is, the id of its call, what is told."""
        while True:
            yield "user", "", self._prose(20, 120)
            for _ in range(self._dice.randint(*ROUNDS)):
                call = self._id("call_")
                yield "thought", "", self._prose(20, 80)
                yield "text", "", self._prose(10, 60)
                yield "call", call, self._given()
                yield "result", call, self._code(self._dice.choice(RESULTS))
            yield "text", "", self._prose(30, 200)

    # Claude Code.

    def _claude_session(self) -> Iterator[bytes]:
        session, parent = self._uuid(), None
        for _ in range(SESSION_TURNS):
            for told in self._claude_turn(RESULTS, ROUNDS):
                own = self._uuid()
                yield _line(self._enveloped(told, session, own, parent))
                parent = own

    def _enveloped(
        self, told: dict[str, Any], session: str, own: str, parent: str | None
    ) -> dict[str, Any]:
        return {
            "parentUuid": parent, "isSidechain": False, "userType": "external",
            "cwd": "/home/dev/app", "sessionId": session, "version": "2.1.4",
            "gitBranch": "main", **told, "uuid": own, "timestamp": self._instant(),
        }  # fmt: skip

    def _claude_turn(
        self, sizes: Sequence[int], rounds: tuple[int, int]
    ) -> Iterator[dict[str, Any]]:
        yield {"type": "user", "message": {"role": "user", "content": self._prose(20, 120)}}
        for _ in range(self._dice.randint(*rounds)):
            message, request, call = self._id("msg_"), self._id("req_"), self._id("toolu_")
            thought = {
                "type": "thinking",
                "thinking": self._prose(20, 80),
                "signature": "c2ln" * 60,
            }
            use = {"type": "tool_use", "id": call, "name": self._tool(), "input": self._given()}
            blocks = [thought, {"type": "text", "text": self._prose(10, 60)}, use]
            used = 20
            for block in blocks[self._dice.choice((0, 1, 2)) :]:
                used += self._dice.randint(10, 90)
                yield self._answer(message, request, block, used)
            text = self._code(self._dice.choice(sizes))
            result = {"type": "tool_result", "tool_use_id": call, "content": text}
            yield {
                "type": "user",
                "message": {"role": "user", "content": [result]},
                "toolUseResult": {"stdout": text[:300], "stderr": "", "interrupted": False},
            }
        block = {"type": "text", "text": self._prose(30, 200)}
        yield self._answer(self._id("msg_"), self._id("req_"), block, 400)

    def _answer(self, message: str, request: str, block: Any, used: int) -> dict[str, Any]:
        usage = {
            "input_tokens": 4, "cache_creation_input_tokens": 1_204,
            "cache_read_input_tokens": 48_213, "output_tokens": used, "service_tier": "standard",
        }  # fmt: skip
        return {
            "type": "assistant",
            "requestId": request,
            "message": {
                "id": message, "type": "message", "role": "assistant",
                "model": "claude-sonnet-4-5", "content": [block], "stop_reason": None,
                "usage": usage,
            },
        }  # fmt: skip

    # Codex.

    def _codex_turn(self) -> Iterator[tuple[str, dict[str, Any]]]:
        asked, answered = self._prose(20, 120), self._prose(30, 200)
        content = [{"type": "input_text", "text": asked}]
        yield "response_item", {"type": "message", "role": "user", "content": content}
        yield "event_msg", {"type": "user_message", "message": asked, "images": []}
        yield "turn_context", {"cwd": "/home/dev/app", "model": "gpt-5-codex"}
        for _ in range(self._dice.randint(*ROUNDS)):
            call, thought = self._id("call_"), f"**{self._prose(3, 8)}**"
            given = json.dumps({"command": ["bash", "-lc", self._prose(4, 12)]})
            yield "event_msg", {"type": "agent_reasoning", "text": thought}
            summary = [{"type": "summary_text", "text": thought}]
            sealed = {"content": None, "encrypted_content": self._id("gAAA") * 30}
            yield "response_item", {"type": "reasoning", "summary": summary, **sealed}
            item = {"type": "function_call", "name": "shell", "arguments": given, "call_id": call}
            yield "response_item", item
            text = self._code(self._dice.choice(RESULTS))
            output = json.dumps({"output": text, "metadata": {"exit_code": 0}})
            item = {"type": "function_call_output", "call_id": call, "output": output}
            yield "response_item", item
            yield "event_msg", self._counted()
        yield "event_msg", {"type": "agent_message", "message": answered}
        content = [{"type": "output_text", "text": answered}]
        yield "response_item", {"type": "message", "role": "assistant", "content": content}

    def _counted(self) -> dict[str, Any]:
        self._made += 1
        last = {
            "input_tokens": 40_000 + self._made, "cached_input_tokens": 39_000,
            "output_tokens": 300, "reasoning_output_tokens": 100, "total_tokens": 40_300,
        }  # fmt: skip
        total = last | {"total_tokens": 40_300 * self._made}
        told = {"total_token_usage": total, "last_token_usage": last}
        return {"type": "token_count", "info": {**told, "model_context_window": 272_000}}

    def _record(self, sort: str, payload: Any) -> bytes:
        return _line({"timestamp": self._instant(), "type": sort, "payload": payload})

    # Words.

    def _prose(self, least: int, most: int) -> str:
        words = self._dice.choices(_WORDS, k=self._dice.randint(least, most))
        return f"{' '.join(words).capitalize()}."

    def _code(self, size: int) -> str:
        lines: list[str] = []
        while size > 0:
            words = self._dice.choices(_WORDS, k=3)
            if self._dice.random() < _DELICATE_SHARE:
                words[1] = self._dice.choice(_DELICATE)
            line = self._dice.choice(_CODE).format(*words)
            lines.append(line)
            size -= len(line) + 1
        return "\n".join(lines)

    def _tool(self) -> str:
        return self._dice.choice(("Bash", "Read", "Edit", "Grep"))

    def _given(self) -> dict[str, Any]:
        words = self._dice.choices(_WORDS, k=3)
        path = f"/home/dev/app/src/{'/'.join(words)}.py"
        given = {"file_path": path, "description": self._prose(3, 8)}
        if self._dice.random() < 0.3:
            given |= {"old_string": self._code(300), "new_string": self._code(400)}
        return given

    def _instant(self) -> str:
        self._made += 1
        at = datetime.fromtimestamp((START_MS + self._made * 700) / 1_000, UTC)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _id(self, prefix: str) -> str:
        return f"{prefix}{self._dice.getrandbits(128):032x}"[:28]

    def _uuid(self) -> str:
        text = f"{self._dice.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def write_small_sessions(folder: Path, files: int) -> int:
    """Write ``files`` logs of a small session each; return their bytes."""
    folder.mkdir()
    size = 0
    for number in range(files):
        content = b"".join(Maker(number + 1).small_session())
        size += (folder / f"{number}.jsonl").write_bytes(content)
    return size


def write_claude_code(path: Path, size: int, seed: int = 0) -> Path:
    """Write a log of about ``size`` bytes."""
    with path.open("wb") as stream:
        stream.writelines(Maker(seed).claude_code(size))
    return path


def write_codex(path: Path, size: int, seed: int = 0) -> Path:
    """Write a log of about ``size`` bytes."""
    with path.open("wb") as stream:
        stream.writelines(Maker(seed).codex(size))
    return path
