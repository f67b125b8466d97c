"""A session that has every sort of thing that can be shown, as agents record it."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

from builders import HERE, exchange

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.spine.runs import Run

SHOWCASE: Final = "flaky-upload"
SUBAGENT: Final = "flaky-upload/explore"
READS: Final = ("tests/mock_server.py", "tests/test_upload.py", "src/upload.py", "src/retry.py")
EDIT: Final = {
    "file_path": "tests/mock_server.py",
    "old_string": "def start(server):\n    server.start()\n    return server\n",
    "new_string": "def start(server):\n    server.start()\n    server.wait_until_ready(5)\n"
    "    return server.address\n",
}
PATCH: Final = """*** Begin Patch
*** Update File: src/retry.py
@@ def retry(call):
 def retry(call):
-    for attempt in range(3):
+    for attempt in range(ATTEMPTS_MAX):
         call()
*** Add File: src/limits.py
+ATTEMPTS_MAX = 5
*** Delete File: src/old.py
*** End Patch"""
FAILURE: Final = (
    "\x1b[1m==== test session starts ====\x1b[0m\n"
    "collected 3 items\n\n"
    "tests/test_upload.py \x1b[32m.\x1b[0m\x1b[31mF\x1b[0m\n"
    "\x1b[31mE       AssertionError: 502 != 201\x1b[0m\n"
    "\x1b[31m1 failed\x1b[0m, \x1b[32m1 passed\x1b[0m in 3.02s\n"
)
QUESTION: Final = "Which branch should the fix go to?"


def picture(width: int = 160, height: int = 90) -> str:
    """Return a picture in base64: a PNG in which the colours run."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        )

    rows = b"".join(
        b"\0" + b"".join(bytes((40 + x % 200, 90 + y, 150)) for x in range(width))
        for y in range(height)
    )
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows))
    return base64.b64encode(png + chunk(b"IEND", b"")).decode()


def record_showcase(ledger: Ledger, *, scope: str = HERE) -> Session:
    """Record the session, its subagent and its fork."""
    session = ledger.session(
        SHOWCASE, scope=scope, agent="claude-code", title="Fix the flaky upload test"
    )
    with session.turn(model="claude-sonnet-4-5") as turn:
        turn.user(
            "The upload test fails one time in five. **Why?**\n\n```python\nassert 502 == 201\n```"
        )
        _think(turn, "The mock server may not listen yet.\n\n- look at `start`\n- then at the test")
        turn.assistant("I'll look at how the mock server is started.")
        for path in READS:
            _call(
                turn,
                "Read",
                {"file_path": path},
                "     1→def start(server):\n     2→    server.start()",
            )
        _call(turn, "Grep", {"pattern": "wait_until", "path": "tests"}, "tests/a.py:3: wait_until")
        _call(
            turn,
            "Bash",
            {"command": "pytest -x tests/test_upload.py"},
            FAILURE,
            fails="exit code 1",
        )
        _todo(turn, "completed", "in_progress", "pending")
        _call(
            turn,
            "Task",
            {
                "description": "Explore",
                "prompt": "Find **who** starts servers.",
                "subagent_type": "Explore",
            },
            "Only `start` does.",
            call_id="explore-1",
        )
        turn.assistant(
            "The server answers before it is ready: see `start` in tests/mock_server.py."
        )
        _spend(turn, 18_000, 900)
    with session.turn(model="claude-sonnet-4-5") as turn:
        turn.user("Fix it, please.")
        _call(
            turn,
            "AskUserQuestion",
            {
                "questions": [
                    {
                        "question": QUESTION,
                        "options": [
                            {"label": "main", "description": "At once"},
                            {"label": "release", "description": "Wait for the next one"},
                        ],
                    }
                ]
            },
            f'User has answered your questions: "{QUESTION}"="main". Go on.',
        )
        _call(
            turn,
            "ExitPlanMode",
            {"plan": "1. Wait until the server listens\n2. Run the test 50 times"},
            "Approved.",
        )
        _call(turn, "Edit", EDIT, "The file has been updated.")
        _call(turn, "apply_patch", {"input": PATCH}, "Done!")
        _call(
            turn,
            "Write",
            {"file_path": "docs/notes.md", "content": "# Notes\n\nWait first.\n"},
            "ok",
        )
        _call(
            turn,
            "Bash",
            {"command": "pytest -q tests --count 50"},
            "\x1b[32m150 passed\x1b[0m in 41 s",
        )
        _call(
            turn,
            "Screenshot",
            {"page": "/uploads"},
            [
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": picture()},
                }
            ],
        )
        _call(
            turn,
            "WebSearch",
            {"query": "pytest flaky server"},
            'Links: [{"title":"Flaky tests","url":"https://docs.example.org/flaky"}]\n',
        )
        _call(
            turn,
            "deploy_preview",
            {"branch": "main", "flags": {"dry": True}},
            '{"url": "https://preview.example.org", "ok": true}',
        )
        _todo(turn, "completed", "completed", "completed")
        turn.assistant(
            "Done: 150 runs, none failed. See [the notes](https://docs.example.org/notes)."
        )
        _spend(turn, 31_000, 2_100)
    session.record(
        "context.compacted",
        "older messages told in a summary",
        refs={"from_tokens": 24_000, "to_tokens": 3_000, "messages": 12},
        payload={"summary": "The mock server was not ready; `start` waits now."},
    )
    with session.turn(model="claude-sonnet-4-5") as turn:
        turn.user("Also rewrite the retry loop")
        _call(
            turn,
            "Edit",
            {"file_path": "src/retry.py", "old_string": "x", "new_string": "y"},
            "old_string was not found in src/retry.py",
            fails="not found",
        )
        turn.assistant("I could not.")
    session.undo()
    with session.turn(model="claude-sonnet-4-5") as turn:
        secret = turn.user("The password of the staging server is swordfish")
        turn.assistant("I do not need it.")
    ledger.redact(scope, event_id=secret.event_id)
    child = ledger.session(
        SUBAGENT,
        scope=scope,
        agent="claude-code:Explore",
        title="Who starts servers?",
        spawned_by=SHOWCASE,
        spawned_call="explore-1",
    )
    with child.turn(model="claude-haiku-4-5") as turn:
        turn.user("Find who starts servers.")
        _call(turn, "Grep", {"pattern": "start("}, "tests/mock_server.py:1")
        turn.assistant("Only `start` does.")
        _spend(turn, 3_000, 120)
    fork = session.fork("flaky-upload-2")
    exchange(fork, "Try it with threads instead", "That works as well.")
    return session


def _call(
    turn: Run,
    name: str,
    given: dict[str, Any],
    output: Any,
    *,
    fails: str = "",
    call_id: str | None = None,
) -> None:
    with turn.tool(name, given, **({"call_id": call_id} if call_id else {})) as call:
        if fails:
            call.fail(output)
        else:
            call.finish(output)


def _think(turn: Run, text: str) -> None:
    turn.emit(
        "ops.observation", {"thinking": text}, summary="thinking", refs={"observed": "thinking"}
    )


def _todo(turn: Run, *states: str) -> None:
    texts = ("Find the cause", "Wait until the server is ready", "Run the test 50 times")
    todos = [{"content": text, "status": state} for text, state in zip(texts, states, strict=True)]
    _call(turn, "TodoWrite", {"todos": todos}, "Todos have been modified.")


def _spend(turn: Run, given: int, answered: int) -> None:
    counts = {
        "model": "claude-sonnet-4-5",
        "provider": "anthropic",
        "input_tokens": given,
        "output_tokens": answered,
    }
    turn.emit("usage.reported", counts)
