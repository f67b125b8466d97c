"""Markdown of messages as HTML that is safe to open: no raw HTML, no images, no script in links."""

from __future__ import annotations

from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MARKDOWN_CHARACTERS_MAX: Final = 200_000
"""A longer text is shown as it is."""
_CODE: Final = ("fence", "code_block")
_SCHEMES: Final = ("http://", "https://", "mailto:")


def markdown(text: str) -> str:
    """Return the HTML of a message."""
    if len(text) > MARKDOWN_CHARACTERS_MAX:
        return preformatted(text)
    parser = _parser()
    tokens = parser.parse(text)
    _tame(tokens)
    return str(parser.renderer.render(tokens, parser.options, {}))


def code_lines(text: str) -> set[int]:
    """Return the numbers of the lines of Markdown that are blocks of code; none of a long text."""
    if len(text) > MARKDOWN_CHARACTERS_MAX:
        return set()
    blocks = [token.map for token in _parser().parse(text) if token.type in _CODE and token.map]
    return {line for first, behind in blocks for line in range(first, behind)}


def preformatted(text: str) -> str:
    """Return the HTML of a text that is shown as it is."""
    return f'<pre tabindex="0">{escape(text)}</pre>'


def _tame(tokens: Sequence[Token]) -> None:
    """Take from ``tokens`` what would load something, lead astray or need a style of its own."""
    for token in tokens:
        style = token.attrs.pop("style", None)
        if style is not None:
            token.attrs["class"] = str(style).rpartition(":")[2]
        if token.type in {"heading_open", "heading_close"}:
            # The page has three levels of its own.
            token.tag = f"h{min(int(token.tag[1:]) + 3, 6)}"
        elif token.type == "link_open":
            address = str(token.attrs.get("href", ""))
            if address.lower().startswith(_SCHEMES):
                token.attrs |= {"rel": "noopener noreferrer", "title": address}
            else:
                token.attrs = {}
        elif token.type == "image":
            token.type, token.content = "html_inline", _image(token)
        elif token.type == "fence":
            token.info = ""
        if token.type != "html_inline":
            _tame(token.children or ())


def _image(token: Token) -> str:
    text = token.content or "no description"
    address = str(token.attrs.get("src", ""))
    return f'<span class="image">[image: {escape(text)} {escape(address[:200])}]</span>'


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415  (only for a page)

    # People end lines where they mean to.
    options: Any = {"html": False, "breaks": True, "maxNesting": 20}
    return MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
