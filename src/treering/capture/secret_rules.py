"""The rules that find secrets, each with its keywords.

A rule runs only at its keywords, and examines a bounded range of text there; so the work grows with
the text and not with the number of rules.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from treering.capture import secret_phrases as phrases
from treering.capture.secret_alarm import NO_VETO, Called, Veto
from treering.capture.secret_assignments import (
    LINKS,
    NAME_CHARS_MAX,
    RECORD_CHARS_MAX,
    SPOKEN_HEADS,
    Span,
    doubt_of,
    find_named,
)
from treering.capture.secret_families import FAMILIES, START, START_IN_JSON, STOP, USUAL
from treering.capture.secret_names import SUFFIXES
from treering.capture.secret_speech import SPOKEN
from treering.capture.secret_values import (
    NOT_AFTER_MASK,
    NOT_BEFORE_MASK,
    is_dummy,
    is_opaque,
    is_random,
    is_tangled,
)
from treering.capture.secret_wraps import Rejoin, loosely, rejoined, run_end
from treering.lazy import lazy_pattern

Locate: TypeAlias = Callable[[str, int, int], Span | None]
"""Finds a secret near the keyword at ``text[start:end]``."""

KEY_BLOCK_CHARS_MAX: Final = 16_384
NEAR_CHARS_MAX: Final = 200
RUN_CHARS_MIN: Final = 32
LABEL_CHARS_MAX: Final = 24
NEAR_LINE_CHARS_MAX: Final = 80
KEYWORD_CHARS_MAX: Final = 16
AIRTABLE_ID_CHARS: Final = 14
WORD_BYTES_MAX: Final = 64
# Each character of a name takes at most six bytes in JSON; a quote and a colon follow.
NAME_BYTES_MAX: Final = 6 * NAME_CHARS_MAX + 2
NO_VALUE_GROUP: Final = 2
# A command that sets a name is searched in the 96 characters before it.
SENTENCE_BYTES_MAX: Final = 6 * RECORD_CHARS_MAX
TOLD_BYTES_MAX: Final = 2 * 96
URL_CHARS_MAX: Final = 400
# Each of the 384 characters before the @ takes at most six bytes in JSON.
URL_BYTES_MAX: Final = 6 * URL_CHARS_MAX

GENERIC: Final = frozenset(
    ("api-key", "authorization", "cookie", "password", "secret", "token", "url", "webhook")
)
"""Rules that only know the position of a secret: the family of a token is more specific."""


def always(_encoded: bytes, _end: int) -> bool:
    """Accept every keyword."""
    return True


class Rule(NamedTuple):
    """One way to find a secret, and the exact keywords for it."""

    name: str
    keywords: tuple[str, ...]
    locate: Locate
    is_generic: bool = False
    is_called: Called = always
    """Returns whether the keyword ending here in canonical JSON could lead to a secret."""
    veto: Veto = NO_VETO
    """How the text after the keyword may begin, if that rules out a secret."""
    rejoin: Rejoin | None = None
    """Finds a secret that is broken within its keyword."""
    looks_around: bool = False
    """Whether the keyword may name a secret in another cell or on the next line."""


_PRIVATE: Final = (
    rf"[A-Z0-9 \t\r\n]{{0,48}}{loosely('PRIVATE KEY')}(?:{loosely(' BLOCK')})?{loosely('-----')}"
)
_PRIVATE_KEY: Final = lazy_pattern("-" + loosely("----BEGIN ") + _PRIVATE)
_PRIVATE_KEY_END: Final = lazy_pattern("-" + loosely("----END ") + _PRIVATE)
_PRIVATE_KEY_HEAD: Final = lazy_pattern("-" + loosely("----BEGIN ") + r"[A-Z0-9 \t\r\n]{0,48}\Z")
_BASE64_LINES: Final = lazy_pattern(
    r"""(?:
      (?:[\s"']|\\[nr]|(?:Proc-Type|DEK-Info|Version|Comment):[^\n\\]{0,80}){0,256}+
      [A-Za-z0-9+/=]{16,4096}+
    ){1,512}+
    (?:(?:[\s"']|\\[nr]){0,256}+[A-Za-z0-9+/=]{1,15}+(?=[\s"'\\]|\Z))?
    | (?:\s|\\[nr]){0,256}+[A-Za-z0-9+/=]{0,15}+\Z""",
    re.VERBOSE,
)
_AT_START: Final = lazy_pattern(START)
_AT_START_IN_JSON: Final = lazy_pattern(START_IN_JSON)
_BREAKS: Final = ("\n", "\r", "\\")
_DIGIT: Final = lazy_pattern(r"[0-9]")
_BASE64_RUN: Final = lazy_pattern(r"[A-Za-z0-9+/=]{16}")
_PUTTY_KEY: Final = lazy_pattern(
    r":[ ]?[0-9]{1,3}((?:(?:\r?\n|\\n)[A-Za-z0-9+/=]{16,128}+){1,128}+)"
)
_RUN: Final = lazy_pattern(
    rf"(?<![\w/+.%-]){NOT_AFTER_MASK}[A-Za-z0-9_-]{{{RUN_CHARS_MIN},120}}(?![\w/+.=%-]){NOT_BEFORE_MASK}"
)
_LONG_RUN: Final = lazy_pattern(rf"[A-Za-z0-9_-]{{{RUN_CHARS_MIN}}}")
# Ids of messages and calls appear next to token counts.
_ID: Final = lazy_pattern(r"[a-z]{2,12}[_-]|[0-9a-f]{8}-")
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_ALPHANUMERIC: Final = f"{_LETTERS}{_LETTERS.upper()}0123456789"
_RUNS: Final = bytes(byte if chr(byte) in f"{_ALPHANUMERIC}_-" else ord(" ") for byte in range(256))
"""Leaves only the bytes that a run near a name consists of."""
_NAME_BYTES: Final = f"{_ALPHANUMERIC}_-.".encode()
# As the pattern of the same name for text, where an escape in JSON is one character.
_TANGLED_AFTER: Final = lazy_pattern(
    rb"(?:[\s\"'`\]\\:=>(|+]|\\[nrt]){0,96}[A-Za-z0-9_+=-]{20}"
    rb"|(?:\\u[0-9A-Fa-f]{4}|\\[^u]|[\xc0-\xff][\x80-\xbf]{1,3}|[^\\]){0,16}?(?i:value)"
)
_SPOKEN: Final = tuple(f"{word} ".encode() for word in SPOKEN_HEADS)
_STRING_END: Final = lazy_pattern(
    rb"[^\"\\]{0,300}+(?:\\.[^\"\\]{0,300}+){0,150}+\"(:)?", re.DOTALL
)
_NO_TEXT: Final = lazy_pattern(
    rb" ?(?:null|true|false|-?[0-9][0-9.eE+-]{0,30}|\"[^\"\\ ]{0,19}\")[,}\]]"
)
"""Values that no name makes a key: a key is a string of 20 characters or more."""
_NAMING_FIELDS: Final = tuple(
    f'"{name}":{blank}'.encode()
    for name in ("name", "key", "Name", "Key", "ParameterKey", "OptionName", "selector", "element")
    for blank in ("", " ")
)
_NAME_TAIL: Final = lazy_pattern(
    rb"[A-Za-z0-9_-]{0,48}+(?:[^A-Za-z\"\\]|\\u[0-9A-Fa-f]{4}|\\[^u]|(?i:"
    + "|".join(sorted(SUFFIXES, reverse=True)).encode()
    + rb")){0,96}+\"(:(?![ ]?(?:null|true|false)[,}\]]))?"
)
"""The end of a string whose last word is a name, whatever signs and suffixes are after it."""
_REST: Final = lazy_pattern(
    rb"""([A-Za-z0-9_-]{0,32}+)(
    [.+/!@#$&^~{}]
    | \)(?!\.(?:type|fill|send))
    | \((?![bBrRuU]?[\\\"'`])
    | ,(?![\s\x1c-\x1f]{0,16}+(?:[bBfFrRuULN@]{0,2}[\\\"'`\x80-\xff]|[vVtTw]))
    | \[(?![0-9\]]) | \|(?!\|=) | \?(?!\??=) | \*(?!\*:) | %(?!3[Dd]) | <(?!/key|-)
    | :(?:/|:(?![ ]?[A-Za-z0-9_+/=-]{16}))
    # Braces hold a value only if that looks like a password, or is one of an object.
    | :[ ]{1,4}\{(?!
      (?:[\s\"'\x80-\xff]|\\.){0,24}(?i:value|text) | [^\s{}]{0,380}[0-9][^\s{}]{0,380}\})
    | \":[ ]?(?:null|true|false)[,}\]]
    # A longer word than a name has.
    | (?!(?i:value|text)|string|As[ ]|->)[A-Za-z0-9_-])?""",
    re.VERBOSE,
)
"""The rest of a name, and what follows it where no notation of ``find_named`` has a value."""
_ELSEWHERE: Final = lazy_pattern(
    rb"[A-Za-z0-9_-]{0,32}+(?:[.](?:txt|key|pass|asc|gpg|age))?"
    rb"[*\\\"'`)\]}>]{0,6} {0,32}:?[ *]{0,3}"
    rb"(?:(?:</t[hd]>|[,|;])"
    rb"(?:[\w .#/,;|<>*\"'`:-]|\\[\"t]|[\x80-\xff]){0,400}+(?:\\[nr]|[\r\n])"
    rb"|</|[.]{2}|[?](?:\\[nr]|[\r\n]|[ ][^\s0-9]{0,64}[0-9])|(?<=[*`])[ ]{0,9}[|]|\\[nr]|[\r\n])"
)
"""The end of a cell or a line, whose value may be in another."""
_TOLD_AFTER: Final = lazy_pattern(
    rb"(?:[,;:]?[ ][A-Za-z'\x80-\xff]{1,32}){0,6}[,:]?[ ](?:[\\\"'`(]|\xe2\x80\x9c){0,3}"
    rb"[^\s\"'`<>\\0-9]{0,64}[0-9]"
)
_DIGITS: Final = b"0123456789"
_TOLD_BEFORE: Final = lazy_pattern(
    rb"[0-9][^\s\"'`<>]{0,64}(?:[\"'`)]|\xe2\x80\x9d)?(?:[ ][A-Za-z'<=\x80-\xff-]{1,32}){1,6}[ ]\Z"
)
"""A word with a digit among the next or the last words of a sentence."""
_WORD_AFTER: Final = lazy_pattern(
    rb":[ ]{1,4}[a-z]{1,24}(?![\w., |<>\[\]]{0,100}=)(?=[\s\"'`,;|<>(){}\[\]]|\\[^u])"
)
"""A type or a variable after a colon; a type may be followed by a value."""
_PLAIN_WORD: Final = lazy_pattern(rb" ([a-z]{2,24})(?=[ ,\"])")
_WITHIN_WORD: Final = lazy_pattern(
    rb"(?<=[a-z])(?<!\\.)(?<!\\u....)(?<![Bb]ind)(?<![Pp]ass)(?<![Rr]oot)", re.DOTALL
)
"""A place inside a word. Two words make one name with a short one after them: ``bindpw``."""
_SETTERS: Final = frozenset((b"set", b"add", b"put", b"setx", b"setenv"))
_FIELDS: Final = frozenset((b"field", b"input", b"box"))
_LINKS: Final = frozenset(map(str.encode, LINKS))
# In JSON a backslash is escaped with another, in text it is one character of a secret.
_BODY: Final = lazy_pattern(rb"[^\s\"'\\]{8}|[^\s\"'\\]{0,7}(?:[\r\n]|\\(?![\"']))")
_MAILCHIMP: Final = lazy_pattern(rf"{START}[a-f0-9]{{32}}-us[0-9]{{1,2}}{STOP}")
_NEW_RELIC: Final = lazy_pattern(rf"{START}[a-f0-9]{{36}}NRAL{STOP}")
_LABELLED: Final = lazy_pattern(
    rf"{START}(?!pk_)[A-Za-z][A-Za-z0-9]{{0,23}}_(?:live|prod|pat|sk)_"
    r"((?=[A-Za-z0-9-]{0,64}[0-9])[A-Za-z0-9-]{20,256})"
)
_TERRAFORM: Final = lazy_pattern(rf"{START}[A-Za-z0-9]{{14}}\.atlasv1\.[A-Za-z0-9_-]{{60,80}}")
_URL: Final = lazy_pattern(
    r"://(?:([^\s:@/?#\"'<>\\]{0,128}):([^\s@\"'<>/\\]{1,256})|([A-Za-z0-9_-]{20,256}))@(?=[\w\[$%{.-])"
)
# Hosts in documentation examples; a real account called "user" is on other hosts.
_URL_EXAMPLE: Final = lazy_pattern(
    r"://(?i:user|username):(?i:pass|password|passwd)@"
    r"(?i:localhost|127\.0\.0\.1|\[::1\]|host|hostname|(?:[\w-]{1,32}\.){0,3}example(?:\.(?:com|org|net))?)"
    r"(?![\w.-])"
)
_KEY_PAIR: Final = lazy_pattern(
    r"(?:A[KS]IA[A-Z0-9]{16}|GOOG1[A-Z0-9]{19,60}|LTAI[A-Za-z0-9]{12,26}|AKID[A-Za-z0-9]{13,36})"
    r"[\"']?(?:[ ]{0,8}[,;:|\t/]|[ \r\n])[\s\"']{0,16}([A-Za-z0-9/+]{30,40})(?![\w/+=])"
)
_AIRTABLE: Final = lazy_pattern(
    rf"{START}pat[A-Za-z0-9]{{{AIRTABLE_ID_CHARS}}}\.[a-f0-9]{{64}}{STOP}"
)
_HEADER: Final = lazy_pattern(
    r"""(?:\\{0,7}["'`])?\]?[ ]{0,4}[:=,][ ]{0,4}
    (?:\\{0,7}["'`]value\\{0,7}["'`][ ]?:[ ]?)?(?:\\{0,7}["'`])?
    (?:(?P<scheme>(?i:bearer|basic|token|apikey|api-key|bot|key|negotiate)
      (?:[ ]{1,4}|%20|[ ]?\r?\n[ \t]{0,16}))
    | (?i:digest)[ ][^\n]{0,400}?response=\\{0,7}["']?
    | [\w-]{1,32}[ ][^\n]{0,400}?(?i:signature)=\\{0,7}["']?
    | [A-Za-z][\w-]{1,24}[ ]{1,4}(?=[A-Za-z0-9]))?
    (?P<value>[A-Za-z0-9+/_.~=:-]{8,4096}+)(?!\()""",
    re.VERBOSE,
)
_BEARER: Final = lazy_pattern(r",?[ ]{1,4}([A-Za-z0-9+/_.~=-]{16,4096})")
_TELEGRAM: Final = lazy_pattern(
    rf"{NOT_AFTER_MASK}(?<![0-9])[0-9]{{8,10}}:AA[A-Za-z0-9_-]{{33}}{STOP}"
)
_DISCORD: Final = lazy_pattern(
    NOT_AFTER_MASK
    + r"(?<![A-Za-z0-9_-])[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}"
)
_DISCORD_HOOK: Final = lazy_pattern(
    r"[a-z]{0,3}\.?com/api/webhooks/[0-9]{16,20}/([A-Za-z0-9_-]{32,128})"
)
_AZURE: Final = lazy_pattern(r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}")


def _is_any(_body: str) -> bool:
    return True


def _has_digit(body: str) -> bool:
    return _DIGIT.search(body) is not None


def _family(name: str, keywords: str, body: str) -> Rule:
    words = keywords.removeprefix("^ ").split()
    start = START if keywords.startswith("^ ") else ""
    prefix = "|".join(re.escape(word) for word in words)
    pattern = lazy_pattern(f"{start}(?:{prefix}){body}")
    usual = USUAL.get(words[0])
    whole = lazy_pattern(rf"({prefix})(?:{usual or body})(?![A-Za-z0-9_-])")
    is_drawn = _is_any if usual else _has_digit if STOP in body else is_tangled

    def whole_end(joined: str) -> int | None:
        """Return where the token at the start of ``joined`` ends, if it is complete."""
        match = whole.match(joined)
        if match is None:
            return None
        body_found = match[0][match.end(1) :]
        return match.end() if is_drawn(body_found) and not is_dummy(body_found) else None

    def rejoin(text: str, start: int, joined: str, at: int) -> Span | None:
        """Find a token that a terminal broke into lines."""
        if _AT_START.match(text, start) is None:
            return None
        end = rejoined(text, joined, at, whole_end, several=usual is not None)
        return None if end is None else (name, start, end)

    def locate(text: str, start: int, end: int) -> Span | None:
        match = pattern.match(text, start)
        stop = run_end(text, end)
        # If a family's tokens vary in length, nothing shows that one is incomplete.
        if text[stop : stop + 1] in _BREAKS and (usual is not None or match is None):
            wrapped = rejoin(text, start, text[start:stop], stop)
            if wrapped is not None and wrapped[2] > stop:
                return wrapped
        if match is None or is_dummy(text[end : match.end()]):
            return None
        return name, *match.span(match.lastindex or 0)

    is_called = _word_with_body(words) if start else _has_body
    return Rule(name, tuple(words), locate, is_called=is_called, rejoin=rejoin)


def _key_pair(text: str, start: int, _end: int) -> Span | None:
    """Find the secret next to its id, as in the file that a cloud provider offers to download."""
    match = _KEY_PAIR.match(text, start)
    return ("aws", *match.span(1)) if match and is_tangled(match[1].replace("/", "")) else None


def _private_key(text: str, start: int, _end: int) -> Span | None:
    header = _PRIVATE_KEY.match(text, start)
    if header is None:
        return None
    footer = _PRIVATE_KEY_END.search(text, header.end(), header.end() + KEY_BLOCK_CHARS_MAX)
    if footer is not None:
        body = text[header.end() : footer.start()]
        empty = is_dummy(body) or not _BASE64_RUN.search(body)
        return None if empty else ("private-key", start, footer.end())
    lines = _BASE64_LINES.match(text, header.end())
    return None if lines is None else ("private-key", start, lines.end())


def _private_key_head(text: str, start: int, _end: int) -> Span | None:
    """Find a private key whose first words are broken."""
    head = _PRIVATE_KEY_HEAD.search(text, max(0, start - NEAR_CHARS_MAX), start)
    return None if head is None else _private_key(text, head.start(), head.end())


def _url(text: str, start: int, end: int) -> Span | None:
    if text.find("@", end, end + URL_CHARS_MAX) == -1:
        return None
    match = _URL.match(text, start)
    if match is None:
        return None
    if match[3] is not None:
        return ("url", *match.span(3)) if is_random(match[3]) else None
    if match[2] == "x-oauth-basic":
        return ("url", *match.span(1)) if is_random(match[1]) else None
    if match[2].startswith(("$", "{", "%", "<", "[")) or is_dummy(match[2]):
        return None
    if _URL_EXAMPLE.match(text, start):
        return None
    return "url", *match.span(2)


def _authorization(text: str, _start: int, end: int) -> Span | None:
    match = _HEADER.match(text, end)
    if match is None or not is_opaque(match["value"]) or is_dummy(match["value"]):
        return None
    value = match["value"]
    proved = len(value) >= 16 or not (value.islower() and value.isalpha())
    if not (proved if match["scheme"] else is_random(value)):
        return None
    return "authorization", *match.span("value")


def _bearer(text: str, _start: int, end: int) -> Span | None:
    match = _BEARER.match(text, end)
    if match is None:
        return None
    value = match[1]
    proved = is_random(value) or (len(value) >= 24 and value.isalnum() and not is_dummy(value))
    return ("authorization", *match.span(1)) if proved else None


def _putty_key(text: str, _start: int, end: int) -> Span | None:
    match = _PUTTY_KEY.match(text, end)
    return None if match is None else ("private-key", *match.span(1))


def _mailchimp(text: str, start: int, _end: int) -> Span | None:
    match = _MAILCHIMP.match(text, max(0, start - 32))
    return None if match is None else ("mailchimp", *match.span())


def _new_relic(text: str, start: int, _end: int) -> Span | None:
    match = _NEW_RELIC.match(text, max(0, start - 36))
    return None if match is None else ("newrelic", *match.span())


def _labelled(text: str, start: int, _end: int) -> Span | None:
    """Find a token of a newer family, whose prefix says what it is: ``acme_live_…``."""
    match = _LABELLED.match(text, start - _word_before(text, start))
    return ("token", *match.span()) if match and not is_dummy(match[1]) else None


def _word_before(text: str, start: int) -> int:
    before = text[max(0, start - LABEL_CHARS_MAX) : start]
    return len(before) - len(before.rstrip(_ALPHANUMERIC))


def _terraform(text: str, start: int, _end: int) -> Span | None:
    match = _TERRAFORM.match(text, max(0, start - 14))
    return None if match is None else ("terraform", *match.span())


def _telegram(text: str, start: int, _end: int) -> Span | None:
    for digits in (10, 9, 8):
        match = _TELEGRAM.match(text, max(0, start - digits))
        if match is not None:
            return "telegram", *match.span()
    return None


def _discord(text: str, start: int, end: int) -> Span | None:
    hook = _DISCORD_HOOK.match(text, end)
    if hook is not None:
        return "discord", *hook.span(1)
    token = _DISCORD.search(text, max(0, start - NEAR_CHARS_MAX), end + NEAR_CHARS_MAX)
    return None if token is None else ("discord", *token.span())


def _azure(text: str, start: int, _end: int) -> Span | None:
    match = _AZURE.match(text, max(0, start - 4))
    return None if match is None else ("azure", *match.span())


def _airtable(text: str, start: int, _end: int) -> Span | None:
    match = _AIRTABLE.match(text, start)
    return None if match is None else ("airtable", *match.span())


def _nothing(_text: str, _start: int, _end: int) -> Span | None:
    """Find nothing in text: the name of a field is looked at with its value."""
    return None


def _short(text: str, start: int, end: int) -> Span | None:
    """Find the value of a ``pw``, whose keyword includes the character after it."""
    return find_named(text, start, end - 1)


def _named_or_near(text: str, start: int, end: int) -> Span | None:
    """Find the secret assigned to a name, or else one on the same line."""
    return find_named(text, start, end) or _near(text, start, end)


def _near(text: str, start: int, end: int) -> Span | None:
    """Find a token on the line of its name: after the name, or else before."""
    # Enough of the run is as near as this, whatever its length.
    line_start, line_end = _line_around(text, start, end, NEAR_LINE_CHARS_MAX + RUN_CHARS_MIN)
    if (
        not _has_long_word(text, line_start, line_end)
        or _LONG_RUN.search(text, line_start, line_end) is None
    ):
        return None
    line_start, line_end = _line_around(text, start, end, NEAR_CHARS_MAX)
    before = None
    for run in _RUN.finditer(text, line_start, line_end):
        beside = (
            run.start() <= end + NEAR_LINE_CHARS_MAX and run.end() >= start - NEAR_LINE_CHARS_MAX
        )
        if beside and is_tangled(run[0]) and not _ID.match(run[0]):
            if run.start() >= end:
                return "token", *run.span()
            before = before or ("token", *run.span())
    return before


def _line_around(text: str, start: int, end: int, reach: int) -> tuple[int, int]:
    first = start - reach if start > reach else 0
    line_start = text.rfind("\n", first, start) + 1
    line_end = text.find("\n", end, end + reach)
    return line_start or first, line_end if line_end != -1 else end + reach


def _has_long_word(text: str, start: int, end: int) -> bool:
    """Return whether something as long as a token may be there: nearly all lines have short words.

    The last blank of as many characters shows that no long word is before it.
    """
    while end - start >= RUN_CHARS_MIN:
        blank = text.rfind(" ", start, start + RUN_CHARS_MIN)
        if blank == -1:
            return True
        start = blank + 1
    return False


def _any_case(*words: str) -> tuple[str, ...]:
    return tuple(form for word in words for form in (word, word.upper(), word.capitalize()))


def _has_at_sign(encoded: bytes, end: int) -> bool:
    return encoded.find(b"@", end, end + URL_BYTES_MAX) != -1


def _is_name(encoded: bytes, end: int) -> bool:
    """Return whether the last word of ``encoded[:end]`` could name a secret, and one may follow.

    Most alarms are raised by ``passed``, ``keyboard`` or ``primary_key``.
    """
    rest = _REST.match(encoded, end)
    if rest is None or rest.lastindex == NO_VALUE_GROUP:
        return (
            _ends_field_name(encoded, end)
            or _ELSEWHERE.match(encoded, end) is not None
            or (rest is not None and _TOLD_AFTER.match(encoded, rest.end(1)) is not None)
        )
    before = encoded[max(0, end - WORD_BYTES_MAX) : end]
    head = before[len(before.rstrip(_NAME_BYTES)) :]
    word = head + rest[0]
    at = end - len(head)
    doubt = doubt_of(word.decode(), encoded[at - 1 : at] == b"\\")
    if doubt == "no-name":
        return False
    after = at + len(word)
    if doubt == "wordless" and _WORD_AFTER.match(encoded, after) is not None:
        return _ends_field_name(encoded, after)
    if doubt != "tangled":
        return not _is_in_sentence(encoded, at, after) or _is_told(encoded, at, after)
    # Such a name needs a long value next to it, unless it is part of a longer name: "API key", or
    # the last words of a string, which may name a field.
    return (
        _TANGLED_AFTER.match(encoded, after) is not None
        or before[: len(before) - len(head)].lower().endswith(_SPOKEN)
        or _may_name_field(encoded, at, after)
    )


def _is_told(encoded: bytes, start: int, end: int) -> bool:
    """Return whether a sentence with a name has a word with a digit near it."""
    if _TOLD_AFTER.match(encoded, end) is not None:
        return True
    # Most sentences have no digit, and finding that takes a tenth of the time.
    before = encoded[max(0, start - TOLD_BYTES_MAX) : start].rpartition(b'":')[2]
    if before.translate(None, _DIGITS) == before:
        return False
    return _TOLD_BEFORE.search(before) is not None


def _may_name_field(encoded: bytes, start: int, end: int) -> bool:
    """Return whether the string around ``encoded[start:end]`` may name a value in JSON.

    A key names its value, the value of ``name`` or ``selector`` one beside it, and a flag the next.
    """
    tail = _STRING_END.match(encoded, end, end + NAME_BYTES_MAX)
    if tail is None:
        return False
    if tail[1] is not None:
        # With a word before it, a name may promise a short key: "shared key".
        is_whole = encoded[start - 1 : start] == b'"' and encoded[start - 2 : start - 1] != b"\\"
        return not is_whole or _NO_TEXT.match(encoded, tail.end()) is None
    return _is_naming(encoded, start)


def _ends_field_name(encoded: bytes, end: int) -> bool:
    """Return whether the word that ends here is the last of a string that may name a value.

    In JSON a name may have anything after it that text has not: ``{"password*": …}``.
    """
    tail = _NAME_TAIL.match(encoded, end)
    return tail is not None and (tail[1] is not None or _is_naming(encoded, end))


def _is_naming(encoded: bytes, at: int) -> bool:
    """Return whether the string around ``at`` names a value beside it, or is a flag."""
    quote = encoded.rfind(b'"', 0, at)
    return (
        encoded[quote - 1 : quote] == b"\\"
        or encoded[quote + 1 : quote + 2] == b"-"
        or encoded.endswith(_NAMING_FIELDS, 0, max(quote, 0))
    )


def _is_near(encoded: bytes, end: int) -> bool:
    """Return whether ``_is_name`` holds, or something as long as a token is near."""
    if _is_name(encoded, end):
        return True
    # A character takes at most two bytes in most JSON, and six in any. The run itself is ASCII.
    near = _around(encoded, end, 6)
    if near.isascii() and b"\\u" not in near:
        near = _around(encoded, end, 2)
    runs = near.translate(_RUNS).split()
    # Nearly all texts have short words only.
    if max(map(len, runs), default=0) < RUN_CHARS_MIN:
        return False
    return any(len(run) >= RUN_CHARS_MIN and not run.islower() for run in runs)


def _around(encoded: bytes, end: int, bytes_max: int) -> bytes:
    """Return the lines around a keyword; a character takes at most ``bytes_max``."""
    reach = bytes_max * NEAR_LINE_CHARS_MAX + RUN_CHARS_MIN
    return encoded[max(0, end - KEYWORD_CHARS_MAX - reach) : end + reach]


def _is_short(word: str) -> Called:
    """Return ``_is_name`` for a word that is found with the character after it."""

    def is_called(encoded: bytes, end: int) -> bool:
        # Most often it only ends another word.
        if _WITHIN_WORD.match(encoded, end - 1 - len(word)) is not None:
            return False
        return _is_name(encoded, end - 1)

    return is_called if word.islower() else lambda encoded, end: _is_name(encoded, end - 1)


def _is_in_sentence(encoded: bytes, start: int, end: int) -> bool:
    """Return whether the name ``encoded[start:end]`` is between two plain words, or begins a text.

    A value in a sentence must look like a password, unless a command sets it or a word links it.
    """
    after = _PLAIN_WORD.match(encoded, end)
    if after is None or after[1] in _LINKS or after[1] in _FIELDS:
        return False
    name = encoded[start:end].rpartition(b".")[2]
    if name.startswith(b"-") or name == b"requirepass":
        return False
    before = encoded[max(0, start - SENTENCE_BYTES_MAX) : start]
    if before.endswith(b'"'):
        return True
    words, _, rest = before.rpartition(b" ")
    if rest:
        return False
    _, escape, word = words.rpartition(b" ")[2].rpartition(b"\\")
    word = (word[1:] if escape else word).rpartition(b'"')[2]
    return word.isalpha() and word.islower() and word not in _SETTERS and b"login" not in before


def _has_body(encoded: bytes, end: int) -> bool:
    """Return whether a token's prefix is followed by something as long as a token."""
    return _BODY.match(encoded, end) is not None


def _has_airtable_id(encoded: bytes, end: int) -> bool:
    """Return whether 14 letters or digits and a dot follow ``pat``."""
    id_start = encoded.rfind(b"pat", max(0, end - 5), end) + 3
    id_end = id_start + AIRTABLE_ID_CHARS
    return encoded[id_end : id_end + 1] == b"." and encoded[id_start:id_end].isalnum()


def _word_with_body(prefixes: Sequence[str]) -> Called:
    """Return the same for prefixes that count only at the start of a word: ``are_`` is not re_."""
    encoded_prefixes = [prefix.encode() for prefix in prefixes]

    def is_called(encoded: bytes, end: int) -> bool:
        if _BODY.match(encoded, end) is None:
            return False
        return any(
            encoded.endswith(prefix, 0, end)
            and _AT_START_IN_JSON.match(encoded, end - len(prefix)) is not None
            for prefix in encoded_prefixes
        )

    return is_called


ONE_TIME_PATHS: Final = (
    *("reset-password/", "password-reset/", "password/reset/", "/reset/", "/verify/", "/activate/"),
    *("/magic/", "/magic-link/", "/invite/", "/confirm/", "/unsubscribe/", "/verify-email/"),
)

# Most often "_PAT" begins "_PATH".
_SHORT: Final = (*_any_case("pw", "psk", "auth"), "seed", "mnemonic", "phrase", "_PAT")
_SPACED: Final = ("pw", "PW", "psk", "PSK", "_PAT")
AUTHORIZATION: Final = _any_case("authorization")
_LAST_WORDS: Final = _any_case("bindpw", "psk", "auth", "seed", "mnemonic", "phrase")
# Nearly every event of an agent has a path.
_AIRTABLE_STARTS: Final = (
    *(f"pat{character}" for character in _ALPHANUMERIC if character != "h"),
    *(f"path{character}" for character in _ALPHANUMERIC),
)


def _signs_after(word: str) -> str:
    """Return the characters that may end a short name, in a cell of a table too."""
    if word in ("pw", "PW"):
        return "=:\"' \\\n\t,|<_"
    return "=:\"' \\" if word in _SPACED else "=:\"'\\"


SECRET_RULES: Final = (
    # Before the family of its id, which would hide where it begins.
    Rule("aws", ("AKIA", "ASIA", "GOOG1", "LTAI", "AKID"), _key_pair),
    *(_family(*family) for family in FAMILIES),
    Rule("private-key", ("-----BEGIN",), _private_key),
    Rule("private-key", ("PRIVATE KEY",), _private_key_head),
    Rule("private-key", ("Private-Lines",), _putty_key),
    Rule("mailchimp", ("-us1", "-us2", "-us3", "-us4", "-us5", "-us6"), _mailchimp),
    Rule("newrelic", ("NRAL",), _new_relic),
    Rule("token", ("_live_", "_prod_", "_pat_", "_sk_"), _labelled),
    Rule("terraform", (".atlasv1.",), _terraform),
    Rule("telegram", (":AA",), _telegram),
    Rule("airtable", _AIRTABLE_STARTS, _airtable, is_called=_has_airtable_id),
    Rule("discord", _any_case("discord"), _discord),
    Rule("azure", ("Q~",), _azure),
    Rule("url", ("://",), _url, is_generic=True, is_called=_has_at_sign),
    *(
        Rule(
            "phrase",
            tuple(phrase.keywords.split("|")),
            phrases.find_phrase(phrase),
            is_generic=True,
        )
        for phrase in phrases.PHRASES
    ),
    Rule("inserted", ("VALUES", "values ("), phrases.find_inserted, is_generic=True),
    Rule("echoed", ("echo", "printf"), phrases.find_echoed, is_generic=True),
    Rule("here-string", ("<<<",), phrases.find_here_string, is_generic=True),
    Rule("expected", ("expect ",), phrases.find_expected, is_generic=True),
    Rule("pgpass", (":5432:", ":5433:", ":6432:", ":*:"), phrases.find_pgpass, is_generic=True),
    Rule("manifest", ("kind: Secret", 'kind":"Secret"', 'kind": "Secret"'), phrases.find_manifest),
    *(
        Rule(name, tuple(keywords.split("|")), locate, is_generic=True, looks_around=name == "told")
        for name, keywords, locate in SPOKEN
    ),
    Rule("webhook", ("webhook",), phrases.find_webhook, is_generic=True),
    Rule("signature", ("ignature=", "?sig=", "&sig="), phrases.find_signature, is_generic=True),
    Rule("code", ("code=",), phrases.find_code, is_generic=True),
    Rule("cookie", (*_any_case("cookie"), "curl -b"), phrases.find_cookie, is_generic=True),
    Rule("cookie", ('"domain"',), phrases.find_cookie_record, is_generic=True),
    Rule(
        "decoded",
        ("base64 -d", "base64 --decode", "base64 -D"),
        phrases.find_decoded,
        is_generic=True,
    ),
    Rule("dsn", ("@tcp(", "@unix("), phrases.find_dsn, is_generic=True),
    Rule(
        "mailbox",
        (".com:", ".org:", ".net:", ".io:", ".de:"),
        phrases.find_mailbox,
        is_generic=True,
    ),
    Rule("path", ONE_TIME_PATHS, phrases.find_path_token, is_generic=True),
    Rule("cookie", ("TRUE", "FALSE"), phrases.find_stored_cookie, is_called=phrases.is_before_tab),
    Rule("authorization", AUTHORIZATION, _authorization, is_generic=True),
    Rule("bearer", _any_case("bearer"), _bearer, is_generic=True),
    # Tests are passed in nearly every event of an agent, too.
    Rule(
        "named",
        _any_case("pass"),
        find_named,
        is_generic=True,
        is_called=_is_name,
        looks_around=True,
        veto=("ed", "es", "ing", "ED", "ES", "ING"),
    ),
    Rule(
        "named",
        _any_case("pwd", "key", "masterauth"),
        find_named,
        is_generic=True,
        is_called=_is_name,
        looks_around=True,
    ),
    Rule("named", ("API key", "API Key", "api key"), _near, is_generic=True, is_called=_is_near),
    Rule(
        "named",
        _any_case("secret", "cred"),
        _named_or_near,
        is_generic=True,
        is_called=_is_near,
        looks_around=True,
    ),
    Rule(
        "named",
        ("_auth", "SESSION", "SALT", "PEPPER"),
        find_named,
        is_generic=True,
        is_called=_is_name,
        looks_around=True,
    ),
    *(
        Rule(
            "named",
            tuple(word + sign for sign in _signs_after(word)),
            _short,
            is_generic=True,
            is_called=_is_short(word),
            looks_around=word.lower() == "pw",
        )
        for word in _SHORT
    ),
    # In text a short name needs a sign after it; in JSON all of a string may be a name.
    Rule(
        "named", (*_LAST_WORDS, "tokenS", "TokenS", "TOKENSt"), _nothing, is_called=_ends_field_name
    ),
    # The plural counts those of a model.
    Rule(
        "named",
        _any_case("token"),
        _named_or_near,
        is_generic=True,
        is_called=_is_near,
        looks_around=True,
        veto=("s", "S"),
    ),
)
