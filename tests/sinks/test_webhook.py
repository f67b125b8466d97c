"""Signed webhooks, to a receiver that is down, slow, broken, choosy or killed."""

from __future__ import annotations

import hmac
import json
import sys
import threading
import time
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING

import pytest

import treering
from builders import HERE, said
from children import Child
from effort import PATIENCE_S
from postgres_writers import until
from receivers import Post, free_port, receiver
from treering.errors import InvalidInput
from treering.sinks import PrivateWebhookSink, WebhookSink
from treering.sinks.webhook import BODY_BYTES_MAX, new_secret

if TYPE_CHECKING:
    from pathlib import Path

    from treering.ledger.ledger import Ledger
    from treering.spine.ports import SinkStatus

SECRET = new_secret()


def signature(post: Post, secret: str) -> str:
    """Return what a receiver that knows the secret expects, by the standard library."""
    headers = post.headers
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + post.body
    key = b64decode(secret.removeprefix("whsec_"))
    return "v1," + b64encode(hmac.new(key, signed, "sha256").digest()).decode()


def record(ledger: Ledger, count: int, session: str = "s1") -> list[str]:
    events = [said(f"word {number}", session_id=session) for number in range(count)]
    return [header.event_id for header in ledger.append(events)]


def ids_in(ledger: Ledger) -> list[str]:
    return [one.event_id for one in ledger.follow(HERE, idle_s=0)]


def forward(ledger: Ledger, sink: WebhookSink) -> SinkStatus:
    """Send all there is, and return how it went."""
    spine = ledger.spine(sinks=[sink])
    spine.follow(HERE)
    assert spine.flush(PATIENCE_S)
    return spine.status()[0]


def test_batches_are_signed_and_hold_cloud_events_without_private_content(tmp_path: Path) -> None:
    old, new = new_secret(), new_secret()
    with receiver() as hook, treering.open(tmp_path / "a.db") as ledger:
        with ledger.session("s1", scope=HERE, agent="lyria").turn() as run:
            run.user("the launch word")
            run.tools.started("bash", {"command": "ls"}, call_id="c1").finish("toad.txt")

        forward(ledger, WebhookSink(hook.url, secret=[new, old]))
        recorded = ids_in(ledger)

    (post,) = hook.posts
    assert post.headers["content-type"] == "application/cloudevents-batch+json"
    given = post.headers["webhook-signature"].split(" ")
    assert given == [signature(post, new), signature(post, old)]
    assert abs(int(post.headers["webhook-timestamp"]) - time.time()) < PATIENCE_S
    assert post.ids == recorded
    events = json.loads(post.body)
    called = next(one for one in events if one["type"] == "treering.tool.call")
    assert {one["specversion"] for one in events} == {"1.0"}
    assert (called["source"], called["subject"]) == ("/treering/acme/app", "s1")
    assert called["time"].endswith("Z")
    assert called["data"]["part"]["tool"] == "bash"
    assert b"launch" not in post.body
    assert b"toad" not in post.body


def test_private_content_is_sent_if_it_is_asked_for(tmp_path: Path) -> None:
    with receiver() as hook, treering.open(tmp_path / "a.db") as ledger:
        record(ledger, 1)
        forward(ledger, PrivateWebhookSink(hook.url, secret=SECRET))

    assert [one["data"]["payload"] for one in json.loads(hook.posts[0].body)] == [
        {"text": "word 0"}
    ]


def test_a_receiver_that_is_down_broken_and_slow_gets_everything_in_order(tmp_path: Path) -> None:
    port = free_port()
    faults = [500, 429, 0]

    def answer(_: Post) -> int:
        fault = faults.pop() if faults else 200
        if fault == 0:
            hook.wait(len(hook.posts) + 1)  # Longer than the sink waits for an answer.
            return 500
        return fault

    with treering.open(tmp_path / "a.db") as ledger:
        recorded = record(ledger, 30)
        sink = WebhookSink(
            f"http://127.0.0.1:{port}/hook", secret=SECRET, batch_events_max=8, timeout_s=1.0
        )
        spine = ledger.spine(sinks=[sink])
        spine.follow(HERE)
        until(lambda: spine.status()[0].retried)
        with receiver(port) as hook:
            hook.answer = answer
            assert spine.flush(PATIENCE_S)
            status = spine.status()[0]

    # On a busy machine an answer may come too late, and what was taken comes once more.
    taken = {post.headers["webhook-id"]: post.ids for post in hook.taken}
    assert [event_id for ids in taken.values() for event_id in ids] == recorded
    assert (status.delivered, status.failed) == (30, 0)
    assert status.retried >= 4
    # The same batch has the same id each time, so that a receiver can tell.
    tried = {(post.headers["webhook-id"], tuple(post.ids)) for post in hook.posts}
    assert len({name for name, _ in tried}) == len(tried) == 4


def test_a_sender_that_is_killed_in_the_middle_continues_where_it_was(tmp_path: Path) -> None:
    program = (
        "import sys, treering\n"
        "from treering.sinks import WebhookSink\n"
        "ledger = treering.open(sys.argv[1])\n"
        "spine = ledger.spine("
        "sinks=[WebhookSink(sys.argv[2], secret=sys.argv[3], batch_events_max=10)])\n"
        "spine.follow('acme/app')\n"
        f"assert spine.flush({PATIENCE_S})\n"
    )
    with treering.open(tmp_path / "a.db") as ledger:
        recorded = record(ledger, 40)
    with receiver() as hook:
        killed = threading.Event()

        def answer(_: Post) -> int:
            return 200 if len(hook.posts) < 3 or killed.wait(PATIENCE_S) else 500

        hook.answer = answer
        arguments = [sys.executable, "-c", program, str(tmp_path / "a.db"), hook.url, SECRET]
        with Child(arguments) as child:
            hook.wait(3)
            child.kill()
        first = list(hook.ids)
        hook.answer = lambda _: 200
        killed.set()
        with treering.open(tmp_path / "a.db") as ledger:
            forward(ledger, WebhookSink(hook.url, secret=SECRET, batch_events_max=10))

    assert first == recorded[:20]
    # What was under way comes again; nothing is missing, and nothing older is repeated.
    assert hook.ids[-20:] == recorded[20:]
    assert [one for one in hook.ids if hook.ids.count(one) > 1] == recorded[20:30] * 2


def test_what_is_refused_for_good_becomes_an_alert_once_and_the_rest_arrives(
    tmp_path: Path,
) -> None:
    with receiver() as hook, treering.open(tmp_path / "a.db") as ledger:
        recorded = record(ledger, 5)
        poison = recorded[2]
        hook.answer = lambda post: 422 if poison in post.ids else 200

        status = forward(ledger, WebhookSink(hook.url, secret=SECRET))
        alerts = ledger.headers(HERE, kinds=["ops.alert"]).items

        assert [one for one in recorded if one not in hook.ids] == [poison]
        assert status.failed == 1
        assert [(one.session_id, one.refs) for one in alerts] == [
            ("s1", {"code": "not_delivered", "sink": "webhook", "event": poison})
        ]
        # The receiver hears of the alert, too, and of nothing else.
        assert ledger.spine().flush(PATIENCE_S)
        assert hook.ids[-1] == alerts[0].event_id


def test_a_receiver_that_refuses_everything_does_not_make_alerts_of_alerts(tmp_path: Path) -> None:
    with receiver() as hook, treering.open(tmp_path / "a.db") as ledger:
        record(ledger, 3)
        hook.answer = lambda _: 404

        forward(ledger, WebhookSink(hook.url, secret=SECRET))
        assert ledger.spine().flush(PATIENCE_S)

        assert len(ledger.headers(HERE, kinds=["ops.alert"]).items) == 3


def test_events_that_fail_for_too_long_are_given_up(tmp_path: Path) -> None:
    with receiver() as hook, treering.open(tmp_path / "a.db") as ledger:
        (bad,) = record(ledger, 1)
        hook.answer = lambda post: 500 if bad in post.ids else 200

        status = forward(ledger, WebhookSink(hook.url, secret=SECRET, give_up_s=0.0))

        assert (status.failed, len(hook.posts) >= 2) == (1, True)
        assert len(ledger.headers(HERE, kinds=["ops.alert"]).items) == 1


def test_large_events_are_posted_in_bodies_that_are_not_too_large(tmp_path: Path) -> None:
    with receiver() as hook, treering.open(tmp_path / "a.db") as ledger:
        ledger.append([said("x", payload={"text": "x" * 400_000}) for _ in range(5)])

        forward(ledger, PrivateWebhookSink(hook.url, secret=SECRET))

        assert hook.ids == ids_in(ledger)
        assert [len(post.ids) for post in hook.posts] == [2, 2, 1]
        assert all(len(post.body) <= BODY_BYTES_MAX + 100 for post in hook.posts)


@pytest.mark.parametrize("secret", ["whsec_short", "not base 64!", "whsec_" + "YWJj"])
def test_a_secret_that_protects_nothing_is_refused(secret: str) -> None:
    with pytest.raises(InvalidInput, match="secret of the webhook"):
        WebhookSink("http://127.0.0.1:1/", secret=secret)


def test_an_address_without_a_host_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not a web address"):
        WebhookSink("ftp://example.org", secret=SECRET)
