"""Estimates how many tokens a text costs, without a tokenizer.

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
    ===================  ==============  ===========  ===============

Other languages are recognised by their most common words (``languages``), other scripts by their
characters, with a weight for each block. Other models count differently: ``calibration`` learns the
ratio from their reports.

The vocabularies are part of the package, so nothing is downloaded.

Tokenizers know some languages better than others in the same script: a word of English is one
token, one of Zulu four. ``language_surcharge`` returns the cost of each character on top of the
script's average. The numbers were fitted to o200k_base on messages of programs in 128 languages; an
unknown language is taken for an expensive one of its script.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from math import ceil
from typing import Final, Literal, get_args

from treering.errors import InvalidInput, Unsupported
from treering.lazy import packaged_text
from treering.model.arguments import check_arguments

Counter = Callable[[str], int]
"""Returns how many tokens a text costs; ``estimate`` is one."""

MARGIN: Final = 1.10
"""A budget multiplies estimates by this, so that a text that costs more still fits."""

LESS_MAX: Final = 0.35
MORE_MAX: Final = 0.25
"""The largest share by which any of 190 test texts cost less or more than its estimate."""

PIECE_CHARACTERS_MAX: Final = 4_096
"""Longer texts are estimated in pieces of this many characters."""

ESTIMATES_MAX: Final = 32_768
"""Cached estimates: each model call shows mostly the same texts as the last one."""
_ESTIMATES: Final[dict[int, int]] = {}
"""By the hashes of texts, so that no text is held here."""

# Every byte of a text becomes a byte of flags, and all of them one large integer. A shift by 8 bits
# lays each character over its neighbour, so that a few operations on the integer find the runs of
# every class at once, without a loop over characters.
_LETTER, _UPPER, _LOWER, _DIGIT, _BLANK, _NEWLINE, _PUNCTUATION, _DENSE = range(8)


def _lane(flag: int) -> int:
    return int.from_bytes(bytes([1 << flag]) * (4 * PIECE_CHARACTERS_MAX), "little")


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
        return 1 << _DIGIT  # Control characters cost as much as digits.
    # A plus sign is common within base64, and rare within words.
    return 1 << _PUNCTUATION | (1 << _DENSE if character == "+" else 0)


_FLAGS: Final = bytes(map(_flags, range(256)))

_BLOCKS: Final[tuple[tuple[range, float], ...]] = (
    (range(0x01, 0x02), 1.3),  # Latin of central Europe and Turkey; accents cut words in two
    (range(0x02, 0x03), 2.2),  # phonetic letters
    (range(0x03, 0x04), 0.42),  # Greek
    (range(0x04, 0x05), 0.38),  # Cyrillic
    (range(0x05, 0x06), 0.41),  # Armenian
    (range(0x06, 0x07), 0.42),  # Arabic
    (range(0x07, 0x09), 2.3),  # Syriac, Thaana, N'Ko
    (range(0x09, 0x0A), 0.38),  # Devanagari, Bengali
    (range(0x0A, 0x0B), 0.68),  # Gurmukhi
    (range(0x0B, 0x0C), 1.6),  # Odia
    (range(0x0C, 0x0D), 0.46),  # Kannada
    (range(0x0D, 0x0E), 0.68),  # Sinhala
    (range(0x0E, 0x0F), 1.75),  # Lao
    (range(0x0F, 0x10), 2.3),  # Tibetan
    (range(0x10, 0x11), 0.6),  # Burmese
    (range(0x11, 0x12), 3.0),  # ancient Korean letters
    (range(0x12, 0x13), 2.3),  # Ethiopic
    (range(0x13, 0x17), 3.25),  # Cherokee, Inuktitut, Ogham, runes
    (range(0x17, 0x18), 0.57),  # Khmer
    (range(0x18, 0x1E), 3.25),  # Mongolian, Ol Chiki
    (range(0x1E, 0x1F), -1.0),  # Vietnamese, whose words are cut in two and cost one token
    (range(0x1F, 0x20), 2.3),  # ancient Greek
    (range(0x20, 0x21), 0.9),  # typographic marks
    (range(0x21, 0x23), 1.9),  # arrows, mathematics
    (range(0x23, 0x24), 2.7),  # technical marks
    (range(0x24, 0x25), 2.1),  # enclosed marks
    (range(0x25, 0x28), 1.9),  # frames, shapes, dingbats
    (range(0x28, 0x30), 3.0),  # Braille, Tifinagh, Coptic, Glagolitic
    (range(0x30, 0x31), 0.7),  # kana
    (range(0x31, 0x34), 2.2),  # Bopomofo, squared words
    (range(0x34, 0x4E), 3.2),  # rare Han
    (range(0x4E, 0xA0), 0.95),  # Han
    (range(0xA0, 0xAC), 3.0),  # Yi, Vai, Javanese
    (range(0xAC, 0xD8), 0.75),  # Hangul
    (range(0xD8, 0xDC), 4.2),  # all beyond the first plane
    (range(0xE0, 0xFB), 2.9),  # private use
    (range(0xFB, 0xFF), 1.9),  # presentation forms
    (range(0xFF, 0x100), 2.1),  # half-width kana, full-width letters
)
"""High bytes of characters in UTF-16, and the cost of each character."""
_WEIGHTS: Final = tuple(
    next((weight for block, weight in _BLOCKS if byte in block), 0.0) for byte in range(256)
)
_CHEAPER: Final[tuple[tuple[tuple[bytes, ...], float], ...]] = (
    ((b"\xcc",), 1.1 - 0.42),  # marks that are put on letters
    ((b"\xd7",), 0.5 - 0.41),  # Hebrew
    ((b"\xe0\xaa", b"\xe0\xab"), 0.43 - 0.68),  # Gujarati
    ((b"\xe0\xb0", b"\xe0\xb1"), 0.47 - 0.46),  # Telugu
    ((b"\xe0\xad",), 0.7 - 1.6),  # vowels of Odia
    ((b"\xe0\xbc\x8b",), -2.5),  # syllable separators of Tibetan
    ((b"\xe0\xb4", b"\xe0\xb5"), 0.37 - 0.68),  # Malayalam
    ((b"\xe2\x82",), 1.9 - 0.9),  # currency signs, which cost more
    ((b"\xe0\xae", b"\xe0\xaf"), 0.38 - 1.6),  # Tamil
    ((b"\xe0\xb8", b"\xe0\xb9"), 0.45 - 1.75),  # Thai
    ((b"\xe1\x82", b"\xe1\x83"), 0.37 - 0.6),  # Georgian
    ((b"\xef\xbc",), 1.05 - 2.1),  # full-width marks
    ((b"\xf0\x9f",), 3.0 - 4.2),  # pictures
    ((b"\xf0\x9f\x98", b"\xf0\x9f\x99"), 2.0 - 3.0),  # faces
    ((b"\xf0\x9d",), 3.2 - 4.2),  # mathematical letters, music
    ((b"\xe2\x94\x80\xe2\x94\x80", b"\xe2\x95\x90\xe2\x95\x90"), -3.4),  # long lines of frames
)
"""First UTF-8 bytes of characters whose cost differs from their block, and the difference."""
_TRADITIONAL: Final = "這個們時會對來國說為請過還後學開"
_SIMPLIFIED: Final = "这个们时会对来国说为请过还后学开"
"""Characters that show how Chinese is written. Japanese has hardly any of them."""
_CONTRACTIONS: Final = (b"'s ", b"'t ", b"'d ", b"'m ", b"'re ", b"'ve ", b"'ll ")
"""Endings of English words that are one token with their apostrophe."""
_LATIN_1: Final = 0.9
"""The cost of an accented letter besides the words that it splits."""


def counter_name(count: Counter) -> str:
    """Return the name of a counter, so that it can be used again."""
    return str(getattr(count, "name", None) or getattr(count, "__name__", type(count).__name__))


def estimate(text: str) -> int:
    """Return about how many tokens ``text`` costs: 0 if it is empty, else 1 or more."""
    if not text:
        return 0
    key = hash(text)
    tokens = _ESTIMATES.get(key)
    if tokens is None:
        if len(_ESTIMATES) >= ESTIMATES_MAX:
            _ESTIMATES.clear()
        starts = range(0, len(text), PIECE_CHARACTERS_MAX)
        cost = sum(_piece(text[start : start + PIECE_CHARACTERS_MAX]) for start in starts)
        tokens = _ESTIMATES[key] = max(1, ceil(cost))
    return tokens


def _piece(text: str) -> float:
    # A lone surrogate is not valid UTF-8, but a transcript may contain one, and it costs tokens.
    raw = text.encode("utf-8", "surrogatepass")
    cost, script = _cost(raw), 0
    if len(raw) != len(text):
        high = text.encode("utf-16-be", "surrogatepass")[::2]
        counts = {byte: high.count(byte) for byte in set(high)}
        script = max(counts, key=counts.__getitem__)
        if not script and 2 * counts[0] < len(text):
            script = -1  # A script of many blocks: there are more spaces than letters of any one.
        cost += _beyond_ascii(raw, counts) + _han(text, counts)
    if surcharge := language_surcharge(text, script):
        cost += surcharge * (len(text) - text.count(" "))
    return cost


def _beyond_ascii(raw: bytes, counts: dict[int, int]) -> float:
    """Return the cost of characters beyond ASCII; ``counts`` is their number per block."""
    cost = _LATIN_1 * (raw.count(b"\xc2") + raw.count(b"\xc3"))
    cost += sum(_WEIGHTS[byte] * count for byte, count in counts.items())
    for beginnings, less in _CHEAPER:
        if beginnings[0][0] in raw:
            cost += less * sum(map(raw.count, beginnings))
    return cost


def _han(text: str, counts: dict[int, int]) -> float:
    """Return the cost difference of Han characters: simplified is cheaper."""
    han = sum(count for byte, count in counts.items() if 0x4E <= byte < 0xA0)
    if not han:
        return 0.0
    if any(map(text.__contains__, _TRADITIONAL)):
        return 0.09 * han
    return -0.12 * han if any(map(text.__contains__, _SIMPLIFIED)) else 0.0


def _cost(raw: bytes) -> float:
    """Return the cost of the ASCII in ``raw``."""
    one = int.from_bytes(raw.translate(_FLAGS), "little")
    # A flag in `four` means that its character and the next three are of the same class.
    two = one & one >> 8
    three = two & two >> 8
    four = two & two >> 16
    seven = four & four >> 24
    eight = four & four >> 32
    sixteen = eight & eight >> 64
    starts = one ^ one & one << 8
    wide = (two ^ two & two << 8) & _BLANKS
    # Letters beyond the twelfth of a word: such words are mostly noise, which is expensive.
    overlong = (seven & seven >> 48 & _LETTERS) << _LOWER
    # camelCase has a hump or two. A hump followed by 16 letters and digits is base64.
    humps = one & one >> (8 + _UPPER - _LOWER) & _LOWERS
    noise = humps & sixteen >> (_DENSE - _LOWER)
    # Counting bits is the slow part, so classes with the same weight are counted together; no two
    # of them share a lane. The weights are fitted, then rounded.
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
    # A line of dashes is cheap, five different symbols in a row are not.
    crowded = three & three >> 16 & _PUNCTUATIONS
    if b"'" in raw:
        cost -= 0.9 * sum(map(raw.count, _CONTRACTIONS))
    if crowded:
        cost += 0.6 * (crowded & _changes(raw) << _PUNCTUATION).bit_count()
    return cost


def _changes(raw: bytes) -> int:
    """Return an integer with the lowest bit of each byte set where the next byte differs."""
    spelled = int.from_bytes(raw, "little")
    changed = spelled ^ spelled >> 8
    changed |= changed >> 4
    changed |= changed >> 2
    return (changed | changed >> 1) & _LETTERS


Encoding = Literal["o200k_base", "cl100k_base"]
"""o200k_base: from GPT-4o on; cl100k_base: GPT-3.5 and GPT-4."""
ENCODINGS: Final[tuple[str, ...]] = get_args(Encoding)


@check_arguments
def exact_counter(encoding: Encoding | str = "o200k_base") -> Counter:
    """Return a counter of tokens in ``encoding``; special tokens count as plain text.

    Raise Unsupported if the tokenizer is not installed.
    """
    if encoding not in ENCODINGS:
        raise InvalidInput(
            f"invalid encoding: {encoding}", hint=f"use one of {', '.join(ENCODINGS)}"
        )
    return _counter(encoding)


@cache
def _counter(encoding: str) -> Counter:
    try:
        tokenizers = import_module("rs_bpe.bpe").openai
    except ImportError as error:
        raise Unsupported(
            "exact token counts need the package rs-bpe",
            hint="install it: pip install 'treering[tokens]'",
        ) from error
    return ExactCounter(encoding, getattr(tokenizers, encoding)().count)


class ExactCounter:
    """Counts the tokens of one encoding."""

    def __init__(self, name: str, count: Counter) -> None:
        self.name = name
        self._count = count

    def __call__(self, text: str) -> int:
        """Return the number of tokens in ``text``."""
        try:
            return self._count(text)
        except UnicodeEncodeError:
            # Lone surrogates have no tokens; providers get a replacement character as well.
            return self._count(text.encode("utf-8", "replace").decode())


SAMPLE_CHARACTERS: Final = 200
"""Characters at the beginning of a text that are examined."""
WORDS_MIN: Final = 6
"""With fewer words the language is unknown."""
COMMON_SHARE: Final = 5
"""One in this many words must be common for a language to be recognised."""
ACCENTS_MAX: Final = 0.15
"""Accented text costs less besides its accents, by their share, up to this."""
UNKNOWN_SURCHARGE: Final[dict[int, float]] = {
    0x00: 0.145,
    0x01: 0.145,
    0x04: 0.045,
    0x06: 0.1,
    0x09: 0.08,
}
"""The surcharge per character in unknown languages, by the high byte of most letters."""

_ARABIC: Final = 0x06
_ARABIC_SURCHARGE: Final = -0.026
"""Of the languages in its script only Arabic has the letter teh marbuta."""

_LANGUAGES: Final = tuple(
    (float(head.split()[0]), words.split())
    for head, words in re.findall(
        r"(\S.*)((?:\n  .*)+)", packaged_text(__name__, "common_words.txt")
    )
)


def _word_languages() -> dict[str, bytes]:
    """Return the languages of each word; a word of only one language counts twice."""
    languages: dict[str, bytes] = {}
    for index, (_, words) in enumerate(_LANGUAGES):
        for word in set(words):
            languages[word] = languages.get(word, b"") + bytes([index])
    return {
        word: languages_of_word * 2 if len(languages_of_word) == 1 else languages_of_word
        for word, languages_of_word in languages.items()
    }


_WORD_LANGUAGES: Final = _word_languages()


def language_surcharge(text: str, script: int) -> float:
    """Return the surcharge per character of ``text``; 0 if it is not prose.

    ``script`` is the high byte of most of its letters in UTF-16.
    """
    if script not in UNKNOWN_SURCHARGE:
        return 0.0
    sample = text[:SAMPLE_CHARACTERS]
    words = sample.lower().split()
    if len(words) < WORDS_MIN:
        return 0.0
    matches = b"".join(filter(None, map(_WORD_LANGUAGES.get, words)))
    if matches:
        most, cost = max((matches.count(index), _LANGUAGES[index][0]) for index in set(matches))
        if most * COMMON_SHARE >= len(words):
            return cost
    return _unknown_surcharge(sample, words, script)


def _unknown_surcharge(sample: str, words: Sequence[str], script: int) -> float:
    """Return the surcharge per character of an unrecognised language."""
    if script == _ARABIC:
        return _ARABIC_SURCHARGE if "\u0629" in sample else UNKNOWN_SURCHARGE[script]
    if script > 1:
        return UNKNOWN_SURCHARGE[script]
    if sum(map(str.isalpha, words)) * 5 < len(words) * 3:
        return 0.0  # Code, names, numbers.
    # Text with many accents pays for them already.
    accents = len(sample.encode("utf-8", "surrogatepass")) / len(sample) - 1
    return UNKNOWN_SURCHARGE[script] - min(accents, ACCENTS_MAX)
