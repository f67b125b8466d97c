"""Pictures, files and sounds reach the model that takes them; of the others nothing is silent."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

import pytest

from context.histories import Listed, event, in_order
from context.legality import check_legal
from context.provider_types import check_types
from treering.context import attachments
from treering.context.attachments import media_tokens_of, tokens_of
from treering.context.dialects import DIALECTS, Dialect
from treering.ledger.windows import read_window
from treering.model.messages import Media

if TYPE_CHECKING:
    from treering import Context, Session


def png(width: int = 100, height: int = 60) -> bytes:
    def chunk(name: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = zlib.compress(b"\0" * 4)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def jpeg(width: int, height: int) -> bytes:
    frame = struct.pack(">BHHB", 8, height, width, 3) + b"\0" * 9
    comment = b"\xff\xfe" + struct.pack(">H", 2 + 300) + b"x" * 300
    return b"\xff\xd8" + comment + b"\xff\xc0" + struct.pack(">H", 2 + len(frame)) + frame


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0" * 40


def webp(width: int, height: int) -> bytes:
    body = b"VP8X" + struct.pack("<I", 10) + b"\0" * 4
    body += (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body + b"\0" * 20


def wav(seconds: int) -> bytes:
    data = b"\0" * 8_000 * seconds
    head = struct.pack("<HHIIHH", 1, 1, 8_000, 8_000, 1, 8)
    body = b"WAVEfmt " + struct.pack("<I", 16) + head + b"data" + struct.pack("<I", len(data))
    return b"RIFF" + struct.pack("<I", len(body) + len(data)) + body + data


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


PNG: Final = b64(png())
PDF: Final = b64(b"%PDF-1.4 /Type /Pages /Type /Page /Type/Page" + b" " * 40)
URL: Final = f"data:image/png;base64,{PNG}"
SHAPES: Final[dict[str, Any]] = {
    "anthropic": {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PNG},
    },
    "openai chat": {"type": "image_url", "image_url": {"url": URL}},
    "openai responses": {"type": "input_image", "image_url": URL},
    "gemini": {"inlineData": {"mimeType": "image/png", "data": PNG}},
    "gemini sdk": {"inline_data": {"mime_type": "image/png", "data": PNG}},
    "mcp": {"type": "image", "data": PNG, "mimeType": "image/png"},
    "ai sdk": {"type": "file", "data": PNG, "mediaType": "image/png"},
    "openai agents": {"type": "image", "image_url": URL},
}
SHOWN: Final[dict[str, Any]] = {
    "anthropic": SHAPES["anthropic"],
    "openai-chat": SHAPES["openai chat"],
    "openai-responses": {**SHAPES["openai responses"], "detail": "auto"},
    "gemini": {"inline_data": {"mime_type": "image/png", "data": png()}},
}


def asked(session: Session, dialect: str, **given: Any) -> Context:
    context = session.context(dialect=dialect, **given)
    check_legal(dialect, context.request)
    check_types(dialect, context.request)
    return context


def holds(value: Any, part: Any) -> bool:
    if value == part:
        return True
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(holds(one, part) for one in inner)


def left_out(context: Context) -> list[str | None]:
    return [one.detail for one in context.report if one.code == "left_out_attachment"]


@pytest.mark.parametrize("dialect", SHOWN)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_users_picture_of_any_shape_is_shown_in_that_of_the_dialect(
    session: Session, shape: str, dialect: str
) -> None:
    with session.turn() as turn:
        turn.user("What is this?", attachments=[SHAPES[shape]])

    context = asked(session, dialect)

    assert holds(context.messages, SHOWN[dialect])
    assert holds(context.messages, "What is this?")
    assert context.report == []


@pytest.mark.parametrize("dialect", SHOWN)
@pytest.mark.parametrize("content", [[SHAPES["anthropic"]], [SHAPES["openai chat"]]])
def test_a_picture_alone_is_a_message(session: Session, content: list[Any], dialect: str) -> None:
    session.record("conversation.user", "picture", payload={"content": content})

    context = asked(session, dialect, max_tokens=8_000)

    assert holds(context.messages, SHOWN[dialect])
    assert context.report == []


OUTPUTS: Final[dict[str, Any]] = {
    "parts": [{"type": "text", "text": "taken"}, SHAPES["anthropic"]],
    "mcp": {"content": [{"type": "text", "text": "taken"}, SHAPES["mcp"]]},
    "alone": [SHAPES["mcp"]],
    "a data URL": URL,
    "in a field": {"path": "a.png", "screenshot": URL},
    "bytes": png(),
}


@pytest.mark.parametrize("dialect", SHOWN)
@pytest.mark.parametrize("output", OUTPUTS)
def test_a_tools_picture_is_shown_and_never_told_as_base64(
    session: Session, output: str, dialect: str
) -> None:
    with session.turn() as turn:
        turn.user("Look.")
        turn.tools.started("shoot", {}, call_id="c1").finish(OUTPUTS[output])

    context = asked(session, dialect)

    assert holds(context.messages, SHOWN[dialect])
    assert str(context.messages).count(PNG[:40]) == (0 if dialect == "gemini" else 1)
    assert context.report == []


def test_a_model_without_eyes_reads_that_there_was_a_picture(session: Session) -> None:
    with session.turn() as turn:
        turn.user("What is this?", attachments=[SHAPES["anthropic"]])
        turn.tools.started("shoot", {}, call_id="c1").finish([SHAPES["mcp"]])

    context = asked(session, "plain")

    told = f"[image not shown: image/png, {len(png())} bytes]"
    assert context.messages[0]["content"] == f"What is this?\n{told}"
    assert told in context.messages[2]["content"]
    assert left_out(context) == ["image/png: plain does not take it"] * 2


FILES: Final[dict[str, Any]] = {
    "pdf": {
        "type": "file",
        "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
    },
    "sound": {"type": "input_audio", "input_audio": {"data": b64(wav(2)), "format": "wav"}},
    "drawing": {"type": "image", "mimeType": "image/svg+xml", "data": b64(b"<svg/>" * 20)},
    "linked": {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}},
    "unsafe": {"type": "image", "source": {"type": "url", "url": "http://a.example/b.png"}},
}
TAKERS: Final[dict[str, set[str]]] = {
    "pdf": {"openai-chat", "openai-responses", "anthropic", "gemini"},
    "sound": {"openai-chat", "gemini"},
    "drawing": set(),
    "linked": {"openai-chat", "openai-responses", "anthropic"},
    "unsafe": set(),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", FILES)
def test_what_a_dialect_does_not_take_is_told_and_reported(
    session: Session, kind: str, dialect: str
) -> None:
    with session.turn() as turn:
        turn.user("Here.", attachments=[FILES[kind]])
        turn.tools.started("fetch", {}, call_id="c1").finish([FILES[kind]])

    context = asked(session, dialect)

    shown = dialect in TAKERS[kind]
    assert len(left_out(context)) == (0 if shown else 2)
    assert ("not shown" in str(context.messages)) == (not shown)


def test_the_newest_are_kept_where_there_is_a_limit(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(attachments.BYTES_MAX, "anthropic", 250)
    first, second = SHAPES["mcp"], {**SHAPES["mcp"], "data": b64(png(9, 9))}
    for shown in (first, second, second, second, second):
        with session.turn() as turn:
            turn.user("And this?", attachments=[shown])

    context = asked(session, "anthropic")

    assert not holds(context.messages, PNG)
    assert holds(context.messages, second["data"])
    assert "image/png: it is too large" in left_out(context)


@pytest.mark.parametrize(
    ("make", "size"), [(png, (640, 480)), (jpeg, (640, 480)), (gif, (640, 480)), (webp, (640, 480))]
)
def test_a_picture_costs_by_its_size(make: Any, size: tuple[int, int]) -> None:
    media = Media(sort="image", mime="image/png", data=b64(make(*size)))

    assert tokens_of(media, "anthropic", "claude-sonnet-4-5") == 410
    assert tokens_of(media, "openai-chat", "gpt-4o") == 85 + 170 * 2
    assert tokens_of(media, "gemini", "gemini-2.5-pro") == 258
    assert tokens_of(media, "gemini", "gemini-3-pro") == 1_120


COSTS: Final[list[tuple[Dialect, str, tuple[int, int], int]]] = [
    ("anthropic", "claude-sonnet-4-5", (4_000, 3_000), 1_600),
    ("anthropic", "claude-opus-5-1", (4_000, 3_000), 4_784),
    ("openai-chat", "gpt-4o", (2_048, 4_096), 1_105),
    ("openai-responses", "gpt-5-mini", (1_024, 1_024), 1_762),
    ("gemini", "gemini-2.0-flash", (960, 540), 516),
    ("gemini", "gemini-2.0-flash", (300, 300), 258),
]


@pytest.mark.parametrize(("dialect", "model", "size", "tokens"), COSTS)
def test_a_picture_costs_what_its_provider_says(
    dialect: Dialect, model: str, size: tuple[int, int], tokens: int
) -> None:
    media = Media(sort="image", mime="image/png", data=b64(png(*size)))

    assert tokens_of(media, dialect, model) == tokens


def test_sounds_cost_by_the_second_and_documents_by_the_page() -> None:
    sound = Media(sort="audio", mime="audio/wav", data=b64(wav(10)))
    document = Media(sort="file", mime="application/pdf", data=PDF)

    assert tokens_of(sound, "gemini", "") == 11 * 32
    assert tokens_of(document, "gemini", "") == 2 * 560


@pytest.mark.parametrize("dialect", SHOWN)
def test_a_picture_that_does_not_fit_is_told_and_the_rest_is_shown(
    session: Session, dialect: str
) -> None:
    large = {**SHAPES["mcp"], "data": b64(png(2_000, 2_000))}
    with session.turn() as turn:
        turn.user("What is this?", attachments=[large])

    context = asked(session, dialect, max_tokens=200)

    assert "What is this?" in str(context.messages)
    assert left_out(context) == ["no room"]
    assert context.tokens <= 200


def test_the_history_shows_pictures_too(session: Session) -> None:
    with session.turn() as turn:
        turn.user("What is this?", attachments=[SHAPES["anthropic"]])

    assert session.history()[0]["content"][1] == SHAPES["openai chat"]


def test_what_the_model_drew_is_told(session: Session) -> None:
    with session.turn() as turn:
        turn.user("Draw.")
        turn.assistant("Done.", attachments=[SHAPES["mcp"]])

    context = asked(session, "anthropic")

    assert "Done.\n[image not shown" in context.messages[1]["content"][0]["text"]
    assert left_out(context) == ["image/png: the model's own"]


def test_a_picture_larger_than_anthropic_takes_is_told(session: Session) -> None:
    with session.turn() as turn:
        turn.user("Look.", attachments=[{**SHAPES["mcp"], "data": b64(png(8_001, 2))}])

    context = asked(session, "anthropic")

    assert left_out(context) == ["image/png: it is too large"]


@pytest.mark.parametrize(("edge", "shown"), [(2_000, 25), (2_001, 20)])
def test_of_large_pictures_anthropic_takes_only_a_few(
    session: Session, edge: int, shown: int
) -> None:
    with session.turn() as turn:
        turn.user("First.", attachments=[{**SHAPES["mcp"], "data": b64(png(9, 9))}])
        for width in range(24):
            picture = {**SHAPES["mcp"], "data": b64(png(edge, width + 1))}
            turn.user("And this?", attachments=[picture])

    context = asked(session, "anthropic")

    assert len(left_out(context)) == 25 - shown


def test_documents_of_more_pages_than_anthropic_takes_are_told(session: Session) -> None:
    pages = b"%PDF-1.4" + b"<< /Type /Page >>" * 60
    with session.turn() as turn:
        for name in ("old.pdf", "new.pdf"):
            file = {
                "type": "file",
                "mimeType": "application/pdf",
                "data": b64(pages + name.encode()),
            }
            turn.user("Read it.", attachments=[file])

    context = asked(session, "anthropic")

    assert left_out(context) == ["application/pdf: it has too many pages"]
    assert holds(context.messages, b64(pages + b"new.pdf"))


def test_a_document_may_be_larger_than_a_picture(session: Session) -> None:
    large = b"%PDF-1.4<< /Type /Page >>" + b"\0" * 4_000_000
    with session.turn() as turn:
        file = {"type": "file", "mimeType": "application/pdf", "data": b64(large)}
        turn.user("Read it.", attachments=[file])

    assert not left_out(asked(session, "anthropic"))


def test_no_more_pictures_are_read_than_could_be_shown() -> None:
    large = {**SHAPES["mcp"], "data": b64(png(1_000, 1_000))}
    said = {"text": "And this?", "attachments": [large]}
    events = in_order(*(event("conversation.user", said) for _ in range(200)))
    lineage: Any = Listed(events, page=2)

    window = read_window(
        lineage, tokens=4_000, media_tokens=lambda media: media_tokens_of(media, "anthropic", None)
    )

    assert 3 <= len(window.events) <= 6


def test_a_turn_with_pictures_is_made_again_exactly(session: Session) -> None:
    for _ in range(8):
        with session.turn() as turn:
            turn.user("And this?", attachments=[{**SHAPES["mcp"], "data": b64(png(900, 900))}])
            turn.context(3_000, dialect="anthropic")

    assert all(shown.exact for shown in session.shown(last=8))
