"""The parts of the viewer's scripts that need no page."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

import pytest
import quickjs
from hypothesis import given
from hypothesis import strategies as st


def loaded(name: str) -> quickjs.Context:
    """Return a context in which what a module exports can be called."""
    source = files("treering.surfaces.viewer").joinpath("static", f"{name}.js").read_text("utf-8")
    context = quickjs.Context()
    context.eval(re.sub(r"^import .*;$|^export ", "", source, flags=re.MULTILINE))
    return context


def called(context: quickjs.Context, expression: str) -> Any:
    """Return the value of an expression."""
    return json.loads(context.eval(f"JSON.stringify({expression})"))


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("html`<p title=\"${'\"<&'}\">${'<b>'}</p>`", '<p title="&quot;&lt;&amp;">&lt;b&gt;</p>'),
        ("html`${[html`<i>${1}</i>`, '<', null, false, 0]}`", "<i>1</i>&lt;0"),
        ("html`${'{'}${\"'\"}`", "{&#x27;"),
    ],
)
def test_a_template_escapes_all_but_html(template: str, expected: str) -> None:
    assert called(loaded("dom"), f"String({template})") == expected


@given(st.lists(st.sampled_from("abcdefgh"), unique=True), st.permutations("abcdefgh"))
def test_steps_between_two_lists_lead_from_one_to_the_other(
    before: list[str], shuffled: list[str]
) -> None:
    after = shuffled[: len(shuffled) - len(before) // 2]
    steps = called(loaded("dom"), f"keySteps({json.dumps(before)}, {json.dumps(after)})")

    shown = [key for key in before if key not in steps["removed"]]
    for move in steps["moves"]:
        if move["key"] in shown:
            shown.remove(move["key"])
        shown.insert(move["at"], move["key"])
    assert shown == after


def test_a_list_that_stays_takes_no_step() -> None:
    same = json.dumps(list("abc"))
    assert called(loaded("dom"), f"keySteps({same}, {same})") == {"removed": [], "moves": []}


def test_a_signal_tells_of_changes_alone_until_one_stops_listening() -> None:
    context = loaded("dom")
    context.eval(
        "const seen = []; const value = signal(1); const stop = value.on((one) => seen.push(one));"
        "value.set(1); value.set(2); value.set(2); stop(); value.set(3);"
    )
    assert called(context, "[value(), seen]") == [3, [2]]


def test_arrows_go_round_among_hits() -> None:
    context = loaded("palette")
    steps = "[stepped(0, 1, 3), stepped(2, 1, 3), stepped(0, -1, 3), stepped(-1, 1, 0)]"
    assert called(context, steps) == [1, 0, 2, -1]


def test_a_preview_lists_what_is_more_than_nothing() -> None:
    preview = '{dry_run: true, events_erased: 12, blobs_erased: 0, users: ["jo"]}'
    assert called(loaded("actions"), f"previewLines({preview})") == ["events erased: 12"]
