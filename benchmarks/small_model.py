"""Facts that a small local model finds, beside those of the rules, in the same turns.

    make test-llm    # Sets up the model's runtime.
    TREERING_EVAL_DATA=... .venv-llm/bin/python benchmarks/small_model.py

The model answers on loopback as any OpenAI-compatible endpoint does. All facts are printed, with
the digest by which ``small_model_labels.txt`` judges them.
"""

import hashlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
sys.path.append(str(HERE.parent / "tests"))

import treering  # noqa: E402  (the server of the model is made as in the tests)
from evaluation_sets import Conversation, conversations  # noqa: E402
from llama_server import LlamaServer  # noqa: E402
from treering.adapters.extractors import EndpointExtractor  # noqa: E402

TURNS: Final = 60
TALKS: Final = (0, 2)
LABELS: Final = HERE / "small_model_labels.txt"


def main() -> None:
    """Extract facts in both ways and print what they came to."""
    _, talks = conversations()
    chosen = [talks[at] for at in TALKS if at < len(talks)]
    with LlamaServer() as server, tempfile.TemporaryDirectory() as folder:
        for name, model in (
            ("rules", None),
            (server.model, EndpointExtractor(server.url, server.model, timeout_s=600)),
        ):
            found: list[str] = []
            began = time.perf_counter()
            for at, talk in enumerate(chosen):
                found += _facts(talk, Path(folder) / f"{name}-{at}.db", model)
            seconds = (time.perf_counter() - began) / (TURNS * len(chosen))
            print(
                f"{name}: {len(found)} facts in {TURNS * len(chosen)} turns, {seconds:.2f} s a turn"
            )
            labels = _labels()
            for text in found:
                mark = digest(text)
                print(f"  {mark} {labels.get(mark, '-')} {text}")


def _facts(talk: Conversation, path: Path, model: EndpointExtractor | None) -> list[str]:
    """Record turns, one speaker as the user and the other as the assistant, and extract."""
    user = talk.turns[0].text.partition(": ")[0]
    with treering.open(path, embedder="static") as ledger:
        for turn in talk.turns[:TURNS]:
            speaker, _, text = turn.text.partition(": ")
            text = text.partition(" [shares a photo of ")[0]
            session = ledger.session(turn.session, scope="eval/model", agent="b", user=user)
            with session.turn() as open_turn:
                if speaker == user:
                    open_turn.user(text)
                else:
                    open_turn.assistant(text)
        memory = ledger.memory("eval/model")
        memory.extract(model=model)
        return [fact.text for fact in memory.facts(limit=500).items]


def digest(text: str) -> str:
    """Return the mark of a fact: the conversations are not ours to copy."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _labels() -> dict[str, str]:
    if not LABELS.exists():
        return {}
    lines = LABELS.read_text(encoding="ascii").splitlines()
    return {line[:16]: line[17:] for line in lines}


if __name__ == "__main__":
    main()
