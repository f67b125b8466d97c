"""The screens of the viewer: each answers its question, links on, and can be used by everybody."""

from __future__ import annotations

import json
import re
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from served import ThreadServer
from treering.clock import now_ms
from treering.surfaces.server.grants import TokenFile
from viewed import COLOURS, ViewedLedger, faults

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


APP: Final = "scope=acme%2Fapp"
SCREENS: Final = {
    "sessions": "/sessions",
    "nothing found": "/sessions?q=zebra",
    "search": "/search?q=table",
    "files": "/files",
    "one file": f"/files?{APP}&path=src%2Ftides.py",
    "tools": "/tools",
    "usage": "/usage?since=30d&by=tokens",
    "memory": "/memory",
    "recall": "/memory?tab=recall&q=when+do+we+release",
    "episodes": "/memory?tab=episodes",
    "forks": "/compare",
    "compare": "/compare?a=acme%2Fapp%7Cfix-tides&b=acme%2Fapp%7Cdeploy-tides",
    "trust": f"/trust?verify=true&{APP}",
    "no page": "/nowhere",
}
HOSTILE: Final = (
    '<img src=x onerror="window.ran=1"><script>window.ran=1</script>'
    '" onmouseover="window.ran=1" x="{0} {{}} javascript:window.ran=1 \u202eevil'
)


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_fit_for_everybody_in_both_themes_and_on_a_small_screen(
    page: Page, name: str
) -> None:
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    page.goto(SCREENS[name])
    assert faults(page) == []
    page.emulate_media(color_scheme="dark")
    assert faults(page, COLOURS) == []
    page.set_viewport_size({"width": 400, "height": 800})
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 400, "the page has to be scrolled sideways"


def test_the_login_is_fit_for_everybody(
    new_context: Callable[..., BrowserContext], viewed: ViewedLedger
) -> None:
    page = new_context().new_page()
    page.goto(f"{viewed.url}/sessions")
    assert faults(page) == []


def test_home_filters_by_typing_and_by_chips_and_the_address_has_it(page: Page) -> None:
    page.goto("/sessions")
    rows = page.locator("#rows > li")
    expect(rows.first).to_contain_text("Fix the flaky upload test")  # What runs comes first.
    page.keyboard.press("/")
    page.keyboard.type("agent:codex failing")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=agent*")

    expect(rows.filter(has_text="lyria")).to_have_count(0)
    expect(rows.first).to_contain_text("failed")
    expect(page.get_by_label("Filter sessions")).to_be_focused()
    page.get_by_role("link", name="failing", exact=True).click()
    page.wait_for_url(re.compile("q=agent%3Acodex(&|$)"))
    page.goto("/sessions?q=cost%3Emuch")
    expect(page.get_by_role("alert")).to_contain_text("Cost>much is not a comparison")
    page.goto("/sessions?q=%22no+such+table%22")
    expect(rows.filter(has_text="Fix the tide table")).to_have_count(1)  # By what was said in it.


def test_a_new_event_shows_on_home_without_a_reload(page: Page, viewed: ViewedLedger) -> None:
    page.goto("/sessions")
    page.evaluate("window.kept = true")
    link = page.get_by_role("link", name="Fix the tide table")
    link.focus()
    text = "Something new"
    session = viewed.ledger.session("new-one", scope="acme/app", agent="lyria", title=text)
    session.record("conversation.user", text, payload={"text": text})

    expect(page.get_by_role("link", name=text)).to_be_visible()
    expect(link).to_be_focused()
    assert page.evaluate("window.kept")


def test_what_is_recorded_before_home_listens_shows_on_it_as_well(
    page: Page, viewed: ViewedLedger
) -> None:
    text = "Recorded meanwhile"

    def record(route: Route) -> None:
        session = viewed.ledger.session("meanwhile", scope="acme/app", agent="lyria", title=text)
        session.record("conversation.user", text, payload={"text": text})
        route.continue_()

    page.route("**/v1/stream*", record, times=1)
    page.goto("/sessions")

    expect(page.get_by_role("link", name=text)).to_be_visible()


def test_a_screen_is_ready_when_it_is_shown_and_its_address_is_there(
    page: Page, viewed: ViewedLedger
) -> None:
    """Keys and clicks come as soon as something is seen: none may be lost."""
    page.goto(f"/memory/{viewed.ids['fact']}?{APP}")
    asks = page.evaluate("""() => {
        document.querySelector("button[data-action]").click();
        return document.querySelectorAll("dialog[open]").length;
    }""")
    assert asks == 1
    page.goto("/sessions")
    page.evaluate("""() => {
        const push = history.pushState.bind(history);
        history.pushState = (...given) => {
            push(...given);
            queueMicrotask(() => {
                const title = document.querySelector("h1");
                const { ready } = document.querySelector(".session").dataset;
                window.state = [ready, document.activeElement === title];
            });
        };
    }""")
    page.get_by_role("link", name="Fix the tide table").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fix the tide table")

    assert page.evaluate("window.state") == ["yes", True]


def test_the_palette_finds_and_opens_at_the_event_by_keys_alone(
    page: Page, viewed: ViewedLedger
) -> None:
    page.goto("/usage")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.type("no such table")
    options = page.locator("dialog:not(.waiting) [data-hit]")
    expect(options.first).to_have_attribute("aria-selected", "true")
    expect(options.nth(1)).to_be_visible()
    assert faults(page) == []
    page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    address = options.nth(1).get_attribute("href")
    page.keyboard.press("Enter")

    expect(page).to_have_url(f"{viewed.url}{address}")
    page.keyboard.press("Control+k")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_enter_right_after_typing_opens_a_hit_of_what_was_typed(page: Page) -> None:
    page.goto("/usage")
    page.keyboard.press("Control+k")
    expect(page.locator("dialog:not(.waiting)")).to_be_visible()
    page.evaluate("""() => {
        const field = document.querySelector("#palette-query");
        field.value = "no such table";
        field.dispatchEvent(new Event("input", { bubbles: true }));
        field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
    }""")

    expect(page).to_have_url(re.compile("/sessions/fix-tides[?].*event="))


def test_the_palette_is_open_before_the_next_key_arrives(page: Page) -> None:
    """Keys come faster than a module loads: Escape right after Ctrl+K must reach the palette."""
    page.goto("/usage")
    opened = page.evaluate("""() => {
        const key = { key: "k", ctrlKey: true, bubbles: true };
        document.body.dispatchEvent(new KeyboardEvent("keydown", key));
        document.body.dispatchEvent(new KeyboardEvent("keydown", key));
        return document.querySelectorAll("dialog.palette[open]").length;
    }""")

    assert opened == 1
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_doubtful_fact_is_accepted_after_a_question_and_that_is_an_event(
    page: Page, viewed: ViewedLedger
) -> None:
    memory = viewed.ledger.memory("acme/app")
    page.goto("/memory")
    row = page.locator("li", has_text="note on the wall")
    row.get_by_role("button", name="Accept").click()
    dialog = page.get_by_role("dialog", name="Accept this fact?")
    assert faults(page) == []
    dialog.get_by_role("button", name="Cancel").click()
    assert memory.fact(viewed.ids["doubtful"]).state == "quarantined"
    row.get_by_role("button", name="Accept").click()
    dialog.get_by_role("button", name="Accept").click()

    expect(page.locator(".toast")).to_have_text("Accepted.")
    expect(page.get_by_role("heading", name="To review")).to_have_count(0)
    assert memory.fact(viewed.ids["doubtful"]).state == "current"
    assert memory.history(viewed.ids["doubtful"])[-1].kind == "memory.restored"


def test_a_change_in_doubt_is_settled_after_a_question(
    page: Page, viewed: ViewedLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treering.memory.change_decision.ONE_FROM", 50.0)
    monkeypatch.setattr("treering.memory.change_decision.DOUBT", 100.0)
    memory = viewed.ledger.memory("acme/app")
    earlier = memory.learn("Uncle Bob is recovering in hospital.").fact_id
    memory.learn("Uncle Bob was discharged and is back home.")
    page.goto("/memory")
    row = page.get_by_role("region", name="Changed?").locator("li")
    expect(row).to_contain_text("is recovering in hospital")
    assert faults(page) == []
    row.get_by_role("button", name="Replace").click()
    page.get_by_role("dialog", name="Replace the earlier fact?").get_by_role(
        "button", name="Replace"
    ).click()

    expect(page.locator(".toast")).to_have_text("Replaced.")
    expect(page.get_by_role("region", name="Changed?")).to_have_count(0)
    assert memory.fact(earlier).state == "superseded"


def test_a_fact_shows_its_evidence_and_can_be_forgotten_for_good(
    page: Page, viewed: ViewedLedger
) -> None:
    fact = viewed.ledger.memory("acme/app").learn(
        "The tea is in the green tin.", evidence=[viewed.ids["question"]]
    )
    page.goto(f"/memory/{fact.fact_id}?{APP}")
    expect(page.locator("blockquote")).to_contain_text("no such table")
    expect(page.locator(".history b")).to_have_text(["learnt"])
    expect(page.get_by_role("link", name="Open in its session")).to_have_attribute(
        "href", re.compile(f"event={viewed.ids['question']}")
    )
    page.get_by_role("button", name="Forget").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget").click()

    expect(page.locator(".toast")).to_have_text("Forgotten.")
    page.wait_for_url("**/memory?*")
    assert not viewed.ledger.search("green tin", scope="acme/app").hits
    page.goto(f"/trust?{APP}")
    expect(page.get_by_role("region", name="Erasures")).to_contain_text("redacted")


def test_forgetting_a_person_shows_how_much_before_anything_happens(
    page: Page, viewed: ViewedLedger
) -> None:
    page.goto("/trust?scope=acme%2Fhandbook")
    page.get_by_role("button", name="Forget jo").click()
    expect(page.get_by_role("dialog")).to_contain_text(re.compile(r"sessions erased: \d+"))
    page.get_by_role("button", name="Cancel").click()

    assert viewed.ledger.sessions("acme/handbook").items


def test_who_may_only_read_one_scope_sees_that_scope_and_no_button(
    new_context: Callable[..., BrowserContext], viewed: ViewedLedger, tmp_path: Path
) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    token, _ = file.add(
        name="", rights=["read"], scopes=["acme/ops"], expires_ms=None, now_ms=now_ms()
    )
    with (
        ThreadServer(viewed.ledger, file=file) as server,
        closing(new_context(base_url=server.url)) as context,
    ):
        page = context.new_page()
        page.goto(f"/sessions?since=all#token={token}")
        expect(page.locator("#rows > li").first).to_be_visible()
        assert {*page.locator("#rows .scope").all_inner_texts()} == {"acme/ops"}
        assert page.get_by_label("Scope").locator("option").all_inner_texts() == [
            "all scopes",
            "acme/ops",
        ]
        for path in (f"/memory?{APP}", SCREENS["compare"], f"/sessions/fix-tides?{APP}"):
            answer = page.goto(path)
            assert answer is not None
            assert answer.status == 403, path
        for path in ("/search?q=tide", "/files?since=all", "/usage?since=all", "/trust?verify=1"):
            page.goto(path)
            expect(page.locator("main")).not_to_contain_text("acme/app")
        assert page.goto("/memory") is not None
        expect(page.locator("[data-action]")).to_have_count(0)


def test_a_read_only_server_offers_no_action(
    new_context: Callable[..., BrowserContext], viewed: ViewedLedger
) -> None:
    with (
        ThreadServer(viewed.ledger, is_read_only=True) as server,
        closing(new_context(base_url=server.url)) as context,
    ):
        page = context.new_page()
        page.goto(f"/memory/{viewed.ids['fact']}?{APP}#token={server.token}")
        expect(page.get_by_role("heading", name="Where it comes from")).to_be_visible()
        expect(page.locator("[data-action]")).to_have_count(0)


def test_two_tabs_do_not_disturb_each_other(page: Page, viewed: ViewedLedger) -> None:
    other = page.context.new_page()
    page.goto("/tools")
    other.goto(f"/usage?{APP}")
    page.get_by_role("link", name="Bash", exact=True).first.click()
    page.wait_for_url("**tool=Bash")
    other.reload()

    expect(other.get_by_label("Scope")).to_have_value("acme/app")
    expect(page.get_by_label("Scope")).to_have_value("")


def test_recorded_texts_run_nothing_wherever_they_are_shown(
    page: Page, viewed: ViewedLedger
) -> None:
    ledger, scope = viewed.ledger, "hostile/scope"
    session = ledger.session("hostile<b>&", scope=scope, agent=HOSTILE[:60], title=HOSTILE)
    session.record("conversation.user", HOSTILE, payload={"text": HOSTILE})
    refs = {"call_id": "c1", "tool": f"Edit {HOSTILE}"[:100]}
    given = {"file_path": f"src/{HOSTILE}", "old_string": "a", "new_string": HOSTILE}
    called = session.record("tool.call", HOSTILE, payload={"input": given}, refs=refs)
    session.record(
        "tool.result", HOSTILE, payload={"output": HOSTILE},
        refs=refs | {"status": "failed", "error_class": "<b>Error"},
    )  # fmt: skip
    usage = {"model": HOSTILE[:80], "input_tokens": 9, "output_tokens": 9}
    session.record("usage.reported", "used", payload=usage)
    fact = ledger.memory(scope).learn(
        "The <b onclick=alert(1)>tin</b> is green.", evidence=[called.event_id]
    )
    fork = session.fork("fork", title=HOSTILE)
    foreign: list[str] = []
    page.on("request", lambda asked: None if viewed.url in asked.url else foreign.append(asked.url))
    here = f"scope={quote(scope, safe='')}&since=all"
    both = quote(f"{scope}|hostile<b>&"), quote(f"{scope}|{fork.session_id}")
    for path in (
        *(f"/{name}?{here}" for name in ("sessions", "files", "tools", "usage", "memory", "trust")),
        f"/sessions?{here}&q={quote(HOSTILE)}",
        f"/search?{here}&q=window.ran",
        f"/files?{here}&path={quote(given['file_path'], safe='')}",
        f"/memory/{fact.fact_id}?{here}",
        f"/memory?tab=recall&{here}&q={quote(HOSTILE)}",
        f"/compare?a={both[0]}&b={both[1]}",
    ):
        page.goto(path)
        expect(page.locator("#main h1")).to_be_attached()
        assert (
            page.locator("main script, main img, main [onerror], main [onmouseover]").count() == 0
        )
        assert page.evaluate("window.ran") is None, path
    assert foreign == []


def test_the_first_view_is_small(page: Page, viewed: ViewedLedger) -> None:
    client: Any = page.context.new_cdp_session(page)
    client.send("Network.enable")
    sizes: list[float] = []
    client.on("Network.loadingFinished", lambda told: sizes.append(told["encodedDataLength"]))
    page.goto("/sessions?since=all")
    expect(page.locator("#rows > li").first).to_be_visible()
    page.wait_for_load_state("load")

    assert len(sizes) >= 5
    assert sum(sizes) <= 60_000, json.dumps(sizes)
