"""``treering forward``: events to other systems, from the shell."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import pytest

import treering
from builders import ELSEWHERE, HERE, said
from receivers import nats_server, receiver
from surfaces.talks import IN

if TYPE_CHECKING:
    from pathlib import Path

    from surfaces.command_line import CommandLine


@pytest.fixture
def recorded(cli: CommandLine) -> CommandLine:
    with treering.open(cli.database) as ledger:
        with ledger.session("s1", scope=HERE, agent="lyria").turn() as run:
            run.user("the launch word")
        ledger.append([said("neighbour", scope=ELSEWHERE)])
    return cli


def test_a_webhook_gets_each_event_once_and_a_new_secret_is_made(
    recorded: CommandLine, tmp_path: Path
) -> None:
    secret = tmp_path / "hook.secret"
    with receiver() as hook:
        arguments = ("forward", "webhook", hook.url, "--secret-file", str(secret), "--once")
        first = recorded(*arguments, *IN)
        again = recorded(*arguments, *IN, "--json")
        other = recorded(*arguments, "--all-scopes", "--json")

    assert "sent 4 events as webhook-" in first.out
    assert f"a new secret is in {secret}" in first.err
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert (again.receipt["delivered"], again.receipt["retried"]) == (0, 0)
    assert (other.receipt["delivered"], other.receipt["scopes"]) == (1, [HERE, ELSEWHERE])
    assert len(hook.ids) == len(set(hook.ids)) == 5
    assert all(b"launch" not in post.body for post in hook.posts)


def test_kinds_and_content_are_chosen_and_the_past_can_be_left_out(
    recorded: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREERING_WEBHOOK_SECRET", "whsec_" + "YWJj" * 8)
    with receiver() as hook:
        arguments = ("forward", "webhook", hook.url, *IN, "--once", "--json")
        now = recorded(*arguments, "--from-now", "--name", "later")
        chosen = recorded(*arguments, "--kind", "conversation.*", "--payload")

    assert now.receipt["delivered"] == 0
    assert (chosen.receipt["delivered"], chosen.receipt["declined"]) == (1, 3)
    (event,) = json.loads(hook.posts[0].body)
    assert event["data"]["payload"] == {"text": "the launch word"}


def test_runs_go_to_a_collector_and_events_to_nats(recorded: CommandLine, tmp_path: Path) -> None:
    with receiver() as collector:
        spans = recorded("forward", "otlp", collector.url, *IN, "--once")
    with nats_server(tmp_path / "nats") as server:
        events = recorded("forward", "nats", server.url, *IN, "--once", "--stream", "S", "--json")

    assert "sent 1 run as otlp-" in spans.out
    assert [post.path for post in collector.taken] == ["/hook/v1/traces"]
    assert (events.receipt["delivered"], events.receipt["last_error"]) == (4, None)


def test_a_receiver_that_is_away_is_told_and_nothing_is_lost(
    recorded: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREERING_WEBHOOK_SECRET", "whsec_" + "YWJj" * 8)
    monkeypatch.setattr("treering.surfaces.cli.forward.PATIENCE_S", 0.2)
    with receiver() as hook:
        hook.answer = lambda _: 503
        away = recorded("forward", "webhook", hook.url, *IN, "--once")
        hook.answer = lambda _: 200
        back = recorded("forward", "webhook", hook.url, *IN, "--once", "--json")

    assert away.status == 1
    assert "answered 503" in away.err
    assert "continues where it stopped" in away.err
    assert back.receipt["delivered"] == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("webhook", "http://localhost:1/"), "a webhook is signed and needs a secret"),
        (("otlp", "http://localhost:1/", "--kind", "run.*"), "drop --kind"),
        (("otlp", "http://localhost:1/", "--stream", "S"), "--stream is for nats"),
        (("nats", "nats://localhost:1", "--kind", "nothing.*"), "no kind of event matches"),
        (("nats", "nats://localhost:1", "--kind", ""), "no kind is named"),
        (("otlp", "http://localhost:1/", "--kind", ""), "drop --kind"),
    ],
)
def test_what_makes_no_sense_is_refused(
    recorded: CommandLine, arguments: tuple[str, ...], said: str
) -> None:
    outcome = recorded("forward", *arguments, *IN, "--once")

    assert outcome.status == 2
    assert said in outcome.err
