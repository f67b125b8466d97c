"""Checks on values: a placeholder, plain words, a reference, or a secret."""

import re
from typing import Final

from treering.lazy import lazy_pattern

PASSPHRASE_CHARS_MAX: Final = 64
PASSPHRASE_WORDS_MAX: Final = 8
MIXED_CHARS_MIN: Final = 5
RANDOM_CHARS_MIN: Final = 12
NUMBER_DIGITS_MIN: Final = 16
LETTERS_MIN: Final = 20
LETTERS_RANDOM_MIN: Final = 48
WORD_CHARS_MIN: Final = 4
JUMBLED_CHARS_MIN: Final = 10
JUMBLED_PARTS_MIN: Final = 4
JUMBLED_PART_CHARS_MAX: Final = 3.6
"""The words of a name are longer on average."""
SCRAMBLED_CHARS_MIN: Final = 8
SCRAMBLED_PART_CHARS_MAX: Final = 2.8
"""So are the words of a code expression, including abbreviations and numbers."""
DENSE_CHARS_MIN: Final = 32
DIFFERENT_CHARS_MIN: Final = 5
JUDGED_CHARS_MAX: Final = 128
"""A value is judged by its start, so that a long one costs no more than a short one."""

MASK: Final = lazy_pattern(r"\[redacted:[a-z0-9-]{1,32}:[0-9a-f]{8}\]")
"""A secret that was masked before."""

NOT_AFTER_MASK: Final = r"(?<![0-9a-f]{8}\])"
NOT_BEFORE_MASK: Final = r"(?!\[redacted:)"
"""Prevents text next to a mask from being taken for a secret that it was not before masking."""


def word_set(text: str) -> frozenset[str]:
    """Return the set of words in ``text``, separated by spaces."""
    return frozenset(text.split())


_PLACEHOLDER: Final = lazy_pattern(
    r"""(?:
      null|none|nil|undefined|nan|true|false|yes|no|on|off|n/?a|yes/no|true/false
    | str|string|text|int|integer|number|bool|boolean|bytes|char|varchar|object|array|any|unknown
    | never|void|secretstr|(?:\#/)?definitions\S*
    | required|optional|missing|invalid|valid|wrong|incorrect|expired|empty|unset|hidden|masked
    | removed|redacted\S*|filtered|censored|encrypted|disabled|enabled|error|failed|default|auto
    | amd64|arm64|armhf|i[36]86|x86_64|aarch64|ppc64el|s390x|riscv64
    | prompt|ask|stdin|env|here|basic|bearer|header|query|cookie|hash(?:ed)?|credentials?|rotated
    | (?:option|flag|argument|parameter|value|field)s?|instead
    | passwort|senha|wachtwoord|parola|haslo|clave|salasana
    | pass(?:word|wd|phrase|code)?s?|pwd|(?:\w+[-_])?(?:secrets?|password|passwd)
    | (?:api|access|secret|private|auth|public)?[-_ ]?keys?
    | (?:access|auth|refresh|id|api|session|bearer)?[-_ ]?tokens?
    | (?:change|replace|fix)[-_ ]?(?:(?:me|it)(?:[-_!.]\S*)?|(?:this|with)\S*)
    | (?:required|nullable|sometimes|optional)[|,;]\S*|to[-_]?do|tbd|placeholder\S*
    | example|sample|dummy|fake|foo|bar|baz|foobar
    | base64|b64|sha-?(?:1|256|384|512)|md5|[bs]crypt|argon2\w*|oauth2?
    | (?:your|insert|enter)[-_ .]\S*|your[a-z]*|enter
    | (?:my|the|some|a|test)[-_](?:super[-_])?
      (?:api|secret|password|token|key|access|auth|client)\S*
    | \S*[-_](?:here|placeholder|example)|(?-i:\S*EXAMPLE(?:KEY|TOKEN)?)
    | [x*_-]{3,}|[:*•●.…_?\#-]+
    # Maven encrypts a password as Base64 in braces.
    | (?!\{(?=[a-z+/]{0,63}[0-9])[a-z0-9+/]{24,128}={0,2}\})[\[<({].*[\])>}]
    | [\^~<>=v]{0,2}[0-9]{1,5}\.[0-9x]{1,5}(?:\.[\w+-]{1,24}){0,4}|(?:\\?u[0-9a-f]{4}|\\)+
    | (?:[0-9]{1,2}:)?[0-9]{1,4}\.[0-9]{1,4}[\w.+~:-]{0,40}[+~-][\w.+~]{1,24}
    | \.[*+]\??(?:[$)|\]\\\[(^{/].*)?|\$[{(].*|\$\{?\w+\}?|\$env:\w+|%\w+%|%env\(\w+\)%
    | @@\w+@@|%[sdvqr]|%\(\w+\)s|\{\{.*|\#\{.*|[:@]\w+|\{[\w.]*\}\S*
    )[.,;:!]?""",
    re.VERBOSE | re.IGNORECASE,
)
_REFERENCE: Final = lazy_pattern(
    r"""(?:
      [a-zA-Z][a-zA-Z0-9+.-]{1,16}://
    | arn:aws|projects/|secretsmanager|(?:env|vault|file|ssm|kms|enc|ref\+[a-z]+):
    | (?:sha(?:1|256|384|512)|md5)[-:]|data:|ssh-(?:rsa|ed25519)
    | os\.environ|os\.getenv|getenv|process\.env|import\.meta|ENV\[|secrets\.|System\.get
    | !(?:Ref|Sub|GetAtt|vault|env|secret|ImportValue|Join)\b
    | \$\{|\{\{|-----BEGIN|\[redacted:
    )""",
    re.VERBOSE,
)
_FILE: Final = lazy_pattern(r"[\w.@~/\\ -]*\.(?:pem|key|crt|txt|json|ya?ml|env|py|[jt]sx?|md|html)")
_PATH: Final = lazy_pattern(r"(?:~|\.{0,2})/.*|[A-Za-z]:\\.*")
_WORDY: Final = lazy_pattern(
    r"(?:[A-Za-z]+[0-9]{0,3}|[0-9]+)(?:[-_./:@]+(?:[A-Za-z]+[0-9]{0,3}|[0-9]+))+"
)
_ID_IN_PATH: Final = lazy_pattern(r"(?<=/)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?=/)")
_PLAIN: Final = lazy_pattern(r"[A-Za-z]+[0-9]{0,3}|[0-9]+")
_CODE: Final = lazy_pattern(r"[A-Za-z_$][\w$]*(?:(?:\.|\?\.|->|::)[A-Za-z_$][\w$]*)+!?")
_DATE: Final = lazy_pattern(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LETTER: Final = lazy_pattern(r"[A-Za-z]")
_DIGIT: Final = lazy_pattern(r"[0-9]")
_STRONG: Final = lazy_pattern(
    r"(?=[^a-z]{0,64}[a-z])(?=[^A-Z]{0,64}[A-Z])(?=[^0-9]{0,64}[0-9])[^\s]{8,64}\Z"
)
_STRONG_SET: Final = lazy_pattern(
    r"(?=[^a-z]{0,64}[a-z])(?=[^A-Z]{0,64}[A-Z])(?=[^0-9]{0,64}[0-9])(?=[\w\s]{0,64}[^\w\s])"
)
_PARTS: Final = lazy_pattern(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_RUNS: Final = lazy_pattern(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_TANGLED: Final = lazy_pattern(
    r"(?=[^a-z]{0,64}[a-z])(?=[^A-Z]{0,64}[A-Z])(?=[^0-9]{0,64}[0-9])[A-Za-z0-9_+=-]{20,512}\Z"
)
_HASHED: Final = lazy_pattern(
    r"(?:(?:[A-Za-z]{2,16}|[0-9]{1,2}|[vx][0-9]{1,2})[0-9]{0,2}-){2,8}"
    r"(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})"
)
"""The name of something kept, with a hash of what it was made from."""
_NAME_LIKE: Final = lazy_pattern(
    r"[A-Z]{2,}-?[0-9]+|(?:[A-Z][a-z]+){1,3}-?[0-9]{1,3}[A-Z]{0,2}|[A-Za-z]*[0-9]+(?:\.[0-9]+)+"
    r"|(?:[a-z]+:)?[0-9][0-9.]*-[a-z]+"
)
_JOINED_PHRASE: Final = lazy_pattern(r"[a-z]{3,9}(?:-[a-z]{3,9}){3,7}")
_BASE32: Final = lazy_pattern(r"[A-Z2-7]{16,128}={0,6}")
_SEED_WORDS: Final = lazy_pattern(r"(?:[a-z]{3,8} ){11,23}[a-z]{3,8}")
_DUMMY: Final = lazy_pattern(
    r"\A[xX*.0_-]+\Z|(?:[xX]{6}|\*{4}|\.{3}|[-_](?:here|HERE)\b|(?i:your[-_]|placeholder|redacted)"
    r"|EXAMPLE(?:KEY|TOKEN)?\Z)",
    re.DOTALL,
)
_SENTENCE_WORDS: Final = word_set(
    "a an and are as at be by can cannot do does enter field for from has have if in incorrect"
    " invalid is it key least length match matches may minimum missing must my new no not of old"
    " on only optional or password passwords please repeat required reset secret should the this"
    " to token too type use was when will with wrong you your forgot change confirm current"
    " characters strength policy set again show mot de passe"
    " le la votre ihr neues nuevo nueva nova"
)

SEED_STOP_WORDS: Final = word_set(
    "the and for are not with was from has but which were been into their them than then they"
)
"""Words of sentences that no wallet word list contains."""

_STATES: Final = word_set(
    "accepted absent blank changed complex configured confidential correct denied different"
    " expiring external forgotten generated inherited internal locked managed matched mandatory"
    " medium mismatch mismatched pending present production private protected provided rejected"
    " reset same"
    " saved sensitive set shared short skipped stored strong unchanged unused updated verified weak"
)
_VARIABLES: Final = word_set(
    "answer args body cleartext config context creds current data decoded decrypted digest encoded"
    " encrypted entered form generated given hash hashed input login name options opts output"
    " params payload phrase plain plaintext pw random raw reply request response result salt self"
    " settings"
    " supplied temp text this typed user username users val value values word words"
)
_PASSES: Final = word_set(
    "again build count depth done early every fail failed final first forward late main next normal"
    " only opaque rate render second shadow single third through"
)


def is_word(value: str) -> bool:
    """Return whether an unquoted word may be a password rather than a variable or a remark."""
    return (
        len(value) >= WORD_CHARS_MIN
        and value not in _VARIABLES
        and value not in _PASSES
        and is_given(value)
    )


def is_given(value: str) -> bool:
    """Return whether ``value`` is a value of its own, not a placeholder, a reference or a path."""
    value = value[:JUDGED_CHARS_MAX]
    if value in _STATES or _PLACEHOLDER.fullmatch(value) or _REFERENCE.match(value):
        return False
    if "[redacted:" in value and MASK.search(value):
        return False
    if value.endswith(("...", "…")) or ("." in value and _FILE.fullmatch(value)):
        return False
    if _is_path(value):
        return False
    return value.isascii() or _DIGIT.search(value) is not None


def has_digit(value: str) -> bool:
    """Return whether there is a digit in ``value``."""
    return _DIGIT.search(value) is not None


def is_jumbled(value: str) -> bool:
    """Return whether lower and upper case alternate too often for the words of a name."""
    if len(value) < JUMBLED_CHARS_MIN or not value.isalpha() or value.islower() or value.isupper():
        return False
    parts = _PARTS.findall(value)
    return len(parts) >= JUMBLED_PARTS_MIN and len(value) <= JUMBLED_PART_CHARS_MAX * len(parts)


def is_scrambled(value: str) -> bool:
    """Return whether lower case, upper case and digits alternate too often for names in code."""
    if len(value) < SCRAMBLED_CHARS_MIN or value.islower() or value.isupper() or "_" in value:
        return False
    runs = _RUNS.findall(value[:JUDGED_CHARS_MAX])
    chars = sum(map(len, runs))
    return len(runs) >= JUMBLED_PARTS_MIN and chars <= SCRAMBLED_PART_CHARS_MAX * len(runs)


def is_dense(value: str) -> bool:
    """Return whether ``value`` draws on all characters, including spaces, but is not a sentence."""
    return (
        len(value) >= DENSE_CHARS_MIN
        and value.count(" ") * 10 <= len(value)
        and _STRONG_SET.match(value) is not None
        and is_given(value)
    )


def is_opaque(value: str) -> bool:
    """Return whether ``value`` is given and is more than words joined by punctuation."""
    value = value[:JUDGED_CHARS_MAX]
    words = _ID_IN_PATH.sub("id", value) if "/" in value else value
    return is_given(value) and not _WORDY.fullmatch(words)


def is_mixed(value: str) -> bool:
    """Return whether ``value`` is given and has letters with digits or with symbols."""
    value = value[:JUDGED_CHARS_MAX]
    return (
        len(value) >= MIXED_CHARS_MIN
        and is_given(value)
        and _LETTER.search(value) is not None
        and (is_scrambled(value) or _is_no_name(value))
    )


def is_random(value: str) -> bool:
    """Return whether ``value`` looks machine-generated."""
    value = value[:JUDGED_CHARS_MAX]
    return (
        len(value) >= RANDOM_CHARS_MIN
        and _LETTER.search(value) is not None
        and (
            (_DIGIT.search(value) is not None and not _PLAIN.fullmatch(value))
            or (len(value) >= LETTERS_MIN and is_scrambled(value))
            or _is_letter_run(value)
        )
        and not _DATE.match(value)
        and not _DUMMY.search(value)
        and " " not in value
        and is_opaque(value)
    )


def is_long_number(value: str) -> bool:
    """Return whether ``value`` is a number with more digits than a count or a time."""
    return len(value) >= NUMBER_DIGITS_MIN and value.isdigit() and not is_dummy(value)


def is_tangled(value: str) -> bool:
    """Return whether ``value`` is one long run of digits, lower and upper case letters."""
    if _TANGLED.match(value) is None or is_dummy(value):
        return False
    return "-" not in value or _HASHED.fullmatch(value) is None


def is_seed(value: str) -> bool:
    """Return whether ``value`` is a seed of a wallet, in words, or of one-time codes, in Base32."""
    if _BASE32.fullmatch(value):
        return _DIGIT.search(value) is not None
    return _SEED_WORDS.fullmatch(value) is not None and SEED_STOP_WORDS.isdisjoint(value.split())


def is_passphrase(value: str) -> bool:
    """Return whether a ``value`` with spaces is a passphrase rather than a sentence or a label."""
    words = value.lower().split()
    return (
        len(value) <= PASSPHRASE_CHARS_MAX
        and 2 <= len(words) <= PASSPHRASE_WORDS_MAX
        and value.isascii()
        and is_given(value)
        and all(
            (len(word) > 1 or word.isdigit())
            and (word.strip("!?.*#-").isalnum() or _DIGIT.search(word))
            for word in words
        )
        and value[-1] not in ".:?"
        and _SENTENCE_WORDS.isdisjoint(words)
    )


def is_joined_phrase(value: str) -> bool:
    """Return whether ``value`` is a passphrase of words with signs between them."""
    if _JOINED_PHRASE.fullmatch(value) is None:
        return False
    return SEED_STOP_WORDS.isdisjoint(value.split("-"))


def is_name_like(value: str) -> bool:
    """Return whether a word in a sentence may be a name or a version: RFC6749, python3.11."""
    return _NAME_LIKE.fullmatch(value) is not None


def without_stop(value: str) -> str:
    """Return a word without the punctuation of its sentence; a sign may be part of a password."""
    value = value.rstrip(".,:;")
    return value.removesuffix("?") if value[:-1].isalnum() else value


def is_code(value: str) -> bool:
    """Return whether an unquoted ``value`` is an expression such as ``settings.token``."""
    value = value[:JUDGED_CHARS_MAX]
    return _CODE.fullmatch(value) is not None and not is_scrambled(value) and not is_random(value)


def is_strong(value: str) -> bool:
    """Return whether ``value`` follows common rules for passwords."""
    return _STRONG.match(value) is not None and is_mixed(value)


def is_dummy(body: str) -> bool:
    """Return whether the ``body`` of a token is a placeholder, as in ``sk-xxxxxxxx``."""
    body = body[:JUDGED_CHARS_MAX]
    few = len(body) >= RANDOM_CHARS_MIN and len(set(body)) < DIFFERENT_CHARS_MIN
    return few or _DUMMY.search(body) is not None


def _is_letter_run(value: str) -> bool:
    """Return whether ``value`` has more letters of one case, and nothing else, than any word."""
    return (
        len(value) >= LETTERS_RANDOM_MIN
        and value.isalpha()
        and (value.islower() or value.isupper())
        and not is_dummy(value)
    )


def _is_no_name(value: str) -> bool:
    """Return whether ``value`` is not a word, an expression, or words joined by punctuation."""
    return (
        not value.rstrip(".,:;!?").isalpha()
        and not _CODE.fullmatch(value)
        and (_DIGIT.search(value) is not None or not _WORDY.fullmatch(value))
    )


def _is_path(value: str) -> bool:
    return _PATH.fullmatch(value) is not None and not any(
        len(part) >= 16 and part.lower() != part and _DIGIT.search(part)
        for part in value.split("/")
    )
