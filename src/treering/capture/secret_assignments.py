"""Secrets next to their name, in every notation.

``"api_key": "…"``, ``DB_PASSWORD=…``, ``password: …``, ``--token …``, ``<password>…</password>``,
``os.environ["API_KEY"] = "…"``, ``my password is …``. The notation determines where the value ends,
and how certain it is that it is a value and not code or prose.

Text that contains a mask proves nothing here: the masked part may have been code, and masking a
text must not reveal more secrets in it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from treering.capture.secret_names import (
    NAMES_CACHED_MAX,
    PIN_DIGITS_MIN,
    SUFFIXES,
    VALUE_CHARS_MAX,
    Named,
    holds_secret,
    named,
)
from treering.capture.secret_values import (
    has_digit,
    is_code,
    is_joined_phrase,
    is_jumbled,
    is_mixed,
    is_random,
    is_scrambled,
    is_strong,
    is_word,
    without_stop,
    word_set,
)
from treering.lazy import lazy_pattern

Doubt: TypeAlias = Literal["no-name", "tangled", "wordless"]
"""Why a word is not the name of a secret, or which values it needs: a long one, or not a word."""
Span: TypeAlias = tuple[str, int, int]
"""The rule that found a secret, and the offsets of the secret itself."""

NAME_CHARS_MAX: Final = 48
WORD_CHARS_MAX: Final = 40
BARE_CHARS_MAX: Final = 1_024
NUMBER_DIGITS_MIN: Final = 6
SPOKEN_CHARS_MIN: Final = 20
STATED_CHARS_MIN: Final = 8
ARGUMENT_END_CHARS_MAX: Final = 4
"""A quote, up to two backslashes before it, and a comma."""

NAME_CHARS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
_SEPARATOR: Final = lazy_pattern(
    r"""(?P<rest>[A-Za-z0-9_-]{0,32}+)
    (?:[ ](?:field|input|box)(?=\\{0,7}["']))?
    (?P<close>(?:\]?\\{0,7}["'`]){1,2})?
    (?:
      (?P<pair>(?=[\s,:\\"'vVtT])(?:\s{0,16},?|\s{0,4}:\s{0,4}\{)\s{0,16}
        (?:\\{0,7}["']\w{1,24}\\{0,7}["']\s{0,2}:\s{0,2}\\{0,7}["']?[\w.-]{0,40}\\{0,7}["']?,\s{0,16}){0,3}
        \\{0,7}["']?(?:Parameter|Option|Setting)?(?i:value|text|content=)
        \\{0,7}["']?[ ]{0,4}(?:[:=]|(?<==))[ ]{0,4}
      | [ ]\{\s{0,8}(?:(?:type|description|sensitive)[^\n]{0,80}\n\s{0,8}){0,3}
        default[ ]{0,16}=[ ]{0,4}
      | (?:[ ]--type[ ]\w{1,24})?[ ]--(?:value|body|secret-string)[ =])
    | (?P<typed>\)\.(?:type|fill|sendKeys|send_keys)\()
    | (?P<sign>(?:\[[0-9]{0,4}\]|\])?[ \t]{0,40}
        (?::[ ]?(?:str|string|String|SecretStr)[ ]?=(?!=)
        | :[ ]?(?:&(?:'static[ ])?)?[A-Za-z][\w.]{0,30}(?:[<\[][\w., |]{1,30}[>\]])?
          (?:[ ]?\|[ ]?\w{1,20})?[ ]?=(?=[ ]?[A-Za-z]?["'`])
        | (?:string|\[\]byte)[ ]?=(?!=)
        | ::[ ]?(?=[A-Za-z0-9_+/=-]{16})
        | As[ ]String[ ]?=
        | =>|->(?=[ ])|<-|%3[Dd]|\|\|=|\?{1,2}=|:=|={1,3}|(?:\*\*)?:(?![:/])(?:\*\*)?)
      [ \t]{0,16}(?:!(?:unsafe|!?str|!?binary)[ ]|\[\]byte\()?)
    | (?P<comma>,\s{0,16}(?:with:[ ]|(?:\w{1,16}=[^,\n]{1,40},\s{0,8}){0,4}default[ ]?=[ ]?)?
        |[\])]{0,2}[ ](?:\|\||\?\?|\?:|or)[ ]|\)[ ]?\{[ ]?
        |\)(?:\.(?:unwrap_or|orElse|getOrElse|or_else)|[ ]?\|[ ]?default)\(
        |\][\n](?=[\"']))
    | (?P<prose>(?:[ ](?:for|für|pour|para|per|del?|des|der|du|d[aio]|you|we|they|that)
          [ ][\w .@-]{1,40}?
          (?=:|[ ]=[ ]|[ ]\([^()\n]{1,80}\):
            |[ ](?:is|was|has|est?|ist|lautet|é|è|set|reset|changed|updated)\b)
        | [ ](?:(?:at|in|on|of|to|auf|im|am|à|en|no|na)[ ][\w .@-]{1,40}?
          | (?:is|was)[ ](?!now[ ]|(?:set|reset|changed|updated|rotated)[ ]to[ ]
              |[\w .@-]{1,40}?[ ]and[ ](?:the|my|our|your|its)[ ](?!new|right|correct)
                [\w-]{1,24}[ ](?:is|was|has)[ ])
            (?:[A-Z]?[a-z-]{1,20}|[A-Z]{2,20}|[0-9]{1,3})(?:[ ][\w .@-]{1,40}?)??)
          (?=:|[ ](?:is|was|has|est?|ist|lautet|é|è|set|reset|changed|updated)\b)
        | [ ]from[ ]\S{1,40}(?=[ ]to[ ]))?
        (?:[ ]\([^()\n]{1,80}\)(?=:))?
        (?:(?:[ ](?:is|was|got|has[ ]been|been|set|reset|changed|updated|rotated)){0,4}
          [ ](?:is|was|to|est?|ist|lautet|é|è|(?:should|must|will|would|can|could|to)[ ]be)
          (?:[ ](?:now|still|currently|just|simply|again|set[ ]to))?:?|:|[ ]=)(?:[ ]{1,2}|(?=\r?\n))
      | [ ](?:generated|created|issued|received|returned|value)(?:[ ]is)?:?[ ]{1,2}
      | [ ](?:\u2192|->|[\u2013\u2014-])[ ]|'s[ ]|[ ]\((?=[^\s()]{5,64}\))
      | [ ]{1,16}\|[ ]{1,16}(?!\w{1,24}[ ]?\}\}))
    | (?P<call>\((?=[bBrRuU]?\\{0,7}["'`]))
    | (?P<part>(?:;[^\n\\]{0,80})?(?:\r?\n|\\r\\n)(?:[Cc]ontent-[^\n\\]{0,80}(?:\r?\n|\\r\\n))?
        (?:\r?\n|\\r\\n))
    | (?P<tag>(?:</key|(?:[ ][\w:]{1,24}=\\?["'][^"'<>]{0,40}\\?["']){1,3})?
        [ ]?>(?:\s{0,16}<(?:value|string)>)?)
    | (?P<blank>[ \t]{1,4}(?:[0-9][ ])?)
    )""",
    re.VERBOSE,
)
# A value may be on the next line: after a sign, a bracket, a YAML block, a backslash.
_WRAP: Final = lazy_pattern(
    r"\[(?=[\"'])"
    r"|(?:[>|][+-]?|\\|[(\[])?[ \t]{0,8}(?:\r?\n|\\r\\n|\\n)(?:[ \t]{0,8}\r?\n)?[ \t+>|]{0,24}"
)
_WRAPS: Final = ("\n", "\r", "\\", ">", "|", "(", "[")
_SETTER: Final = lazy_pattern(r"(?:set|with|use|add|put)_?(?=[A-Z_a-z])")
_TANGLED_AFTER: Final = lazy_pattern(
    r"(?:[\"'`\]\\]{0,12}[ ]{0,8}(?:[:=]|=>|:=)|[(])?[ \t\r\n\\\"'`>|+(]{0,24}[A-Za-z0-9_+=-]{20}"
    r"|(?=[^\n]{0,16}(?i:value))"
)
# The references and expressions that most often follow a name instead of a value.
_REFERRED: Final = (
    r"\$[{(]|<|[\"']\{\{|[a-z]{2,16}://|arn:aws|vault:|(?:~|\.{1,2})?/[a-z_./-]{1,80}+(?!\S)"
)
# Shorter words with capitals may be a secret.
_ATTRIBUTE: Final = (
    r"(?:[a-z_]{1,24}(?:\.[a-z_]{1,24}){1,4}|[a-z]{1,24}\.[a-z]{1,24}[A-Z][a-z]{1,24}"
    r"|[a-z]{3,20}(?:\.[a-z]{3,20}(?:[A-Z][a-z]{2,12})?){1,3})(?:[\s\"'`\\;|<>,(){}\[\]]|\Z)"
)
_CALL: Final = r"[a-z_][A-Za-z0-9_.]{0,64}+\("
_REST: Final = lazy_pattern(
    rf"""([A-Za-z0-9_-]{{0,32}}+)(
    [.+/!@#$&^~{{}}]
    | \)(?!\.(?:type|fill|send))
    | \((?![bBrRuU]?[\\"'`])
    | ,(?!\s{{0,16}}+(?:[bBfFrRuULN@]{{0,2}}[\\"'`“„«]|[vVtTw]))
    | ;(?![^\n\\]{{0,80}}+(?:\r?\n|\\r\\n)(?:[\r\nCc]|\\r))
    | \r?\n(?![\r\nCc]|\s{{0,32}}+[,:\\"'vVtT])
    | [ \t]{{1,4}}[}})\];&]
    | \[(?![0-9\]]) | \|(?!\|=) | \?(?!\??=) | \*(?!\*:) | %(?!3[Dd]) | <(?!/key|-)
    | :(?:/|:(?![ ]?[A-Za-z0-9_+/=-]{{16}}))
    | =(?:[ ]{{0,4}}(?:{_REFERRED})|(?<=[a-z]=){_ATTRIBUTE})
    # A type may be followed by a value.
    | :[ ]{{0,4}}(?:{_REFERRED}|{_CALL}|(?=[A-Za-z_.]{{1,128}}+(?![ =<|\[])){_ATTRIBUTE})
    | [ \t]{{1,4}}={{1,3}}[ \t]{{0,4}}
      (?:{_REFERRED}|{_CALL}|{_ATTRIBUTE}|[a-z_]{{1,40}}+(?:\[|[ ][a-z_]{{1,40}}+[.(]))
    # A longer word than a name has.
    | (?!(?i:value|text)|string|As[ ]|->)[A-Za-z0-9_-])?""",
    re.VERBOSE,
)
"""The rest of a name, and what follows it where no separator matches or no value can be."""
_NO_VALUE_GROUP: Final = 2
_PLAIN_WORD: Final = lazy_pattern(r" (?:([a-z]{2,24})|[0-9]{2,7}|[0-9] [a-z]{2,24})(?=[\s,])")
LINKS: Final = SUFFIXES | word_set(
    "for pour para per de del des der du da di do at in on of to is was auf im am en no na or"
    " from has been got set reset changed updated rotated es est ist lautet generated created"
    " issued received returned value text string should must will would you we they that"
)
"""Words that introduce the value of a name, or qualify the name."""
_QUOTED: Final = lazy_pattern(
    rf"""[bBfFrRuULN@]{{0,2}}(?:
      "((?:[^"\\\n]{{1,{VALUE_CHARS_MAX}}}+|\\[^\n]){{0,{VALUE_CHARS_MAX}}}+)(?:"|\Z)
    | '((?:[^'\\\n]{{1,{VALUE_CHARS_MAX}}}+|\\[^\n]){{0,{VALUE_CHARS_MAX}}}+)(?:'|\Z)
    | `([^`\n]{{0,{VALUE_CHARS_MAX}}}+)(?:`|\Z)
    | \\{{1,7}}["']([^"'\\\n]{{0,{VALUE_CHARS_MAX}}}+)
    | [“„«]([^”“»\n]{{1,{BARE_CHARS_MAX}}}+)[”“»]
    )""",
    re.VERBOSE,
)
_BARE_RUN: Final = r"[^\s\"'`,;&|<>(){}\[\]\\]"
# An ampersand ends a value only before another parameter or command.
_BARE: Final = lazy_pattern(
    rf"{_BARE_RUN}{{1,{BARE_CHARS_MAX}}}"
    rf"(?:&(?!&|amp;|[\w.-]{{1,32}}=){_BARE_RUN}{{0,{BARE_CHARS_MAX}}}){{0,8}}"
)
_TO_BLANK: Final = lazy_pattern(rf"[^\s\"'`\\;|<>]{{1,{BARE_CHARS_MAX}}}")
_SETTING: Final = lazy_pattern(r"[A-Za-z_][\w.-]{0,64}=")
_ENCODED: Final = lazy_pattern(
    rf"(?:(?!%(?:26|3[Bb]|0[AaDd]|20|2[Cc])){_BARE_RUN}){{1,{BARE_CHARS_MAX}}}"
)
# ODBC puts a value in braces when it contains or may contain a semicolon.
_BRACED: Final = lazy_pattern(r"[^{}\n]{5,128}(?=\}(?:[;\"'\s]|\Z))")
_ELEMENT: Final = lazy_pattern(rf"[^<>\n]{{1,{VALUE_CHARS_MAX}}}(?=</)")
SPOKEN_HEADS: Final = (
    *("api", "access", "client", "secret", "private", "auth", "refresh", "session", "signing"),
    *("encryption", "master", "license", "product", "webhook", "deploy"),
    *("hmac", "jwt", "server", "shared", "decryption", "recovery", "storage", "service", "admin"),
)
_SPOKEN_HEADS: Final = tuple(f"{word} " for word in SPOKEN_HEADS)
_HARMLESS_HEADS: Final = ("cache ", "Cache ", "primary ", "Primary ", "public ", "Public ")
"""Words that, before a space too, make a key no secret."""
_SPOKEN_HEAD: Final = lazy_pattern(rf"\b((?i:{'|'.join(SPOKEN_HEADS)})) \Z")
_SPOKEN_HEAD_CHARS: Final = len(" encryption ")
"""The longest one, with the space before it."""
_JOINT: Final = lazy_pattern(rf"[+,).].{{0,{VALUE_CHARS_MAX}}}[+,(]|[+,.)]{{1,9}}")
_SEED: Final = lazy_pattern(r"(?:[a-z]{3,8} ){11,23}[a-z]{3,8}\b|[A-Z2-7]{16,128}\b")
_OPENING: Final = lazy_pattern(r"<(?:[\w-]{1,32}:)?\Z")
_ATTRIBUTES: Final = lazy_pattern(r"[^<>\n]{0,128}>")
_LETTERS: Final = lazy_pattern(rf"[A-Za-z_-]{{1,{BARE_CHARS_MAX}}}")
_NUMBER: Final = lazy_pattern(r"(?:0x)?[0-9a-f]{32,128}|[A-Z2-7]{16,128}")
_DIGITS: Final = lazy_pattern(r"[0-9]{2}\W?\Z|[0-9][^0-9]{1,16}[0-9]")
_METHOD: Final = lazy_pattern(
    r"(?i:sha-?[0-9]|md5|pbkdf|argon|[bs]crypt|base64|utf-?[18]|oauth|rfc|x509|aes|iso|[(/:=.]|chars?\Z)"
)
_LETTER: Final = lazy_pattern(r"[A-Za-z]")
_LINE_HEADS: Final = frozenset(("", "export", "set", "ENV", "ARG", "-e", "--env", *"+->$#*"))
_LINE_TAIL: Final = lazy_pattern(r"[ \t]{0,8}(?:[\r\n]|\\[nr]|\Z|[;&#])")
_PASSWORD: Final = Named("password", "given")
_FLAG_TAIL: Final = lazy_pattern(r"[ \t]{0,8}(?:[\r\n]|\\|\Z|[;&|]| -)")


def find_named(text: str, start: int, end: int) -> Span | None:
    """Find the secret assigned to the name around ``text[start:end]``."""
    rest = _REST.match(text, end)
    if rest is None or rest.lastindex == _NO_VALUE_GROUP:
        return None
    head, name_start = _head(text, start)
    name_end = rest.end()
    name = head + text[start:name_end]
    if text[name_end : name_end + 1] == "(":
        # The ``Password`` of ``setPassword(``.
        name = _SETTER.sub("", name, count=1)
    # Most names are not those of secrets, and checking that is faster than parsing what follows.
    promise = named(name)
    if promise is None:
        return None
    opening = text[max(0, name_start - RECORD_CHARS_MAX) : name_start]
    if (
        promise.demand == "tangled"
        and (not _TANGLED_AFTER.match(text, name_end) or opening.endswith(_HARMLESS_HEADS))
    ) or _is_in_sentence(text, name_end, promise, name, opening):
        return None
    separator = _SEPARATOR.match(text, end)
    if separator is None:
        return None
    if separator.lastgroup == "blank" and "<" in opening and _OPENING.search(opening):
        attributes = _ATTRIBUTES.match(text, separator.end())
        return attributes and _if_secret(_ELEMENT.match(text, attributes.end()), promise)
    quoted = _QUOTED.match(text, separator.end())
    if quoted is not None:
        return _if_quoted(quoted, promise, name, opening, separator)
    if (
        separator.lastgroup in ("sign", "prose")
        and text[separator.end() : separator.end() + 1] in _WRAPS
    ):
        wrap = _WRAP.match(text, separator.end())
        if wrap is not None:
            return _find_below(text, wrap.end(), promise, name, opening, separator)
    return _find_bare(text, promise, name, opening, separator)


def _is_in_sentence(text: str, at: int, promise: Named, name: str, opening: str) -> bool:
    """Return whether a word or number after the name only continues a sentence."""
    after = _PLAIN_WORD.match(text, at)
    return (
        after is not None
        and after[1] not in LINKS
        and promise.rule != "seed"
        and name[0] != "-"
        and name != "requirepass"
        and "<" not in opening
        and not is_configured(opening)
    )


@lru_cache(maxsize=NAMES_CACHED_MAX)
def doubt_of(word: str, is_escaped: bool) -> Doubt | None:  # noqa: FBT001  (a key of the cache)
    """Return why ``word``, alone or at the end of a longer name, is not or hardly a secret's name.

    An escaped word starts with the letter of a JSON escape, or with its number.
    """
    if len(word) > WORD_CHARS_MAX:
        return None
    words = (word, word[1:], word[5:]) if is_escaped else (word,)
    # The text before a word may rule it out (primary_key) or not (x_key).
    promises = {
        named(f"{head}{name}")
        for form in words
        for part in (form, form.rpartition(".")[2])
        for name in (part, _SETTER.sub("", part, count=1))
        for head in ("", "x_")
    }
    if promises == {None}:
        # Words that another before them may make a name: MY SALT.
        return "tangled" if any(named(f"X_{form}") for form in words) else "no-name"
    given = [promise for promise in promises if promise]
    if all(promise.demand == "tangled" for promise in given):
        return "tangled"
    return None if any(promise.rule == "password" for promise in given) else "wordless"


def _find_below(
    text: str, at: int, promise: Named, name: str, opening: str, separator: re.Match[str]
) -> Span | None:
    """Find a value on the line below its name; without quotes it must be alone there."""
    quoted = _QUOTED.match(text, at)
    if quoted is not None:
        listed = text[at - 1] == "["
        if listed and not is_mixed(quoted[quoted.lastindex or 0]):
            return None
        return _if_quoted(quoted, promise, name, opening, separator)
    value = _TO_BLANK.match(text, at)
    if value is None or not _LINE_TAIL.match(text, value.end()) or value[0].endswith((":", ",")):
        return None
    # A name without a value has another name below it.
    if _SETTING.match(value[0]) or not (is_mixed(value[0]) and has_digit(value[0])):
        return None
    return _if_secret(value, promise)


def _head(text: str, start: int) -> tuple[str, int]:
    """Return the part of the name before ``start``, from its last dot on, and the name's start.

    People write two words where programs write one: "API key", "access token".
    """
    last = text[start - 1 : start]
    if last != " " and last not in NAME_CHARS:
        return "", start
    before = text[start - NAME_CHARS_MAX if start > NAME_CHARS_MAX else 0 : start]
    head = before[len(before.rstrip(NAME_CHARS)) :]
    if not head:
        if not before[-_SPOKEN_HEAD_CHARS:].lower().endswith(_SPOKEN_HEADS):
            return "", start
        spoken = _SPOKEN_HEAD.search(before[-_SPOKEN_HEAD_CHARS:])
        head = f"{spoken[1]}_" if spoken else ""
    # In escaped text a name at the start of a line reads \nNAME: the n is not part of it.
    if head and head[0] in "nrt" and before.endswith("\\", 0, -len(head)):
        head = head[1:]
    name_start = start - len(head)
    return (head.rpartition(".")[2] if "." in head else head), name_start


def _if_quoted(
    quoted: re.Match[str], promise: Named, name: str, opening: str, separator: re.Match[str]
) -> Span | None:
    value = quoted[quoted.lastindex or 0]
    # What looks like an opening quote may be a closing one: "password: " + value + "…".
    if not value or _JOINT.fullmatch(value):
        return None
    if quoted.end() == quoted.end(quoted.lastindex or 0) and not value[0].isalnum():
        return None
    certain = name[0] == "-"
    if _is_talk(value, name, separator):
        return None
    match separator.lastgroup:
        case "comma":
            certain = certain or is_random(value) or is_set_by_call(opening)
            # The second argument is the default value: getenv("PASSWORD", "…").
            certain = certain or (name.isupper() and is_mixed(value))
            certain = certain or (_INSERTED.search(opening) is not None and is_strong(value))
            certain = certain and (separator["close"] is not None or separator["comma"][0] == " ")
        case "prose":
            certain = is_mixed(value) or (promise.rule == "password" and is_word(value))
        case "blank":
            certain = certain or name == "PASSWORD" or is_configured(opening)
            spoken = separator["close"] is None and promise.rule == "password"
            spoken = spoken and (is_mixed(value) or is_joined_phrase(value))
            certain = certain or spoken or is_random(value)
        case "tag" | "part":
            certain = False
        case "call":
            # The first of several arguments may be a title: find_user_password("Some Realm", url).
            several = "," in quoted.string[quoted.end() : quoted.end() + ARGUMENT_END_CHARS_MAX]
            certain = is_mixed(value) and not (several and " " in value)
        case _:
            # Two texts may be compared: assert "secret" == "public".
            compared = separator["close"] is not None and "==" in (separator["sign"] or "")
            certain = not compared or is_mixed(value)
    if not certain or not holds_secret(promise, value):
        return None
    return promise.rule, *quoted.span(quoted.lastindex or 0)


def _is_talk(value: str, name: str, separator: re.Match[str]) -> bool:
    """Return whether a quoted value is only mentioned, taken from elsewhere, or a field's label."""
    # Usually "pass" means to hand something over: pass `--all`.
    if separator.lastgroup == "blank" and name == "pass":
        return not is_strong(value)
    # In SQL a colon refers to a variable: PASSWORD :'pw'.
    sign, pair = separator["sign"], separator["pair"]
    if sign and separator["close"] is None and sign[0] in " \t" and sign[-1] == ":":
        return True
    return pair is not None and "text" in pair.lower() and not is_mixed(value)


def _find_bare(
    text: str, promise: Named, name: str, opening: str, separator: re.Match[str]
) -> Span | None:
    at = separator.end()
    if promise.rule == "seed":
        return _if_secret(_SEED.match(text, at), promise)
    match separator.lastgroup:
        case "sign":
            value = _assigned(text, at, promise, name, opening, separator["sign"])
            # A word that got this far counts, even with a weak name: pwd=letmein.
            if value and promise.rule == "password" and _LETTERS.fullmatch(value[0]):
                promise = promise._replace(demand="given")
            return _if_secret(value, promise)
        case "pair":
            return _if_secret(_BARE.match(text, at), promise)
        case "part" if "name=" in opening[-8:]:
            return _if_secret(_TO_BLANK.match(text, at), promise)
        case "tag":
            element = _ELEMENT.match(text, at)
            if element and promise.rule == "password" and is_word(element[0]):
                promise = promise._replace(demand="given")
            return _if_secret(element, promise)
        case "prose":
            return _find_stated(text, at, promise)
        case "blank":
            return _if_secret(_beside(text, at, promise, name, opening), promise)
        case _:
            return None


def _assigned(
    text: str, at: int, promise: Named, name: str, opening: str, sign: str
) -> re.Match[str] | None:
    """Return the unquoted value after ``=`` or ``:``, unless it may be code or prose."""
    # The type of a resource: arn:aws:secretsmanager:eu-west-1:123456789012:secret:db.
    if sign == ":" and opening.endswith(":") and "arn:aws" in opening:
        return None
    in_environment = sign == "=" and name.isupper()
    if sign[0] == "%":
        return _ENCODED.match(text, at)
    if text[at : at + 1] == "{":
        braced = _BRACED.match(text, at + 1)
        return braced if braced and ";" in opening and is_strong(braced[0]) else None
    is_setting = in_environment and _is_line_head(opening, name)
    value = (_TO_BLANK if is_setting else _BARE).match(text, at)
    if value is None or in_environment or (sign == "=" and name[0] == "-"):
        # ``gcloud secrets`` is told which secret to print.
        return None if name == "--secret" and "secrets " in opening else value
    if text[value.end() : value.end() + 1] in ("(", "[") or "==" in sign or value[0][0] == "?":
        return None
    if _LETTERS.fullmatch(value[0]):
        return value if _is_literal(text, value, promise, name, opening, sign) else None
    if _LETTER.search(value[0]):
        return value
    digits = value[0].strip(".,")
    if len(digits) < NUMBER_DIGITS_MIN:
        ends_line = _LINE_TAIL.match(text, value.end()) is not None
        alone = ends_line and _is_line_head(opening, name)
        certain = promise == _PASSWORD and not name.endswith("s") and len(digits) >= PIN_DIGITS_MIN
        if not (certain and (alone or is_in_record(text, value, opening, sign))):
            return None
    return value if digits.isdigit() else None


def _is_literal(
    text: str, value: re.Match[str], promise: Named, name: str, opening: str, sign: str
) -> bool:
    """Return whether unquoted letters are a value, not a variable, type or remark."""
    word = value[0]
    if is_random(word) or (promise.rule == "password" and is_joined_phrase(word)):
        return True
    plain = (word.islower() and "_" not in word) or is_jumbled(word)
    ends_line = _LINE_TAIL.match(text, value.end()) is not None
    at_line_head = _is_line_head(opening, name)
    if promise.rule != "password":
        return plain and at_line_head and sign == "=" and ends_line
    if not is_word(word) or (promise.demand == "mixed" and sign != "="):
        return False
    if is_in_record(text, value, opening, sign):
        return plain or sign == "="
    if at_line_head:
        return plain and ends_line
    return plain and sign == "=" and is_argument(text, value, opening)


def _find_stated(text: str, at: int, promise: Named) -> Span | None:
    stated = _BARE.match(text, at)
    if stated is None:
        return None
    value = without_stop(stated[0])
    if promise.rule == "password":
        proved = is_mixed(value) or is_joined_phrase(value)
    else:
        proved = is_random(value)
    return (promise.rule, at, at + len(value)) if proved else None


def _beside(text: str, at: int, promise: Named, name: str, opening: str) -> re.Match[str] | None:
    """Return a flag's argument, unless the flag is only mentioned, or a word after a name."""
    value = _BARE.match(text, at)
    if value is None or value[0].startswith("-"):
        return None
    if name[0] != "-":
        if is_configured(opening) or name == "requirepass":
            return value
        if name.lower().endswith("passphrase") and is_joined_phrase(value[0]):
            return value
        if promise.rule == "password" or len(value[0]) >= SPOKEN_CHARS_MIN:
            is_password = (
                is_strong(value[0])
                or is_scrambled(value[0])
                or _is_stated_password(value[0], name)
                or _is_directive(text, value, name, opening)
            )
            return value if is_password or _is_drawn(value[0], promise) else None
        return value if _is_drawn(value[0], promise) else None
    if value[0].isupper() and value[0].isalpha():
        return None
    spoken = _LETTERS.fullmatch(value[0]) and not _FLAG_TAIL.match(text, value.end())
    return None if spoken else value


def _is_directive(text: str, value: re.Match[str], name: str, opening: str) -> bool:
    """Return whether a name and a password are alone on a line, as in many settings."""
    return (
        name not in ("pass", "pw", "Pass")
        and _is_line_head(opening, name)
        and _LINE_TAIL.match(text, value.end()) is not None
        and has_digit(value[0])
        and not _METHOD.search(value[0])
        and is_mixed(value[0])
    )


def _is_stated_password(value: str, name: str) -> bool:
    """Return whether a word with digits after a spoken "password" is one, not how it is stored."""
    spoken = len(value) >= STATED_CHARS_MIN and name.lower() in ("password", "passwd", "passwort")
    return (
        spoken
        and _DIGITS.search(value) is not None
        and not _METHOD.search(value)
        and is_mixed(value)
    )


def _is_drawn(value: str, promise: Named) -> bool:
    """Return whether a spoken key or secret is one long number in hex or Base32."""
    sure = promise.rule == "secret" or promise.demand == "opaque"
    return sure and _NUMBER.fullmatch(value) is not None and is_random(value)


def _if_secret(value: re.Match[str] | None, promise: Named) -> Span | None:
    if value is None or is_code(value[0]) or not holds_secret(promise, value[0]):
        return None
    if value[0][-1] == "$" and value.string[value.end() : value.end() + 1] in ("{", "("):
        return None
    return promise.rule, *value.span()


def _is_line_head(opening: str, name: str) -> bool:
    """Return whether the name starts a line, a query parameter or part of a connection string."""
    if opening.endswith(("?", "&", "\\")) or (opening.endswith(";") and name[0].isupper()):
        return True
    return opening.rpartition("\n")[2].strip() in _LINE_HEADS and (
        "\n" in opening or len(opening) < RECORD_CHARS_MAX
    )


RECORD_CHARS_MAX: Final = 96
"""How far before a name its neighbours are searched."""

_MASKED: Final = lazy_pattern(r"[0-9a-f]{8}\]")
_ARGUMENT_HEADS: Final = ("", " ", "\t", '"', "'", "=", "`")
_ARGUMENT_TAIL: Final = lazy_pattern(r"[\"'`]|[ \t\r\n]|\\[nr\"']|\Z")
_FIELD_BEFORE: Final = lazy_pattern(
    r"(?<![\w.])[A-Za-z][\w-]{0,31}=[^\s=;,\[\]]{1,64}[ \t]{1,2}\Z"
    r"|(?i:server|source|host|address|addr|user|username|name|uid|id|catalog|database|dbname|db|port|driver|dsn)"
    r"[ ]?=[^=;\"'\[\]]{1,64};[ ]?\Z"
)
_FIELD_AFTER: Final = lazy_pattern(
    r"[ \t]{1,2}[A-Za-z][\w-]{0,31}=[^\s=]"
    r"|;[ ]?(?i:server|data[ ]source|host|address|user|uid|user[ ]id|initial[ ]catalog|database"
    r"|dbname|port|driver|dsn|encrypt|trust\w{0,30}|pooling|timeout|multi\w{0,30})[ ]?="
)
_ENTRY_BEFORE: Final = lazy_pattern(
    r"(?i:\b(?P<key>user|user[_ -]?name|login|e?-?mail|account|uid|host|name|id))[\"'`]?[ ]?:[ ]?"
    r"(?P<value>[^\s:,;{}]{2,48})[ ]?[,;/|]?[ ]{1,2}\Z"
)
_ENTRY_TAIL: Final = lazy_pattern(r"[ ]?(?:[,}\"'`\r\n]|\\[nr\"']|\Z)")
_STRUCT: Final = lazy_pattern(r"[\w)][ ]?\{")
_REMARKS: Final = word_set("str string text char varchar any none null undefined required optional")
_INSERTED: Final = lazy_pattern(r"(?:VALUES|values)[ ]?\([\"'][\w.-]{0,40}\Z")
_SET_BY_CALL: Final = lazy_pattern(
    r"\b(?:define|fill|type|send_keys|type_text|(?:[Ss]et_?|\.set)[Dd]efault|putenv|setProperty)\(\s?[\"'`][^\"'`\n\]]{0,60}[\"']?\Z"
)
_CONFIGURED: Final = lazy_pattern(
    r"(?<![\w-])(?:setx|setenv|SetEnv|ENV|ARG|fastcgi_param|\(setq|\(def|set[ ]-[a-zA-Z]{1,3})"
    r"[ ]\Z|"
    r"\b(?:config|configure|kv|etcdctl|variable|secret|env)[ :]"
    r"(?:set|add|put)(?:[ ]--?[\w-]{1,24}){0,3}[ ]"
    r"(?:[^\s\"'=\[\]]{0,64}[:/])?\Z|"
    # A netrc file.
    r"(?:\bmachine\s{1,8}\S{1,64}|\bdefault)\s{1,8}login\s{1,8}\S{1,64}\s{1,8}"
    r"(?:account\s{1,8}\S{1,64}\s{1,8})?\Z"
)
_CONFIGURING: Final = (
    *("setx", "setenv", "SetEnv", "ENV", "ARG", "_param", "(setq", "(def", "set -"),
    *("config", "kv", "etcdctl", "variable", "secret", "env", "login"),
)


def is_argument(text: str, value: re.Match[str], opening: str) -> bool:
    """Return whether ``name=value`` is an argument of a command or one quoted setting."""
    if "(" in opening or _MASKED.search(opening) or opening[-1:] not in _ARGUMENT_HEADS:
        return False
    return _ARGUMENT_TAIL.match(text, value.end()) is not None


def is_in_record(text: str, value: re.Match[str], opening: str, sign: str) -> bool:
    """Return whether the value is among others of the same kind, none of which is code.

    ``host=db user=app password=…``, ``Server=db;Uid=sa;Pwd=…;``, ``{user: bob, password: …}``.
    """
    line = opening.rpartition("\n")[2]
    if "(" in line or _MASKED.search(line) or text.startswith((")", "})", "};"), value.end()):
        return False
    if sign == "=":
        before, after = _FIELD_BEFORE.search(line), _FIELD_AFTER.match(text, value.end())
        return before is not None or after is not None
    before = _ENTRY_BEFORE.search(line)
    if sign.strip() != ":" or before is None or "=" in line or _STRUCT.search(line):
        return False
    other = before["value"].strip("\"'`")
    is_setting = other.lower() not in (*_REMARKS, before["key"].lower())
    return is_setting and _ENTRY_TAIL.match(text, value.end()) is not None


def is_configured(opening: str) -> bool:
    """Return whether a command before the name sets it: ``npm config set //host/:_authToken …``."""
    # Looking for words takes a tenth of the time.
    return any(map(opening.__contains__, _CONFIGURING)) and _CONFIGURED.search(opening) is not None


def is_set_by_call(opening: str) -> bool:
    """Return whether a call sets the name's value: ``define('DB_PASSWORD', …)``."""
    return _SET_BY_CALL.search(opening) is not None
