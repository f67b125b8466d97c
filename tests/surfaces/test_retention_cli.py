"""Retention from the shell: shown, set and unset for a scope, and carried out for all of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from surfaces.command_line import CommandLine

DAY_MS = 86_400_000
IN = ("--scope", "s")


def test_a_retention_that_is_set_holds_until_it_is_unset(cli: CommandLine) -> None:
    cli.append()

    first = cli("retention", "set", "tool.call=7", "ops.alert=forever", *IN, "--json")
    second = cli("retention", "set", "tool.result=3", *IN, "--json")
    listed = cli("retention", "list", *IN)
    one = cli("retention", "unset", "tool.call", *IN, "--json")
    rest = cli("retention", "unset", *IN, "--json")

    assert first.body["set"] == {"ops.alert": None, "tool.call": 7}
    assert second.body["set"] == {"ops.alert": None, "tool.call": 7, "tool.result": 3}
    assert second.body["policy_days"]["tool.call"] == 7
    assert "  tool.call: 7 days\n" in listed.out
    assert "  ops.alert: forever\n" in listed.out
    assert "  conversation.user: 60 days (default)\n" in listed.out
    assert one.body["set"] == {"ops.alert": None, "tool.result": 3}
    assert (rest.body["set"], rest.body["policy_days"]["tool.call"]) == ({}, 30)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["set", "tool.call", *IN], "invalid --policy entry: tool.call"),
        (["set", "tool.call=-1", *IN], "retention days must be >= 0 for tool.call"),
        (["set", "tool.cal=1", *IN], "invalid type: tool.cal"),
        (["set", "run.started=1", *IN], "run.started says what became of its run"),
        (["set", "tool.call=1"], "scope is required"),
        (["unset", "tool.call", *IN], "nothing is set for tool.call in scope s"),
    ],
)
def test_what_cannot_be_a_retention_is_refused_and_changes_nothing(
    cli: CommandLine, arguments: list[str], message: str
) -> None:
    cli.append()

    refused = cli("retention", *arguments)

    assert refused.status != 0
    assert message in refused.err
    assert cli("retention", "list", *IN, "--json").body["set"] == {}


def test_gc_of_all_scopes_gives_a_receipt_for_each(cli: CommandLine) -> None:
    old = str(time.time_ns() // 1_000_000 - 40 * DAY_MS)
    for scope in ("acme/a", "acme/b"):
        cli.append(scope=scope, ts_ms=old)
    cli("retention", "set", "tool.call=365", "--scope", "acme/b")

    tried = cli("episodes", "gc", "--all", "--dry-run", "--json").body
    done = cli("episodes", "gc", "--all", "--json")
    words = cli("episodes", "gc", "--all")
    both = cli("episodes", "gc", "--all", *IN)

    assert (tried["dry_run"], tried["deleted_total"]) == (True, 1)
    assert [(one["scope"], one["deleted_total"]) for one in done.body["scopes"]] == [
        ("acme/a", 1),
        ("acme/b", 0),
    ]
    assert "no event of scope acme/a is past its retention" in words.out
    assert both.status == 2
    assert "--all-scopes cannot be combined with a scope" in both.err
