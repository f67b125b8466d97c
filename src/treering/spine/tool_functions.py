"""Functions as tools: every call of a decorated function is recorded as a tool call.

Arguments and results reach the function and its caller unchanged. What cannot be recorded is
logged, and the function runs all the same, unless the decorator is ``strict``.
"""

from __future__ import annotations

import functools
import inspect
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, overload

from treering.errors import InvalidInput, RunInterrupted, ToolDenied, TreeringError
from treering.lazy import LazyModule, lazy_logger
from treering.model.fields import fit_name
from treering.spine.conversion import to_json
from treering.spine.words import describe

if TYPE_CHECKING:
    import weakref
    from collections.abc import AsyncGenerator, Callable, Generator

    from treering.spine import off_loop
    from treering.spine.runs import Run, ToolCall
else:
    off_loop = LazyModule("treering.spine.off_loop")

YIELDED_MAX: Final = 1_000
"""How many values of a generator are kept as its output; the rest is counted."""
F = TypeVar("F", bound="Callable[..., Any]")

current_run: Final[ContextVar[weakref.ref[Run] | None]] = ContextVar("treering_run", default=None)
"""The run whose ``with`` block is being executed.

It is not kept alive by this: if an interrupt strikes where the block ends, it is given up.
"""
_log: Final = lazy_logger("treering")


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(*, name: str | None = None, strict: bool = False) -> Callable[[F], F]: ...
def tool(
    function: Callable[..., Any] | None = None, /, *, name: str | None = None, strict: bool = False
) -> Any:
    """Record each call of a function as a tool call of the turn that is under way.

        @treering.tool
        def git_log(since: str) -> str: ...

    The turn is the one whose ``with`` block the call happens in; without one, the function simply
    runs. Coroutines, generators and asynchronous generators work, too. Raises ToolDenied if the
    tool may not run, and RunInterrupted if the turn was interrupted. Anything else that goes wrong
    with the record is logged, and the function runs; with ``strict`` it raises.
    """
    label = None if name is None else fit_name(name, "name")[0]

    def decorate(decorated: F) -> F:
        return recorded(decorated, _running, name=label, strict=strict)

    return decorate if function is None else decorate(function)


def _running() -> Run | None:
    reference = current_run.get()
    return None if reference is None else reference()


def recorded(
    function: F,
    find_run: Callable[[], Run | None],
    *,
    name: str | None = None,
    strict: bool = False,
) -> F:
    """Return ``function`` with its calls recorded in the run that ``find_run`` returns."""
    if not callable(function):
        raise InvalidInput(
            f"a tool is a function, not a {type(function).__name__}", hint="decorate a function"
        )
    label = name or getattr(function, "__name__", None) or type(function).__name__

    def new_call() -> FunctionCall:
        return FunctionCall(function, label, find_run(), strict=strict)

    if inspect.isasyncgenfunction(function):
        wrapped: Any = _async_generator(function, new_call)
    elif inspect.isgeneratorfunction(function):
        wrapped = _generator(function, new_call)
    elif inspect.iscoroutinefunction(function):
        wrapped = _coroutine(function, new_call)
    else:
        wrapped = _plain(function, new_call)
    return cast("F", wrapped)


def _plain(function: Callable[..., Any], new_call: Callable[[], FunctionCall]) -> Any:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        call = new_call()
        args, kwargs = call.begin(args, kwargs)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            call.end(error)
            raise
        call.finish(result)
        return result

    return wrapped


def _coroutine(function: Callable[..., Any], new_call: Callable[[], FunctionCall]) -> Any:
    @functools.wraps(function)
    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        call = new_call()
        try:
            args, kwargs = await off_loop.off_any_loop(call.begin, args, kwargs)
            result = await function(*args, **kwargs)
        except BaseException as error:
            await off_loop.off_any_loop(call.end, error)
            raise
        await off_loop.off_any_loop(call.finish, result)
        return result

    return wrapped


def _generator(function: Callable[..., Any], new_call: Callable[[], FunctionCall]) -> Any:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        call = new_call()
        args, kwargs = call.begin(args, kwargs)
        inner = function(*args, **kwargs)
        try:
            value = next(inner)
            while True:
                call.note(value)
                try:
                    sent = yield value
                except GeneratorExit:
                    inner.close()
                    raise
                except BaseException as thrown:  # noqa: BLE001  (it goes to the function)
                    value = inner.throw(thrown)
                else:
                    value = inner.send(sent)
        except StopIteration as stop:
            call.finish_yielding(stop.value)
            return stop.value
        except BaseException as error:
            call.end(error)
            raise

    return wrapped


def _async_generator(function: Callable[..., Any], new_call: Callable[[], FunctionCall]) -> Any:
    @functools.wraps(function)
    async def wrapped(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        call = new_call()
        try:
            args, kwargs = await off_loop.off_any_loop(call.begin, args, kwargs)
            inner = function(*args, **kwargs)
            value = await anext(inner)
            while True:
                call.note(value)
                try:
                    sent = yield value
                except GeneratorExit:
                    await inner.aclose()
                    raise
                except BaseException as thrown:  # noqa: BLE001  (it goes to the function)
                    value = await inner.athrow(thrown)
                else:
                    value = await inner.asend(sent)
        except StopAsyncIteration:
            await off_loop.off_any_loop(call.finish_yielding, None)
        except BaseException as error:
            await off_loop.off_any_loop(call.end, error)
            raise

    return wrapped


class FunctionCall:
    """One call of a decorated function, and its record."""

    def __init__(
        self, function: Callable[..., Any], name: str, run: Run | None, *, strict: bool
    ) -> None:
        self._function = function
        self._name = name
        self._run = run
        self._strict = strict
        self._call: ToolCall | None = None
        self._yielded: list[Any] = []
        self._more = 0

    def begin(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Record the intent; return what to call the function with: a gate may change it."""
        if self._run is None:
            return args, kwargs
        try:
            bound = inspect.signature(self._function).bind(*args, **kwargs)
            stated = {
                name: value
                for name, value in bound.arguments.items()
                if name not in {"self", "cls"}
            }
        except (TypeError, ValueError):  # The function says itself what is wrong with them.
            bound, stated = None, {"args": list(args), **kwargs}
        given, _ = to_json(stated)
        try:
            self._call = self._run.tools.take_up(self._name, given)
            if self._call is None:
                self._call = self._run.tools.started(self._name, stated)
        except (ToolDenied, RunInterrupted):
            raise
        except TreeringError as error:
            self._lose(error)
            return args, kwargs
        changed = self._call.input
        if bound is None or changed is stated or changed == given or not isinstance(changed, dict):
            return args, kwargs
        for name, value in changed.items():
            if name in stated and to_json(stated[name])[0] != value:
                bound.arguments[name] = value
        return bound.args, bound.kwargs

    def note(self, value: Any) -> None:
        """Note a value that the function yields."""
        if len(self._yielded) < YIELDED_MAX:
            self._yielded.append(to_json(value)[0])
        else:
            self._more += 1

    def finish(self, output: Any) -> None:
        """Record that the function returned ``output``."""
        if self._call is not None:
            self._try(lambda call: call.finish(output))

    def finish_yielding(self, returned: Any, **notes: Any) -> None:
        """Record that the function has yielded all that it yields."""
        if self._more:
            notes["more"] = self._more
        if returned is not None:
            notes["returned"] = returned
        self.finish({"yielded": self._yielded, **notes} if notes else self._yielded)

    def end(self, error: BaseException) -> None:
        """Record that ``error`` ended the function."""
        call = self._call
        if call is None or call.outcome is not None:
            return
        if isinstance(error, GeneratorExit) and self._yielded:
            # A caller that leaves a generator early has what it yielded until then.
            self.finish_yielding(None, left=True)
        elif isinstance(error, TimeoutError):
            self._try(lambda call: call.give_up("timeout"))
        elif isinstance(error, Exception):
            self._try(lambda call: call.fail(error))
        else:
            self._try(lambda call: call.give_up("interrupted"))

    def _try(self, act: Callable[[ToolCall], object]) -> None:
        try:
            act(cast("ToolCall", self._call))
        except TreeringError as error:
            self._lose(error)

    def _lose(self, error: TreeringError) -> None:
        if self._strict:
            raise error
        cause = describe(error)
        _log.warning(
            "%s: the call is not recorded: %s: %s", self._name, cause["class"], cause["message"]
        )
