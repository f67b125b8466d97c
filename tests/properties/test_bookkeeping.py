"""The ledger agrees with a plain list, whatever the interleaving."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import treering
from builders import DAY, NOON
from treering import NewEvent

if TYPE_CHECKING:
    from postgres_server import Places

SCOPES = ["acme/app", "acme/other", "global"]
SESSIONS = ["s1", "s2", "日誌"]
KINDS = ["conversation.user", "tool.call", "tool.result", "ops.decision", "ops.alert"]
DAYS = {"conversation.user": 60, "tool.call": 30, "tool.result": 30, "ops.alert": 90}

contents = st.fixed_dictionaries(
    {
        "scope": st.sampled_from(SCOPES),
        "session_id": st.sampled_from(SESSIONS),
        "kind": st.sampled_from(KINDS),
        "summary": st.text(
            st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20
        ).filter(str.strip),
        "payload": st.none() | st.integers() | st.text(max_size=10) | st.just("x" * 9_000),
        "refs": st.none() | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
        "ts_ms": st.integers(NOON, NOON + 200 * DAY),
        "agent_id": st.sampled_from(["lyria", "worker"]),
        "event_id": st.none() | st.integers(0, 9).map(lambda n: f"id-{n}"),
    }
)


class Bookkeeping(RuleBasedStateMachine):
    """A ledger beside a list of dictionaries; erased ones are blanked in the list too."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = treering.open(self.fresh(), guard="off")
        self.book: list[dict[str, Any]] = []

    def fresh(self) -> str:
        """Return where a new ledger can be made."""
        return ":memory:"

    @initialize()
    def begin(self) -> None:
        assert self.ledger.headers("acme/app").items == []

    def seq_of(self, scope: str, session: str) -> int:
        return sum(row["scope"] == scope and row["session_id"] == session for row in self.book)

    def find(self, scope: str, event_id: str | None) -> dict[str, Any] | None:
        same = (r for r in self.book if r["scope"] == scope and r["event_id"] == event_id)
        return None if event_id is None else next(same, None)

    @rule(batch=st.lists(contents, min_size=1, max_size=4))
    def append(self, batch: list[dict[str, Any]]) -> None:
        rows: list[dict[str, Any]] = []
        refused = False
        for fields in batch:
            known = self.find(fields["scope"], fields["event_id"]) or next(
                (r for r in rows if fields["event_id"] is not None
                 and (r["scope"], r["event_id"]) == (fields["scope"], fields["event_id"])),
                None,
            )  # fmt: skip
            if known is None:
                rows.append({**fields, "state": "live", "given": fields})
            elif known["state"] == "live" and known["given"] != fields:
                refused = True
        try:
            headers = self.ledger.append([NewEvent(**fields) for fields in batch])
        except treering.errors.DuplicateEvent:
            assert refused
            return
        assert not refused
        for row in rows:
            row["seq"] = self.seq_of(row["scope"], row["session_id"]) + 1
            self.book.append(row)
        assert len(headers) == len(batch)
        assert all(
            h.redacted or h.summary == f["summary"] for h, f in zip(headers, batch, strict=True)
        )

    @rule(scope=st.sampled_from(SCOPES), session=st.sampled_from(SESSIONS))
    def redact(self, scope: str, session: str) -> None:
        touched = [
            row
            for row in self.book
            if (row["scope"], row["session_id"], row["state"]) == (scope, session, "live")
            and not row["kind"].startswith("ledger.")
        ]
        receipt = self.ledger.redact(scope, session_id=session)
        assert receipt.redacted_count == len(touched)
        for row in touched:
            row["state"] = "redacted"
        if touched:
            self.vouch("ledger.redacted", scope, [session])

    @rule(scope=st.sampled_from(SCOPES), day=st.integers(0, 300))
    def expire(self, scope: str, day: int) -> None:
        now = NOON + day * DAY
        touched = [
            row
            for row in self.book
            if row["scope"] == scope
            and row["state"] != "expired"
            and row["kind"] in DAYS
            and row["ts_ms"] < now - DAYS[row["kind"]] * DAY
        ]
        assert self.ledger.expire(scope, now_ms=now, dry_run=True).deleted_total == len(touched)
        assert self.ledger.expire(scope, now_ms=now).deleted_total == len(touched)
        for row in touched:
            row["state"] = "expired"
        order = list(dict.fromkeys(r["session_id"] for r in self.book if r["scope"] == scope))
        sessions = {row["session_id"] for row in touched}
        self.vouch("ledger.expired", scope, [name for name in order if name in sessions])

    def vouch(self, kind: str, scope: str, sessions: list[str]) -> None:
        for session in sessions:
            self.book.append(
                {
                    "scope": scope,
                    "session_id": session,
                    "kind": kind,
                    "event_id": None,
                    "state": "live",
                    "seq": self.seq_of(scope, session) + 1,
                    "ts_ms": None,
                }
            )

    @rule()
    def copy(self) -> None:
        target = treering.open(self.fresh(), guard="off")
        for scope in SCOPES:
            stream = io.BytesIO()
            self.ledger.admin.export(scope, stream, payloads="included")
            stream.seek(0)
            receipt = target.admin.restore(stream)
            assert receipt.complete
            assert receipt.errors == 0
        assert target.admin.verify().intact
        assert target.admin.verify().events == self.ledger.admin.verify().events
        self.ledger.close()
        self.ledger = target

    @invariant()
    def every_session_reads_as_the_book_has_it(self) -> None:
        for scope in SCOPES:
            for session in SESSIONS:
                rows = [
                    row
                    for row in self.book
                    if (row["scope"], row["session_id"]) == (scope, session)
                    and row["state"] != "expired"
                ]
                events = list(self.ledger.session(session, scope=scope, agent="x").events())
                assert [(e.seq, e.kind, e.redacted) for e in events] == [
                    (row["seq"], row["kind"], row["state"] == "redacted") for row in rows
                ]
                for event, row in zip(events, rows, strict=True):
                    if row["state"] == "live" and row["ts_ms"] is not None:
                        assert (event.summary, event.payload, event.refs) == (
                            row["summary"], row["payload"], row["refs"],
                        )  # fmt: skip

    @invariant()
    def every_scope_reads_by_time(self) -> None:
        """Promise 3, too: nothing of another scope is among it."""
        for scope in SCOPES:
            headers = self.ledger.headers(scope, first=1_000).items
            assert [(h.ts_ms, h.position) for h in headers] == sorted(
                (h.ts_ms, h.position) for h in headers
            )
            assert {h.scope for h in headers} <= {scope}
            assert len(headers) == sum(
                row["scope"] == scope and row["state"] != "expired" for row in self.book
            )

    @invariant()
    def the_chain_holds(self) -> None:
        assert self.ledger.admin.verify().intact

    def teardown(self) -> None:
        self.ledger.close()


def test_the_ledger_agrees_with_a_plain_list_in_memory() -> None:
    half = settings(max_examples=settings().max_examples // 2)
    run_state_machine_as_test(Bookkeeping, settings=half)


def test_the_ledger_agrees_with_a_plain_list_on_postgres(postgres: Places) -> None:
    class OnPostgres(Bookkeeping):
        """The same, on a server."""

        def fresh(self) -> str:
            return postgres.fresh()

    # Each step proves the whole ledger, over many round trips: fewer steps say as much.
    few = settings(max_examples=settings().max_examples // 6, stateful_step_count=20)
    run_state_machine_as_test(OnPostgres, settings=few)
