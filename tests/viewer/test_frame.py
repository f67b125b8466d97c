"""The frame of the viewer: who gets in, how one gets about, and that the parts fit together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from served import TOKEN
from viewed import ViewedLedger, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_link_with_a_token_logs_in_once_and_leaves_the_token_out_of_the_address(
    new_context: Callable[..., Any], viewed: ViewedLedger
) -> None:
    page = new_context().new_page()
    page.goto(f"{viewed.url}/#token={TOKEN}")

    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    expect(page).to_have_url(f"{viewed.url}/sessions")
    page.goto(f"{viewed.url}/sessions/fix-tides?scope={quote('acme/app', safe='')}")
    expect(page.get_by_role("heading", name="Fix the tide table")).to_be_visible()
    assert page.evaluate("document.cookie") == ""  # Scripts cannot read it.


def test_a_wrong_token_says_so_and_a_pasted_one_lets_in(
    new_context: Callable[..., Any], viewed: ViewedLedger
) -> None:
    page = new_context().new_page()
    answer = page.goto(f"{viewed.url}/sessions#token=trt_wrong")

    assert answer.status == 401
    expect(page.get_by_role("alert")).to_contain_text("This token does not work")
    expect(page.locator("main")).to_contain_text("treering view")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()


def test_a_cookie_of_an_earlier_start_leads_to_the_login_and_not_into_a_dead_end(
    new_context: Callable[..., Any], viewed: ViewedLedger
) -> None:
    context = new_context()
    context.add_cookies([viewed.cookie | {"value": "trt_of-yesterday"}])
    page = context.new_page()
    page.goto(f"{viewed.url}/sessions")

    expect(page.get_by_role("alert")).to_contain_text("The token is unknown")
    page.goto(f"{viewed.url}/?again#token={TOKEN}")
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()


def test_links_change_the_page_without_loading_it_anew_and_back_returns(
    page: Page, viewed: ViewedLedger
) -> None:
    page.goto("/sessions")
    page.evaluate("window.kept = true")
    page.get_by_role("link", name="Fix the tide table").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Fix the tide table")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    expect(page).to_have_url(re.compile("/sessions/fix-tides[?]scope=acme%2Fapp"))
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sessions")
    assert page.evaluate("window.kept")


def test_the_frame_counts_what_runs_now_and_leads_there(page: Page, viewed: ViewedLedger) -> None:
    page.goto("/usage")
    expect(page.locator("#live")).to_have_text("● 1 live")
    page.locator("#live").click()
    expect(page.locator("#rows > li")).to_have_count(1)
    expect(page.locator("#rows > li")).to_contain_text("Fix the flaky upload test")


def test_scope_and_period_stand_in_the_address(page: Page) -> None:
    page.goto("/sessions")
    page.get_by_label("Scope").select_option("acme/ops")
    page.wait_for_url("**/sessions?scope=acme%2Fops*")
    page.get_by_label("Period").select_option("all")
    page.wait_for_url("**scope=acme%2Fops&since=all")

    expect(page.get_by_label("Scope")).to_have_value("acme/ops")
    expect(page.get_by_role("link", name="Fix the tide table")).to_have_count(0)


def test_keys_go_places_and_a_question_mark_lists_them(page: Page) -> None:
    page.goto("/sessions/fix-tides?scope=acme%2Fapp")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_contain_text("go to Sessions")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)

    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sessions")
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    # A browser keeps a cookie a moment after a script has set it.
    wait_until(lambda: "treering-theme" in {one.get("name") for one in page.context.cookies()})
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/nowhere", 404, "There is no such page"),
        ("/sessions/nobody?scope=acme%2Fapp", 404, "No session nobody in scope acme/app"),
        ("/sessions/fix-tides", 404, "The address names no scope"),
        ("/sessions?since=whenever", 400, "Whenever is not a time"),
    ],
)
def test_a_wrong_address_says_what_is_wrong(page: Page, path: str, status: int, text: str) -> None:
    answer = page.goto(path)

    assert answer is not None
    assert answer.status == status
    expect(page.locator("main")).to_contain_text(text)
    expect(page.get_by_role("link", name="All sessions")).to_be_visible()
