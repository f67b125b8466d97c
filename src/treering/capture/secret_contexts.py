"""Contexts in which a word without quotes is a value: a record of settings, or an argument.

Text that contains a mask proves nothing here: the masked part may have been code, and masking a
text must not reveal more secrets in it.
"""

import re
from typing import Final

from treering.capture.secret_values import word_set
from treering.lazy import lazy_pattern

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
_SET_BY_CALL: Final = lazy_pattern(
    r"\b(?:define|fill|type|send_keys|type_text)\(\s?[\"'`][^\"'`\n\]]{0,60}[\"']?\Z"
)
_CONFIGURED: Final = lazy_pattern(
    r"(?<![\w-])(?:setx|setenv|SetEnv|ENV|ARG|fastcgi_param|\(setq|\(def|set[ ]-[a-zA-Z]{1,3})"
    r"[ ]\Z|"
    r"\b(?:config|configure|kv|etcdctl)[ :](?:set|add|put)(?:[ ]--?[\w-]{1,24}){0,3}[ ]"
    r"(?:[^\s\"'=\[\]]{0,64}[:/])?\Z|"
    # A netrc file.
    r"(?:\bmachine\s{1,8}\S{1,64}|\bdefault)\s{1,8}login\s{1,8}\S{1,64}\s{1,8}"
    r"(?:account\s{1,8}\S{1,64}\s{1,8})?\Z"
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
    return _CONFIGURED.search(opening) is not None


def is_set_by_call(opening: str) -> bool:
    """Return whether a call sets the name's value: ``define('DB_PASSWORD', …)``."""
    return _SET_BY_CALL.search(opening) is not None
