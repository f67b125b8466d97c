"""What somebody tells an agent about a project: decisions, conventions, commands, names and paths.

A table of forms, each with what it is noted as. An order that holds only for the moment ("use the
second option", "the bug is in src/app.ts") has no form here.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from treering.lazy import lazy_pattern
from treering.rules.claim_words import third_person, unwrapped, word_set

_IGNORE: Final = re.IGNORECASE
_NAME: Final = r"[\w@./+#:-]+"
_NAMES: Final = rf"{_NAME}(?: {_NAME}){{0,4}}"
_PATH: Final = (
    r"(?:[\w.~@-]*/[\w./~@*-]*|[\w-]+\.(?:py|ts|tsx|js|go|rs|md|toml|ya?ml|json|sql|sh|env|ini|cfg"
    r"|txt|rb|java|kt|swift|c|h|cpp|css|html|proto))"
)
_SHORT: Final = (
    r"(?!(?:the|an?|it|this|that|these|those|your|my|one|same|both)\b|any(?: of| more|thing)\b)"
)
"""Not what is at hand."""
_NOT_NOW: Final = lazy_pattern(
    r"\b(?:it|them|him|her|he|she|they|this|that|these|those|there|here|ones?|something|anything"
    r"|stuff|things?|what|why|which|such|so|same|again|for now|yet|instead|next"
    r"|today|tomorrow|tonight|now|later|above|below this|other|option \w+)\b"
    r"(?! (?:project|repo)\b)",
    _IGNORE,
)
"""Refers to another sentence, or only to the moment."""
_OUGHT: Final = r"(?:(?:please|you (?:should|must|need to|have to)|we (?:must|have to)) )?"
_PARTS: Final = (
    r"(?:tests|test files|fixtures|migrations|components|hooks|helpers|types|docs|scripts|services"
    r"|routes|handlers|models|schemas|plugins|styles|assets|templates|queries|endpoints|functions"
    r"|classes|modules|packages|files|commit messages|commits|branch names|branches|pull requests"
    r"|prs|comments|docstrings|names|variable names|error messages|log messages|dependencies"
    r"|imports|secrets|constants|methods|variables|types|lines)"
)
_THINGS: Final = (
    r"(?:package manager|(?:main|default|release|development) branch|test (?:runner|framework)"
    r"|(?:test|build|lint|format|deploy|start|dev|check|type check) command|formatter|linter"
    r"|(?:[a-z]+ )?database|orm|ci|staging (?:server|host|environment)|production (?:server|host)"
    r"|(?:node|python|java|ruby|go|rust|minimum) version|design system|css framework"
    r"|web framework|base image|default port|port|line length|indentation|licen[cs]e)"
)
_FILES: Final = (
    r"(?:[\w-]+ )?(?:config|config file|configuration|entry point|endpoint|schema|schema file"
    r"|changelog|base url|api url|health check|spec|style guide|design doc|roadmap|env file"
    r"|dockerfile|workflow|lockfile)"
)
_PASSING: Final = (
    r"(?!(?:\w+ly|slow|broken|wrong|down|up|failing|failed|red|green|fine|missing|empty|outdated"
    r"|old|new|ok|okay|good|bad|not|the|an?|too|very|still|now|also|almost|getting|being|up-to-date"
    r"|busy|full|locked|already|just|being|unavailable|available|in|on|at|to|set|up to date"
    r"|unclear|different|correct|gone|dead|fixed|done|ready|there|here|it|what|where|why|how)\b)"
)
_FAULT: Final = (
    r"(?!(?:[\w ]* )?(?:error|bug|problem|issue|failure|fix|mistake|cause|warning|culprit|typo"
    r"|crash|regression|change|changes|exception|leak|traceback|stack trace|line|button"
    r"|answer)s?\b)"
)


def _form(noted: str, importance: int, pattern: str) -> tuple[re.Pattern[str], str, int]:
    return lazy_pattern(unwrapped(pattern), _IGNORE), noted, importance


_FORMS: Final = (
    _form("decided {verb} {rest}", 7, r"""
        (?:we|I) (?:have )?(?:decided|agreed|chose|settled) (?P<verb>to|on|that|against)
        (?P<rest>\S.*)
    """),
    _form("use {verb} instead of {rest}", 7, rf"""
        {_OUGHT}(?:let(?:'s| us) )?(?:use|go with) {_SHORT}(?P<verb>{_NAMES}?),? (?:instead of|not
        |rather than|over) (?P<rest>{_SHORT}{_NAMES})
    """),
    _form("decided to use {rest}", 7, rf"""
        let(?:'s| us) (?:use|go with|stick (?:with|to)|switch to|standardi[sz]e on)
        (?P<rest>(?-i:[A-Z]|[\w-]+[\d.@/]){_NAME}(?: {_NAME}){{0,6}})
    """),
    _form("use {verb} {rest}", 7, rf"""
        {_OUGHT}use {_SHORT}(?P<verb>{_NAMES}) (?P<rest>(?:to (?:run|build|test|format|lint|deploy
        |install|manage|check|start|publish|release|generate)|for (?:running|building|testing
        |formatting|linting|deploying|installing|managing|publishing|migrations|tests|logging
        |styling|state|dates|validation|the)) \S.*|for (?:tests|testing|linting|formatting|logging
        |styling|migrations|validation|dates))
    """),
    _form("use {rest} to {verb}", 7, rf"""
        to (?P<verb>(?:run|build|test|format|lint|deploy|install|start|publish|release)
        [\w ]{{2,40}}?),? (?:use|run|do|type) (?P<rest>{_SHORT}{_NAMES})
    """),
    _form("prefer {verb} over {rest}", 7, rf"""
        {_OUGHT}prefer (?P<verb>{_SHORT}{_NAMES}) (?:over|to|instead of) (?P<rest>{_SHORT}{_NAMES})
    """),
    _form("{verb} {rest}", 6, rf"""
        (?:please )?(?P<verb>do not|never) (?P<rest>(?:use|add|write|import|commit|push|create|mock
        |install|include|mention|amend|hardcode|hard-code|log|print)
        {_SHORT}[\w./+#-]+(?: [\w./+#-]+)?(?: (?:in|to|for|on|from|at|with|as) [\w./ -]+)?)
    """),
    _form("{verb} {rest}", 7, rf"""
        (?:please )?(?P<verb>do not|never) (?P<rest>(?:touch|edit|modify|delete|push to|commit to
        |merge into|mock|rewrite|force-push to) (?:the |our )?(?:[\w./-]+ ){{0,2}}?(?:folder
        |directory|branch|database|network|submodule|filesystem|clock|main|master|production|history
        |files|{_PATH})(?: (?:in|under|by|from|without) [\w./ -]+)?)
    """),
    _form("{verb} {rest}", 7, r"""
        (?:please )?(?P<verb>do not|never) (?P<rest>(?:commit|push|merge|deploy|release)
        (?:\w+ )?(?:without|before|until|unless|on) \S.*)
    """),
    _form("{verb} {rest}", 6, rf"""
        (?:please )?(?P<verb>stop|avoid) (?P<rest>(?:using|adding|writing|creating|committing
        |importing|mocking|putting) {_SHORT}[\w./+#-]+(?: [\w./+#-]+)?(?: (?:in|to|for|on|from|at
        |with|as) [\w./ -]+)?)
    """),
    _form("always {rest}", 7, r"""
        (?:please )?(?:make sure|be sure|remember)
        (?:that |to )?(?:you )?(?P<rest>(?:always )?(?P<verb>run|update|add|write|format|lint|ask
        |check|test|bump|rebase|squash) \S.* (?:before|after|when|whenever|every time|each time)
        \S.*)
    """),
    _form("run {verb} with {rest}", 7, r"""
        (?:please )?run (?P<verb>(?:the )?(?:unit |integration |e2e |end-to-end )?(?:tests?|test
        suite|linter|formatter|type checker|build|server|migrations|benchmarks)) (?:with|using|via
        |by(?: running)?) (?P<rest>\S.*)
    """),
    _form("run {verb} {rest}", 7, rf"""
        (?:you (?:need|have) to |you must |always )run (?P<verb>{_SHORT}{_NAMES}) (?P<rest>(?:before
        |after) \S.*)
    """),
    _form("the {verb} {be} in {rest}", 6, rf"""
        (?:the|our) {_FAULT}(?P<verb>[a-z][\w ]{{2,30}}?) (?P<be>is|are|lives?|is kept|are kept
        |belongs?) (?:in|under|at) (?P<rest>{_PATH})
    """),
    _form("the {verb} go in {rest}", 6, rf"""
        (?:(?:all|the|our|new|all the|all new|all our) )?(?P<verb>(?:\w+ )?{_PARTS}) (?:go|belong
        |live|must go|should go|should live) (?:in|into|under) (?P<rest>{_PATH})
    """),
    _form("the {verb} go in {rest}", 6, rf"""
        we (?:put|keep|store|place) (?:all |the |our |all our )?(?P<verb>(?:\w+ ){{0,2}}?\w+s) (?:in
        |under) (?P<rest>{_PATH})
    """),
    _form("the {verb} is {rest}", 7, rf"""
        (?:the|our|its|this project's) (?P<verb>{_THINGS}) (?:is called|is named|is)
        {_PASSING}(?P<rest>{_NAMES})
    """),
    _form("the {verb} is {rest}", 6, rf"""
        (?:the|our) (?P<verb>{_FILES}) (?:is|is called) (?:at |in )?(?P<rest>{_PATH}|https?://\S+)
    """),
    _form("{third} {rest}", 6, r"""
        (?:we|I) (?P<third>target|support|follow|deploy|ship|release|pin|lint|format|test|host
        |version|squash) (?P<rest>(?:with|to|via|using|through) \S.*
        |(?-i:[A-Z])[\w.+-]+(?: \S+){0,5}|the (?:\S+ ){1,3}(?:style guide|style|convention
        |conventions|pattern))
    """),
    _form("uses {rest}", 7, rf"""
        (?:we|I) (?:only |always )?use (?P<rest>{_SHORT}{_NAMES}?) (?:here|in here|around here)
    """),
    _form("{verb} {rest}", 6, r"""
        (?P<verb>(?:every|each|all|any)(?: new)? (?!(?:time|you|I|we|they|one|day
        |of)\b)[\w-]+(?: (?!(?:you|I|we|they)\b)[\w-]+)?) (?P<rest>(?:must|should|needs|has to|have
        to) (?!pass|work|be (?:fixed|green|fine|done|ok|gone|there)|run|go away)\S.*)
    """),
    _form("{verb} {rest}", 6, rf"""
        (?:our |the )?(?P<verb>{_PARTS}) (?P<rest>(?:must|should|have to) (?:be (?:in|under|written
        in|at most|at least|sorted|named|signed|less than|shorter than)|have|follow|start with|end
        with|use|include|live in|not) \S.*)
    """),
    _form("keep {verb} {rest}", 6, rf"""
        (?:please )?keep (?P<verb>(?:the |our )?(?:[a-z]+ )?{_PARTS}) (?P<rest>(?:under|below|short
        |small|simple|sorted|at most|in|within|to)\b.*)
    """),
    _form("wants only {rest}", 6, rf"""
        I (?:would )?only (?P<verb>want|accept|like)
        (?P<rest>{_SHORT}{_NAME}(?: {_NAME}){{1,7}})(?:,.*)?
    """),
    _form("the {verb} is {rest}", 6, r"""
        (?:this|the|our) (?P<verb>repo|repository|project|codebase|app|package) is (?P<rest>an?
        (?:[\w.-]+ ){0,3}(?:monorepo|library|package|cli|service|app|application|plugin|extension
        |api|framework|workspace|website)\b.*)
    """),
)  # fmt: skip
_PLAIN: Final = word_set("never stop avoid to on that against") | {"do not"}
_WORDS_MAX: Final = 24


class Convention(NamedTuple):
    """What a clause says about a project, or how to work on it."""

    text: str
    importance: int


def read_convention(clause: str) -> Convention | None:
    """Return what a clause says about a project or how to work on it; None if nothing."""
    if len(clause.split()) > _WORDS_MAX:
        return None
    for pattern, noted, importance in _FORMS:
        match = pattern.fullmatch(clause)
        if match is None or _NOT_NOW.search(match["rest"]) is not None:
            continue
        groups = {name: value or "" for name, value in match.groupdict().items()}
        verb = groups.get("verb", "")
        if _NOT_NOW.search(verb) is not None:
            continue
        groups |= {
            "verb": _in_sentence(verb, begins=clause.startswith(verb)),
            "third": third_person(groups.get("third", "")),
        }
        text = noted.format(**groups)
        return Convention(text[:1].upper() + text[1:], importance)
    return None


def _in_sentence(verb: str, *, begins: bool) -> str:
    """Return "Do Not" as "do not" and a first word in lower case; "Postgres" and "PRs" stay."""
    if verb.lower() in _PLAIN:
        return verb.lower()
    return verb[:1].lower() + verb[1:] if begins and verb[1:2].islower() else verb
