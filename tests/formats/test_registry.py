"""Format detection: by content, and no format if it is ambiguous."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.intake_logs import VOYAGES
from formats.logs.claude_code import SESSION, Log
from formats.logs.strangers import STRANGERS
from formats.logs.terminals import LOGS, RECORDS, qwen
from treering.formats.format import CLEARLY, OwnShare, no_score, share
from treering.formats.registry import find_format, formats, named_format


@pytest.mark.parametrize("agent", STRANGERS)
def test_a_log_of_an_unknown_agent_is_read_as_no_other(agent: str) -> None:
    log = STRANGERS[agent]

    assert find_format(log) is None
    assert all(find_format(log[:count]) is None for count in range(1, len(log)))


@pytest.mark.parametrize("form", sorted(VOYAGES))
def test_a_known_log_is_told_by_its_own_format_alone(form: str) -> None:
    _, records = VOYAGES[form]

    found = find_format(records)

    assert found is not None
    assert form == found.name
    assert [one.name for one in formats() if one.score(records)] == [form]


@pytest.mark.parametrize("sample", RECORDS)
def test_a_log_of_a_terminal_is_told_by_its_own_format_alone(sample: str) -> None:
    records = RECORDS[sample]

    form = named_format(LOGS[sample][0])
    grammars = form.family or (form.name,)
    assert tuple(one.name for one in formats() if one.score(records)) == grammars


@pytest.mark.parametrize("form", sorted(VOYAGES))
def test_one_value_that_is_known_does_not_decide(form: str) -> None:
    _, records = VOYAGES[form]
    others: list[Any] = [{"shopping": n} for n in range(20)]

    assert find_format([*others, records[0]]) is None
    assert find_format([records[0], *others]) is None


def test_lines_of_a_new_type_do_not_hide_whose_log_it_is() -> None:
    log = Log()
    log.user("Why is the lamp dark?")
    log.answer("The fuse is blown.")
    for _ in range(4):
        log.note("a-type-of-tomorrow", state="on", sessionId=SESSION)

    found = find_format(log.lines)

    assert found is not None
    assert found.name == "claude-code"


def test_entries_of_a_new_type_do_not_hide_whose_log_has_lost_its_header() -> None:
    _, *entries = VOYAGES["openclaw"][1]
    new = {"type": "entry_of_the_future", "id": "5", "parentId": "4", "timestamp": "2026-09-21"}
    said = [entry for entry in entries if entry["type"] == "message"]

    found = find_format([*said, *[new] * len(said)])

    assert found is named_format("openclaw")


def test_a_log_with_lines_of_two_agents_is_taken_for_neither() -> None:
    log = Log()
    for number in range(3):
        log.user(f"question {number}")

    others = [line for line in qwen() if line["type"] in {"user", "assistant"}]

    assert find_format([*log.lines, *others[:3]]) is None


def test_the_share_is_of_the_values_that_tell() -> None:
    assert share([True, None, None]) == 1.0
    assert share([True, True, False]) == pytest.approx(2 / 3)
    assert share([True, False]) == share([None]) == share([]) == 0.0
    assert share([True, *[None] * 10]) == 0.0
    assert share([True, True, True, *[None] * 30]) == 1.0


@given(
    verdicts=st.lists(st.sampled_from([True, False, None]), max_size=45),
    best=st.floats(min_value=0, max_value=1),
)
def test_a_share_is_given_up_only_if_it_is_clearly_below_the_best(
    verdicts: list[bool | None], best: float
) -> None:
    score = OwnShare(lambda value: value["verdict"])
    values = [{"verdict": verdict} for verdict in verdicts]

    given_up = score.against(values, best)

    assert score(values) == share(verdicts)
    assert given_up == share(verdicts) or (not given_up and best - share(verdicts) >= CLEARLY)


@pytest.mark.parametrize("best", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("form", sorted(VOYAGES))
def test_no_format_gives_up_a_log_that_it_may_win(form: str, best: float) -> None:
    _, records = VOYAGES[form]

    for one in formats():
        assert isinstance(one.score, OwnShare) or one.content != "json" or one.score is no_score
        if isinstance(one.score, OwnShare):
            score, given_up = one.score(records), one.score.against(records, best)
            assert given_up == score or (not given_up and best - score >= CLEARLY)
