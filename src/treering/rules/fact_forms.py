"""Patterns of sentences in which people state lasting facts about themselves, and of lookalikes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from treering.lazy import lazy_pattern
from treering.rules.claim_words import word_set

if TYPE_CHECKING:
    from treering.rules.fact_categories import Category

_IGNORE: Final = re.IGNORECASE
SUPPOSED: Final = lazy_pattern(
    r"\b(?:if|suppose|supposing|imagine|assume|assuming|pretend|wish|hypothetically|maybe|perhaps"
    r"|would|could|might|should|shall|what if|let us say|let's say|as if|for example|unless"
    r"|not sure|i think|i guess|i feel like|probably|hopefully|someday|one day)\b",
    _IGNORE,
)
CUT: Final = lazy_pattern(
    r",? (?:because|since (?=(?:I|we|it|my|the)\b)|so that|so (?=(?:I|we|it|please|can|could)\b)"
    r"|although|though|which means|but (?=(?:not|that|it|the|this)\b)|please"
    r"|and (?=(?:it|that|this|the|can|please|then|now|so|want|need|would)\b))\b.*$"
    r"|, (?:so|btw|by the way|just so you know|fyi|thanks|if|which|right|ok|it|he|she|they|and"
    r" (?:he|she|they|it)|but|'?cause)\b.*$|\s*\([^)]*\)\s*$|\s*-\s+(?:it|this|that)\b.*$",
    _IGNORE,
)
LIST: Final = lazy_pattern(r"\bthe [^,;]+(?:, the [^,;]+)+, and the ", _IGNORE)
TAIL: Final = lazy_pattern(
    r"(?: (?:too|as well|though|so far|right now|now|anyway|a lot|so much|these days"
    r"|myself|btw))+$",
    _IGNORE,
)
_ADVERBS: Final = (
    r"(?P<adverbs>(?:(?:also|really|actually|currently|now|just|still|mostly|mainly|always"
    r"|usually|often|typically|normally|generally|never|absolutely|personally|already|sometimes"
    r"|recently|strongly|much|both|all|only|generally|finally|eventually)\s+)*)"
)
FIRST: Final = lazy_pattern(
    rf"(?:I|we) {_ADVERBS}(?P<denied>(?:do|can|will) not (?:ever )?)?"
    r"(?P<verb>[a-z]+)(?: (?P<rest>\S.*))?",
    _IGNORE,
)
NOT_ANY_MORE: Final = lazy_pattern(
    r"(?P<head>(?:.*?\s)??)(?:(?:do|(?P<does>does)) )?not (?P<verb>[\w'-]+)(?P<rest>.*?)"
    r" (?:any ?more|any longer)",
    _IGNORE,
)
GIVEN_UP: Final = lazy_pattern(
    rf"(?:I|we) (?:have )?{_ADVERBS}(?:stopped|quit|gave up|given up)"
    r" (?P<doing>[a-z]+ing)(?P<rest>(?: \S+)*)",
    _IGNORE,
)
WHEN: Final = lazy_pattern(
    r"\b(?:last|ago|since|recently|yesterday|when|after|before|in (?:\d{4}|spring|summer|autumn"
    r"|winter|january|february|march|april|may|june|july|august|september|october|november"
    r"|december)"
    r"|this (?:year|month|week))\b",
    _IGNORE,
)
"""When something ended."""
ENDED: Final = lazy_pattern(
    rf"(?:I|we) {_ADVERBS}(?P<helping>am |are |can )?(?P<how>no longer|(?<=am )not|(?<=are )not)"
    r" (?P<rest>\S.*)",
    _IGNORE,
)
MINE: Final = lazy_pattern(
    r"(?:my|our) (?P<noun>[\w'/-]+(?: [\w'/-]+){0,4}?) (?P<verb>is|are|was|works|lives|has|likes"
    r"|loves"
    r"|prefers|studies|plays|speaks|hates|runs|moved) (?P<rest>\S.*)",
    _IGNORE,
)
PROJECT: Final = lazy_pattern(
    r"(?:the|this|our) (?P<noun>(?:[a-z]+ )?(?:project|repo|repository|codebase|app|application"
    r"|team"
    r"|company|backend|frontend|service|api|server|site|monorepo|pipeline|tool|client|dashboard"
    r"|website|worker|library|package|plugin|bot|extension|cli|sdk))"
    r" (?:now )?(?P<rest>(?:no longer )?(?:uses|runs|listens on"
    r"|targets|requires|supports|depends on|deploys|is (?:written|built|deployed|hosted|licensed"
    r"|located)|lives|stores) \S.*)",
    _IGNORE,
)
CALL: Final = lazy_pattern(
    r"(?:[Pp]lease |[Yy]ou can |[Jj]ust )*[Cc]all me (?P<name>[A-Z][\w'-]*(?:"
    r" [A-Z][\w'-]*){0,2})(?: please)?"
)
STANDING: Final = lazy_pattern(
    r"(?:please )?(?:(?P<how>always|never)|(?P<onward>from now on|in (?:the )?future|going"
    r" forward),?"
    r"(?: please)?|(?P<not>do not ever|don't ever)) (?P<rest>\S.*)",
    _IGNORE,
)
WANTED: Final = lazy_pattern(
    r"^(?:I (?:want|need|would like) you to|you (?:should|must|have to|need to))"
    r" (?=(?:always|never)\b)",
    _IGNORE,
)
"""Before a standing order."""
CONDITION: Final = lazy_pattern(
    r",? (?:when(?:ever)?|if|before|after|unless|until|while) (?:I|we|you)\b.*$", _IGNORE
)
"""When a standing order applies."""
CHEER: Final = lazy_pattern(
    r"(?:give up|forget|stop (?:believing|dreaming|trying)|be (?:afraid|yourself|kind|happy|proud"
    r"|there)|follow your|keep (?:going|it up|smiling|pushing)|say never|look back|believe)\b",
    _IGNORE,
)
"""Encouragement, which sounds like an order."""
LOCAL: Final = lazy_pattern(
    r"(?:too|also|this|that|it|these|those|them|him|her|you|your|how|what|when|where|why|which"
    r"|whether|here"
    r"|there|all the|my work|both|either|neither|option|one of|all of|none|some of|to (?:know|see"
    r"|ask|thank|say"
    r"|have"
    r"|get|try|add|make|be able|understand|point)|the (?:first|second|third|last|former|latter"
    r"|other"
    r"|idea|look|way|sound|one|approach|feeling|connection|structure|theme|vibe|energy|colou?rs?"
    r"|thought|concept|details?|support|message|story|sense|freedom|challenge|process|poses"
    r"|self-acceptance|suggestion|change|new|current|following|same|above|result"
    r"|error|output|function|file|bug|plan|answer)|an? (?:error|bug|question|problem"
    r"|issue|function|script|list|file))\b",
    _IGNORE,
)
"""Refers to something at hand, not to the speaker's life."""
HERE: Final = lazy_pattern(
    r"\b(?:it|this|that|these|those|you|your|here|I|to)$|\bsomething\b"
    r"|\b(?:this (?!project|repo|year)|I |we "
    r"|you |him\b|those |\w+ing (?:that|this) \w"
    r"|these |that \w+$)",
)
HELD: Final = lazy_pattern(
    r"(?:an? |two |three |four |five |\d+ |no |one )?(?:\w+ ){0,2}?(?:dogs?|cats?|pets?|kids?|child"
    r"|children|sons?|daughters?|brothers?|sisters?|siblings?|twins|wife|husband|partner|girlfriend"
    r"|boyfriend|horse|parrot|rabbits?|hamster|allerg(?:y|ies)|asthma|diabetes|adhd|dyslexia|celiac"
    r"(?: disease)?|coeliac(?: disease)?|degree|phd|masters?|background in|intolerance|puppy"
    r"|kitten)\b"
    r"(?: .*)?",
    _IGNORE,
)
HELD_EVENT: Final = lazy_pattern(r"(?:an? |the |our |my )?(?P<event>\S.*)", _IGNORE)
STATE: Final = lazy_pattern(
    r"(?:allergic to|intolerant to|vegan|vegetarian|pescatarian|a vegan|a vegetarian|from"
    r" (?=(?-i:[A-Z]))"
    r"|based in|living in|working (?:at|for|as)|married|engaged to|divorced|single|left-handed"
    r"|right-handed|colou?r-?blind|diabetic|pregnant|retired|self-employed|a freelancer|dyslexic"
    r"|\d{1,3} years old|born (?:in|on)|learning (?=(?-i:[A-Z]))|fluent in|interested in|afraid"
    r" of|scared of"
    r"|an? (?:[\w/+#-]+ ){0,3}(?:person|fan of|lover|owner|parent|father|mother|dad|mom|speaker"
    r"|owl|riser"
    r"|student|member|citizen|introvert|extrovert|beginner|runner|gamer)\b)",
    _IGNORE,
)
VAGUE: Final = lazy_pattern(
    r"(?:like|so|such|very|too|really|pretty|quite|about|all|not|always|\w+ing)\b", _IGNORE
)
DESCRIBED: Final = lazy_pattern(
    rf"[A-Z\d]|in (?:the )?\w+ grade|called |named |(?:an?|\w+ years old)\b|{STATE.pattern}"
)
NEVER: Final = lazy_pattern(r"(?:please )?(?:do not|never|avoid) (?=\w)", _IGNORE)
ORDERS: Final = word_set(
    "use run write answer reply respond commit push ask check add prefer keep format include start"
    " call put make create test tell show explain give avoid deploy do be follow read open send say"
    " speak work import name sign review squash rebase merge document comment delete change touch"
    " edit modify install assume mention talk suggest update verify confirm remind translate"
    " summarise summarize print log mock wrap sort quote cite lint build pin bump refactor rename"
    " remove overwrite guess apologise apologize invent force skip leave finish end begin spell"
    " indent declare return catch raise type annotate store share book order recommend set"
)
"""Verbs of standing orders to an agent."""
HARD_WORK: Final = lazy_pattern(
    r"(?:on|well|hard|together|out|as a team|great|fine|like)\b", _IGNORE
)
"""What follows "work" where it names no job."""
ANOTHER_VERB: Final = lazy_pattern(
    r"(?:,| and|, and)(?: just| also)? (?:train|chill|hike|relax|hang|eat|go|try|make|take|enjoy"
    r"|spend|talk|see|get)\b.*$",
    _IGNORE,
)
"""A second verb, which would have to be conjugated, too."""
HABITS: Final = word_set(
    "run go wake swim ride cook practise practice read watch commute train take get walk write work"
    " start finish eat drink review meditate exercise sleep meet deploy release ship do"
)
LASTING: Final[dict[str, tuple[Category, int]]] = {
    "live": ("personal", 8), "reside": ("personal", 8), "speak": ("personal", 6),
    "work": ("work", 7), "study": ("work", 6), "teach": ("work", 6), "manage": ("work", 6),
    "lead": ("work", 6), "prefer": ("preference", 7), "like": ("preference", 5),
    "love": ("preference", 5), "enjoy": ("preference", 5), "hate": ("preference", 6),
    "dislike": ("preference", 6), "use": ("technical", 6), "own": ("personal", 4),
    "drive": ("personal", 4), "play": ("habit", 4), "smoke": ("habit", 4), "avoid": ("habit", 5),
    "eat": ("habit", 5), "drink": ("habit", 4), "stand": ("preference", 6),
    "collect": ("habit", 4),
}  # fmt: skip
ALONE: Final = frozenset({"smoke", "drink"})
"""Verbs that need no object."""
PAST: Final[dict[str, tuple[Category, int]]] = {
    "moved": ("personal", 8), "relocated": ("personal", 8), "switched": ("technical", 7),
    "migrated": ("technical", 7), "upgraded": ("technical", 6), "grew": ("personal", 6),
    "quit": ("habit", 6), "stopped": ("habit", 6), "joined": ("work", 7),
    "adopted": ("relationship", 6), "graduated": ("work", 6), "used": ("habit", 4),
}  # fmt: skip
PAST_TAILS: Final = {
    "moved": word_set("to from back in into"),
    "relocated": word_set("to from"),
    "switched": word_set("to from over"),
    "migrated": word_set("to from"),
    "upgraded": word_set("to from"),
    "grew": word_set("up"),
    "used": word_set("to"),
    "graduated": word_set("from in with"),
}
KEPT: Final = word_set("always usually often typically normally generally never mostly sometimes")
OFTEN: Final = word_set("always usually often never")
EVENTS: Final = word_set("deploy release ship meet")
