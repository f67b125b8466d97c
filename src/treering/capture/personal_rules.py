"""Rules for e-mail addresses and phone numbers.

Digits alone prove nothing: dates, timestamps, versions, UUIDs, sizes and positions are full of
them. A number is a phone number only with a country code, with the grouping of one, or after a word
for it.
"""

from typing import Final

from treering.capture.secret_assignments import Span
from treering.capture.secret_rules import Rule
from treering.capture.secret_values import NOT_AFTER_MASK, word_set
from treering.lazy import lazy_pattern

LOCAL_CHARS_MAX: Final = 64
PHONE_DIGITS_MIN: Final = 8
PHONE_DIGITS_MAX: Final = 15

_LOCAL_CHARS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._%+-"
_DOMAIN: Final = lazy_pattern(
    r"@((?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}([A-Za-z]{2,24}))"
    r"(?![A-Za-z0-9_(-]|\.?\[redacted:|\.[A-Za-z0-9])"
)
_REMOTE_PATH: Final = lazy_pattern(r":(?:[~/.]|[A-Za-z_][\w.-]{0,100}/)")
_TOP_LEVELS: Final = word_set(
    "com org net edu gov mil int info biz name pro dev app tech cloud online site store shop xyz"
    " email academy agency blog company consulting design digital education energy engineering"
    " foundation global group health homes host industries institute international life live"
    " marketing media money network news office partners page plus press productions software"
    " solutions space studio support systems team technology tools university ventures website"
    " wiki work works world zone museum coop aero jobs mobi travel asia berlin london paris"
    " test example"
)
_FILE_ENDINGS: Final = word_set("js ts rs py md sh cc hs")
_IN_URL: Final = lazy_pattern(r"//(?:[^\s/@\"']{1,64}:)?\Z|[0-9a-f]{8}\]:\Z")
_GIT_USERS: Final = frozenset(("git", "hg", "svn"))

_END: Final = r"(?![\w+]|[.:/-]?\[redacted:|[.:/-][0-9A-Za-z])"
_INTERNATIONAL: Final = lazy_pattern(
    NOT_AFTER_MASK + r"(?<![\w+.,:/=)*-])\+[1-9][0-9]{0,2}(?:[ .-]?\([0-9]{1,5}\))?+"
    r"(?:[ .\-/]?[0-9]{1,12}+){1,6}+" + _END
)
_NATIONAL: Final = lazy_pattern(
    NOT_AFTER_MASK + r"(?<![\w+.,:/=#)-])(?<![\w\]]\()(?<![*/%+<>^-] )(?<![0-9a-f]{8}\] )"
    r"(?:1[-. ])?(?:\([2-9][0-9]{2}\) ?|(?![2-4]00|.11)[2-9][0-9]{2}([-.]))"
    r"[2-9][0-9]{2}(?(1)\1|[-. ])[0-9]{4}" + _END
)
_NATIONAL_NEAR: Final = lazy_pattern(rb"[2-9][0-9]{2}[-. ][0-9]{4}")
_AFTER_WORD: Final = lazy_pattern(
    r"(?:ephone|efon|efono|phone)?(?:[ _-]?(?:number|Number|no\.?|nr\.?))?\\{0,7}[\"']?"
    r"(?:[ ]{0,2}[:=.#]{1,2}[ ]{0,2}|[ ](?:is|at|on)?:?[ ]{0,2})\\{0,7}[\"']?"
    r"(\+?[0-9(][0-9 ().\-/]{5,18}[0-9])" + _END
)
_DATE_OR_ADDRESS: Final = lazy_pattern(
    r"[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}.{0,20}|[0-9]{1,2}[/.][0-9]{1,2}[/.][0-9]{2,4}"
    r"|(?:[0-9]{1,3}\.){3}[0-9]{1,3}|1[0-9]{9}|1[0-9]{12}|[0-9]{1,15}\.[0-9]{1,15}"
)
_PHONE_NAME: Final = lazy_pattern(
    r"(?i:(?:.{0,64}[^a-z])?(?:(?:tele)?phone|mobile|cell|fax|tel|whatsapp)"
    r"(?:[ _-]?(?:number|no))?)"
)
_PHONE_VALUE: Final = lazy_pattern(r"\+?[0-9(][0-9 ().\-/]{5,20}[0-9]")


def find_phones(text: str) -> list[Span]:
    """Return the spans of numbers grouped as in North America, which no keyword announces."""
    return [("phone", *match.span()) for match in _NATIONAL.finditer(text)]


def may_hold_phone(encoded: bytes) -> bool:
    """Return whether ``find_phones`` may find something in this UTF-8 text."""
    return _NATIONAL_NEAR.search(encoded) is not None


def is_phone_field(name: str, value: str) -> bool:
    """Return whether ``value`` is a phone number because of its field's name."""
    return (
        _PHONE_NAME.fullmatch(name) is not None
        and _PHONE_VALUE.fullmatch(value) is not None
        and _is_phone(value)
    )


def _email(text: str, start: int, _end: int) -> Span | None:
    domain = _DOMAIN.match(text, start)
    if domain is None:
        return None
    before = text[max(0, start - LOCAL_CHARS_MAX) : start]
    local = before[len(before.rstrip(_LOCAL_CHARS)) :].lstrip(".%+-")
    opening = before[: len(before) - len(local)]
    if not local or local in _GIT_USERS or _IN_URL.search(opening):
        return None
    if _REMOTE_PATH.match(text, domain.end()) or not _is_mail_domain(domain[1], domain[2].lower()):
        return None
    return "email", start - len(local), domain.end()


def _is_mail_domain(domain: str, top_level: str) -> bool:
    first = domain.partition(".")[0]
    if first.isdigit() or (first[:1].isdigit() and first[1:] == "x"):
        return False
    if len(top_level) == 2:
        return top_level not in _FILE_ENDINGS
    return top_level in _TOP_LEVELS


def _international(text: str, start: int, _end: int) -> Span | None:
    match = _INTERNATIONAL.match(text, start)
    return ("phone", *match.span()) if match and _is_phone(match[0]) else None


def _after_word(text: str, _start: int, end: int) -> Span | None:
    match = _AFTER_WORD.match(text, end)
    return ("phone", *match.span(1)) if match and _is_phone(match[1]) else None


def _is_phone(number: str) -> bool:
    digits = "".join(character for character in number if character.isdigit())
    if not 7 <= len(digits) <= PHONE_DIGITS_MAX or _DATE_OR_ADDRESS.fullmatch(number):
        return False
    # Numbers with the country code 1, North America, have eleven digits; this also excludes a
    # timestamp added to a diff (+1700000000000).
    if number.startswith("+1"):
        return len(digits) == 11
    return not number.startswith("+") or len(digits) >= PHONE_DIGITS_MIN


PERSONAL_RULES: Final = (
    Rule("email", ("@",), _email),
    Rule("phone", tuple(f"+{digit}" for digit in range(1, 10)), _international),
    Rule(
        "phone-said",
        (
            *("phone", "Phone", "PHONE", "mobile", "Mobile", "MOBILE", "cell", "Cell", "CELL"),
            *("fax", "Fax", "FAX", "tel", "Tel", "TEL", "whatsapp", "WhatsApp", "Handy"),
            *("call me", "call us", "Call me", "Call us", "text me", "reach me"),
        ),
        _after_word,
    ),
)
