"""Sessions of our own, for pictures, browser tests and benchmarks of the viewer.

Some weeks in a small team: bugs found and mended, a deploy that times out, a subagent, a fork, and
what was learnt from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering import NewEvent
from treering.spine.words import new_id

if TYPE_CHECKING:
    from collections.abc import Callable

    import treering
    from treering import Session

    Tick = Callable[[int], None]

APP, OPS, DOCS = "acme/app", "acme/ops", "acme/handbook"
MODELS: Final = ("claude-sonnet-4-5", "claude-opus-4-5", "gpt-5-codex")
MINUTE: Final = 60_000
DAY: Final = 86_400_000
TRACEBACK: Final = "E   sqlite3.OperationalError: no such table: tides\n1 failed in 0.42s"
PATCH: Final = {
    "file_path": "src/tides.py",
    "old_string": 'db = connect(":memory:")',
    "new_string": "db = connect(settings.database)\nmigrate(db)",
}
ANSWER: Final = """\
The app opened an empty in-memory database, so the table was never created.

1. `src/tides.py` now opens the configured database.
2. It runs the migrations before the first query.

All **42 tests** pass."""
CHORES: Final = (
    ("Rename the export command", "lyria", ("Grep", "Edit", "Bash"), ""),
    ("Why is the nightly report late?", "codex", ("Bash", "Read", "Read"), "exit status 1"),
    ("Add initials to the user menu", "lyria", ("Read", "Edit", "Edit", "Bash"), ""),
    ("Upgrade the date library", "codex", ("Read", "Edit", "Bash", "Bash"), ""),
    ("Write a test for the login form", "lyria", ("Read", "Write", "Bash"), "AssertionError"),
    ("Translate the error pages", "lyria", ("Glob", "Edit"), ""),
    ("Find what fills the disk", "codex", ("Bash", "Bash"), "Permission denied"),
    ("Describe the release steps", "lyria", ("Read", "Write"), ""),
)
FACTS: Final = (
    ("Jo prefers short commit messages in English.", "preference", 7),
    ("The staging server is staging-1.", "technical", 6),
    ("Releases happen on Thursdays.", "schedule", 5),
    ("The tide table is filled by the nightly import.", "technical", 8),
)


class Recorder:
    """Records one session, a step at a time, at times of its own; ``done`` makes it durable."""

    def __init__(
        self, ledger: treering.Ledger, session: Session, start_ms: int, tick: Tick
    ) -> None:
        self._ledger = ledger
        self._tick = tick
        self._session = session
        self._events: list[NewEvent] = []
        self.now_ms = start_ms
        tick(start_ms)
        session.open(ts_ms=start_ms)

    def add(self, after_ms: int, kind: str, summary: str, payload: Any, **refs: Any) -> str:
        """Add an event that long after the one before; return its id."""
        self.now_ms += after_ms
        event_id = new_id()
        event = NewEvent(
            scope=self._session.scope,
            session_id=self._session.session_id,
            kind=kind,
            agent_id=self._session.agent,
            summary=summary[:200],
            payload=payload,
            refs=refs or None,
            ts_ms=self.now_ms,
            event_id=event_id,
        )
        self._events.append(event)
        return event_id

    def done(self) -> None:
        """Record it all."""
        self._tick(self.now_ms)
        self._ledger.append(self._events)

    def says(self, who: str, text: str, after_ms: int = 2_000) -> str:
        """Record what somebody said."""
        return self.add(after_ms, f"conversation.{who}", text, {"text": text})

    def call(self, tool: str, given: Any, result: Any, *, ms: int = 800, error: str = "") -> str:
        """Record a tool call and how it ended."""
        same = {"call_id": f"c{len(self._events)}", "tool": tool}
        hint = next(iter(given.values())) if isinstance(given, dict) and given else ""
        self.add(500, "tool.call", f"{tool}: {hint}", {"input": given}, **same)
        ended = {"status": "failed", "error_class": error} if error else {"status": "ok"}
        summary = f"{tool} failed" if error else f"{tool} ok"
        return self.add(ms, "tool.result", summary, {"output": result}, **same, **ended)

    def used(self, model: str, tokens: int, *, cached: int = 0, output: int = 400) -> None:
        """Record what a model call used."""
        provider = "openai" if model.startswith("gpt") else "anthropic"
        self.add(
            10,
            "usage.reported",
            f"{model}: {tokens:,} tokens",
            {
                "model": model, "provider": provider, "input_tokens": tokens,
                "cached_tokens": cached, "output_tokens": output,
            },
        )  # fmt: skip


def record_samples(
    ledger: treering.Ledger, now_ms: int, *, tick: Tick = lambda _: None
) -> dict[str, str]:
    """Record everything; return ids by name: sessions, and one event to link to.

    ``tick`` is told what time it is whenever something is recorded, for who sets the clock.
    """
    today_ms = now_ms // DAY * DAY
    for scope, name, age_ms, (title, agent, tools, error) in _chores():
        session = ledger.session(name, scope=scope, agent=agent, user="jo", title=title)
        recorder = Recorder(ledger, session, today_ms - age_ms, tick)
        _record_chore(recorder, tools, error, days=age_ms // DAY)
    ids = {"tides": "fix-tides", "subagent": "fix-tides-search", "deploy": "deploy-tides"}
    ids |= _record_tides(ledger, now_ms - 3 * 3_600_000, tick)
    tick(now_ms - 2 * 3_600_000)
    ids |= _record_fork(ledger, now_ms - 2 * 3_600_000)
    tick(now_ms - 3_600_000)
    ids |= _record_facts(ledger, ids["question"])
    tick(now_ms - 4 * MINUTE)
    _record_running(ledger, now_ms - 4 * MINUTE)
    tick(now_ms)
    return ids


def _chores() -> list[tuple[str, str, int, tuple[str, str, tuple[str, ...], str]]]:
    """Return scope and id of each session, how long before today it began, and what it is about."""
    chores = []
    for number in range(26):
        days = 1 + number * (number % 3 + 4) % 27
        hour = 3_600_000 * (8 + number * 5 % 10)
        scope = (APP, OPS, APP, DOCS)[number % 4]
        chore = CHORES[number * 3 % len(CHORES)]
        chores.append((scope, f"chore-{number:02}", days * DAY - hour, chore))
    return sorted(chores, key=lambda chore: -chore[2])


def _record_chore(recorder: Recorder, tools: tuple[str, ...], error: str, *, days: int) -> None:
    """Record a chore; no two days are alike, and they are the same whatever day it is."""
    recorder.says("user", "Please look into it, and tell me before you change anything.")
    for _ in range(-days % 4):
        recorder.says("assistant", "It touches two files. Shall I change both?")
        recorder.says("user", "Yes, and the tests with them.", after_ms=MINUTE)
    size = len(tools) * 7_000 + (1 - days) % 5 * 9_000
    model = MODELS[(2 - days) % len(MODELS)]
    for at, tool in enumerate(tools):
        is_last = at == len(tools) - 1
        given: dict[str, Any] = {"command": "make check"}
        if tool in {"Read", "Write"}:
            given = {"file_path": f"src/part_{at}.py"}
        elif tool == "Edit":
            given = {**PATCH, "file_path": f"src/menu_{at}.py"}
        elif tool in {"Glob", "Grep"}:
            given = {"pattern": "export"}
        recorder.call(
            tool, given, error or "done", ms=300 * (at + 1) ** 2, error=error if is_last else ""
        )
        recorder.used(model, size, cached=size * 3 // 4)
    recorder.says("assistant", "Done. Two files changed, and the checks pass.")
    recorder.done()


def _record_tides(ledger: treering.Ledger, start_ms: int, tick: Tick) -> dict[str, str]:
    session = ledger.session(
        "fix-tides", scope=APP, agent="lyria", user="jo", title="Fix the tide table"
    )
    recorder = Recorder(ledger, session, start_ms, tick)
    question = recorder.says("user", "The tide page fails with `no such table: tides`. Why?")
    recorder.call(
        "Bash", {"command": "pytest -q tests/test_tides.py"}, TRACEBACK, ms=4_000,
        error="ExitStatus",
    )  # fmt: skip
    recorder.used(MODELS[0], 21_000, cached=12_000)
    recorder.call("Read", {"file_path": "src/tides.py"}, PATCH["old_string"])
    recorder.call("Task", {"prompt": "Find every place that opens a database."}, "Three places.")
    helper = ledger.session(
        "fix-tides-search", scope=APP, agent="lyria", spawned_by="fix-tides",
        title="Find every place that opens a database",
    )  # fmt: skip
    helped = Recorder(ledger, helper, recorder.now_ms, tick)
    helped.says("user", "Find every place that opens a database.")
    helped.call("Grep", {"pattern": "connect("}, "src/tides.py:3\nsrc/jobs.py:9\nsrc/web.py:14")
    helped.used(MODELS[0], 6_000)
    helped.says("assistant", "Three places: src/tides.py, src/jobs.py, src/web.py.")
    helped.done()
    recorder.call("Edit", PATCH, "1 replacement")
    recorder.call("Bash", {"command": "pytest -q"}, "42 passed in 3.10s", ms=6_000)
    recorder.used(MODELS[0], 30_000, cached=21_000, output=900)
    recorder.says("assistant", ANSWER)
    recorder.says("user", "Deploy it to staging.", after_ms=MINUTE)
    recorder.call("Deploy", {"host": "staging-1"}, None, ms=30_000, error="Timeout")
    recorder.used(MODELS[0], 33_000, cached=30_000)
    recorder.says(
        "assistant", "The deploy timed out after 30 seconds. Nothing was changed on `staging-1`."
    )
    recorder.done()
    return {"question": question}


def _record_fork(ledger: treering.Ledger, start_ms: int) -> dict[str, str]:
    parent = ledger.session("fix-tides", scope=APP, agent="lyria", user="jo")
    fork = parent.fork("deploy-tides", title="Deploy the tide table another way", ts_ms=start_ms)
    for kind, text in (
        ("conversation.user", "Try the other server."),
        ("conversation.assistant", "Deployed to staging-2 in 11 seconds."),
    ):
        start_ms += 20_000
        fork.record(kind, text, payload={"text": text}, ts_ms=start_ms)
    return {"fork": fork.session_id}


def _record_running(ledger: treering.Ledger, start_ms: int) -> None:
    session = ledger.session(
        "flaky-upload", scope=APP, agent="lyria", user="jo", title="Fix the flaky upload test"
    )
    session.open(ts_ms=start_ms)
    run_id = "run-upload"
    session.record("run.started", "run started", run_id=run_id, ts_ms=start_ms + 1)
    text = "The upload test fails one time in five. Why?"
    session.record(
        "conversation.user", text, payload={"text": text}, run_id=run_id, ts_ms=start_ms + 2
    )


def _record_facts(ledger: treering.Ledger, evidence: str) -> dict[str, str]:
    memory = ledger.memory(APP)
    learnt = [
        memory.learn(text, category=category, importance=importance, evidence=[evidence])  # type: ignore[arg-type]
        for text, category, importance in FACTS
    ]
    doubtful = memory.learn(
        "The root password is kept in a note on the wall.", origin="tool", evidence=[evidence]
    )
    return {"fact": learnt[0].fact_id, "doubtful": doubtful.fact_id}
