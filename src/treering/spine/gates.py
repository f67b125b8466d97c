"""Gates: the sinks that have a say before things happen, asked one after the other.

A gate that fails does not take the run with it: what it should have allowed is held back, and what
it should have changed stays as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.lazy import LazyModule, lazy_logger
from treering.model.codec import canonical
from treering.spine.ports import Gate, Occasion, Preparation, Verdict
from treering.spine.sink_queue import in_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.spine import conversion
    from treering.spine.run_events import CalledTool
else:
    conversion = LazyModule("treering.spine.conversion")

_log = lazy_logger("treering.spine")


class Gates:
    """All gates of a spine as one."""

    def __init__(self) -> None:
        self._gates: tuple[Gate, ...] = ()

    def add(self, gate: Gate) -> None:
        """Ask ``gate`` too, after the others."""
        self._gates = (*self._gates, gate)

    def before_run(self, occasion: Occasion, prompt: str | None) -> Preparation:
        """Say what to add to a run: the last system prompt, and every context."""
        system: str | None = None
        contexts: list[str] = []
        for gate in self._gates:
            try:
                added = gate.before_run(occasion, prompt)
                prompts = _text(added.system_prompt), _text(added.prepend_context)
                system = system if prompts[0] is None else prompts[0]
                contexts += [prompts[1]] if prompts[1] else []
            except conversion.STOPS:
                raise
            except BaseException as error:  # noqa: BLE001  (a gate may raise anything)
                _complain(gate, "before_run", error)
        return Preparation(system_prompt=system, prepend_context="\n\n".join(contexts) or None)

    def before_tool(self, occasion: Occasion, tool: str, call_id: str, input: Any) -> Verdict:  # noqa: A002
        """Say whether a tool may run; each gate sees the input that the one before left."""
        return self._ask(
            "before_tool",
            input,
            lambda gate, given: gate.before_tool(occasion, tool, call_id, given),
        )

    def before_sending(self, occasion: Occasion, text: str, to: str | None) -> Verdict:
        """Say whether a message may be sent; each gate sees what the one before left."""
        return self._ask(
            "before_sending", text, lambda gate, given: gate.before_sending(occasion, given, to)
        )

    def persist(
        self, call: CalledTool, output: Any, *, is_error: bool = False, is_synthetic: bool = False
    ) -> Any:
        """Return the output of a tool as the gates want it recorded."""
        for gate in self._gates:
            try:
                recorded = gate.persist(
                    call.occasion, call.tool, call.call_id, output,
                    is_error=is_error, is_synthetic=is_synthetic,
                )  # fmt: skip
                canonical(recorded, "output")
                output = recorded
            except conversion.STOPS:
                raise
            except BaseException as error:  # noqa: BLE001  (a gate may raise anything)
                _complain(gate, "persist", error)
        return output

    def _ask(self, name: str, given: Any, ask: Callable[[Gate, Any], Verdict]) -> Verdict:
        changed: Any = None
        for gate in self._gates:
            try:
                verdict = ask(gate, given if changed is None else changed)
                blocked, reason = verdict.blocked, _text(verdict.reason)
                canonical(verdict.content, "content")
                content, _ = conversion.to_json(verdict.content)  # It may still be of other types.
                if blocked:
                    return Verdict(blocked=True, reason=reason)
            except conversion.STOPS:
                raise
            except BaseException as error:  # noqa: BLE001  (a gate may raise anything)
                _complain(gate, name, error)
                return Verdict(
                    blocked=True, reason=f"a gate failed: {conversion.class_name(error)}"
                )
            changed = changed if content is None else content
        return Verdict(content=changed)


def _text(value: Any) -> str | None:
    return None if value is None else conversion.to_text(value)[0]


def _complain(gate: Gate, name: str, error: BaseException) -> None:
    _log.error("%s of gate %s: %s", name, getattr(gate, "name", "?"), in_words(error))
