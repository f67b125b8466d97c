"""The session screen in a real browser: reading, finding one's place, details, live growth."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Page, expect

import treering
from builders import HERE, NOON, exchange
from served import ThreadServer
from surfaces.showcase import SHOWCASE, record_showcase
from treering.surfaces.viewer import session as session_screen
from viewed import COLOURS, ViewedLedger, faults, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering import Ledger

WIDE: Final = 1_440
LONG: Final = "long"
LONG_TURNS: Final = 500
HOSTILE: Final = (
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 2'>",
    '"><svg onload="window.hacked = 3"><style>*{display:none}</style>',
    "[click](javascript:window.hacked=4) ![p](https://evil.example/p.png)",
    "<a href='javascript:window.hacked=4'>x</a>",
    "</script></pre></details></main><iframe src=https://evil.example></iframe>",
    "\u202ereversed \x1b[31mred\x1b[0m \x1b]8;;javascript:1\x07link\x1b]8;;\x07",
    "{{constructor.constructor('window.hacked=5')()}} ${window.hacked=6}",
    "w" * 120_000,
)  # fmt: skip


def address(session: str, **query: Any) -> str:
    return f"/sessions/{quote(session, safe='')}?{urlencode({'scope': HERE, **query})}"


@pytest.fixture(scope="module")
def viewed(unchanged: Ledger) -> Iterator[ViewedLedger]:
    record_showcase(unchanged)
    _record_long(unchanged)
    with ThreadServer(unchanged) as server:
        yield ViewedLedger(unchanged, server, {})


def _record_long(ledger: Ledger) -> None:
    session = ledger.session(LONG, scope=HERE, agent="lyria", title="A long session")
    events = []
    for number in range(LONG_TURNS):
        at = NOON + number * 10_000
        ids = {"call_id": f"c{number}", "tool": "Bash"}
        given = {**ids, "name": "Bash", "input": {"command": f"make part-{number}"}}
        done = {**ids, "output": f"built {number}"}
        state = "failed" if number in {100, 400} else "ok"
        events += [
            session.new_event(
                "conversation.user", f"Part {number}", payload={"text": f"Part {number}"}, ts_ms=at
            ),
            session.new_event("tool.call", "Bash", payload=given, refs=ids, ts_ms=at + 1_000),
            session.new_event(
                "tool.result", "Bash", payload=done, refs={**ids, "status": state}, ts_ms=at + 4_000
            ),
        ]
    session.append(events)


def asked_at(turn: int) -> int:
    """Return the seq of a turn's question; its call comes next. The first event opened it."""
    return 3 * turn + 2


def event_id(viewed: ViewedLedger, seq: int, session: str = LONG) -> str:
    handle = viewed.ledger.session(session, scope=HERE, agent="x")
    return next(handle.headers(after_seq=seq - 1)).event_id


def visit(page: Page, session: str, **query: Any) -> None:
    """Go to a session, and wait until its script is there."""
    page.goto(address(session, **query))
    expect(page.locator(".session[data-ready]")).to_have_count(1)


def settle(page: Page) -> None:
    """Wait until what has come into view is drawn: rows have their true heights only then."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def rows(page: Page) -> Any:
    return page.locator("#rows [data-item]")


def test_the_first_rows_the_turns_and_the_sums_are_there_without_any_script(
    new_context: Callable[..., Any], viewed: ViewedLedger
) -> None:
    context = new_context(base_url=viewed.url, java_script_enabled=False)
    context.add_cookies([viewed.cookie])
    page = context.new_page()
    page.goto(address(SHOWCASE))

    expect(page.get_by_role("heading", level=1)).to_have_text("Fix the flaky upload test")
    expect(page.locator("#facts")).to_contain_text("4 turns")
    expect(page.locator("#failed")).to_contain_text("2 failed")
    expect(page.locator("#outline li")).to_have_count(4)
    expect(page.locator("#rows")).to_contain_text("The upload test fails one time in five.")
    expect(page.locator("#rows .group")).to_contain_text("4 reads, 1 search")
    page.goto(address(LONG))
    page.get_by_role("link", name="Later").click()
    expect(page.locator("#rows")).to_contain_text("Part 40")


def test_a_long_session_is_counted_after_its_first_rows(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_screen, "OUTLINE_EVENTS_MAX", 10)
    page.route("**/outline?*", lambda route: route.fulfill(status=404), times=1)
    visit(page, SHOWCASE)
    expect(rows(page).first).to_be_visible()
    expect(page.locator("#facts")).to_have_text("Counting …")
    page.reload()

    expect(page.locator("#facts")).to_contain_text("4 turns")
    expect(page.locator("#failed")).to_contain_text("2 failed")
    expect(page.locator("#outline li")).to_have_count(4)


def test_a_link_to_an_event_opens_at_it_wherever_it_is(page: Page, viewed: ViewedLedger) -> None:
    seq = asked_at(401)
    visit(page, LONG, event=event_id(viewed, seq + 2))  # A result stands with its call.

    row = page.locator(f"#e{seq + 1}")
    expect(row).to_be_in_viewport()
    expect(row).to_have_class(re.compile("aimed"))
    expect(row).to_contain_text("make part-401")
    expect(page.locator("#outline a[aria-current]")).to_contain_text("Part 401")


def test_only_rows_near_the_window_are_in_the_document(page: Page) -> None:
    visit(page, LONG)
    expect(page.locator("#rows .page")).to_have_count(13)
    for share in (0.3, 0.6, 1.0, 0.5):
        page.evaluate(f"scrollTo(0, document.documentElement.scrollHeight * {share})")
        page.wait_for_timeout(150)

    expect(page.locator(".page:not([data-filled])").first).to_be_attached()
    expect(page.locator(".page[data-filled]").nth(6)).to_have_count(0)  # No more than six.
    page.keyboard.press("End")
    expect(page.locator("#e1500")).to_be_in_viewport()
    page.wait_for_url(re.compile(r"seq=1[45]\d\d"))  # The place stands in the address.


def test_a_jump_ends_at_its_row_where_the_browser_holds_no_place(page: Page) -> None:
    visit(page, LONG)
    page.evaluate("document.documentElement.style.overflowAnchor = 'none'")
    page.evaluate("document.body.style.overflowAnchor = 'none'")
    expect(page.locator("#outline a[aria-current]")).to_contain_text("Part 0")

    for part in (100, 400):
        page.keyboard.press("n")
        row = page.locator(f"#e{asked_at(part) + 1}")
        expect(row).to_be_in_viewport()
        expect(page.locator(".page[data-filled]").nth(2)).to_be_attached()
        settle(page)
        settle(page)
        expect(row).to_be_in_viewport()


def test_keys_move_by_turn_and_by_failure_and_fold(page: Page) -> None:
    visit(page, LONG)
    expect(page.locator("#outline a[aria-current]")).to_contain_text("Part 0")
    page.keyboard.press("j")
    expect(page.locator("#outline a[aria-current]")).to_contain_text("Part 1")
    page.keyboard.press("n")
    expect(page.locator(f"#e{asked_at(100) + 1}")).to_be_in_viewport()
    settle(page)
    page.keyboard.press("n")
    expect(page.locator(f"#e{asked_at(400) + 1}")).to_be_in_viewport()
    expect(page.locator(f"#e{asked_at(400) + 1}")).to_contain_text(
        "built 400"
    )  # Its last lines, unasked.
    page.keyboard.press("N")
    expect(page.locator(f"#e{asked_at(100) + 1}")).to_be_in_viewport()
    page.keyboard.press("]")
    expect(page.locator(f"#e{asked_at(100) + 1} details")).to_have_attribute("open", "")
    page.keyboard.press("[")
    expect(page.locator(f"#e{asked_at(100) + 1} details")).not_to_have_attribute("open", "")


def test_the_drawer_has_the_event_its_payload_on_request_and_verifies(
    page: Page, viewed: ViewedLedger
) -> None:
    visit(page, SHOWCASE)
    page.locator("#e4 a.when").click()
    panel = page.locator("#beside")

    expect(panel.get_by_role("heading", name="Event 4")).to_be_focused()
    expect(panel).to_contain_text("ops.observation")
    expect(panel).not_to_contain_text("may not listen yet")
    panel.get_by_role("button", name="Show the payload").click()
    expect(panel).to_contain_text("may not listen yet")
    panel.get_by_role("button", name="Verify this session").click()
    expect(panel.locator(".verified")).to_contain_text("verified ✓")
    panel.get_by_role("link", name="After").click()
    expect(panel.get_by_role("heading", name="Event 5")).to_be_visible()
    expect(page).to_have_url(re.compile(f"event={event_id(viewed, 5, SHOWCASE)}"))
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(page).not_to_have_url(re.compile("open="))


def test_filters_show_their_rows_only_and_back_returns(page: Page) -> None:
    visit(page, SHOWCASE)
    page.get_by_role("link", name="Edits").click()
    expect(page.locator("#rows[data-show=edits] [data-item]")).to_have_count(4)
    expect(page.locator("#rows .diff").first).to_contain_text("server.wait_until_ready")
    page.get_by_role("link", name="Failures").click()
    expect(page.locator("#rows[data-show=failures]")).to_contain_text("AssertionError: 502 != 201")
    page.go_back()
    page.go_back()
    expect(page.locator("#rows[data-show=all]")).to_contain_text("I'll look at how")


def test_a_filter_goes_on_to_the_end_of_a_long_session(page: Page) -> None:
    visit(page, LONG, show="failures")
    expect(rows(page)).to_have_count(2)
    visit(page, LONG, show="you")
    expect(rows(page).nth(59)).to_be_attached()
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    expect(rows(page).nth(119)).to_be_attached()


def test_a_text_is_found_wherever_it_is_and_marked(page: Page) -> None:
    visit(page, LONG)
    page.keyboard.press("/")
    page.keyboard.type("PART-45")
    page.keyboard.press("Enter")

    expect(page.locator("#found")).to_have_text("1 of 11")
    expect(page.locator(f"#e{asked_at(45) + 1}")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("#found")).to_have_text("2 of 11")
    expect(page.locator(f"#e{asked_at(450) + 1}")).to_be_in_viewport()
    wait_until(lambda: page.evaluate("CSS.highlights.get('found')?.size >= 1"))
    expect(page).to_have_url(re.compile("find=part-45"))
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("find="))


def test_a_replay_shows_one_event_after_another(page: Page) -> None:
    visit(page, SHOWCASE, seq=1)
    page.get_by_role("button", name="Replay").click()
    expect(page.locator("#replayed")).to_contain_text("of 62")
    expect(page.locator("#e4")).to_be_hidden()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#e4")).to_be_visible()
    expect(page.locator(".now")).to_have_count(1)
    expect(page.locator(".aimed")).to_have_count(0)
    expect(page.get_by_text("I do not need it.")).to_be_hidden()
    page.get_by_label("Event", exact=True).fill("62")
    expect(page.locator("#replayed")).to_contain_text("$0.19 so far")
    expect(page.locator("#outline a[aria-current]")).to_contain_text("REDACTED")  # It follows.
    page.get_by_role("button", name="End replay").click()
    expect(page.get_by_text("I do not need it.")).to_be_visible()


def test_on_paper_all_is_light_and_unfolded_and_what_is_not_there_takes_no_room(
    new_context: Callable[..., Any], viewed: ViewedLedger
) -> None:
    context = new_context(base_url=viewed.url, color_scheme="dark")
    context.add_cookies([viewed.cookie])
    page = context.new_page()
    visit(page, LONG, seq=1)
    fold = page.locator("#e3 details").first
    expect(fold).not_to_have_attribute("open", "")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", color_scheme="dark")

    expect(fold).to_have_attribute("open", "")
    expect(page.locator("body")).to_have_css("color", "rgb(29, 31, 36)")
    expect(page.locator(".page:not([data-filled])").last).to_be_hidden()
    expect(page.get_by_text("Export has everything.")).to_be_visible()
    expect(page.get_by_role("button", name="Fork")).to_be_hidden()
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(fold).not_to_have_attribute("open", "")
    expect(page.get_by_text("Export has everything.")).to_be_hidden()


def test_the_lanes_lead_to_a_place_and_can_be_narrowed(page: Page) -> None:
    visit(page, LONG)
    lanes = page.locator("#drawn")
    expect(lanes.locator("rect.tools.bad")).to_have_count(2)
    box = lanes.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] - 2, box["y"] + 5)
    expect(page.locator("#outline a[aria-current]")).to_contain_text("Part 49")
    page.evaluate("dispatchEvent(new Event('wheel')); scrollTo(0, 0)")  # As by hand.
    page.mouse.move(box["x"] + 2, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 10, steps=4)
    page.mouse.up()
    expect(page.get_by_role("button", name="Show all")).to_be_visible()
    expect(lanes.locator("rect.tools.bad")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"focus=\d+-\d+"))
    page.reload()
    expect(lanes.locator("rect.tools.bad")).to_have_count(1)
    page.go_back()
    expect(lanes.locator("rect.tools.bad")).to_have_count(2)
    expect(page.get_by_role("button", name="Show all")).to_be_hidden()
    page.go_forward()
    expect(lanes.locator("rect.tools.bad")).to_have_count(1)
    page.get_by_role("button", name="Show all").click()
    expect(lanes.locator("rect.tools.bad")).to_have_count(2)
    expect(page).not_to_have_url(re.compile("focus="))


def test_what_the_model_saw_is_shown_with_what_was_cut_and_why(
    page: Page, viewed: ViewedLedger
) -> None:
    session = viewed.ledger.session("seen", scope=HERE, agent="lyria")
    exchange(session, "Remember the tide table. " * 40, "I do. " * 200)
    with session.turn() as turn:
        turn.user("And now?")
        turn.context(300, system="You are brief.")
        turn.assistant("Ebb.")
    visit(page, "seen", open="context", turn=2)
    panel = page.locator("#beside")

    expect(panel).to_contain_text("of 300 tokens")
    expect(panel).to_contain_text("Exactly what was shown.")
    expect(panel.get_by_role("heading", name="Cut or repaired")).to_be_visible()
    expect(panel.locator(".piece").last).to_contain_text("And now?")
    panel.get_by_label("Turn").fill("1")
    panel.get_by_label("Turn").press("Enter")
    expect(panel).to_contain_text("not recorded")


def test_forks_and_undone_turns_are_a_tree_and_a_subagent_is_a_link(page: Page) -> None:
    visit(page, SHOWCASE, open="tree")
    panel = page.locator("#beside")
    expect(panel.locator(".undone")).to_contain_text("Also rewrite the retry loop")
    compare = panel.get_by_role("link", name="compare").get_attribute("href") or ""
    panel.get_by_role("link", name="Try it with threads instead").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Try it with threads instead")
    page.get_by_role("link", name=SHOWCASE).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fix the flaky upload test")
    page.get_by_role("link", name="Who starts servers?").click()
    expect(page.locator("#rows")).to_contain_text("Find who starts servers.")
    page.goto(compare)
    for title in ("Fix the flaky upload test", "Try it with threads instead"):
        expect(page.locator("main")).to_contain_text(title)


def test_an_undo_asks_first_says_what_it_hides_and_can_be_taken_back(
    page: Page, viewed: ViewedLedger
) -> None:
    session = viewed.ledger.session("regret", scope=HERE, agent="lyria")
    for text in ("First", "Second thoughts"):
        with session.turn() as turn:
            turn.user(text)
            turn.assistant("Yes.")
    visit(page, "regret", open="tree")
    page.get_by_role("button", name="Undo the last turn").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("“Second thoughts”")
    assert [turn.is_undone for turn in session.turns()] == [False, False]
    dialog.get_by_role("button", name="Undo the last turn").click()
    expect(page.locator("#beside .undone")).to_contain_text("Second thoughts")
    assert [turn.is_undone for turn in session.turns()] == [False, True]
    page.get_by_role("button", name="Redo").click()
    expect(page.get_by_role("dialog")).to_contain_text("turn 2, “Second thoughts”")
    page.get_by_role("dialog").get_by_role("button", name="Redo").click()
    expect(page.locator("#beside .undone")).to_have_count(0)


def test_a_fork_shows_what_it_will_share_and_what_it_is_called_and_does_just_that(
    page: Page, viewed: ViewedLedger
) -> None:
    session = viewed.ledger.session("forked", scope=HERE, agent="lyria")
    for text in ("First", "Second thoughts"):
        with session.turn() as turn:
            turn.user(text)
            turn.assistant("Yes.")
    visit(page, "forked")
    page.get_by_role("button", name="Fork").click()
    dialog = page.get_by_role("dialog", name="Fork this session?")
    expect(dialog).to_contain_text("of 2: “Second thoughts”")
    expect(dialog).to_contain_text("9 of 9 events shared")
    dialog.get_by_label("After turn").fill("1")
    dialog.get_by_label("After turn").press("Tab")
    expect(dialog).to_contain_text("5 of 9 events shared, up to event 5")
    name = dialog.locator("code").inner_text()
    dialog.get_by_role("button", name="Fork").click()

    expect(page.locator(".toast")).to_have_text("Forked.")
    expect(page).to_have_url(re.compile(f"/sessions/{name}"))
    expect(page.locator("#rows")).to_contain_text("First")
    fork = viewed.ledger.session(name, scope=HERE, agent="lyria")
    assert (fork.outline().parent, fork.outline().forked_seq) == ("forked", 5)
    assert [turn.prompt for turn in fork.turns()] == ["First"]


def test_late_answers_change_nothing_that_was_asked_for_since(page: Page) -> None:
    """Keys come faster than answers: the last one counts."""
    visit(page, LONG)
    press = "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '%s', bubbles: true}));"
    with page.expect_response("**/rows?*page=2"):
        page.evaluate(f"{press % 'n'}{press % 'j'}")  # A far failure, and the turn below.
    expect(page.locator("#outline a[aria-current]")).to_contain_text("Part 1")
    with page.expect_response("**/context?*"):
        page.evaluate(f"{press % 'c'}{press % 'Escape'}")
    settle(page)
    expect(page.locator("#beside")).to_be_hidden()
    expect(page.locator(f"#e{asked_at(1)}")).to_be_in_viewport()


def test_live_events_wait_below_a_marker_and_are_followed_at_the_end(
    page: Page, viewed: ViewedLedger
) -> None:
    session = viewed.ledger.session("growing", scope=HERE, agent="lyria")
    for number in range(30):
        session.record("conversation.user", f"Word {number}", payload={"text": f"Word {number}"})
    visit(page, "growing")
    expect(page.locator("#e31")).to_have_count(1)
    page.evaluate("scrollTo(0, 300)")
    settle(page)
    before = page.locator("#e9").bounding_box()
    for number in range(3):
        session.record("conversation.user", f"New {number}", payload={"text": f"New {number}"})

    expect(page.locator("#newer")).to_have_text("3 new ↓")
    expect(rows(page)).to_have_count(33)
    settle(page)
    assert page.locator("#e9").bounding_box() == before  # Nothing moved.
    page.locator("#newer").click()
    expect(page.locator("#rows")).to_contain_text("New 2")
    session.record("conversation.assistant", "Followed", payload={"text": "Followed"})
    expect(page.get_by_text("Followed")).to_be_in_viewport()
    expect(page.locator("#newer")).to_be_hidden()


def test_the_turn_under_way_is_counted_while_it_goes_on(page: Page, viewed: ViewedLedger) -> None:
    session = viewed.ledger.session("counted", scope=HERE, agent="lyria")
    with session.turn() as turn:
        turn.user("Count")
        visit(page, "counted")
        expect(page.locator("#outline li")).to_have_count(1)
        for number in range(2):
            with turn.tool("Bash", {"command": f"make {number}"}) as call:
                call.finish("built")
        expect(page.locator("#outline .numbers")).to_contain_text("2 tools")
        expect(page.locator("#facts")).to_contain_text("2 tool calls")
        expect(page.locator("#outline a[aria-current]")).to_have_count(1)


def test_what_was_recorded_while_the_server_was_away_comes_when_it_is_back(
    new_context: Callable[..., Any],
) -> None:
    with treering.open(":memory:") as ledger:
        session = ledger.session("away", scope=HERE, agent="lyria")
        session.record("conversation.user", "Before", payload={"text": "Before"})
        with ThreadServer(ledger) as server:
            viewed = ViewedLedger(ledger, server, {})
            # Not one of those whose failed requests fail the test.
            context = new_context().browser.new_context(base_url=viewed.url)
            context.add_cookies([viewed.cookie])
            page = context.new_page()
            visit(page, "away")
            expect(page.locator("#rows")).to_contain_text("Before")
            session.record("conversation.user", "Heard", payload={"text": "Heard"})
            expect(page.locator("#rows")).to_contain_text("Heard")
        expect(page.locator(".session")).to_have_attribute("data-waiting", "")
        session.record("conversation.user", "Meanwhile", payload={"text": "Meanwhile"})
        with ThreadServer(ledger, port=server.port):
            expect(page.locator("#rows")).to_contain_text("Meanwhile")
            expect(page.locator(".session")).not_to_have_attribute("data-waiting", "")
            context.close()


def test_a_hostile_session_of_a_hundred_thousand_events_runs_nothing_and_freezes_nothing(
    new_context: Callable[..., Any],
) -> None:
    with treering.open(":memory:") as ledger:
        _record_hostile(ledger)
        with ThreadServer(ledger) as server:
            viewed = ViewedLedger(ledger, server, {})
            context = new_context(base_url=viewed.url)
            context.add_cookies([viewed.cookie])
            asked: list[str] = []
            context.on("request", lambda request: asked.append(request.url))
            page = context.new_page()
            visit(page, "evil")
            expect(rows(page).first).to_be_visible()
            page.keyboard.press("]")
            for place in (50_000, 100_000):
                visit(page, "evil", seq=place)
                expect(page.locator(f"#e{place}")).to_be_in_viewport()
            visit(page, "evil", seq=3, open="tree")
            expect(page.locator("#beside")).to_contain_text("Forks and undo")

            assert page.evaluate("window.hacked") is None
            assert page.locator("#rows :is(script, iframe, svg, style, img)").count() == 0
            assert page.locator("#rows a[href^='javascript']").count() == 0
            assert [url for url in asked if not url.startswith(viewed.url)] == []
            # Before the server ends: an open page would try to connect again, and be refused.
            context.close()


def _record_hostile(ledger: Ledger) -> None:
    session = ledger.session("evil", scope=HERE, agent="lyria", title=HOSTILE[0])
    events = []
    for number, text in enumerate(HOSTILE):
        ids = {"call_id": f"c{number}", "tool": "Edit"}
        given = {"file_path": text[:500], "old_string": text, "new_string": f"{text}!"}
        events += [
            session.new_event("conversation.user", text[:200], payload={"text": text}),
            session.new_event("conversation.assistant", text[:200], payload={"text": text}),
            session.new_event("tool.call", "x", payload={**ids, "input": given}, refs=ids),
            session.new_event("tool.result", "x", payload={**ids, "output": text}, refs=ids),
            session.new_event(
                "ops.observation", "thinking", payload={"thinking": text},
                refs={"observed": "thinking"},
            ),
        ]  # fmt: skip
    session.append(events)
    small = {"text": HOSTILE[1]}
    rest = 100_000 - next(session.headers(last=1)).seq
    for _ in range(0, rest, 10_000):
        count = min(10_000, 100_000 - next(session.headers(last=1)).seq)
        session.append(
            [session.new_event("conversation.user", "x", payload=small) for _ in range(count)]
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_state_of_the_screen_is_accessible(
    new_context: Callable[..., Any], viewed: ViewedLedger, scheme: str
) -> None:
    # A small screen has the colours of a wide one.
    sizes = ((WIDE, 900), (400, 800)) if scheme == "light" else ((WIDE, 900),)
    for width, height in sizes:
        context = new_context(
            base_url=viewed.url, color_scheme=scheme, viewport={"width": width, "height": height}
        )
        context.add_cookies([viewed.cookie])
        page = context.new_page()
        states: tuple[dict[str, Any], ...] = (
            {}, {"open": "event", "event": event_id(viewed, 16, SHOWCASE)}, {"open": "context"},
            {"open": "tree"}, {"show": "edits"}, {"at": 9},
        )  # fmt: skip
        for query in states if width == WIDE else states[:2]:
            visit(page, SHOWCASE, **query)
            expect(page.locator("#drawn svg")).to_have_count(1)
            if "open" in query:
                expect(page.locator("#beside h2")).to_be_visible()
            page.keyboard.press("]")
            assert faults(page, COLOURS if scheme == "dark" else ()) == [], (width, query)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        context.close()


def test_pictures_are_sent_as_what_they_are_and_nothing_else_is(viewed: ViewedLedger) -> None:
    handle = viewed.ledger.session(SHOWCASE, scope=HERE, agent="x")
    results = [one for one in handle.headers() if one.kind == "tool.result"]
    shot = next(one for one in results if one.refs["tool"] == "Screenshot")

    def ask(event: str, scope: str = HERE) -> Any:
        query = urlencode({"scope": scope, "event": event})
        with viewed.server.caller() as caller:
            return caller.get(f"/sessions/{SHOWCASE}/picture?{query}")

    picture = ask(shot.event_id)
    assert (picture.status, picture.body[:4]) == (200, b"\x89PNG")
    assert "sandbox" in picture.headers["content-security-policy"]
    assert picture.headers["content-type"] == "image/png"
    assert ask(results[0].event_id).status == 404
    assert ask(shot.event_id, scope="other/scope").status == 404


def test_an_export_of_the_viewer_is_the_page_of_the_command_line(viewed: ViewedLedger) -> None:
    path = address(SHOWCASE).replace("?", "/export?")
    with viewed.server.caller() as caller:
        page = caller.get(f"{path}&format=html")
        text = caller.get(f"{path}&format=markdown")
        other = caller.get(f"{path}&format=pdf")

    assert page.body.startswith(b"<!doctype html>")
    assert "attachment" in page.headers["content-disposition"]
    assert text.body.startswith(b"# Fix the flaky upload test")
    assert other.status == 400
