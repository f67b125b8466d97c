"""Lines with styles: the colours of a terminal's output, and the syntax of code.

Styles are a closed set of short names, so that a page needs no style of its own for any text:

    hk hs hc hn hf hb    keyword, string, comment, number, name, builtin
    c0 … c15, g0 … g15   colour and ground of a terminal
    tb td ti tu          bold, dim, italic, underlined
    wi wd                words that a diff adds, and takes away
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from treering.surfaces.pages.blocks import StyledLine, TextSpan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pygments.lexer import Lexer

HIGHLIGHT_CHARACTERS_MAX: Final = 40_000
"""A longer text has no colours: parsing its syntax takes too long."""
LINE_CHARACTERS_MAX: Final = 2_000
"""A text with a longer line is not written by people, and has no colours."""

_SGR: Final = re.compile(r"\x1b\[([0-9;:]{0,64})m")
_OTHER: Final = re.compile(
    r"\x1b(?:\[[0-9;:?<=>]*[ -/]*[@-ln-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|[PX^_][^\x1b]*\x1b\\|[@-Z\\-_])"
)
"""What moves a terminal's cursor, or names its window."""
_CUBE: Final = (0, 95, 135, 175, 215, 255)
_SIXTEEN: Final = (
    (0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0), (0, 0, 238), (205, 0, 205),
    (0, 205, 205), (229, 229, 229), (127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0),
    (92, 92, 255), (255, 0, 255), (0, 255, 255), (255, 255, 255),
)  # fmt: skip
_ATTRIBUTES: Final = {1: "tb", 2: "td", 3: "ti", 4: "tu"}
_ATTRIBUTE_ENDS: Final = {22: ("tb", "td"), 23: ("ti",), 24: ("tu",)}
_SYNTAX: Final = (
    ("Comment", "hc"), ("Keyword.Constant", "hb"), ("Keyword", "hk"), ("Literal.String", "hs"),
    ("Literal.Number", "hn"), ("Name.Builtin", "hb"), ("Name.Function", "hf"),
    ("Name.Class", "hf"), ("Name.Decorator", "hf"), ("Name.Tag", "hk"), ("Name.Attribute", "hf"),
    ("Operator.Word", "hk"),
)  # fmt: skip
_LANGUAGES: Final = {
    "bash": "bash", "bat": "bat", "c": "c", "cc": "cpp", "cfg": "ini", "clj": "clojure",
    "cpp": "cpp", "cs": "csharp", "css": "css", "cts": "typescript", "dart": "dart",
    "diff": "diff", "ex": "elixir", "exs": "elixir", "go": "go", "graphql": "graphql",
    "h": "c", "hpp": "cpp", "hs": "haskell", "html": "html", "ini": "ini", "java": "java",
    "js": "javascript", "json": "json", "jsonc": "json", "jsonl": "json", "jsx": "javascript",
    "kt": "kotlin", "less": "less", "lua": "lua", "makefile": "make", "md": "markdown",
    "mjs": "javascript", "mts": "typescript", "patch": "diff", "php": "php", "pl": "perl",
    "proto": "protobuf", "ps1": "powershell", "py": "python", "pyi": "python", "r": "r",
    "rb": "ruby", "rs": "rust", "sass": "sass", "scala": "scala", "scss": "scss", "sh": "bash",
    "sql": "sql", "svg": "xml", "swift": "swift", "tex": "latex", "tf": "terraform",
    "toml": "toml", "ts": "typescript", "tsx": "typescript", "vue": "vue", "xml": "xml",
    "yaml": "yaml", "yml": "yaml", "zig": "zig", "zsh": "bash", "dockerfile": "docker",
}  # fmt: skip
"""The language of a file by the end of its name. A list of ours: Pygments would ask its plugins."""
_WORDS_OF_FENCES: Final = {
    "c++": "cpp", "console": "bash", "golang": "go", "javascript": "javascript", "kotlin": "kotlin",
    "python": "python", "python3": "python", "ruby": "ruby", "rust": "rust", "shell": "bash",
    "shell-session": "bash", "typescript": "typescript", "csharp": "csharp", "docker": "docker",
    "powershell": "powershell", "perl": "perl", "haskell": "haskell", "markdown": "markdown",
}  # fmt: skip


def language_of(name: str) -> str:
    """Return the language of a file, or of a fence in Markdown; empty if it is not known."""
    word = name.strip().replace("\\", "/").rsplit("/", 1)[-1].rsplit(".", 1)[-1].lower()
    return _LANGUAGES.get(word) or _WORDS_OF_FENCES.get(word) or ""


def plain_lines(text: str) -> tuple[StyledLine, ...]:
    """Return the lines of a text without any style."""
    return tuple((TextSpan(line),) if line else () for line in text.split("\n"))


def plain_text(lines: Iterable[StyledLine]) -> str:
    """Return the text of lines."""
    return "\n".join("".join(span.text for span in line) for line in lines)


@lru_cache(maxsize=512)
def code_lines(text: str, language: str) -> tuple[StyledLine, ...]:
    """Return the lines of code with their syntax; without, if that is not known or takes long."""
    lexer = _lexer(language) if _is_for_people(text) else None
    if lexer is None:
        return plain_lines(text)
    from pygments import lex  # noqa: PLC0415  (only where code is shown)

    pieces = ((value, _style_of(str(token))) for token, value in lex(text, lexer))
    lines = _split(pieces)
    # A lexer may add the line break at the end that the text lacks.
    return lines if plain_text(lines) == text else plain_lines(text)


def terminal_lines(text: str, clean: Callable[[str], str]) -> tuple[StyledLine, ...]:
    """Return the lines of what a tool wrote to a terminal, with its colours.

    ``clean`` returns a text as it may be shown. Where it changes one, the colours are lost: what
    they part may be a secret.
    """
    shown = clean(text)
    if "\x1b" not in text:
        return plain_lines(_overwritten(shown))
    pieces = [*_coloured(_OTHER.sub("", text.replace("\r\n", "\n")))]
    plain = "".join(piece for piece, _ in pieces)
    return _split(pieces) if plain == shown else plain_lines(_overwritten(shown))


def marked(line: StyledLine, ranges: Sequence[tuple[int, int]], style: str) -> StyledLine:
    """Return a line whose characters in ``ranges`` have another style as well."""
    spans: list[TextSpan] = []
    at = 0
    for span in line:
        cuts = sorted(
            {0, len(span.text)}
            | {edge - at for pair in ranges for edge in pair if 0 < edge - at < len(span.text)}
        )
        for first, behind in pairwise(cuts):
            is_in = any(start <= at + first < end for start, end in ranges)
            both = f"{span.style} {style}".strip() if is_in else span.style
            spans.append(TextSpan(span.text[first:behind], both))
        at += len(span.text)
    return tuple(spans)


def _split(pieces: Iterable[tuple[str, str]]) -> tuple[StyledLine, ...]:
    """Return styled pieces of a text as lines."""
    lines: list[list[TextSpan]] = [[]]
    for text, style in pieces:
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append([])
            if not part:
                continue
            line = lines[-1]
            if line and line[-1].style == style:
                line[-1] = TextSpan(line[-1].text + part, style)
            else:
                line.append(TextSpan(part, style))
    return tuple(map(tuple, lines))


def _is_for_people(text: str) -> bool:
    return len(text) <= HIGHLIGHT_CHARACTERS_MAX and (
        len(text) <= LINE_CHARACTERS_MAX
        or all(len(line) <= LINE_CHARACTERS_MAX for line in text.split("\n"))
    )


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    if not language:
        return None
    from pygments.lexers import get_lexer_by_name  # noqa: PLC0415  (only where code is shown)

    return get_lexer_by_name(language, stripnl=False, ensurenl=False)


@lru_cache(maxsize=256)
def _style_of(token: str) -> str:
    name = token.removeprefix("Token.")
    return next((style for start, style in _SYNTAX if name.startswith(start)), "")


def _overwritten(text: str) -> str:
    """Return a text as a terminal shows it: after a carriage return, a line begins again."""
    # ``clean`` writes a carriage return as the picture of one.
    if "␍" not in text:
        return text
    return "\n".join(line.rstrip("␍").rsplit("␍", 1)[-1] for line in text.split("\n"))


def _coloured(text: str) -> Iterator[tuple[str, str]]:  # noqa: C901  (one branch for each sort of code)
    colour = ground = ""
    attributes: set[str] = set()
    at = 0
    for match in _SGR.finditer(text):
        yield text[at : match.start()], _joined(colour, ground, attributes)
        at = match.end()
        codes = [int(code or 0) for code in re.split("[;:]", match[1])] or [0]
        while codes:
            code = codes.pop(0)
            if code == 0:
                colour = ground = ""
                attributes.clear()
            elif code in _ATTRIBUTES:
                attributes.add(_ATTRIBUTES[code])
            elif code in _ATTRIBUTE_ENDS:
                attributes.difference_update(_ATTRIBUTE_ENDS[code])
            elif code in {38, 48}:
                number = _extended(codes)
                if number is not None and code == 38:
                    colour = f"c{number}"
                elif number is not None:
                    ground = f"g{number}"
            elif code in {39, 49}:
                colour, ground = ("", ground) if code == 39 else (colour, "")
            elif (number := _basic(code)) is not None:
                colour, ground = _placed(code, number, colour, ground)
    yield text[at:], _joined(colour, ground, attributes)


def _joined(colour: str, ground: str, attributes: set[str]) -> str:
    return " ".join([*filter(None, (colour, ground)), *sorted(attributes)])


def _basic(code: int) -> int | None:
    """Return which of sixteen colours a code means."""
    for first, number in ((30, 0), (40, 0), (90, 8), (100, 8)):
        if first <= code < first + 8:
            return number + code - first
    return None


def _placed(code: int, number: int, colour: str, ground: str) -> tuple[str, str]:
    is_ground = code // 10 in {4, 10}
    return (colour, f"g{number}") if is_ground else (f"c{number}", ground)


def _extended(codes: list[int]) -> int | None:
    """Take the rest of a colour out of many; return the nearest one of sixteen."""
    form = codes.pop(0) if codes else None
    if form == 5 and codes:
        number = codes.pop(0)
        if number < 16:
            return number
        if number < 232:
            cube = number - 16
            shade = (_CUBE[cube // 36 % 6], _CUBE[cube // 6 % 6], _CUBE[cube % 6])
        else:
            shade = (8 + (number - 232) * 10,) * 3
        return _nearest(shade)
    if form == 2 and len(codes) >= 3:
        shade = (codes.pop(0), codes.pop(0), codes.pop(0))
        return _nearest(shade)
    return None


def _nearest(shade: tuple[int, int, int]) -> int:
    def distance(number: int) -> int:
        return sum(
            (level - other) ** 2 for level, other in zip(shade, _SIXTEEN[number], strict=True)
        )

    return min(range(16), key=distance)
