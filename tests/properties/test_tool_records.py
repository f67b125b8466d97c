"""The table of tool calls says what the fold over all events says, whatever has happened."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

import treering
from builders import DAY, HERE, NOON, said
from expected_calls import tool_calls
from treering import NewEvent
from treering.derive.tool_calls import percentile_rank
from treering.model.tools import FAILING, REASONS, ToolStatistics

if TYPE_CHECKING:
    from postgres_server import Places
    from treering.model.tools import ToolRecord

SCOPES: Final = [HERE, "acme/other"]
SESSIONS: Final = ["s1", "s2"]
CALLS: Final = ["a", "b"]
TOOLS: Final = ["git_log", "grep"]
RUNS: Final = ["r1", "r2"]

known = {"call_id": st.sampled_from(CALLS), "tool": st.sampled_from(TOOLS)}
called = st.fixed_dictionaries(known, optional={"input_bytes": st.integers(-1, 100)})
returned = st.fixed_dictionaries(
    known | {"status": st.sampled_from(["ok", "failed", "synthetic", "synthetic"])},
    optional={
        "duration_ms": st.integers(0, 1_000) | st.just(2**60),
        "output_bytes": st.integers(0, 50),
        "reason": st.sampled_from(REASONS),
        "run": st.sampled_from(RUNS),
    },
)
odd = st.fixed_dictionaries(
    {},
    optional={
        "call_id": st.sampled_from([*CALLS, "", 7]),
        "tool": st.sampled_from([*TOOLS, "", None]),
        "status": st.sampled_from(["open", "odd"]),
        "error_class": st.just("OSError"),
        "is_synthetic": st.booleans(),
    },
)
tool_events = st.fixed_dictionaries(
    {
        "scope": st.sampled_from([HERE, HERE, HERE, "acme/other"]),
        "session_id": st.sampled_from(["s1", "s1", "s1", "s2"]),
        "run_id": st.none() | st.sampled_from(RUNS),
        "ts_ms": st.integers(NOON, NOON + 40 * DAY),
        "content": st.tuples(st.just("tool.call"), called)
        | st.tuples(st.just("tool.result"), returned)
        | st.tuples(st.just("tool.result"), returned)
        | st.tuples(st.sampled_from(["tool.call", "tool.result"]), odd | st.none()),
    }
)


class Bookkeeping(RuleBasedStateMachine):
    """A ledger, and the fold over all of its headers beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = treering.open(self.fresh(), guard="off")

    def fresh(self) -> str:
        """Return where a new ledger can be made."""
        return ":memory:"

    @rule(batch=st.lists(tool_events, min_size=6, max_size=16))
    def append(self, batch: list[dict[str, Any]]) -> None:
        for fields in batch:
            kind, refs = fields["content"]
            event = NewEvent(
                scope=fields["scope"],
                session_id=fields["session_id"],
                kind=kind,
                refs=refs,
                run_id=fields["run_id"],
                ts_ms=fields["ts_ms"],
                agent_id="lyria",
                summary=kind,
            )
            with contextlib.suppress(treering.errors.RunClosed):
                self.ledger.append([event])

    @rule(run=st.sampled_from(RUNS), end=st.sampled_from(["run.ended", "run.failed"]))
    def end(self, run: str, end: str) -> None:
        with contextlib.suppress(treering.errors.RunClosed):
            self.ledger.append([said("over", kind=end, run_id=run)])

    @rule(scope=st.sampled_from(SCOPES))
    def ask(self, scope: str) -> None:
        self.ledger.tool_calls(scope, first=1)

    @rule(scope=st.sampled_from(SCOPES), at=st.integers(0, 30))
    def redact(self, scope: str, at: int) -> None:
        headers = self.ledger.headers(scope, kinds=["tool.call", "tool.result"], first=50).items
        if headers:
            self.ledger.redact(scope, event_id=headers[at % len(headers)].event_id)

    @rule(scope=st.sampled_from(SCOPES), session=st.sampled_from(SESSIONS))
    def redact_session(self, scope: str, session: str) -> None:
        self.ledger.redact(scope, session_id=session)

    @rule(scope=st.sampled_from(SCOPES), day=st.integers(30, 70))
    def expire(self, scope: str, day: int) -> None:
        self.ledger.expire(scope, now_ms=NOON + day * DAY)

    @rule()
    def rebuild(self) -> None:
        self.ledger.admin.rebuild()

    @rule(scope=st.sampled_from(SCOPES))
    def compare(self, scope: str) -> None:
        expected = self.folded(scope)
        assert self.paged(scope) == expected
        for tool in TOOLS:
            assert self.paged(scope, tool=tool) == [r for r in expected if r.tool == tool]
        assert self.paged(scope, status="failing", session_id="s1") == [
            r for r in expected if r.status in FAILING and r.session_id == "s1"
        ]
        assert self.paged(scope, run_id="r2", status="ok") == [
            r for r in expected if r.run_id == "r2" and r.status == "ok"
        ]
        assert self.paged(scope, reason="crashed") == [r for r in expected if r.reason == "crashed"]
        assert self.paged(scope, session_id="s2", call_id="a", since_ms=NOON + 9 * DAY) == [
            r
            for r in expected
            if (r.session_id, r.call_id) == ("s2", "a") and r.at_ms >= NOON + 9 * DAY
        ]
        timed = [r for r in expected if r.duration_ms is not None]
        timed.sort(key=lambda r: (r.duration_ms, r.position), reverse=True)
        assert self.paged(scope, order="slowest") == timed
        assert self.paged(scope, order="slowest", until_ms=NOON + 20 * DAY) == [
            r for r in timed if r.at_ms <= NOON + 20 * DAY
        ]
        assert self.ledger.tool_statistics(scope) == measured(expected)
        assert self.ledger.tool_statistics(scope, session_id="s1", since_ms=NOON + DAY) == measured(
            [r for r in expected if r.session_id == "s1" and r.at_ms >= NOON + DAY]
        )

    def folded(self, scope: str) -> list[ToolRecord]:
        records = tool_calls(self.ledger.follow(scope, idle_s=0))
        return sorted(records, key=lambda record: (record.at_ms, record.position))

    def paged(self, scope: str, **filters: Any) -> list[ToolRecord]:
        """Return all pages, three records at a time."""
        found: list[ToolRecord] = []
        cursor = None
        while True:
            page = self.ledger.tool_calls(scope, first=3, after=cursor, **filters)
            found += page.items
            cursor = page.next_cursor
            if not page.has_more:
                return found

    def teardown(self) -> None:
        try:
            for scope in SCOPES:
                self.compare(scope)
            assert self.ledger.admin.verify().intact
        finally:
            self.ledger.close()


def measured(records: list[ToolRecord]) -> list[ToolStatistics]:
    """Return the statistics of ``records``, by hand."""
    found = [
        of_one_tool(tool, [r for r in records if r.tool == tool])
        for tool in {record.tool for record in records}
    ]
    return sorted(found, key=lambda one: (-one.calls, one.tool or ""))


def of_one_tool(tool: str | None, records: list[ToolRecord]) -> ToolStatistics:
    times = sorted(
        r.duration_ms for r in records if r.status in {"ok", "failed"} and r.duration_ms is not None
    )
    percentiles = [
        times[percentile_rank(p, len(times)) - 1] if times else None for p in (50, 90, 99)
    ]
    statuses = [record.status for record in records]
    return ToolStatistics(
        tool=tool,
        calls=len(records),
        ok=statuses.count("ok"),
        failed=statuses.count("failed"),
        synthetic=statuses.count("synthetic"),
        open=statuses.count("open"),
        p50_ms=percentiles[0],
        p90_ms=percentiles[1],
        p99_ms=percentiles[2],
        max_ms=max(times, default=None),
        total_ms=sum(times),
        output_bytes=sum(r.output_bytes or 0 for r in records),
        last_ms=max(r.at_ms for r in records),
    )


def test_the_table_agrees_with_the_fold() -> None:
    run_state_machine_as_test(Bookkeeping)


def test_the_table_agrees_with_the_fold_on_a_server(postgres: Places) -> None:
    class OnServer(Bookkeeping):
        def fresh(self) -> str:
            return postgres.fresh()

    # Each comparison asks many questions, over many round trips: fewer steps say as much.
    few = settings(max_examples=settings().max_examples // 6, stateful_step_count=12)
    run_state_machine_as_test(OnServer, settings=few)
