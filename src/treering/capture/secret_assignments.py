"""Secrets beside their name, in every shape that text gives them.

``"api_key": "…"``, ``DB_PASSWORD=…``, ``password: …``, ``--token …``, ``<password>…</password>``,
``os.environ["API_KEY"] = "…"``, ``my password is …``. The shape says where the value ends, and how
sure we are that it is a value and not code or prose.
"""

import re
from typing import Final, TypeAlias

from treering.capture.secret_names import VALUE_CHARS_MAX, Named, holds_secret, named
from treering.capture.secret_values import is_code, is_mixed, is_random, is_strong

Span: TypeAlias = tuple[str, int, int]
"""The rule that found a secret, and the offsets of the secret itself."""

NAME_CHARS_MAX: Final = 48
BARE_CHARS_MAX: Final = 1_024
PIN_CHARS_MIN: Final = 6

_NAME_CHARS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
_SEPARATOR: Final = re.compile(
    r"""(?P<rest>[A-Za-z0-9_-]{0,32})
    (?P<close>\\{0,7}["'`])?
    (?:
      (?P<sign>\]?[ \t]{0,16}
        (?::[ ]?(?:str|string|String|SecretStr)[ ]?=(?!=)|=>|:=|={1,3}|:(?![:/]))
      [ \t]{0,16})
    | (?P<pair>\s{0,16},?\s{0,16}\\{0,7}["']?value\\{0,7}["']?[ ]{0,4}:[ ]{0,4})
    | (?P<comma>,\s{0,4})
    | (?P<prose>(?:[ ]for[ ][\w .@-]{1,40}?(?=:|[ ]is))?(?:[ ](?:is|was)(?:[ ]now)?:?|:)[ ]{1,2})
    | (?P<tag>>)
    | (?P<blank>[ \t]{1,4})
    )""",
    re.VERBOSE,
)
_QUOTED: Final = re.compile(
    rf"""[bBfFrRuU]{{0,2}}(?:
      "((?:[^"\\\n]|\\[^\n]){{0,{VALUE_CHARS_MAX}}})(?:"|\Z)
    | '((?:[^'\\\n]|\\[^\n]){{0,{VALUE_CHARS_MAX}}})(?:'|\Z)
    | `([^`\n]{{0,{VALUE_CHARS_MAX}}})(?:`|\Z)
    | \\{{1,7}}["']([^"'\\\n]{{0,{VALUE_CHARS_MAX}}})
    )""",
    re.VERBOSE,
)
_BARE_RUN: Final = r"[^\s\"'`,;&|<>(){}\[\]\\]"
# An ampersand ends a value only where another parameter or command begins.
_BARE: Final = re.compile(
    rf"{_BARE_RUN}{{1,{BARE_CHARS_MAX}}}"
    rf"(?:&(?!&|amp;|[\w.-]{{1,32}}=){_BARE_RUN}{{0,{BARE_CHARS_MAX}}}){{0,8}}"
)
_TO_BLANK: Final = re.compile(rf"[^\s\"'`\\;|<>]{{1,{BARE_CHARS_MAX}}}")
_ELEMENT: Final = re.compile(rf"[^<>\n]{{1,{VALUE_CHARS_MAX}}}(?=</)")
_SPOKEN_HEAD: Final = re.compile(
    r"\b((?i:api|access|secret|private|auth|refresh|session|signing|encryption|master)) \Z"
)
_JOINT: Final = re.compile(rf"[+,).].{{0,{VALUE_CHARS_MAX}}}[+,(]|[+,.)]{{1,9}}")
_LETTERS: Final = re.compile(rf"[A-Za-z_-]{{1,{BARE_CHARS_MAX}}}")
_LETTER: Final = re.compile(r"[A-Za-z]")
_LINE_HEADS: Final = frozenset(("", "export", "set", "ENV", "ARG", "-e", "--env", *"+->$#*"))
_LINE_TAIL: Final = re.compile(r"[ \t]{0,8}(?:[\r\n]|\\[nr]|\Z|[;&#])")
_FLAG_TAIL: Final = re.compile(r"[ \t]{0,8}(?:[\r\n]|\\|\Z|[;&|]| -)")


def find_named(text: str, start: int, end: int) -> Span | None:
    """Find the secret assigned to the name around ``text[start:end]``."""
    separator = _SEPARATOR.match(text, end)
    if separator is None:
        return None
    head, name_start = _head(text, start)
    name = head + text[start:end] + separator["rest"]
    promise = named(name)
    if promise is None:
        return None
    quoted = _QUOTED.match(text, separator.end())
    if quoted is not None:
        return _if_quoted(quoted, promise, name, separator)
    opening = text[max(0, name_start - NAME_CHARS_MAX) : name_start]
    return _find_bare(text, promise, name, opening, separator)


def _head(text: str, start: int) -> tuple[str, int]:
    """Give the part of the name before ``start``, from its last dot on, and where the name starts.

    People write two words where programs write one: "API key", "access token".
    """
    before = text[max(0, start - NAME_CHARS_MAX) : start]
    head = before[len(before.rstrip(_NAME_CHARS)) :]
    if not head:
        spoken = _SPOKEN_HEAD.search(before)
        head = f"{spoken[1]}_" if spoken else ""
    # In escaped text a name at the start of a line reads \nNAME: that n is no part of it.
    if head[:1] in ("n", "r", "t") and before[: -len(head)].endswith("\\"):
        head = head[1:]
    return head.rpartition(".")[2], start - len(head)


def _if_quoted(
    quoted: re.Match[str], promise: Named, name: str, separator: re.Match[str]
) -> Span | None:
    value = quoted[quoted.lastindex or 0]
    # A quote that seemed to open may have closed: "password: " + value + "…".
    if not value or _JOINT.fullmatch(value):
        return None
    if quoted.end() == quoted.end(quoted.lastindex or 0) and not value[0].isalnum():
        return None
    certain = name.startswith("--")
    match separator.lastgroup:
        case "comma":
            certain = separator["close"] is not None and (certain or is_random(value))
        case "prose":
            certain = is_mixed(value)
        case "blank":
            certain = certain or name == "PASSWORD"
        case "tag":
            certain = False
        case _:
            certain = True
    if not certain or not holds_secret(promise, value):
        return None
    return promise.rule, *quoted.span(quoted.lastindex or 0)


def _find_bare(
    text: str, promise: Named, name: str, opening: str, separator: re.Match[str]
) -> Span | None:
    at = separator.end()
    match separator.lastgroup:
        case "sign":
            sign = separator["sign"]
            return _if_secret(_assigned(text, at, promise, name, opening, sign), promise)
        case "pair":
            return _if_secret(_BARE.match(text, at), promise)
        case "tag":
            return _if_secret(_ELEMENT.match(text, at), promise)
        case "prose":
            return _find_stated(text, at, promise)
        case "blank":
            return _if_secret(_beside(text, at, promise, name), promise)
        case _:
            return None


def _assigned(
    text: str, at: int, promise: Named, name: str, opening: str, sign: str
) -> re.Match[str] | None:
    """Give the unquoted value after ``=`` or ``:``, unless it may be code or prose."""
    in_environment = sign == "=" and name.isupper()
    at_line_head = _is_line_head(opening, name)
    value = (_TO_BLANK if in_environment and at_line_head else _BARE).match(text, at)
    if value is None or in_environment or (sign == "=" and name.startswith("--")):
        return value
    if text[value.end() : value.end() + 1] in ("(", "[") or "==" in sign or value[0][0] == "?":
        return None
    if _LETTERS.fullmatch(value[0]):
        certain = at_line_head and (sign == "=" or promise.rule == "password")
        plain = value[0].islower() and "_" not in value[0] and _LINE_TAIL.match(text, value.end())
        return value if certain and plain else None
    is_pin = len(value[0]) >= PIN_CHARS_MIN and value[0].strip(".,").isdigit()
    return value if is_pin or _LETTER.search(value[0]) else None


def _find_stated(text: str, at: int, promise: Named) -> Span | None:
    stated = _BARE.match(text, at)
    if stated is None:
        return None
    value = stated[0].rstrip(".,:;?")
    proved = is_mixed(value) if promise.rule == "password" else is_random(value)
    return (promise.rule, at, at + len(value)) if proved else None


def _beside(text: str, at: int, promise: Named, name: str) -> re.Match[str] | None:
    """Give the argument of a flag, unless the flag is only spoken of, or a word after a name."""
    value = _BARE.match(text, at)
    if value is None or value[0].startswith("-"):
        return None
    if not name.startswith("--"):
        return value if promise.rule == "password" and is_strong(value[0]) else None
    spoken = _LETTERS.fullmatch(value[0]) and not _FLAG_TAIL.match(text, value.end())
    return None if spoken else value


def _if_secret(value: re.Match[str] | None, promise: Named) -> Span | None:
    if value is None or is_code(value[0]) or not holds_secret(promise, value[0]):
        return None
    return promise.rule, *value.span()


def _is_line_head(opening: str, name: str) -> bool:
    """Say whether the name starts a line, a query parameter or a part of a connection string."""
    if opening.endswith(("?", "&", "\\")) or (opening.endswith(";") and name[0].isupper()):
        return True
    return opening.rpartition("\n")[2].strip() in _LINE_HEADS and (
        "\n" in opening or len(opening) < NAME_CHARS_MAX
    )
