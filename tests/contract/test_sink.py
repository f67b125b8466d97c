"""The contract of sinks: every one that comes with Treering passes it, on real files."""

from __future__ import annotations

import contextlib
import json
import logging
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from builders import HERE
from sinks.carried_events import private, safe
from treering.capture.secrets import SecretGuard
from treering.model.kinds import KINDS
from treering.sinks.log import LogSink, TranscriptSink
from treering.sinks.trace import PrivateTraceSink, TraceSink
from treering.spine.sink_queue import acceptance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from treering.model.carried import SafeEvent
    from treering.spine.ports import SafeSink, Sink

CANARY: Final = "the canary sings"
STRANGE: Final = {
    "a path": "../../x",
    "a root": "/etc/passwd",
    "dots": "..",
    "a long name": "a" * 200,
    "a long name of other letters": "名" * 200,
    "control characters": "\x00\x01\x1b[31m\x7f\x9b\r\n\u2028\u202e",
    "a lone surrogate": "\ud800",
    "capitals": "CON",
    "quotes": "\"'`$(x)%s{0}\\",
}
JSON_TEXTS: Final = {name: text for name, text in STRANGE.items() if name != "a lone surrogate"}
"""What refs can hold."""

SAFE: Final[dict[str, Callable[[Path], SafeSink]]] = {
    "log": lambda _: LogSink("treering.contract"),
    "transcript": TranscriptSink,
    "durable transcript": lambda folder: TranscriptSink(folder, durable=True),
    "trace": TraceSink,
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Give a folder that holds all that a sink writes, what it logs too, and is left alone else."""
    written = tmp_path / "around" / "written"
    written.mkdir(parents=True)
    logger = logging.getLogger("treering.contract")
    with contextlib.closing(logging.FileHandler(written / "log", encoding="utf-8")) as file:
        logger.addHandler(file)
        logger.setLevel(logging.DEBUG)
        yield written
        logger.removeHandler(file)
    assert [path.name for path in tmp_path.iterdir()] == ["around"]
    assert [path.name for path in (tmp_path / "around").iterdir()] == ["written"]


@pytest.fixture(params=SAFE)
def sink(request: pytest.FixtureRequest, folder: Path) -> SafeSink:
    """Return every safe sink in turn."""
    return SAFE[request.param](folder)


def written(folder: Path) -> dict[Path, str]:
    """Return all that was written."""
    return {path: path.read_text() for path in folder.rglob("*") if path.is_file()}


def values(folder: Path) -> list[Any]:
    """Return all values that were written. Fails if a file is no JSON, and no lines of it."""
    found: list[Any] = []
    for path, text in written(folder).items():
        whole = path.suffix == ".json"
        found += [json.loads(text)] if whole else map(json.loads, text.split("\n")[:-1])
    return found


def give(sink: SafeSink, event: SafeEvent) -> bool:
    """Hand ``event`` over as the spine does."""
    accepted = acceptance(sink)(event)
    if accepted:
        assert sink.handle(event) is None
    return accepted


def test_every_kind_can_be_given_to_it(sink: SafeSink, folder: Path) -> None:
    accepted = [
        give(sink, safe(kind, seq, refs={"characters": "not a number", "tool": 7}))
        for seq, kind in enumerate(KINDS, start=1)
    ]

    assert any(accepted)
    assert values(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_private_gets_out(sink: SafeSink, folder: Path, kind: str) -> None:
    """001: "Sinks should receive safe metadata by default; private payloads need opt-in"."""
    stated: dict[str, Any] = {"payload": {"text": CANARY, "call_id": CANARY, "to": CANARY}}
    if KINDS[kind].visibility == "private":
        stated |= {"summary": CANARY, "refs": {"text": CANARY, "characters": 3, CANARY: 1}}

    give(sink, safe("run.started", 1))
    give(sink, safe(kind, 2, **stated))
    give(sink, safe("run.failed", 3, payload={"class": "E", "message": CANARY}))

    assert values(folder)
    assert not [path for path, text in written(folder).items() if CANARY in text]
    assert not [path for path in folder.rglob("*") if CANARY in path.name]


def test_what_its_author_made_private_stays_so_whatever_the_kind(
    sink: SafeSink, folder: Path
) -> None:
    give(sink, safe("ops.decision", visibility="private", summary=CANARY, refs={"why": CANARY}))

    assert CANARY not in "".join(written(folder).values())


@pytest.mark.parametrize("text", STRANGE.values(), ids=STRANGE.keys())
@pytest.mark.parametrize("field", ["session_id", "run_id", "agent_id", "scope", "summary"])
def test_it_survives_any_text_and_stays_in_its_folder(
    sink: SafeSink, folder: Path, field: str, text: str
) -> None:
    for seq, kind in enumerate(("run.started", "ops.warning", "tool.call", "run.ended"), start=1):
        give(sink, safe(kind, seq, **{field: text}))

    assert len(values(folder)) >= 3
    assert all(path.resolve().is_relative_to(folder) for path in folder.rglob("*"))


@pytest.mark.parametrize("text", JSON_TEXTS.values(), ids=JSON_TEXTS.keys())
def test_it_survives_any_text_in_what_is_safe_to_tell(
    sink: SafeSink, folder: Path, text: str
) -> None:
    give(sink, safe("run.started", 1, refs={"entry_point": text, "model": text}))
    give(sink, safe("tool.call", 2, refs={"call_id": text, "tool": text}))
    give(sink, safe("tool.result", 3, refs={"call_id": text, "status": "failed"}))
    give(sink, safe("run.failed", 4, refs={"reason": text, "error_class": text}))

    assert json.dumps(text)[1:-1] in json.dumps(values(folder))


def test_what_it_hears_twice_does_not_trouble_it(sink: SafeSink, folder: Path) -> None:
    for event in (safe("run.started", 1), safe("run.ended", 2)):
        give(sink, event)
        give(sink, event)

    assert values(folder)


def test_a_private_sink_says_so_and_masks_what_it_is_given(folder: Path) -> None:
    sink = PrivateTraceSink(folder, guard=SecretGuard(key=b"k" * 32))
    secret = "sk-ant-" + "api03-" + "Ab1Cd2Ef3Gh4" * 8

    for seq, kind in enumerate(("run.started", *KINDS, "run.ended"), start=1):
        content = {"text": f"{CANARY} {secret}", "api_key": secret}
        event = private(kind, seq, payload=content)
        assert sink.accepts(event)
        sink.handle(event)

    everything = "".join(written(folder).values())
    assert sink.visibility == "private"
    assert secret not in everything
    assert CANARY in everything


def every_sink(folder: Path) -> list[Sink]:
    """Return one of each, under names of their own."""
    return [
        LogSink("treering.contract"),
        TranscriptSink(folder / "live"),
        TranscriptSink(folder / "durable", durable=True, name="durable"),
        TraceSink(folder / "safe"),
        PrivateTraceSink(folder / "private", guard=SecretGuard(key=b"k" * 32)),
    ]


def test_all_of_them_together_hear_a_run_on_a_real_ledger(folder: Path, tmp_path: Path) -> None:
    """001: "every runtime emits the same canonical run event stream"."""
    with treering.open(":memory:") as ledger:
        spine = ledger.spine(sinks=every_sink(folder))
        session = ledger.session("../s 1", scope=HERE, agent="lyria")
        with contextlib.suppress(ValueError), session.turn() as run:
            run.user(CANARY)
            run.delta(CANARY)
            with run.tool("git_log", {"q": CANARY}) as call:
                call.finish(CANARY)
            raise ValueError("no")
        assert spine.flush(30.0)
        status = spine.status()

    assert {one.name: (one.failed, one.lost) for one in status} == dict.fromkeys(
        ("log", "transcript", "durable", "trace", "private-trace"), (0, 0)
    )
    holding = {
        path.relative_to(folder).parts[0]
        for path, text in written(folder).items()
        if CANARY in text
    }
    assert holding == {"private"}
    live, durable = (
        next((folder / name).rglob("*.jsonl")).read_text() for name in ("live", "durable")
    )
    assert live == durable
