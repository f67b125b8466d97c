"""Sets of lines that were written before the rules that are measured with them.

A set is a text file: ``# family``, then a line for each line. The secret stands in ⟦brackets⟧,
``␤`` is a line end, and dice fill in «words», so that no file of this repository holds a token.
"""

import base64
import json
import random
import string
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import secrets_corpus

CLEAN_ROUNDS: Final = 20

_ALNUM: Final = string.ascii_letters + string.digits
_BASE62: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SYMBOLS: Final = "!#$%&*@^?+="
_WORDS: Final = (
    "maple canyon otter violin harbor lantern pepper saddle walnut meadow copper falcon thunder"
    " ribbon marble orchid tunnel pickle basket glacier"
)
# Words of BIP 39, the list that wallets draw their phrases from.
_MNEMONIC: Final = (
    "abandon ability absorb acoustic adjust airport amazing anchor basket beyond bicycle blossom"
    " cabin canyon carbon castle dolphin dragon elbow engine fabric famous galaxy garden harvest"
    " hockey island jungle kitchen ladder magnet nephew ocean pepper quantum rabbit saddle tackle"
    " umbrella velvet wagon zebra"
)

Dice = random.Random
Secret = tuple[str, str]


def secrets(name: str, *, seed: int) -> dict[str, list[Secret]]:
    """Give each family of the set ``name``: lines, each with the secret it holds."""
    dice = random.Random(seed)
    return {
        family: [_secret(_fill(dice, line)) for line in lines] for family, lines in _families(name)
    }


def clean(name: str, *, seed: int) -> list[str]:
    """Give the lines of the set ``name``, which hold no secret."""
    dice = random.Random(seed)
    lines = [line for _, family in _families(name) for line in family]
    filled = [_fill(dice, line) for _ in range(CLEAN_ROUNDS) for line in lines]
    return list(dict.fromkeys(filled))


def _families(name: str) -> Iterator[tuple[str, list[str]]]:
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    for part in ("\n" + text).split("\n# ")[1:]:
        family, *lines = part.splitlines()
        yield family, [line.replace("␤", "\n") for line in lines if line]


def _secret(line: str) -> Secret:
    before, rest = line.split("⟦")
    secret, after = rest.split("⟧")
    return before + secret + after, secret


def _fill(dice: Dice, template: str) -> str:
    first, *parts = template.split("«")
    line = first
    for part in parts:
        kind, rest = part.split("»", 1)
        line += _KINDS[kind](dice) if kind in _KINDS else _filling(dice, kind)
        line += rest
    return line


def _filling(dice: Dice, kind: str) -> str:
    if kind.startswith("urlsafe"):
        return _pick(dice, _ALNUM + "-_", int(kind.removeprefix("urlsafe")))
    return secrets_corpus.filling(dice, kind)


def _pick(dice: Dice, alphabet: str, count: int) -> str:
    return "".join(dice.choices(alphabet, k=count))


def _word(dice: Dice) -> str:
    return dice.choice(_WORDS.split())


def _password(dice: Dice) -> str:
    """Make a password of characters that need no quotes anywhere."""
    word, number = _word(dice), dice.randrange(10, 9_999)
    return dice.choice(
        (
            f"{word.capitalize()}{number}!",
            f"{word}_{_word(dice)}{number}",
            f"{word.capitalize()}-{_word(dice).capitalize()}-{number}",
            _pick(dice, _ALNUM, dice.randrange(10, 20)),
            f"{_pick(dice, _ALNUM, 6)}.{_pick(dice, _ALNUM, 5)}",
        )
    )


def _weak(dice: Dice) -> str:
    return f"{_word(dice)}{dice.randrange(1, 999)}"


def _symbols(dice: Dice) -> str:
    marks = dice.sample(_SYMBOLS, 3)
    parts = [_word(dice).capitalize(), str(dice.randrange(10, 99)), _pick(dice, _ALNUM, 5)]
    return "".join(part + mark for part, mark in zip(parts, marks, strict=True))


def _percent(dice: Dice) -> str:
    return f"{_word(dice).capitalize()}%{dice.choice(('40', '23', '21', '2F'))}{_weak(dice)}"


def _passphrase(dice: Dice) -> str:
    return "-".join(dice.sample(_WORDS.split(), 4))


def _mnemonic(count: int) -> Callable[[Dice], str]:
    return lambda dice: " ".join(dice.sample(_MNEMONIC.split(), count))


def _checked(dice: Dice) -> str:
    """Make the body of a token of GitHub or npm: it ends in its check sum."""
    body = _pick(dice, _ALNUM, 30)
    rest, tail = zlib.crc32(body.encode()), ""
    for _ in range(6):
        rest, digit = divmod(rest, 62)
        tail = _BASE62[digit] + tail
    return body + tail


def _jwt(dice: Dice) -> str:
    header = {"alg": dice.choice(("HS256", "RS256")), "typ": "JWT"}
    claims = {"sub": _pick(dice, string.digits, 10), "iat": dice.randrange(10**9, 2 * 10**9)}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()) for part in (header, claims)]
    return ".".join(part.decode().rstrip("=") for part in parts) + "." + _pick(dice, _ALNUM, 43)


def _login(dice: Dice) -> str:
    return base64.b64encode(f"{_word(dice)}:{_password(dice)}".encode()).decode()


_KINDS: Final[dict[str, Callable[[Dice], str]]] = {
    "pw": _password,
    "weak": _weak,
    "pwsym": _symbols,
    "pwurl": _percent,
    "pass": _passphrase,
    "mnemonic12": _mnemonic(12),
    "mnemonic24": _mnemonic(24),
    "crc30": _checked,
    "jwt": _jwt,
    "b64pw": _login,
}
