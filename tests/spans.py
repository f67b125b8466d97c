"""Spans of OpenTelemetry, read by its own types."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

import msgspec
from google.protobuf import json_format
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData

if TYPE_CHECKING:
    from collections.abc import Sequence

_IDS = ("traceId", "spanId", "parentSpanId")


def parse_traces(body: bytes | str) -> TracesData:
    """Return OTLP/JSON as the types of OpenTelemetry; what they do not know is an error.

    Their JSON has ids in base 64, that of OTLP has them in hexadecimal.
    """
    told = msgspec.json.decode(body)
    for resource in told["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in _IDS:
                    if name in span:
                        span[name] = b64encode(bytes.fromhex(span[name])).decode()
    traces = TracesData()
    json_format.ParseDict(told, traces)
    return traces


def spans_in(body: bytes | str) -> list[Span]:
    """Return all spans of OTLP/JSON."""
    return [
        span
        for resource in parse_traces(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def attributes_of(span: Span) -> dict[str, Any]:
    """Return the attributes of a span as plain values."""
    return {one.key: _plain(one.value) for one in span.attributes}


def named(spans: Sequence[Span], operation: str) -> list[Span]:
    """Return the spans of one operation."""
    return [one for one in spans if attributes_of(one)["gen_ai.operation.name"] == operation]


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(one) for one in value.array_value.values]
    return getattr(value, kind)
