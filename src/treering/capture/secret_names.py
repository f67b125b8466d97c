"""Names of secrets, and how much the value of each must prove.

The value of a password is a secret, unless it is a placeholder, a reference or a remark; a
``client_secret`` must be more than joined words; any other ``*_TOKEN`` or ``*_KEY`` must look
random; and ``max_tokens`` or ``primary_key`` are not names of secrets.
"""

import re
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from treering.capture.secret_values import (
    is_dense,
    is_given,
    is_long_number,
    is_mixed,
    is_opaque,
    is_passphrase,
    is_random,
    is_seed,
    is_strong,
    is_tangled,
    word_set,
)
from treering.lazy import lazy_pattern

NAMES_CACHED_MAX: Final = 4_096
VALUE_CHARS_MAX: Final = 4_096
PIN_DIGITS_MIN: Final = 4

Demand: TypeAlias = Literal["given", "mixed", "opaque", "random", "tangled"]

_WORDS: Final = lazy_pattern(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_PASSWORD: Final = lazy_pattern(r"(?:pass|Pass|PASS)[_-]?(?i:word|wd|phrase)")
_PASSWORDS: Final = (
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "passcode",
    "passwort",
    "kennwort",
    "wachtwoord",
    "senha",
    "contrasena",
    "motdepasse",
    "rootpw",
    "requirepass",
    "pwd",
    "bindpw",
)
_JOINED_KEYS: Final = word_set(
    "apikey apikeys secretkey privatekey accesskey authkey masterkey signingkey appkey"
    " encryptionkey"
)
SUFFIXES: Final = word_set(
    "value base prod production dev development staging live old new current plain raw default"
    " string str data b64 base64 hex confirm confirmation repeat again"
)
_KEY_HEADS_STRONG: Final = word_set(
    "api secret private access account signing encryption master auth shared"
)
_KEY_HEADS: Final = word_set(
    "signature encrypt decryption hmac webhook jwt aes crypto app service license client consumer"
    " admin subscription storage deploy integration openai anthropic stripe server session"
    " application instrumentation ingestion functions host maps preshared unseal write activation"
    " recovery"
)
_KEY_HEADS_DENIED: Final = word_set(
    "public primary foreign partition sort cache idempotency row object s3 map dict hot short arrow"
    " json lookup index group order unique composite candidate natural translation locale event"
    " route query issue project dedupe dedup shard hash range entity document bucket registry"
    " feature config setting option param field column state sticky routing redis item node tab"
    " menu socket websocket enter escape function any last"
    " first next previous parent child publishable anon site"
    " lock"
)
_TOKEN_HEADS_STRONG: Final = word_set(
    "access refresh auth bearer api session security bot personal oauth secret"
)
_TOKEN_HEADS_DENIED: Final = word_set(
    "max min num total count input output prompt completion page next prev previous continuation"
    " continue cursor sync start end stop eos bos pad unk mask sep cls special first last"
    " cancellation cancel lookahead peek syntax parse change sequence per pagination idempotency"
    " design color theme word sub keyword operator identifier cached reasoning budget"
)
_PASS_HEADS: Final = word_set(
    "admin auth become bind cert db database dba email ftp http imap jdbc keystore ldap login mail"
    " mongo key mysql oracle pg pop3 postgres proxy rabbitmq"
    " redis repo root samba service smtp sql ssh sudo"
    " store trust truststore user vpn wifi"
)
_ACTS: Final = word_set(
    "is has show hide forgot forgotten reset require requires required no get set check verify"
    " validate change update toggle hash hashed existing compare with without use"
)


class Named(NamedTuple):
    """What a name implies about its value."""

    rule: str
    demand: Demand


_RARE: Final = {
    "cred": Named("secret", "random"),
    "creds": Named("secret", "random"),
    "credential": Named("secret", "random"),
    "credentials": Named("secret", "random"),
    "masterauth": Named("password", "mixed"),
    "psk": Named("password", "given"),
    "auth": Named("token", "random"),
    "mnemonic": Named("seed", "opaque"),
    "seed": Named("seed", "opaque"),
    "phrase": Named("seed", "opaque"),
}


@lru_cache(maxsize=NAMES_CACHED_MAX)
def named(name: str) -> Named | None:
    """Return what ``name`` implies, or None if it is not the name of a secret."""
    words = [word.lower() for word in _WORDS.findall(_PASSWORD.sub(_joined, name))]
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in SUFFIXES):
        words.pop()
    if not words:
        return None
    *heads, last = words
    if last.endswith("pass") and last[:-4] in _PASS_HEADS:
        heads, last = [*heads, last[:-4]], "pass"
    # A "pw" is matched with the character after it, so only another word may follow.
    is_short = last == "pw" and (name[-2:].lower() == "pw" or "pw_" in name.lower())
    if last.endswith(_PASSWORDS) or last == "pass" or is_short:
        return _named_password(name, heads, last)
    if last in _RARE:
        return _RARE[last]
    if last.endswith(("secret", "secrets")):
        return None if heads and heads[0] in _ACTS else Named("secret", "opaque")
    if last.endswith("token"):
        return _named_token(heads, last)
    if last in ("key", "keys") or last in _JOINED_KEYS:
        return _named_key(name, heads, last)
    return _named_seldom(name, heads, last)


def holds_secret(promise: Named, value: str) -> bool:
    """Return whether the whole ``value`` of such a name is a secret."""
    value = value[:VALUE_CHARS_MAX]
    if promise.rule == "seed":
        return is_seed(value)
    if " " in value:
        return is_dense(value) or (promise.rule == "password" and is_passphrase(value))
    match promise.demand:
        case "given":
            few = value.isdigit() and len(value) < PIN_DIGITS_MIN
            return not few and is_given(value)
        case "mixed":
            return is_mixed(value)
        case "opaque":
            # The name of a secret is in lower case: db-credentials-2.
            return is_opaque(value) or (promise.rule == "secret" and is_strong(value))
        case "random":
            return is_random(value) or (promise.rule == "token" and is_long_number(value))
        case "tangled":
            return is_tangled(value)


def _joined(match: re.Match[str]) -> str:
    return match[0].lower().replace("_", "").replace("-", "")


def _named_password(name: str, heads: list[str], last: str) -> Named | None:
    if heads and heads[0] in _ACTS:
        return None
    # A "pass" is more often a test result or a pass over a tree, a "pwd" a folder.
    if last in ("pass", "pw") and heads:
        sure = name.isupper() or heads[-1] in _PASS_HEADS
    else:
        sure = last not in ("pass", "pw", "pwd") or bool(heads)
    return Named("password", "given" if sure else "mixed")


def _named_token(heads: list[str], last: str) -> Named | None:
    if not _TOKEN_HEADS_DENIED.isdisjoint(heads):
        return None
    strong = last != "token" or (heads and heads[-1] in _TOKEN_HEADS_STRONG)
    return Named("token", "opaque" if strong else "random")


def _named_seldom(name: str, heads: list[str], last: str) -> Named | None:
    if name.replace("-", "_").lower().endswith(("private_key_id", "privatekeyid")):
        return Named("api-key", "random")
    if name.endswith("_PAT") and heads:
        return Named("token", "random")
    # In an environment a session is a secret; in a log it is an id.
    is_secret = name.isupper() and (last in ("salt", "pepper") or (last == "session" and heads))
    return Named("secret", "random") if is_secret else None


def _named_key(name: str, heads: list[str], last: str) -> Named | None:
    if last in _JOINED_KEYS:
        return Named("api-key", "opaque")
    if not heads:
        return Named("api-key", "tangled") if last == "key" else None
    if heads[-1] in _KEY_HEADS_DENIED or "public" in heads:
        return None
    if heads[-2:] == ["secret", "access"]:
        return Named("aws", "opaque")
    if heads[-1] in _KEY_HEADS_STRONG:
        return Named("api-key", "opaque")
    proved = name.isupper() or heads[-1] in _KEY_HEADS
    return Named("api-key", "random" if proved else "tangled")
