"""MiniLM, fitted to tell whether a statement makes an earlier one outdated.

Both statements are read together, as one text of two parts. What was fitted is small: a product of
two narrow matrices is added to each matrix of the installed model, so that only these are part of
this package. ``scripts/fit_change_model.py`` fits them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from treering.embedders.static import ENDS, STARTS, static_pieces
from treering.lazy import LazyModule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray
else:
    np = LazyModule("numpy")

FITTED: Final = "change_model.npz"
PIECES_MAX: Final = 50
"""Pieces of each statement that are read."""
_GRAPH: Final = 7
_TENSOR: Final = 5
_TENSOR_TYPE: Final = 2
_TENSOR_NAME: Final = 8
_TENSOR_BYTES: Final = 9
_TENSOR_SIZE: Final = 1
"""Field numbers of the ONNX format."""
_FLOAT: Final = 1
_BYTE: Final = 3
_STEPS: Final = 127


def fitted_model(model: bytes) -> bytes:
    """Return the model with its numbers as they were fitted, in place of its own."""
    changed = bytearray(model)
    tensors, fitted = tensors_of(changed), fitted_numbers()
    for name in {key.partition(":")[0] for key in fitted} - {"head"}:
        if f"{name}:down" in fitted:
            steps, scale = tensors[f"{name}_q"], tensors[f"{name}_scale"]
            whole = steps * scale + fitted[f"{name}:down"] @ fitted[f"{name}:up"]
            scale[:] = np.abs(whole).max(axis=0, keepdims=True) / _STEPS
            steps[:] = np.rint(whole / scale)
        else:
            tensors[name] += fitted[name]
    return bytes(changed)


def scores(session: Any, new: str, earlier: Sequence[str]) -> list[float]:
    """Return the log odds that a statement makes each earlier one outdated."""
    pieces = static_pieces().numbers
    later = [*pieces(new)[:PIECES_MAX], ENDS]
    read = [[STARTS, *pieces(old)[:PIECES_MAX], ENDS] for old in earlier]
    longest = max(map(len, read)) + len(later)
    numbers = np.zeros((len(read), longest), np.int64)
    part = np.zeros_like(numbers)
    for row, old in enumerate(read):
        numbers[row, : len(old) + len(later)] = old + later
        part[row, len(old) : len(old) + len(later)] = 1
    mask = (numbers > 0).astype(np.int64)
    [layers] = session.run(
        None, {"input_ids": numbers, "attention_mask": mask, "token_type_ids": part}
    )
    means = (layers * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
    fitted = fitted_numbers()
    odds = layers[:, 0] @ fitted["head:first"] + means @ fitted["head:mean"]
    listed: list[float] = (odds + fitted["head:constant"]).tolist()
    return listed


@cache
def fitted_numbers() -> dict[str, NDArray[np.float32]]:
    """Return what was fitted, by the name of what it is added to."""
    with np.load(Path(__file__).with_name(FITTED)) as stored:
        return {name: stored[name].astype(np.float32) for name in stored.files}


def tensors_of(model: bytearray) -> dict[str, NDArray[Any]]:
    """Return the numbers of a model in the ONNX format, by name, to be read or changed in place."""
    kinds: dict[int, Any] = {_FLOAT: np.dtype("<f4"), _BYTE: np.dtype("i1")}
    [graph] = [value for field, value in _fields(memoryview(model)) if field == _GRAPH]
    tensors = {}
    for tensor in (value for field, value in _fields(graph) if field == _TENSOR):
        sizes: list[int] = []
        kind, name, content = 0, "", memoryview(b"")
        for part, value in _fields(tensor):
            if part == _TENSOR_SIZE:
                # One number, or several in a row.
                sizes += [value] if isinstance(value, int) else _numbers(value)
            elif part == _TENSOR_TYPE:
                kind = value
            elif part == _TENSOR_NAME:
                name = bytes(value).decode()
            elif part == _TENSOR_BYTES:
                content = value
        if kind in kinds and content:
            tensors[name] = np.frombuffer(content, kinds[kind]).reshape(sizes)
    return tensors


def _fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a protobuf message: their numbers, and their values or bytes."""
    at = 0
    while at < len(message):
        tag, at = _number(message, at)
        match tag & 7:
            case 0:
                value, at = _number(message, at)
                yield tag >> 3, value
            case 2:
                size, at = _number(message, at)
                yield tag >> 3, message[at : at + size]
                at += size
            case kind:
                at += 8 if kind == 1 else 4


def _number(message: memoryview, at: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and where it ends."""
    number = shift = 0
    while True:
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at


def _numbers(message: memoryview) -> list[int]:
    numbers, at = [], 0
    while at < len(message):
        number, at = _number(message, at)
        numbers.append(number)
    return numbers
