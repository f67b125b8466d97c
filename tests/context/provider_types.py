"""Requests, held against the types of the providers' own SDKs."""

from __future__ import annotations

import inspect
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, TypeAdapter

if TYPE_CHECKING:
    from collections.abc import Callable


def check_types(dialect: str, request: dict[str, Any]) -> None:
    """Raise unless ``request`` is of the type that its provider's SDK declares, key by key.

    A name that the SDK's method does not take is a TypeError, a wrong value a ValidationError. What
    only fits a type of answers, which take unknown keys, comes back changed: an AssertionError.
    """
    # Imported where they are used: an SDK takes a second, in every process that collects tests.
    match dialect:
        case "openai-chat":
            from openai.resources.chat.completions import Completions
            from openai.types.chat.completion_create_params import (
                CompletionCreateParamsNonStreaming,
            )

            _check_call(Completions.create, request)
            _check_dict(CompletionCreateParamsNonStreaming, request | {"model": "any"})
        case "openai-responses":
            from openai.resources.responses import Responses
            from openai.types.responses.response_create_params import (
                ResponseCreateParamsNonStreaming,
            )

            _check_call(Responses.create, request)
            # The types want an id of every reasoning item; without a store it may be left out, and
            # has to be where a log does not tell it.
            items = [
                {"id": "rs_1", **one} if one.get("type") == "reasoning" else one
                for one in request["input"]
            ]
            _check_dict(
                ResponseCreateParamsNonStreaming, request | {"model": "any", "input": items}
            )
        case "anthropic":
            from anthropic.resources.messages import Messages
            from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

            _check_call(Messages.create, request)
            beside = {"model": "any", "max_tokens": 1}
            _check_dict(MessageCreateParamsNonStreaming, request | beside)
        case "gemini":
            from google.genai.models import Models
            from google.genai.types import Content, GenerateContentConfig

            _check_call(Models.generate_content, request)
            for content in request["contents"]:
                kept = Content.model_validate(content, strict=True).model_dump(exclude_none=True)
                assert kept == content, f"{content} became {kept}"
            GenerateContentConfig.model_validate(request.get("config", {}))


def _check_call(method: Callable[..., Any], request: dict[str, Any]) -> None:
    inspect.signature(method).bind_partial(**request)


def _check_dict(sort: Any, request: dict[str, Any]) -> None:
    [kept] = _drained(_adapter(sort).validate_python([request]))
    assert kept == request, f"{request} became {kept}"


@cache
def _adapter(sort: Any) -> TypeAdapter[Any]:
    # In a list, since the configuration of an adapter reaches only what lies below its type.
    return TypeAdapter(list[sort], config=ConfigDict(extra="forbid", strict=True))


def _drained(value: Any) -> Any:
    """Return ``value`` with what pydantic put off until it is looked at: any Iterable."""
    if isinstance(value, dict):
        return {key: _drained(one) for key, one in value.items()}
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return value
    return [_drained(one) for one in value]
