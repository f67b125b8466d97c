"""Arguments of a wrong type: one clear error, instead of whatever breaks first.

Nothing is looked at while calls succeed. When one fails in a way that wrong types fail in, its
arguments are compared with the annotations; if one does not fit, that is what is reported.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from importlib import import_module
from typing import Any, Final, Literal, ParamSpec, TypeVar, get_args, get_origin

from treering.errors import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

_FAILURES: Final = (TypeError, AttributeError, ValueError, LookupError, ArithmeticError)
_INTEGER_BITS: Final = 63
_PLAIN: Final = (str, bytes, bytearray, int, float, complex, list, tuple, dict, set, type(None))
_ECHO_CHARACTERS_MAX: Final = 60


def check_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function`` with InvalidInput for arguments that its annotations do not allow.

    A wrong number of arguments stays a TypeError.
    """

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except _FAILURES as error:
            wrong = _find_wrong(function, args, kwargs)
            if wrong is None:
                raise
            raise wrong from error

    return checked


def checks_arguments(kind: C) -> C:
    """Have every public method of a class check its arguments, inherited ones as well."""
    for name in dir(kind):
        method = inspect.getattr_static(kind, name)
        if not name.startswith("_") and inspect.isfunction(method):
            setattr(kind, name, check_arguments(method))
    return kind


def _find_wrong(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> InvalidInput | None:
    """Return an error for the first argument that does not fit; None if all do."""
    signature = inspect.signature(function)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return None
    for name, value in given.items():
        parameter = signature.parameters[name]
        annotation = parameter.annotation
        is_one = parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
        if is_one and isinstance(annotation, str) and not _fits(value, annotation, function):
            shown = f"a {type(value).__name__}"
            if type(value) in {str, int, float, bool, type(None)}:
                shown = ascii(value)[:_ECHO_CHARACTERS_MAX]
            return InvalidInput(
                f"{name} is {shown}, which it cannot be", hint=f"give {name}: {annotation}"
            )
    return None


def _fits(value: Any, annotation: str, function: Callable[..., Any]) -> bool:
    return any(_fits_one(value, one, function) for one in _alternatives(annotation))


def _alternatives(annotation: str) -> list[str]:
    """Return the parts of a union; what is inside brackets is left together."""
    parts, depth = [""], 0
    for character in annotation:
        depth += (character in "[(") - (character in "])")
        if character == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _fits_one(value: Any, annotation: str, function: Callable[..., Any]) -> bool:
    name, _, inner = annotation.partition("[")
    check = _CHECKS.get(name.rpartition(".")[2])
    if check is None:
        return _fits_named(value, name, function)
    if not check(value):
        return False
    if name == "IO" and inner == "bytes]":
        return not hasattr(value, "encoding")
    if name in {"Sequence", "Iterable", "list", "Collection"} and isinstance(value, list | tuple):
        return all(_fits(one, inner[:-1], function) for one in value) if inner else True
    return True


def _fits_named(value: Any, name: str, function: Callable[..., Any]) -> bool:
    """Whether ``value`` is of the type of a name, as far as that can be told."""
    kind = _find_type(name, function)
    origin = get_origin(kind)
    if origin is Literal:
        return any(value is one or (type(value) is str and value == one) for one in get_args(kind))
    if isinstance(origin, type):
        return isinstance(value, origin)
    if isinstance(kind, type) and not getattr(kind, "_is_protocol", False):
        return isinstance(value, kind)
    if isinstance(kind, type):
        members = [*getattr(kind, "__annotations__", ()), *vars(kind)]
        shared = {one for one in members if one == "__call__" or not one.startswith("_")}
        return all(hasattr(value, one) for one in shared)
    # A type of somebody else's: no plain value is an object of it.
    return not isinstance(value, _PLAIN) and type(value) is not object


def _find_type(name: str, function: Callable[..., Any]) -> Any:
    """Return what a name of an annotation means; None if that is not known."""
    function = inspect.unwrap(function)
    here = vars(sys.modules[function.__module__])
    if name in here:
        return here[name]
    home = _homes(function.__module__).get(name, "")
    is_ours = home.partition(".")[0] == __name__.partition(".")[0]
    return getattr(import_module(home), name, None) if is_ours else None


@cache
def _homes(module: str) -> dict[str, str]:
    """Return where a module imports names from, be it for type checkers only."""
    try:
        source = inspect.getsource(sys.modules[module])
    except OSError:
        return {}
    return {
        alias.asname or alias.name: node.module
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }


def _is_text(value: Any) -> bool:
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and _is_small(value)


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return value == value  # noqa: PLR0124  (NaN is the one that does not equal itself)
    return _is_whole(value)


def _is_small(value: int) -> bool:
    return value.bit_length() <= _INTEGER_BITS


def _is_listed(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {
    "Any": lambda _: True,
    "object": lambda _: True,
    "None": lambda value: value is None,
    "str": _is_text,
    "int": _is_whole,
    "float": _is_number,
    "bool": lambda value: isinstance(value, bool),
    "bytes": lambda value: isinstance(value, bytes),
    "Sequence": _is_listed,
    "Iterable": _is_listed,
    "Collection": _is_listed,
    "list": _is_listed,
    "Mapping": lambda value: isinstance(value, Mapping),
    "dict": lambda value: isinstance(value, dict),
    "Callable": callable,
    "IO": lambda value: hasattr(value, "read") or hasattr(value, "write"),
    "PathLike": lambda value: hasattr(value, "__fspath__"),
    "BaseException": lambda value: isinstance(value, BaseException),
}
"""What the names in annotations take."""
