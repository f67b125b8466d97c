"""A small agent: model calls and tools in a loop, with ``turn.context()`` before each call.

Run it with ``python examples/agent.py``. It needs no network and leaves nothing behind: the model
is a stand-in. With a real one, ``ask`` is a single line::

    client.chat.completions.create(model=MODEL, tools=…, **request)
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import treering

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Session

MODEL: Final = "stand-in-1"
SYSTEM: Final = "You answer questions about the files of this project."
WINDOW_TOKENS: Final = 8_000
ANSWER_TOKENS: Final = 1_000
STEPS_MAX: Final = 8
ROOT: Final = Path(__file__).parents[1]


def count_lines(path: str) -> int:
    """Return how many lines a file of the project has."""
    return len((ROOT / path).read_text(encoding="utf-8").splitlines())


TOOLS: Final[dict[str, Callable[..., Any]]] = {"count_lines": count_lines}


def answer(session: Session, question: str) -> str:
    """Return the agent's answer; all that leads to it is one turn."""
    with session.turn(model=MODEL) as turn:
        turn.user(question)
        for _ in range(STEPS_MAX):
            context = turn.context(
                WINDOW_TOKENS, reserve_output_tokens=ANSWER_TOKENS, system=SYSTEM, model=MODEL
            )
            reply = ask(context.request)
            turn.emit("usage.reported", {"model": MODEL, **reply["usage"]})
            if reply["text"]:
                turn.assistant(reply["text"])
            if not reply["calls"]:
                return str(reply["text"])
            # All calls before the first outcome: they were requested in one message.
            calls = [
                turn.tools.started(one["name"], one["arguments"], call_id=one["id"])
                for one in reply["calls"]
            ]
            for call, one in zip(calls, reply["calls"], strict=True):
                try:
                    call.finish(TOOLS[one["name"]](**one["arguments"]))
                except Exception as error:  # noqa: BLE001 - the model is told, and may do better.
                    call.fail(error)
        raise TimeoutError(f"no answer within {STEPS_MAX} steps")


def ask(request: dict[str, Any]) -> dict[str, Any]:
    """Answer as a model would: ask for the lines of each named file, then report them."""
    messages = request["messages"]
    said = sum(len(str(message["content"])) for message in messages)
    usage = {"input_tokens": said // 4, "output_tokens": 20}
    if messages[-1]["role"] == "user":
        files = re.findall(r"[\w/]+\.md", messages[-1]["content"])
        calls = [
            {"id": f"call_{len(messages)}_{at}", "name": "count_lines", "arguments": {"path": path}}
            for at, path in enumerate(files)
        ]
        return {"text": "" if calls else "Of which file?", "calls": calls, "usage": usage}
    outputs: list[str] = []
    while messages[-1 - len(outputs)]["role"] == "tool":
        outputs.insert(0, messages[-1 - len(outputs)]["content"])
    told = ", ".join(out if out.isdigit() else "unknown" for out in outputs)
    return {"text": f"Lines: {told}.", "calls": [], "usage": usage}


def main() -> None:
    """Ask a few questions, then look at what the model saw."""
    with treering.open(":memory:") as ledger:
        session = ledger.session("files", scope="examples/agent", agent="lyria", user="mina")
        for question in (
            "How long are README.md and CHANGELOG.md?",
            "And docs/novel.md?",
            "Thank you.",
        ):
            print(f"> {question}\n{answer(session, question)}\n")

        for shown in session.shown(turn=2):
            print(f"seen in turn 2, {'exactly' if shown.exact else 'about'}:")
            for message in shown.context.messages:
                print(f"  {message['role']:<9} {message['content'] or message['tool_calls']}")
        total = session.usage().total
        print(f"\n{total.calls} model calls, {total.input_tokens} tokens in")


if __name__ == "__main__":
    main()
