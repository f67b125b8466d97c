"""Runs as spans, posted to a collector as they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import treering
from builders import HERE, said
from effort import PATIENCE_S
from receivers import Receiver, receiver
from spans import attributes_of, named, spans_in
from treering.sinks import OtlpSink, PrivateOtlpSink

if TYPE_CHECKING:
    from pathlib import Path

    from treering.ledger.ledger import Ledger


def forward(ledger: Ledger, sink: OtlpSink) -> None:
    spine = ledger.spine(sinks=[sink])
    spine.follow(HERE)
    assert spine.flush(PATIENCE_S)


def run(ledger: Ledger, session_id: str = "s1") -> None:
    with ledger.session(session_id, scope=HERE, agent="lyria").turn(model="gpt-5") as turn:
        turn.user("the launch word")
        turn.tools.started("bash", {"command": "ls"}, call_id="c1").finish("toad.txt")
        turn.assistant("Toad.")


def posted(collector: Receiver) -> list[str]:
    spans = [span for post in collector.taken for span in spans_in(post.body)]
    return [span.span_id.hex() for span in spans]


def test_a_run_is_posted_when_it_ends_and_not_again_after_a_restart(tmp_path: Path) -> None:
    with receiver() as collector:
        with treering.open(tmp_path / "a.db") as ledger:
            run(ledger)
            forward(ledger, OtlpSink(collector.url))
            first = posted(collector)
            open_run = ledger.session("s2", scope=HERE, agent="lyria").turn()
            open_run.start()
            assert ledger.spine().flush(PATIENCE_S)
            assert posted(collector) == first
            open_run.end()
        with treering.open(tmp_path / "a.db") as ledger:
            run(ledger, "s3")
            forward(ledger, OtlpSink(collector.url))

    spans = [span for post in collector.taken for span in spans_in(post.body)]
    assert {post.path for post in collector.posts} == {"/hook/v1/traces"}
    assert b"toad" not in b"".join(post.body for post in collector.posts)
    sessions = [
        attributes_of(one)["gen_ai.conversation.id"] for one in named(spans, "invoke_agent")
    ]
    assert sessions == ["s1", "s2", "s3"]
    assert len(posted(collector)) == len(set(posted(collector)))


def test_a_collector_that_fails_gets_the_same_spans_later_with_texts_on_request(
    tmp_path: Path,
) -> None:
    with receiver() as collector, treering.open(tmp_path / "a.db") as ledger:
        collector.answer = lambda _: 200 if len(collector.posts) > 2 else 503
        run(ledger)
        forward(ledger, PrivateOtlpSink(collector.url))

    assert len(collector.posts) == 3
    assert len({post.body for post in collector.posts}) == 1
    (tool,) = named(spans_in(collector.taken[0].body), "execute_tool")
    assert attributes_of(tool)["gen_ai.tool.call.result"] == "toad.txt"


def test_a_turn_outside_of_runs_is_posted_when_the_next_begins(tmp_path: Path) -> None:
    with receiver() as collector, treering.open(tmp_path / "a.db") as ledger:
        ledger.append([
            said("Is it lit?"),
            said("No.", kind="conversation.assistant", refs={"model": "gpt-5"}),
            said("And now?"),
        ])  # fmt: skip
        forward(ledger, OtlpSink(collector.url))
        first = [attributes_of(one) for post in collector.taken for one in spans_in(post.body)]
        ledger.session("s1", scope=HERE, agent="lyria").close()
        assert ledger.spine().flush(PATIENCE_S)

    assert [one["gen_ai.operation.name"] for one in first] == ["invoke_agent", "chat"]
    assert len(named(spans_in(collector.taken[-1].body), "invoke_agent")) == 1
    assert len(posted(collector)) == len(set(posted(collector))) == 3


def test_a_collector_that_refuses_for_good_leaves_an_alert(tmp_path: Path) -> None:
    with receiver() as collector, treering.open(tmp_path / "a.db") as ledger:
        collector.answer = lambda _: 400
        run(ledger)
        forward(ledger, OtlpSink(collector.url))

        (alert,) = ledger.headers(HERE, kinds=["ops.alert"]).items
        assert (alert.refs["sink"], alert.session_id) == ("otlp", "s1")
