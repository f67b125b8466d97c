"""Trajectories and spans: checked by the models of harbor and the types of OpenTelemetry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from harbor.models.trajectories import Trajectory

import treering
from builders import HERE
from spans import attributes_of, named, spans_in
from surfaces.talks import IN, record_talk
from web_endpoint import endpoint

if TYPE_CHECKING:
    from pathlib import Path

    from surfaces.command_line import CommandLine

PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
COUNTS: dict[str, Any] = {
    "model": "claude-sonnet-4-5", "provider": "anthropic", "input_tokens": 100,
    "cached_tokens": 40, "output_tokens": 20,
}  # fmt: skip


def record_watch(cli: CommandLine) -> None:
    """Record a session with a picture, thoughts, a subagent and a failed tool."""
    with treering.open(cli.database) as ledger:
        watch = ledger.session("watch", scope=HERE, agent="lyria")
        with watch.turn(model="claude-sonnet-4-5") as run:
            run.user("Why is the lamp dark?", attachments=[PICTURE])
            run.thinking("A fuse?", signature="c2ln")
            run.tools.started("Task", {"look": "cellar"}, call_id="c1")
            with ledger.session(
                "cellar", scope=HERE, agent="explore", spawned_by="watch", spawned_call="c1"
            ).turn() as child:
                child.user("Where is the fuse?")
                child.assistant("In the cellar.")
                child.emit("usage.reported", COUNTS)
            run.tools.finished("c1", "In the cellar.")
            run.tools.started("mend", {"wire": 1}, call_id="c2").fail(ValueError("no wire"))
            run.emit("usage.reported", COUNTS)
            run.assistant("It is in the cellar.", stop_reason="end_turn")
        run = watch.turn()
        run.start()
        run.user("Mend it.")
        run.emit("usage.reported", COUNTS)
        run.fail(RuntimeError("gone"))


def trajectory_of(cli: CommandLine, session: str) -> Trajectory:
    outcome = cli("export", session, *IN, "--format", "atif")
    assert outcome.status == 0, outcome.err
    return Trajectory.model_validate(json.loads(outcome.out))


def test_a_trajectory_has_a_step_for_each_message_and_what_it_used(cli: CommandLine) -> None:
    record_watch(cli)

    whole = trajectory_of(cli, "watch")

    assert (whole.schema_version, whole.agent.name) == ("ATIF-v1.8", "lyria")
    asked, called, mended, answered = whole.steps
    assert whole.has_multimodal_content()
    assert [part.type for part in asked.message] == ["text", "image"]
    assert (called.reasoning_content, answered.message) == ("A fuse?", "It is in the cellar.")
    assert called.tool_calls is not None
    assert [one.function_name for one in called.tool_calls] == ["Task"]
    assert called.observation is not None
    assert mended.observation is not None
    (told,), (failed,) = called.observation.results, mended.observation.results
    assert (told.content, failed.extra) == (
        "In the cellar.",
        {"is_error": True, "error_class": "ValueError", "duration_ms": failed.extra["duration_ms"]},
    )
    used = [step.metrics.prompt_tokens for step in whole.steps if step.metrics is not None]
    assert used == [100]
    # The failed run has no step, and cost as much.
    assert whole.final_metrics is not None
    assert whole.final_metrics.total_prompt_tokens == 200
    assert whole.final_metrics.total_cached_tokens == 80


def test_a_trajectory_embeds_its_subagents_and_refers_to_them(cli: CommandLine) -> None:
    record_watch(cli)

    whole = trajectory_of(cli, "watch")

    (cellar,) = whole.subagent_trajectories or []
    assert whole.steps[1].observation is not None
    (reference,) = whole.steps[1].observation.results[0].subagent_trajectory_ref or []
    assert reference.trajectory_id == cellar.trajectory_id == "cellar"
    assert [step.message for step in cellar.steps] == ["Where is the fuse?", "In the cellar."]
    assert whole.final_metrics is not None
    assert cellar.final_metrics is not None
    costs = [one.final_metrics.total_cost_usd for one in (whole, cellar)]
    assert costs[0] == pytest.approx(3 * costs[1])


def test_a_session_without_messages_is_no_trajectory(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger:
        ledger.session("empty", scope=HERE, agent="lyria").open()

    outcome = cli("export", "empty", *IN, "--format", "atif")

    assert (outcome.status, "has no messages" in outcome.err) == (2, True)


def test_runs_calls_of_models_and_tools_are_spans_of_one_trace(cli: CommandLine) -> None:
    record_watch(cli)

    spans = spans_in(cli("export", "watch", *IN, "--format", "otlp").out)

    run, failed, child = named(spans, "invoke_agent")
    tools = {attributes_of(one)["gen_ai.tool.call.id"]: one for one in named(spans, "execute_tool")}
    first = attributes_of(run)
    assert first["gen_ai.agent.name"] == "lyria"
    assert first["gen_ai.conversation.id"] == "watch"
    assert first["gen_ai.usage.input_tokens"] == 100
    assert {one.parent_span_id for one in tools.values()} == {run.span_id}
    assert (child.trace_id, child.parent_span_id) == (run.trace_id, tools["c1"].span_id)
    assert failed.trace_id != run.trace_id
    assert attributes_of(failed)["error.type"] == "RuntimeError"
    assert (tools["c2"].status.code, attributes_of(tools["c2"])["error.type"]) == (2, "ValueError")
    chat = next(one for one in named(spans, "chat") if one.parent_span_id == child.span_id)
    assert attributes_of(chat) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.conversation.id": "cellar",
        "gen_ai.agent.name": "explore",
        "gen_ai.request.model": "claude-sonnet-4-5",
        "gen_ai.response.model": "claude-sonnet-4-5",
        "treering.start.approximate": True,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 40,
    }
    assert all(one.start_time_unix_nano <= one.end_time_unix_nano for one in spans)
    assert len({one.span_id for one in spans}) == len(spans)


def test_spans_have_texts_only_on_request_and_the_same_ids_each_time(cli: CommandLine) -> None:
    record_watch(cli)

    plain = cli("export", "watch", *IN, "--format", "otlp").out
    full = cli("export", "watch", *IN, "--format", "otlp", "--payload").out

    assert "lamp" not in plain
    assert "cellar." not in plain
    assert [one.span_id for one in spans_in(plain)] == [one.span_id for one in spans_in(full)]
    run = attributes_of(spans_in(full)[0])
    assert json.loads(run["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "Why is the lamp dark?"}]}
    ]
    task = attributes_of(named(spans_in(full), "execute_tool")[0])
    assert json.loads(task["gen_ai.tool.call.arguments"]) == {"look": "cellar"}
    assert task["gen_ai.tool.call.result"] == "In the cellar."


def test_a_session_is_posted_to_a_collector(cli: CommandLine, tmp_path: Path) -> None:
    record_talk(cli.database)
    arguments = ("export", "deploy-17", *IN, "--format", "otlp", "--out")

    with endpoint(200, b"{}") as (url, asked):
        done = cli(*arguments, url.removesuffix("v1/"), "--json")
        spelled = cli(*arguments, f"{url}traces")
    with endpoint(401, b"") as (url, _):
        refused = cli(*arguments, url.removesuffix("v1/"))

    assert (done.status, spelled.status) == (0, 0)
    assert [one["path"] for one in asked] == ["/v1/traces", "/v1/traces"]
    spans = asked[0]["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert done.receipt["items"] == len(spans) > 5
    assert (refused.status, "answered 401" in refused.err) == (2, True)
    gone = cli(*arguments, url)
    assert (gone.status, "no answer from" in gone.err) == (1, True)
    wrong = cli("export", "deploy-17", *IN, "--format", "html", "--out", url)
    assert (wrong.status, "cannot be sent to a URL" in wrong.err) == (2, True)
