"""What every database promises about search."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from builders import DAY, ELSEWHERE, HERE, NOON, called, run_of, said
from treering.errors import InvalidInput, InvalidScope
from treering.storage.sealing import cipher

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Ledger
    from treering.model.sessions import SessionOutline

FAKE_KEY = "AKIA" + "Q7WZP3LK5N2XV8TB"
"""Looks like a cloud's key, and is nobody's."""

FOUND: Final[dict[str, set[str]]] = {
    "storage": {"plain"},
    "STORAGE friday": {"plain"},
    "storage monday": set(),
    "deploy*": {"plain"},
    "stor* eng*": {"plain"},
    '"storage engine"': {"plain"},
    '"engine storage"': set(),
    '"storage eng"*': {"plain"},
    "engine -friday": set(),
    "engine -monday": {"plain"},
    "naive": {"accents"},
    "NAÏVE cafe": {"accents"},
    "zurich strasse": {"accents"},
    "部署": {"chinese"},
    "记录系统": {"chinese"},
    "录": {"chinese"},
    "能": {"chinese"},
    "署部": set(),
    "日本": {"japanese"},
    "日本語": {"japanese"},
    "検索": {"japanese"},
    "す": {"japanese"},
    "시험": {"korean"},
    "getUserName": {"code"},
    "getusername": {"code"},
    "user": {"code"},
    "serNam": {"code"},
    "foo_bar.baz": {"code"},
    "foo_bar": {"code"},
    "bar": {"code"},
    "oo_ba": {"code"},
    "src/treering/ledger.py": {"code"},
    "ledger.py": {"code"},
    "treering/led": {"code"},
    "go": {"short"},
    "c": {"short"},
    "x1": {"short"},
    "orag": set(),
}
"""What each query finds among the texts."""


def found(ledger: Ledger, query: str, scope: str = HERE, **options: Any) -> set[str]:
    """Return the ids of what a query finds, without partial matches."""
    hits = ledger.search(query, scope=scope, **options).hits
    return {hit.event_id for hit in hits if not hit.partial}


@pytest.fixture
def texts(ledger: Ledger) -> Ledger:
    """Return a ledger with texts of several sorts, each known by a name."""
    for name, text in {
        "plain": "The storage engine was deployed on Friday",
        "accents": "A naïve café in Zürich, Straße 7",
        "chinese": "我们在部署记录系统的搜索功能",
        "japanese": "日本語の検索を試す",
        "korean": "검색을 시험합니다",
        "code": "getUserName() in foo_bar.baz calls src/treering/ledger.py:42",
        "short": "go C x1",
    }.items():
        ledger.append([said(text, event_id=name)])
    return ledger


def test_an_event_is_found_by_its_words(texts: Ledger) -> None:
    assert {query: found(texts, query) for query in FOUND} == FOUND


@pytest.mark.parametrize(
    ("query", "names", "widened"),
    [
        ("deploy", {"plain"}, ["deploy*"]),
        ("storage frid", {"plain"}, ["frid*"]),
        ("deploy frid", {"plain"}, ["deploy*", "frid*"]),
        ("deployed", {"plain"}, []),
        ("deploy*", {"plain"}, []),
        ("deploy kind:tool.call", set(), []),
        ("deploy -storage", set(), []),
        ("storage monday", set(), []),
        ("en", set(), []),
        ('"storage eng"', set(), []),
    ],
)
def test_words_that_nothing_has_are_taken_for_beginnings_and_the_result_says_so(
    texts: Ledger, query: str, names: set[str], widened: list[str]
) -> None:
    result = texts.search(query, scope=HERE)

    assert {hit.event_id for hit in result.hits if not hit.partial} == names
    assert result.widened == widened
    assert all(hit.spans for hit in result.hits)


def test_a_session_is_named_by_the_beginning_of_its_id(ledger: Ledger) -> None:
    for name in ("main", "main:ada", "main:bob", "crew:ada"):
        ledger.append([said("apples", event_id=name, session_id=name)])

    assert found(ledger, "session:crew") == {"crew:ada"}
    assert found(ledger, "apples session:main") == {"main"}
    assert found(ledger, "apples session:main:") == {"main:ada", "main:bob"}
    assert found(ledger, "apples session:main:a,crew") == {"main:ada", "crew:ada"}
    assert found(ledger, "apples -session:main:") == {"main", "crew:ada"}
    assert found(ledger, "apples session:cre") == set()
    assert found(ledger, "apples session:nobody") == set()
    assert found(ledger, "apples -session:nobody") == {"main", "main:ada", "main:bob", "crew:ada"}


def test_a_beginning_of_too_many_ids_is_refused(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treering.ledger.search.SESSIONS_MAX", 1)
    ledger.append([said("apples", session_id=name) for name in ("main:ada", "main:bob")])

    with pytest.raises(treering.InvalidInput, match="2 sessions begin with main"):
        ledger.search("session:main", scope=HERE)


def test_a_question_in_plain_words_finds_what_has_most_of_them(ledger: Ledger) -> None:
    ledger.append(
        [
            said("We decided to use SQLite as storage.", event_id="both"),
            said("The storage is slow.", event_id="one"),
            said("Nobody decides about lunch.", event_id="other"),
            said("Nothing of that.", event_id="none"),
        ]
    )

    result = ledger.search("what did we decide about storage", scope=HERE)

    assert result.hits[0].event_id == "both"
    assert {hit.event_id for hit in result.hits} == {"both", "one", "other"}
    assert all(hit.partial for hit in result.hits)
    assert result.total == 3


def test_partial_matches_come_after_exact_ones_and_are_marked(ledger: Ledger) -> None:
    ledger.append(
        [
            said("red green blue, long ago and far away", event_id="exact", ts_ms=1),
            said("red green", event_id="most", kind="conversation.user"),
            said("red", event_id="one", kind="conversation.user"),
            said("red green purple -- and blues", event_id="form"),
        ]
    )

    result = ledger.search("red green blue", scope=HERE)
    phrase = ledger.search('"red green" yellow', scope=HERE)

    assert (result.hits[0].event_id, result.hits[0].partial) == ("exact", False)
    assert {hit.event_id for hit in result.hits if hit.partial} == {"form", "most"}
    assert {hit.event_id for hit in phrase.hits} == {"exact", "most", "form"}
    assert all(hit.partial for hit in phrase.hits)
    assert result.total == 1


def test_a_rare_word_counts_more_than_a_common_one_among_partial_matches(ledger: Ledger) -> None:
    ledger.append([said(f"release {number}", event_id=f"common-{number}") for number in range(8)])
    ledger.append([said("a flamingo", event_id="rare")])
    ledger.append([said("release of the flamingo", event_id="both")])

    hits = ledger.search("flamingo release budget", scope=HERE).hits

    assert [hit.event_id for hit in hits[:2]] == ["both", "rare"]
    assert all(hit.partial for hit in hits)
    assert hits[0].why["words"] > hits[1].why["words"] > hits[2].why["words"]


def test_a_partial_match_obeys_filters_and_exclusions(ledger: Ledger) -> None:
    ledger.append(
        [
            said("storage of today", event_id="kept"),
            said("storage of a draft", event_id="draft"),
            called(event_id="call", summary="storage"),
        ]
    )

    result = ledger.search("decide storage -draft -kind:tool.call", scope=HERE)

    assert [hit.event_id for hit in result.hits] == ["kept"]


def test_all_scopes_are_searched_at_once_if_that_is_said(ledger: Ledger) -> None:
    ledger.append([said("heron of here", event_id="here"), said("a heron", event_id="too")])
    ledger.append([said("heron elsewhere", event_id="there", scope=ELSEWHERE)])

    result = ledger.search("heron", all_scopes=True)
    best = ledger.search("heron", all_scopes=True, limit=1)

    assert result.scope is None
    assert {(hit.scope, hit.event_id) for hit in result.hits} == {
        (HERE, "here"), (HERE, "too"), (ELSEWHERE, "there"),
    }  # fmt: skip
    assert {session.scope for session in result.sessions} == {HERE, ELSEWHERE}
    assert (result.total, len(best.hits), best.total) == (3, 1, 3)
    assert best.hits == result.hits[:1]


def test_several_scopes_are_asked_and_no_other(ledger: Ledger) -> None:
    scopes = [HERE, ELSEWHERE, "third"]
    ledger.append([said("heron", event_id=scope, scope=scope) for scope in scopes])

    found = ledger.search("heron", scope=scopes[:2])
    page = ledger.sessions(scopes[:2])

    assert {hit.event_id for hit in found.hits} == {HERE, ELSEWHERE}
    assert {outline.scope for outline in page.items} == {HERE, ELSEWHERE}


def test_a_search_names_its_scope_or_says_all(ledger: Ledger) -> None:
    ledger.append([said("heron")])

    with pytest.raises(InvalidScope):
        ledger.search("heron")
    with pytest.raises(InvalidInput, match="all_scopes"):
        ledger.search("heron", scope=HERE, all_scopes=True)
    with pytest.raises(InvalidInput, match="all_scopes"):
        ledger.sessions(HERE, all_scopes=True)


def test_matches_in_other_scopes_are_counted(ledger: Ledger) -> None:
    ledger.append([said("heron"), said("heron", scope=ELSEWHERE), said("tern", scope=ELSEWHERE)])
    for scope in (HERE, ELSEWHERE):
        ledger.admin.index(scope)

    assert ledger.matches_elsewhere("heron", scope=HERE) == 1
    assert ledger.matches_elsewhere("tern", scope=ELSEWHERE) == 0


def test_sessions_of_all_scopes_come_in_one_order(ledger: Ledger) -> None:
    for number in range(6):
        scope = (HERE, ELSEWHERE)[number % 2]
        ledger.append([said("x", session_id=f"s{number // 2}", scope=scope)])

    whole = ledger.sessions(all_scopes=True)
    pages: list[SessionOutline] = []
    cursor = None
    while not pages or cursor is not None:
        page = ledger.sessions(all_scopes=True, limit=2, after=cursor)
        pages += page.items
        cursor = page.next_cursor

    shown = [(session.scope, session.session_id) for session in whole.items]
    assert shown == [
        (ELSEWHERE, "s2"), (HERE, "s2"), (ELSEWHERE, "s1"), (HERE, "s1"), (ELSEWHERE, "s0"),
        (HERE, "s0"),
    ]  # fmt: skip
    assert pages == whole.items


def test_a_snippet_says_what_was_said_and_says_it_once(ledger: Ledger) -> None:
    output = "def foghorn(): pass"
    error = {"class": "Failed", "message": "no foghorn here"}
    ledger.append(
        [
            said("Fixed the foghorn.", kind="conversation.assistant", event_id="reply",
                 payload={"text": "Fixed the foghorn.", "model": "gpt-5"}),
            called("Read", kind="tool.result", event_id="read", summary=f"Read returned: {output}",
                   payload={"name": "Read", "output": output, "exit_code": 1}),
            called("Bash", kind="tool.result", event_id="failed", summary="Bash failed",
                   payload={"name": "Bash", "output": error["message"], "error": error}),
            called("Bash", event_id="call", summary="Bash: blow the foghorn",
                   payload={"name": "Bash", "input": {"timeout": 5, "command": "blow foghorn"}}),
        ]
    )  # fmt: skip

    def snippets(query: str) -> dict[str, str]:
        hits = ledger.search(query, scope=HERE).hits
        return {hit.event_id: hit.snippet for hit in hits if not hit.partial}

    assert snippets("foghorn") == {
        "reply": "Fixed the foghorn.",
        "read": output,
        "failed": "no foghorn here",
        "call": "blow foghorn",
    }
    # What is not said is told by the summary, or by all there is.
    assert snippets("foghorn returned") == {"read": f"Read returned: {output}"}
    assert snippets("foghorn failed") == {"failed": "no foghorn here Failed Bash"}
    assert snippets("foghorn gpt") == {"reply": "Fixed the foghorn. gpt-5"}


def test_a_tool_call_is_found_by_its_tool_its_files_and_what_it_was_asked(ledger: Ledger) -> None:
    asked = {"file_path": "src/app/Main.tsx", "old_string": "unicorn"}
    patch = "*** Begin Patch\n*** Update File: lib/deep/worker.rb\n+x\n*** End Patch"
    ledger.append(
        [
            called("Edit", event_id="edit", payload={"name": "Edit", "input": asked}),
            called("shell", event_id="shell", payload={
                "name": "shell", "input": {"command": "cat docs/plan.md | head"},
            }),
            called("patch", event_id="patch", payload={"name": "patch", "input": {"input": patch}}),
            said("talk of src/app/Main.tsx", event_id="talk"),
        ]
    )  # fmt: skip

    assert found(ledger, "unicorn") == {"edit"}
    assert found(ledger, "tool:edit") == {"edit"}
    assert found(ledger, "tool:Edit,shell") == {"edit", "shell"}
    assert found(ledger, "file:src/app/Main.tsx") == {"edit"}
    assert found(ledger, "file:app/main") == {"edit"}
    assert found(ledger, "file:plan.md") == {"shell"}
    assert found(ledger, "file:lib/deep/worker.rb") == {"patch"}
    assert found(ledger, "main.tsx") == {"edit", "talk"}


def test_operators_narrow_what_is_found(ledger: Ledger) -> None:
    now = time.time_ns() // 1_000_000
    ledger.append(
        [
            said("apples", event_id="old", ts_ms=NOON - 400 * DAY),
            said("apples", event_id="reply", kind="conversation.assistant", ts_ms=now - 5 * DAY),
            said("apples", event_id="other", session_id="s2", agent_id="nova", ts_ms=now),
        ]
    )

    assert found(ledger, "apples") == {"old", "reply", "other"}
    assert found(ledger, "apples kind:user_message") == {"old", "other"}
    assert found(ledger, "apples kind:user_message,agent_message") == {"old", "reply", "other"}
    assert found(ledger, "apples kind:conversation.*") == {"old", "reply", "other"}
    assert found(ledger, "apples -kind:agent_message") == {"old", "other"}
    assert found(ledger, "apples agent:nova") == {"other"}
    assert found(ledger, "session:s2") == {"other"}
    assert found(ledger, "apples -session:s2") == {"old", "reply"}
    assert found(ledger, "apples after:3d") == {"other"}
    assert found(ledger, "apples before:3d") == {"old", "reply"}
    assert found(ledger, "apples after:2025-01-01 before:2026-01-01") == {"old"}
    assert found(ledger, "before:2020-01-01") == set()


@pytest.mark.parametrize(
    "query",
    ["", "   ", "!!!", "colour:red", "kind:", "kind:nope", "after:someday", "-before:3d",
     "after:2026-01-02 before:2026-01-01", "a " * 40, "a" * 2_000],
)  # fmt: skip
def test_a_query_that_says_nothing_is_refused_with_a_hint(unchanged: Ledger, query: str) -> None:
    with pytest.raises(treering.InvalidInput) as refused:
        unchanged.search(query, scope=HERE)

    assert refused.value.hint


def test_a_mode_is_one_of_three_and_a_limit_is_a_number_of_hits(ledger: Ledger) -> None:
    with pytest.raises(treering.InvalidInput, match="mode"):
        ledger.search("x", scope=HERE, mode="fuzzy")
    for limit in (0, -1, 10_000, "3"):
        with pytest.raises(treering.InvalidInput, match="limit"):
            ledger.search("x", scope=HERE, limit=limit)  # type: ignore[arg-type]


def test_no_scope_is_searched_from_another(ledger: Ledger) -> None:
    """Promise 3: not by words, sessions, files or tools; not where one name begins another."""
    near = (ELSEWHERE, "acme/app/x", "acme/ap", "acme")
    for scope in near:
        ledger.append(
            [
                said("zebra", scope=scope, session_id="theirs"),
                called("Sesame", scope=scope, session_id="theirs", payload={
                    "name": "Sesame", "input": {"path": "their/file.py"},
                }),
            ]
        )  # fmt: skip
        assert len(found(ledger, "zebra", scope)) == 1
    ledger.append([said("horse", event_id="ours")])

    for query in (
        "zebra",
        "session:theirs",
        "tool:sesame",
        "file:their/file.py",
        "zeb*",
        "their/fil",
    ):
        assert found(ledger, query) == set()
    assert found(ledger, "-zebra") == {"ours"}
    assert ledger.search("zebra", scope=HERE).total == 0


def test_runs_that_did_not_end_well_are_left_out_unless_asked_for(ledger: Ledger) -> None:
    """Promise 7."""
    ledger.append(run_of("r1", "falcon one", end="run.failed"))
    ledger.append(run_of("r2", "falcon two", end="run.interrupted"))
    ledger.append(run_of("r3", "falcon three"))

    default = ledger.search("falcon", scope=HERE)
    every = ledger.search("falcon", scope=HERE, include_failed=True)

    assert [hit.snippet for hit in default.hits] == ["falcon three"]
    assert (default.total, every.total) == (1, 3)


def test_a_run_that_fails_after_it_was_searched_is_left_out(ledger: Ledger) -> None:
    start, middle, end = run_of("r1", "falcon", end="run.failed")
    ledger.append([start, middle])
    assert len(found(ledger, "falcon")) == 1

    ledger.append([end])

    assert found(ledger, "falcon") == set()


def test_hits_come_by_session_the_best_first_and_say_why(ledger: Ledger) -> None:
    ledger.append([said("maple syrup", session_id="a", event_id="near")])
    ledger.append([said("maple " + "and then " * 30 + "syrup", session_id="b", event_id="far")])
    ledger.append([said("maple syrup again", session_id="a", event_id="again")])
    title = {"kind": "session.titled", "payload": {"title": "Breakfast"}}
    ledger.append([said("titled", session_id="a", **title)])

    result = ledger.search("maple syrup", scope=HERE)

    assert [(one.session_id, one.title, one.count) for one in result.sessions] == [
        ("a", "Breakfast", 2), ("b", None, 1),
    ]  # fmt: skip
    best = result.sessions[0].hits[0]
    assert best.score == result.sessions[0].best == max(hit.score for hit in result.hits)
    assert set(best.why) == {"words", "nearness", "kind", "recency"}
    assert best.score == pytest.approx(sum(best.why.values()), abs=0.001)
    assert (result.total, result.at_least, result.lag) == (3, False, 0)


def test_a_snippet_is_short_and_marks_what_was_found(ledger: Ledger) -> None:
    ledger.append(
        [said("x", payload={"text": "lead\n" * 200 + "the Walrus\n\nsat " + "tail " * 200})]
    )

    [hit] = ledger.search("walrus sat", scope=HERE).hits

    assert len(hit.snippet) <= 200
    assert "\n" not in hit.snippet
    assert [hit.snippet[first:last] for first, last in hit.spans] == ["Walrus", "sat"]


def test_a_limit_holds_and_the_total_tells_of_the_rest(ledger: Ledger) -> None:
    ledger.append([said(f"pebble {n}", session_id=f"s{n % 7}") for n in range(60)])

    result = ledger.search("pebble", scope=HERE, limit=5)

    assert len(result.hits) == 5
    assert result.total == 60
    assert len(ledger.search("pebble", scope=HERE, limit=100).hits) == 60


def test_of_a_word_that_is_everywhere_the_newest_matches_are_ranked(ledger: Ledger) -> None:
    ledger.append([said(f"gravel {n}", session_id=f"s{n % 50}") for n in range(1_100)])

    result = ledger.search("gravel", scope=HERE)

    assert (result.total, result.at_least) == (1_000, True)
    assert found(ledger, "gravel 3") != set()


def test_secrets_are_neither_found_nor_shown(ledger: Ledger) -> None:
    ledger.append([said("x", payload={"text": f"my key is {FAKE_KEY} keep it, giraffe"})])

    assert found(ledger, FAKE_KEY) == set()
    assert found(ledger, FAKE_KEY[:12] + "*") == set()
    assert found(ledger, FAKE_KEY[4:14]) == set()
    [hit] = ledger.search("giraffe", scope=HERE).hits
    assert FAKE_KEY not in hit.snippet


def test_what_is_redacted_is_not_found_any_more(ledger: Ledger) -> None:
    ledger.append([said("ocelot one", event_id="e1"), said("ocelot two", event_id="e2")])
    assert found(ledger, "ocelot") == {"e1", "e2"}

    receipt = ledger.redact(HERE, event_id="e1")

    assert receipt.physical == "done"
    assert found(ledger, "ocelot") == {"e2"}
    assert found(ledger, "one") == set()
    ledger.append([said("ocelot three", event_id="e3")])
    assert found(ledger, "ocelot") == {"e2", "e3"}


def test_what_expired_is_not_found_any_more(ledger: Ledger) -> None:
    ledger.append([said("ocelot", event_id="e1", ts_ms=NOON), called("ocelot", ts_ms=NOON)])
    assert len(found(ledger, "ocelot")) == 2

    receipt = ledger.expire(HERE, now_ms=NOON + 45 * DAY)

    assert receipt.physical == "done"
    assert found(ledger, "ocelot") == {"e1"}


def test_a_session_that_was_searched_is_redacted_whole(ledger: Ledger) -> None:
    ledger.append([said(f"ocelot {n}", session_id=f"s{n % 2}") for n in range(3_000)])
    assert ledger.search("ocelot", scope=HERE).at_least

    assert ledger.redact(HERE, session_id="s0").physical == "done"

    left = ledger.search("ocelot", scope=HERE, limit=200)
    assert {hit.session_id for hit in left.hits} == {"s1"}
    assert found(ledger, "ocelot session:s0") == set()


def test_the_index_can_be_thrown_away_and_finds_the_same(ledger: Ledger) -> None:
    """Promise 6."""
    ledger.append([said(f"otter number{n}", event_id=f"e{n}") for n in range(30)])
    ledger.redact(HERE, event_id="e3")
    before = ledger.search("otter", scope=HERE, limit=50)

    ledger.admin.rebuild()

    after = ledger.search("otter", scope=HERE, limit=50)
    assert [hit.event_id for hit in after.hits] == [hit.event_id for hit in before.hits]
    assert ledger.admin.search_lag(HERE) == 0


def test_the_index_says_how_far_behind_it_is_and_catches_up(ledger: Ledger) -> None:
    told: list[int] = []
    ledger.append([said(f"heron {n}") for n in range(1_200)])
    assert ledger.admin.search_lag(HERE) == 1_200

    assert ledger.admin.index(HERE, progress=told.append) == 1_200

    assert sum(told) == 1_200
    assert len(told) > 1
    assert ledger.admin.search_lag(HERE) == 0
    ledger.append([said("heron", event_id="last")])
    assert ledger.admin.search_lag(HERE) == 1
    assert found(ledger, "heron -kind:ops.alert last") == set()
    assert ledger.admin.index() == 0


def test_an_imported_erasure_reaches_what_was_searched(open_ledger: Callable[[], Ledger]) -> None:
    source, target = open_ledger(), open_ledger()
    source.append([said("ocelot", event_id="e1"), said("lynx", event_id="e2")])
    source.admin.copy_to(target)
    assert found(target, "ocelot") == {"e1"}
    source.redact(HERE, event_id="e1")

    source.admin.copy_to(target)

    assert found(target, "ocelot") == set()
    assert found(target, "lynx") == {"e2"}


def test_a_sealed_scope_is_found_by_its_summaries_alone(ledger: Ledger) -> None:
    cipher()
    ledger.keys.create(HERE)
    ledger.append([said("about penguins", event_id="e1", payload={"text": "walrus"})])

    assert found(ledger, "walrus") == set()
    [hit] = ledger.search("penguins", scope=HERE).hits
    assert hit.snippet == "about penguins"
    ledger.keys.destroy(HERE)
    assert found(ledger, "penguins") == set()


def test_a_scope_that_nobody_has_written_to_has_nothing(ledger: Ledger) -> None:
    assert ledger.search("x", scope="acme/none").sessions == []
    assert ledger.admin.search_lag("acme/none") == 0


def test_titles_are_shown_without_their_secrets(ledger: Ledger) -> None:
    session = ledger.session("s1", scope="acme/app", agent="lyria")
    token = "ghp_" + "wJ4sQ9zXb7Lm2Vt6Kd8Rp3Ny5Hc1Fg0Ae"
    session.record("conversation.user", "mend the lamp", payload={"text": "mend the lamp"})
    session.rename(f"lamp with {token}")

    (found,) = ledger.search("lamp", scope="acme/app").sessions

    assert found.title is not None
    assert found.title.startswith("lamp with [redacted:")
    assert token not in found.title


def test_a_word_in_the_middle_of_a_very_long_output_is_found(ledger: Ledger) -> None:
    for name, filler in (("prose", "tide {}"), ("words", "{:x}{:x}"), ("chinese", "潮{:x}水")):
        text = " ".join(filler.format(n, n * 7) for n in range(12_000))
        payload = {"output": f"{text} lighthouse {text}"}
        ledger.append([called(kind="tool.result", session_id=name, payload=payload)])

    found = ledger.search("lighthouse", scope=HERE)

    assert {one.session_id for one in found.sessions} == {"prose", "words", "chinese"}
    assert len(ledger.search("11999", scope=HERE).sessions) == 1
    assert ledger.admin.verify(HERE, derived=True).intact
