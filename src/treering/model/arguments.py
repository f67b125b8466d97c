"""Turn failures caused by arguments of a wrong type into one clear error.

Successful calls cost nothing. When a call fails in a way that wrong types cause, its arguments are
compared with the annotations, and the first mismatch is reported.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
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
    """Return ``function`` with InvalidInput for arguments that violate its annotations.

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
    """Wrap every public method of a class, including inherited ones, in ``check_arguments``."""
    members = {
        name: member for base in reversed(kind.__mro__) for name, member in vars(base).items()
    }
    for name, method in members.items():
        if not name.startswith("_") and inspect.isfunction(method):
            setattr(kind, name, check_arguments(method))
    return kind


def checks_arguments_of(local: type, *, but: Collection[str] = ()) -> Callable[[C], C]:
    """Return a decorator: calls are checked first, by the annotations of the methods of ``local``.

    For calls that are sent: in the query of a request, 3 and "3" are the same. Methods in ``but``
    check their arguments themselves.
    """

    def checking(kind: C) -> C:
        for name, method in list(vars(kind).items()):
            original = inspect.getattr_static(local, name, None)
            is_public = inspect.isfunction(method) and not name.startswith("_")
            if is_public and callable(original) and name not in but:
                setattr(kind, name, _checked_first(method, original))
        return kind

    return checking


def _checked_first(function: Callable[P, R], original: Callable[..., Any]) -> Callable[P, R]:
    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        wrong = _find_wrong(original, args, kwargs)
        if wrong is not None:
            raise wrong
        return function(*args, **kwargs)

    return checked


def _find_wrong(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> InvalidInput | None:
    """Return an error for the first argument that does not fit, or None."""
    signature = inspect.signature(function)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return None
    annotations = annotations_of(function)
    options = next(
        (name for name, p in signature.parameters.items() if p.kind is p.VAR_KEYWORD), ""
    )
    for name, value in {**given, **given.get(options, {})}.items():
        annotation = annotations.get(name)
        if annotation is not None and not _fits(value, annotation, function):
            shown = f"a {type(value).__name__}"
            # Python writes out no number of more than some thousand digits.
            if type(value) in {str, int, float, bool, type(None)}:
                with contextlib.suppress(ValueError):
                    shown = ascii(value)[:_ECHO_CHARACTERS_MAX]
            return InvalidInput(f"{name} cannot be {shown}", hint=f"pass {name}: {annotation}")
    return None


def annotations_of(function: Callable[..., Any]) -> dict[str, str]:
    """Return the types of the arguments of ``function``, as its source writes them.

    Keywords that it takes as ``**options: Unpack[Options]`` are among them.
    """
    annotations: dict[str, str] = {}
    for parameter in inspect.signature(function).parameters.values():
        annotation = parameter.annotation
        if not isinstance(annotation, str) or parameter.kind is parameter.VAR_POSITIONAL:
            continue
        if parameter.kind is not parameter.VAR_KEYWORD:
            annotations[parameter.name] = annotation
        elif annotation.startswith("Unpack["):
            options = _find_type(annotation[7:-1], function)
            annotations |= {
                name: reference.__forward_arg__
                for name, reference in options.__annotations__.items()
            }
    return annotations


def _fits(value: Any, annotation: str, function: Callable[..., Any]) -> bool:
    return any(_fits_one(value, alternative, function) for alternative in _alternatives(annotation))


def _alternatives(annotation: str) -> list[str]:
    """Return the members of a union; brackets are kept together."""
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
        return all(_fits(item, inner[:-1], function) for item in value) if inner else True
    return True


def _fits_named(value: Any, name: str, function: Callable[..., Any]) -> bool:
    """Return whether ``value`` has the type of that name, if this can be decided."""
    kind = _find_type(name, function)
    origin = get_origin(kind)
    if origin is Literal:
        return any(
            value is choice or (type(value) is str and value == choice) for choice in get_args(kind)
        )
    if isinstance(origin, type):
        return isinstance(value, origin)
    if isinstance(kind, type) and not getattr(kind, "_is_protocol", False):
        return isinstance(value, kind)
    if isinstance(kind, type):
        members = [*getattr(kind, "__annotations__", ()), *vars(kind)]
        shared = {
            member for member in members if member == "__call__" or not member.startswith("_")
        }
        return all(hasattr(value, member) for member in shared)
    # A type of another package: no plain value is an instance of it.
    return not isinstance(value, _PLAIN) and type(value) is not object


def _find_type(name: str, function: Callable[..., Any]) -> Any:
    """Return the object that a name in an annotation refers to, or None if unknown."""
    function = inspect.unwrap(function)
    module_names = vars(sys.modules[function.__module__])
    if name in module_names:
        return module_names[name]
    origin = _import_origins(function.__module__).get(name, "")
    is_ours = origin.partition(".")[0] == __name__.partition(".")[0]
    return getattr(import_module(origin), name, None) if is_ours else None


@cache
def _import_origins(module: str) -> dict[str, str]:
    """Return the modules that a module imports names from, including for type checking."""
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
        return value == value  # noqa: PLR0124  (only NaN does not equal itself)
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
"""The checks for names in annotations."""
