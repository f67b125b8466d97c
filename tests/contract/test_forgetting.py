"""What every database promises about forgetting one person."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from builders import ELSEWHERE, HERE, called, said
from ports import store_of
from treering.ledger import forgetting, verification
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from treering import Header, Ledger
    from treering.ledger.erasure import Provenance
    from treering.model.receipts import ForgetReceipt

ADA: Final = "ada-57"
BOB: Final = "bob-58"
MAIN: Final = f"main:telegram:{ADA}"
GROUP: Final = "group:telegram:rowing"


@pytest.fixture
def known(ledger: Ledger) -> Ledger:
    """Return a ledger with a session of ada's, and a group of hers and bob's."""
    return tell(ledger)


def tell(ledger: Ledger) -> Ledger:
    """Record what ada and bob do, alone and together."""
    main = ledger.main_session("telegram", ADA, scope=HERE, agent="lyria")
    with main.turn() as turn:
        turn.user("I moor at the heron jetty")
        with turn.tool("tides", {"place": "heron jetty"}) as call:
            call.finish("high at noon")
        turn.assistant("High water at the heron jetty is at noon")
    group = {"scope": HERE, "agent": "lyria", "mode": "group", "participants": (ADA, BOB)}
    for user, text in ((ADA, "heron at six"), (BOB, "I bring the oars")):
        with ledger.session(GROUP, user=user, key="rowers", **group).turn() as turn:  # type: ignore[arg-type]
            turn.user(text)
            turn.assistant(f"Noted: {text}")
    ledger.append([said("hers, elsewhere", scope=ELSEWHERE, user_id=ADA)])
    return ledger


def forget_with(ledger: Ledger, provenance: Provenance, user: str = ADA) -> ForgetReceipt:
    """Forget somebody, and what ``provenance`` says was learnt of them."""
    return forgetting.forget(
        store_of(ledger),
        ledger._drafter,
        Scope(HERE),
        [user],
        interrupt=ledger._engine.interrupt,
        provenance=provenance,
    )


def fork_of_bobs(ledger: Ledger) -> None:
    """Have bob continue with what ada began, in a session of his own."""
    fork = ledger.session(MAIN, scope=HERE, agent="lyria", user=BOB).fork("bobs")
    fork.record("ops.decision", "oars first")


def exported(ledger: Ledger, scope: str = HERE) -> bytes:
    stream = io.BytesIO()
    ledger.admin.export(scope, stream, payloads="included")
    return stream.getvalue()


def texts(ledger: Ledger, scope: str = HERE) -> list[str]:
    items = ledger.headers(scope, first=200).items
    return [h.summary for h in items if h.kind.startswith("conversation.")]


def vouching(ledger: Ledger) -> list[Header]:
    return list(ledger.headers(HERE, kinds=["ledger.forgotten"], first=200).items)


def gone_sessions(ledger: Ledger) -> list[str]:
    return [s.session_id for s in ledger.sessions(HERE, state="pruned").items]


def test_a_session_of_their_own_goes_whole_and_is_called_otherwise_from_then_on(
    known: Ledger,
) -> None:
    receipt = known.forget(HERE, user=ADA)

    (name,) = gone_sessions(known)
    left = list(known.session(name, scope=HERE, agent="lyria").headers())
    assert name.startswith("forgotten:")
    assert (receipt.sessions_erased, receipt.names_erased) == (1, 2)
    assert [header.kind for header in left] == ["ledger.forgotten"]
    assert list(known.session(MAIN, scope=HERE, agent="lyria").headers()) == []
    assert known.admin.verify(HERE, session_id=name).intact


def test_in_a_group_only_what_is_about_them_goes(known: Ledger) -> None:
    known.forget(HERE, user=ADA)

    assert texts(known) == ["I bring the oars", "Noted: I bring the oars"]
    assert {h.user_id for h in known.headers(HERE, session_id=GROUP).items} == {BOB, None}


def test_a_group_stays_what_it_was_when_whoever_opened_it_is_forgotten(known: Ledger) -> None:
    known.forget(HERE, user=ADA)

    settings = known.session(GROUP, scope=HERE, agent="lyria").settings
    outline = next(s for s in known.sessions(HERE).items if s.session_id == GROUP)
    assert (settings.mode, settings.key, settings.participants) == ("group", "rowers", (BOB,))
    assert outline.mode == "group"


def test_neither_texts_nor_names_can_be_read_or_exported_any_more(known: Ledger) -> None:
    known.admin.index(HERE)

    receipt = known.forget(HERE, user=ADA)

    written = exported(known)
    assert b"heron" not in written
    assert ADA.encode() not in written
    assert known.search("heron", scope=HERE).hits == []
    assert receipt.projections["search"] > 0


def test_what_vouches_says_how_much_and_not_who(known: Ledger) -> None:
    known.forget(HERE, user=ADA)

    headers = vouching(known)
    assert headers
    for header in headers:
        event = known.event(HERE, header.event_id)
        assert (event.user_id, event.agent_id) == (None, "treering")
        assert {"count", "digest", "erasure", "ranges"} <= set(event.payload)
        assert ADA not in repr(event)


def test_the_chain_holds_before_and_after(known: Ledger) -> None:
    anchor = io.BytesIO()
    assert known.admin.verify().intact
    known.admin.anchor(anchor)
    anchor.seek(0)

    receipt = known.forget(HERE, user=ADA)

    found = known.admin.verify(anchor=anchor)
    assert found.intact, found.first_broken
    assert found.expired == receipt.events_erased


def test_the_same_user_of_another_scope_is_not_touched(known: Ledger) -> None:
    known.forget(HERE, user=ADA)

    assert [h.user_id for h in known.headers(ELSEWHERE).items] == [ADA]
    assert known.forget(ELSEWHERE, user=ADA).events_erased == 1


def test_a_trial_counts_what_would_go_and_changes_nothing(known: Ledger) -> None:
    before = exported(known)

    trial = known.forget(HERE, user=ADA, dry_run=True)

    assert exported(known).splitlines()[1:] == before.splitlines()[1:]
    done = known.forget(HERE, user=ADA)
    assert trial.dry_run
    assert trial.events_by_kind == done.events_by_kind
    assert (trial.sessions_erased, trial.names_erased) == (1, 2)


def test_the_receipt_accounts_for_everything(known: Ledger) -> None:
    list(known.tool_calls(HERE).items)

    receipt = known.forget(HERE, user=ADA)

    assert receipt.events_by_kind == {
        "conversation.assistant": 2, "conversation.user": 2, "run.ended": 2, "run.started": 2,
        "session.opened": 2, "tool.call": 1, "tool.result": 1,
    }  # fmt: skip
    assert receipt.events_erased == receipt.projections["events"] == 12
    assert receipt.projections["contents"] == 12
    assert receipt.projections["tool_calls"] == 1
    assert (receipt.users, receipt.scope, receipt.physical) == ([ADA], HERE, "done")


def test_whoever_is_forgotten_is_not_found_again(known: Ledger) -> None:
    known.forget(HERE, user=ADA)

    for name in (ADA, "nobody"):
        with pytest.raises(treering.NotFound) as unknown:
            known.forget(HERE, user=name)
        assert unknown.value.hint


def test_a_name_that_is_used_again_begins_anew(known: Ledger) -> None:
    handle = known.main_session("telegram", ADA, scope=HERE, agent="lyria")
    known.forget(HERE, user=ADA)

    with handle.turn() as turn:
        turn.user("hello again")

    assert [e.payload["text"] for e in handle.events() if e.kind == "conversation.user"] == [
        "hello again"
    ]
    assert texts(known)[-1] == "hello again"
    assert known.admin.verify().intact
    known.forget(HERE, user=ADA)
    assert len(gone_sessions(known)) == 2
    assert known.admin.verify().intact


@pytest.fixture(params=["file", "postgres"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Ledger, Ledger]]:
    """Open one ledger twice, as two processes do."""
    place = tmp_path / "both.db"
    if request.param == "postgres":
        place = request.getfixturevalue("postgres").fresh()
    with treering.open(place) as here, treering.open(place) as there:
        yield here, there


def test_another_process_that_remembers_the_session_begins_it_anew(
    both: tuple[Ledger, Ledger],
) -> None:
    here, there = both
    tell(here)
    there.append([said("before", session_id=MAIN, user_id=ADA)])
    remembered = list(there.session(MAIN, scope=HERE, agent="lyria").headers())
    here.forget(HERE, user=ADA)

    shown = {header.session_id for header in there.headers(HERE).items}
    (header,) = there.append([said("after", session_id=MAIN, user_id=ADA)])

    assert remembered
    assert MAIN not in shown
    assert header.seq == 1
    assert [h.summary for h in there.headers(HERE, session_id=MAIN).items] == ["after"]
    assert [h.user_id for h in here.headers(HERE, session_id=MAIN).items] == [ADA]
    assert here.admin.verify().intact


def test_the_id_of_a_forgotten_event_never_comes_back(ledger: Ledger) -> None:
    ledger.append([said("once", event_id="note-of-ada", user_id=ADA)])
    ledger.forget(HERE, user=ADA)

    (header,) = ledger.append([said("twice", event_id="note-of-ada")])

    assert (header.redacted, header.expired) == (True, True)
    assert texts(ledger) == []


def test_events_without_a_user_go_with_a_session_in_which_nobody_else_spoke(ledger: Ledger) -> None:
    ledger.append([said("mine", user_id=ADA), said("an answer", kind="conversation.assistant")])
    ledger.append([said("hers", user_id=ADA, session_id="s2"), said("whose?", session_id="s2")])

    ledger.forget(HERE, user=ADA)

    assert texts(ledger) == ["whose?"]
    assert [s.session_id for s in ledger.sessions(HERE).items] == ["s2"]


def test_what_a_session_of_theirs_led_to_goes_if_it_is_nobody_elses(known: Ledger) -> None:
    main = known.main_session("telegram", ADA, scope=HERE, agent="lyria")
    main.fork("trial").record("ops.decision", "heron or crane")
    helper = known.session("sub-1", scope=HERE, agent="scout", spawned_by=MAIN)
    helper.record("ops.observation", "the heron jetty is closed")
    theirs = known.session("bob-looks", scope=HERE, agent="lyria", user=BOB, spawned_by=MAIN)
    theirs.record("ops.observation", "oars are here")

    receipt = known.forget(HERE, user=ADA)

    assert receipt.sessions_erased == 3
    assert b"heron" not in exported(known)
    assert MAIN.encode() not in exported(known)
    assert known.headers(HERE, session_id="bob-looks").items[0].summary == "oars are here"
    assert known.admin.verify().intact


def test_what_retells_them_goes_and_what_retells_others_stays(known: Ledger) -> None:
    group = known.session(GROUP, scope=HERE, agent="lyria", user=BOB)
    seqs = {h.user_id: h.seq for h in group.headers() if h.kind == "conversation.user"}
    for user in (ADA, BOB):
        group.record(
            "episode.written", f"what {user[:3]} said",
            refs={"from_seq": seqs[user], "through_seq": seqs[user]},
        )  # fmt: skip

    receipt = known.forget(HERE, user=ADA)

    left = [h.summary for h in group.headers() if h.kind == "episode.written"]
    assert left == ["what bob said"]
    assert (receipt.retellings_erased, receipt.episodes_erased) == (1, 1)


def test_what_was_learnt_from_them_goes_and_what_was_learnt_from_that(known: Ledger) -> None:
    lesson = {"kind": "memory.stored", "session_id": "memory"}
    known.append([said("fact", event_id=f"m{n}", **lesson) for n in (1, 2, 3)])
    asked: list[str] = []

    def provenance(scope: Scope, ids: Sequence[str]) -> list[str]:
        assert scope == HERE
        asked.extend(ids)
        return ["m2"] if "m1" in ids else [] if "m2" in ids else ["m1"]

    receipt = forget_with(known, provenance)

    left = known.headers(HERE, session_id="memory", kinds=["memory.stored"]).items
    assert [header.event_id for header in left] == ["m3"]
    assert receipt.facts_erased == 2
    assert len(asked) == len(set(asked))
    assert known.admin.verify().intact


def test_what_they_are_called_elsewhere_goes_too(ledger: Ledger) -> None:
    link = {"session_id": "people", "kind": "user.linked"}
    told = {"user": ADA, "channel": "matrix", "handle": "@ada"}
    other = {"user": BOB, "channel": "matrix", "handle": "@bob"}
    merged = {"user": BOB, "merged": ADA, "undone": True}
    ledger.append([
        said("linked", **link, payload=told), said("linked", **link, payload=other),
        said("merged", session_id="people", kind="user.merged", payload=merged),
    ])  # fmt: skip

    receipt = ledger.forget(HERE, user=ADA)

    left = ledger.session("people", scope=HERE, agent="lyria").events()
    assert [e.payload for e in left if e.kind.startswith("user.")] == [other]
    assert (receipt.handles_erased, receipt.events_erased) == (1, 2)


def test_in_a_sealed_scope_what_is_kept_of_an_opening_is_what_is_safe_to_say(
    ledger: Ledger,
) -> None:
    ledger.keys.create(HERE)
    tell(ledger)

    ledger.forget(HERE, user=ADA)

    settings = ledger.session(GROUP, scope=HERE, agent="lyria").settings
    assert (settings.mode, settings.key, settings.participants) == ("group", None, ())
    assert ledger.admin.verify().intact


def test_a_run_under_way_is_interrupted_first(ledger: Ledger) -> None:
    ledger.append([
        said("run started", kind="run.started", run_id="r1", user_id=ADA),
        said("in the midst", run_id="r1", user_id=ADA),
    ])  # fmt: skip
    main = ledger.main_session("telegram", ADA, scope=HERE, agent="lyria")
    turn = main.turn()
    turn.__enter__()
    turn.user("wait for me")

    ledger.forget(HERE, user=ADA)

    assert store_of(ledger).reader.open_runs(Scope(HERE)) == []
    assert ledger.admin.verify().intact


def test_the_author_of_a_run_that_another_ledger_forgets_is_told_and_records_no_more(
    open_shared: Callable[[], Ledger],
) -> None:
    here, there = open_shared(), open_shared()
    run = here.session("s1", scope=HERE, agent="lyria", user=ADA).turn()
    run.start()
    run.user("wait for me")

    there.forget(HERE, user=ADA)

    with pytest.raises(treering.RunInterrupted):
        run.user("are you there?")
    assert not there.headers(HERE, session_id="s1").items
    assert there.admin.verify(derived=True).intact


def test_a_run_that_ends_by_itself_just_then_is_no_obstacle(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.append([said("run started", kind="run.started", run_id="r1", user_id=ADA)])
    reader = store_of(ledger).reader
    seen = reader.open_runs(Scope(HERE))
    ledger.append([said("run ended", kind="run.ended", run_id="r1", user_id=ADA)])
    monkeypatch.setattr(reader, "open_runs", lambda *_: seen)

    assert ledger.forget(HERE, user=ADA).events_erased == 2
    assert ledger.admin.verify().intact


def test_a_proof_meanwhile_does_not_miss_the_session_that_lost_its_name(
    known: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = verification._check_beginning
    forgotten: list[object] = []

    def forget_first(*args: Any) -> Any:
        if not forgotten:
            forgotten.append(known.forget(HERE, user=ADA))
        return check(*args)

    monkeypatch.setattr(verification, "_check_beginning", forget_first)

    proof = known.admin.verify(HERE, session_id=MAIN)

    assert proof.intact, proof.first_broken
    assert forgotten


def test_much_is_forgotten_in_rounds_and_what_was_stopped_is_finished(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "ROUND_EVENTS_MAX", 3)
    ledger.append([said(f"{n}", kind="ops.decision") for n in range(6)])
    ledger.append([said("first", user_id=ADA), called()])
    rounds: list[int] = []

    def stop(count: int) -> None:
        rounds.append(count)
        if len(rounds) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ledger.forget(HERE, user=ADA, progress=stop)
    assert ledger.admin.verify().intact

    receipt = ledger.forget(HERE, user=ADA, progress=rounds.append)

    assert rounds == [3, 3, 2]
    assert (receipt.events_erased, receipt.sessions_erased) == (2, 1)
    assert [h.kind for h in ledger.headers(HERE).items] == ["ledger.forgotten"] * 3
    assert ledger.admin.verify().intact


def test_an_export_of_what_is_left_is_taken_in_anywhere(
    known: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    fork_of_bobs(known)
    known.forget(HERE, user=ADA)
    target = open_ledger()

    receipt = target.admin.restore(io.BytesIO(exported(known)))

    assert receipt.complete, receipt.errors_sample
    assert target.admin.verify().intact
    assert gone_sessions(target) == gone_sessions(known)
    assert exported(target).splitlines()[1:] == exported(known).splitlines()[1:]


def test_a_copy_forgets_what_its_source_has_forgotten(
    known: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    target = open_ledger()
    known.admin.copy_to(target)
    fork_of_bobs(known)
    known.forget(HERE, user=ADA)
    known.append([said("anew", session_id=MAIN, user_id=BOB)])

    receipt = known.admin.copy_to(target)

    assert (receipt.complete, receipt.intact) == (True, True), receipt.refused_sample
    assert ADA.encode() not in exported(target).replace(MAIN.encode(), b"")
    assert gone_sessions(target) == gone_sessions(known)
    assert target.family(HERE, "bobs") == known.family(HERE, "bobs")
    assert [h.summary for h in target.headers(HERE, session_id=MAIN).items] == ["anew"]
    assert target.admin.verify().intact


def test_what_was_forgotten_does_not_come_back_from_an_older_copy(
    known: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    older, written = open_ledger(), exported(known)
    known.admin.copy_to(older)
    known.forget(HERE, user=ADA)

    copied = older.admin.copy_to(known)
    restored = known.admin.restore(io.BytesIO(written))

    assert [refusal.session_id for refusal in copied.refused_sample] == [MAIN]
    assert restored.imported == 0
    assert b"heron" not in exported(known)
    assert known.admin.verify().intact
