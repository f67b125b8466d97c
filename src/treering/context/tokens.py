"""How many tokens a text costs, estimated without a tokenizer.

A word is about one token, a long one more, three digits one, a run of punctuation one. The weights
were fitted to o200k_base on pieces of 1,500 characters. Words alone would fall far short of what
keys, capitals and base64 cost, and far over for other scripts, so these have weights of their own.

    ===================  ==============  ===========  ===============
    text                 characters per  error of     worst of all
                         token           the whole    pieces, short
    ===================  ==============  ===========  ===============
    talk                            4.9         +2 %             -5 %
    documents                       3.8         -5 %            -15 %
    Python                          4.4         +1 %             -7 %
    JavaScript, C                   3.8         +3 %            -15 %
    JSON of agents                  3.2         +5 %             -3 %
    logs                            2.4         -2 %             -8 %
    listings of files               2.6         -3 %            -22 %
    base64                          1.5         -4 %            -12 %
    hashes, UUIDs                   1.7         +4 %             +2 %
    minified scripts                3.1        +22 %             -6 %
    random letters                  1.9        -23 %            -25 %
    German, French                  3.7         -3 %            -16 %
    Polish                          2.9        -17 %            -24 %
    Russian, Greek                  3.0          0 %            -19 %
    Chinese                         1.6         -4 %            -15 %
    Japanese, Korean                1.8         -1 %             -7 %
    ===================  ==============  ===========  ===============

Rare characters (Ethiopic, Braille, Han beyond the common ones) cost up to four times their
estimate. Other models count otherwise: ``calibration`` learns how much from what they report.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Final

Counter = Callable[[str], int]
"""Returns how many tokens a text costs; ``estimate`` is one."""

MARGIN: Final = 1.10
"""What a budget multiplies an estimate by, so that a piece which costs more still fits."""

PIECE_BYTES_MAX: Final = 16_384
"""A longer text is estimated in pieces of so many bytes."""

# Every byte of a text becomes a byte of flags, and all of them one large number. A shift by 8 bits
# lays each character over its neighbour, so that a handful of operations on the number finds the
# runs of every class at once, without a loop over characters.
_LETTER, _UPPER, _LOWER, _DIGIT, _BLANK, _NEWLINE, _PUNCTUATION, _DENSE = range(8)


def _lane(flag: int) -> int:
    return int.from_bytes(bytes([1 << flag]) * PIECE_BYTES_MAX, "little")


_LETTERS: Final = _lane(_LETTER)
_UPPERS: Final = _lane(_UPPER)
_LOWERS: Final = _lane(_LOWER)
_DIGITS: Final = _lane(_DIGIT)
_BLANKS: Final = _lane(_BLANK)
_NEWLINES: Final = _lane(_NEWLINE)
_PUNCTUATIONS: Final = _lane(_PUNCTUATION)
_LETTERS_AND_PUNCTUATIONS: Final = _LETTERS | _PUNCTUATIONS


def _flags(byte: int) -> int:
    character = chr(byte)
    if byte >= 0x80:
        return 0
    if character.isalpha():
        return 1 << _LETTER | 1 << (_UPPER if character.isupper() else _LOWER) | 1 << _DENSE
    if character.isdigit():
        return 1 << _DIGIT | 1 << _DENSE
    if character in " \t\v\f":
        return 1 << _BLANK
    if character in "\r\n":
        return 1 << _NEWLINE
    if not character.isprintable():
        return 1 << _DIGIT  # Control characters are as dear as digits.
    # A plus sign is in the midst of base64, and hardly ever in the midst of words.
    return 1 << _PUNCTUATION | (1 << _DENSE if character == "+" else 0)


_FLAGS: Final = bytes(map(_flags, range(256)))

_SCRIPTS: Final[tuple[tuple[range, float], ...]] = (
    (range(0xC2, 0xCC), 1.3),  # Latin with accents, which also cut their words in two
    (range(0xCC, 0xD4), 0.38),  # Greek, Cyrillic
    (range(0xD4, 0xE0), 0.5),  # Armenian, Hebrew, Arabic
    (range(0xE0, 0xE2), 0.47),  # the scripts of India and South-East Asia, Georgian
    (range(0xE2, 0xE3), 0.9),  # symbols, typographic marks, box drawing
    (range(0xE3, 0xE4), 0.7),  # kana
    (range(0xE4, 0xEA), 0.95),  # Han
    (range(0xEA, 0xEE), 0.8),  # Hangul
    (range(0xEE, 0xF0), 0.9),  # full-width forms
    (range(0xF0, 0xF5), 2.25),  # emoji
)
"""First bytes of characters beyond ASCII, and what each such character costs."""
_SCRIPT_OF: Final = bytes(
    next((place for place, (firsts, _) in enumerate(_SCRIPTS) if byte in firsts), 255)
    for byte in range(256)
)
_NO_SCRIPT: Final = bytes(range(0xC0))
"""ASCII, and the bytes that go on with a character that has begun."""


def counter_name(count: Counter) -> str:
    """Return what a counter is called, for whoever wants to count so again."""
    return str(getattr(count, "name", None) or getattr(count, "__name__", type(count).__name__))


def estimate(text: str) -> int:
    """Return about how many tokens ``text`` costs: 0 if it is empty, else 1 or more."""
    if not text:
        return 0
    # A lone surrogate is not UTF-8, but a transcript may have one, and it costs tokens too.
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) <= PIECE_BYTES_MAX:
        cost = _cost(raw)
    else:
        cost = sum(
            _cost(raw[start : start + PIECE_BYTES_MAX])
            for start in range(0, len(raw), PIECE_BYTES_MAX)
        )
    if len(raw) != len(text):
        scripts = raw.translate(_SCRIPT_OF, _NO_SCRIPT)
        for place, (_, weight) in enumerate(_SCRIPTS):
            cost += weight * scripts.count(place)
    return max(1, ceil(cost))


def _cost(raw: bytes) -> float:
    """Return what the ASCII in ``raw`` costs."""
    one = int.from_bytes(raw.translate(_FLAGS), "little")
    # A flag in `four` says that its character and the next three are of the same class.
    two = one & one >> 8
    three = two & two >> 8
    four = two & two >> 16
    seven = four & four >> 24
    eight = four & four >> 32
    sixteen = eight & eight >> 64
    starts = one ^ one & one << 8
    wide = (two ^ two & two << 8) & _BLANKS
    # Letters beyond the twelfth of a word: such words are seldom words, and noise is dear.
    overlong = (seven & seven >> 48 & _LETTERS) << _LOWER
    # camelCase has a hump or two. Where 16 letters and digits go on from one, it is base64.
    humps = one & one >> (8 + _UPPER - _LOWER) & _LOWERS
    noise = humps & sixteen >> (_DENSE - _LOWER)
    # Counting is the dear part, so what weighs the same is counted together; no two of them share
    # a lane. The weights are those of a fit, rounded.
    cost = (
        0.93 * (starts & _LETTERS_AND_PUNCTUATIONS).bit_count()
        + 1.3 * (starts & _DIGITS | wide | noise).bit_count()
        + 0.45 * (four & _DIGITS | humps).bit_count()
        + 0.2 * (seven & _LETTERS | two & _UPPERS | overlong).bit_count()
        + 0.05 * (three & _PUNCTUATIONS | two & _NEWLINES).bit_count()
        - 0.3 * (starts & _NEWLINES).bit_count()
        + 0.009 * (sixteen & _BLANKS).bit_count()
        + 0.063 * raw.count(b"\t")
    )
    # A rule of dashes is cheap, five different marks in a row are not.
    crowded = three & three >> 16 & _PUNCTUATIONS
    if crowded:
        cost += 0.6 * (crowded & _changes(raw) << _PUNCTUATION).bit_count()
    return cost


def _changes(raw: bytes) -> int:
    """Return a number with the lowest bit of each byte set where the next byte is another."""
    spelled = int.from_bytes(raw, "little")
    changed = spelled ^ spelled >> 8
    changed |= changed >> 4
    changed |= changed >> 2
    return (changed | changed >> 1) & _LETTERS
