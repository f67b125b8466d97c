"""Noise: texts that are not facts, recognised by kind."""

from __future__ import annotations

import re
from typing import Final

from treering.lazy import lazy_pattern

_IGNORE: Final = re.IGNORECASE

FILLER: Final = lazy_pattern(
    r"(?:ok(?:ay)?|k|yes|yeah|yep|yup|no|nope|sure|fine|right|exactly|correct|agreed|done|thanks?"
    r"|thank you|thx|ty|cheers|great|nice|cool|awesome|perfect|good|excellent|lol|haha+|hmm+|uh+"
    r"|um+"
    r"|wow|oh|ah|hi|hello|hey|bye|goodbye|good (?:morning|evening|night|afternoon|job|work|point)"
    r"|see you|got it|sounds good|makes sense|i see|no problem|you're welcome|never ?mind|go ahead"
    r"|please|please (?:continue|proceed|go on)|continue|proceed|go on|next|lgtm|ship it|works"
    r" for me"
    r"|well done|so much|very much|a lot|there|again|all good|let's go|do it|n/?a|none|null|nothing"
    r"|undefined|test|testing|todo|tbd)",
    _IGNORE,
)
"""One greeting, answer or acknowledgement."""
_FILLERS: Final = lazy_pattern(
    rf"[\s,.!?;:…-]*(?:{FILLER.pattern}[\s,.!?;:…-]+)*{FILLER.pattern}[\s,.!?;:…-]*", _IGNORE
)

_ASKING: Final = lazy_pattern(
    r"(?:who|whom|whose|what|when|where|why|which|how|is|are|am|was|were|do|does|did|can|could|will"
    r"|would|should|shall|may|might|have|has|had|any|isn't|aren't|don't|doesn't|can't|won't)\b",
    _IGNORE,
)
_TRANSIENT: Final = lazy_pattern(
    r"\b(?:(?:is|am|are|'m|'re|was|were) (?:\w+ly )?(?:tired|hungry|sleepy|bored|stuck|confused"
    r"|busy"
    r"|late|sick|back|away|here|ready|done|finished|running late|frustrated|lost|in a (?:meeting"
    r"|hurry|rush)|on (?:a call|it|my way|the phone))(?! of)"
    r"|(?:am|is|are|'m|'re|was|were|been) (?:now |currently |just |still |about to |trying to )*"
    r"(?:running|debugging|fixing|testing|building|compiling|deploying|installing|checking"
    r"|looking(?! into)"
    r"|waiting|trying|failing|loading|editing|reading|writing|refactoring|investigating|reviewing"
    r"|working on|going to (?:run|fix|try|check|look|test|write|add)|asking|wondering|seeing"
    r"|getting"
    r"|having (?:trouble|issues|problems|an? issue|an? problem)|about to)\b"
    r"|(?:just|already) (?:finished|did|ran|fixed|pushed|committed|merged|deployed|updated|started"
    r"|got|saw|noticed|tried|restarted|installed|added|removed|came|arrived|woke)"
    r"|(?:build|test|tests|server|ci|pipeline|deploy|deployment|app|site|job|suite|linter)"
    r" (?:is|are|was|were|has|have|just|keeps?) (?:now |still |currently )?(?:failing|failed|broken"
    r"|passing|passed|green|red|down|up|running|done|crashing|crashed|stuck|finished|been)"
    r"|right now|at the moment|this (?:morning|afternoon|evening)|a (?:minute|second|moment) ago"
    r"|brb|afk|be right back"
    r"|(?:today|tonight|tomorrow|yesterday)$)",
    _IGNORE,
)
_STARTED: Final = lazy_pattern(
    r"(?:i |we |the user |user )?(?:currently|now|just) (?:\w+ing\b(?! (?:in|at|for|as)\b)"
    r"|finished)"
    r"|(?:debugging|running|fixing|testing|waiting|checking|working on|looking) ",
    _IGNORE,
)
_MACHINERY: Final = lazy_pattern(
    r"<system|\b(?=[acghilmnpstu])(?:heartbeat|cron(?:job| job)? (?:run|ran|fired|tick|trigger)"
    r"|no_reply"
    r"|system[ _-](?:prompt|reminder)|context window|token (?:budget|limit)"
    r"|(?:agents|claude|soul|memory|user|identity|tools|gemini)\.md\b"
    r"|(?:user|human|person) (?:is|was|has|wants|wanted|asked|asks|is asking|requested"
    r"|requests|said|says|mentioned|needs) (?:me |the assistant |the agent |for help |asking "
    r"|about "
    r"|to (?:know|see|fix|run|check|help|continue|proceed|understand)|requesting |help )"
    r"|(?:assistant|agent|ai|model|bot|llm) (?:should|must|will|can|is|was|has|needs|may"
    r"|responded|replied|said|ran|used|offered|provided|suggested|helped)\b"
    r"|as an ai\b|language model|tool (?:call|result|output)s?\b|session (?:started|ended|id\b)"
    r"|conversation (?:started|ended|began|summary)|no (?:new )?(?:facts|memories|information)\b)"
)
"""Applied to lower-case text."""
_LINE: Final = lazy_pattern(
    r"^\s*(?:\$ |>>> |# ?!|//|/\*|\{|\[\d|<\w+[ >/]|</|@@ |diff --git|[+-]{3} |import \w+|from \w+"
    r" import |def \w+\(|class \w+[:(]|function \w+\(|const \w+ =|let \w+ =|var \w+ =|return\b"
    r"|#include"
    r"|Traceback|File \"|at \w[\w.$]*\(|\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?(?:INFO|DEBUG|WARN(?:ING)?"
    r"|ERROR|FATAL|TRACE)\b[\]:]|npm (?:ERR|WARN)|(?:git|npm|pip|docker|sudo|cd|ls|curl) +[\w./-]+"
    r"(?: |$)(?!is |are |for )|SELECT .+ FROM )"
    r"|[;{}]\s*$|\w+\([^)]*\)\s*[;{]|=>|\w+Error:|\bexit (?:code|status) \d|[|<>=&]{2}|\\n"
    r"|\w+::\w+\(",
)
_GENERIC: Final = lazy_pattern(
    r"(?:(?:i|we|the user|user|they|he|she|people|everyone) )?(?:\w+ly )?(?:likes?|loves?|enjoys?"
    r"|prefers?|wants?|needs?|uses?|has|have|knows?|does|do|is interested in|am interested in"
    r"|works? (?:on|with)|is|am) (?:some |many |all |lots of |a lot of |various |different |good "
    r"|new"
    r" |nice |doing |learning |a |the |an )*(?:things?|stuff|something|anything|everything|somebody"
    r"|someone|people|person|user|human|items?|topics?|ideas?|help|information|questions?|it|them"
    r"|this"
    r"|that|one|ones|answers?|code|software|computers?|tools?|projects?|files?)",
    _IGNORE,
)
_LIKING: Final = (
    r"(?:(?:i|we|the user|user) )?(?:(?:also|really|just|always|mostly|does not|do not) )*"
    r"(?:likes?|loves?|enjoys?|adores?|hates?|prefers?) (?:to )?"
)
_COMMONPLACE: Final = lazy_pattern(
    # What nobody would deny of themselves.
    rf"{_LIKING}(?:(?:help(?:ing)?|meet(?:ing)?) (?:other |new )?people|making a difference.*"
    r"|having (?:a good time|fun)|(?:try|learn|do|explor|experienc)(?:e|ing)? new things"
    r"|(?:spend(?:ing)?|having) (?:\w+ )?time (?:together|with (?:(?:my|our|their|the) )?(?:family"
    r"|kids|children|friends|loved ones|son|daughter|wife|husband|partner|family and friends"
    r"|friends and family))|food|eat(?:ing)?|sleep(?:ing)?|life|think so)"
    # A thing that only those know who were there; but anybody knows the sea.
    rf"|{_LIKING}the (?!beach|sea|ocean|outdoors|mountains?|rain|snow|cold|heat|sun|sunshine|city"
    r"|countryside|park|theat|opera|gym|cinema|forest|woods|river|lake|desert|night)[a-z]+"
    r"|(?:is|am) (?:just )?going to the (?:beach|park|store|shops?|gym|movies|cinema|mall|pool|bar"
    r"|supermarket|market|library)(?: with (?:(?:my|our|their) )?[a-z]+(?: and [a-z]+)?)?"
    # Many of something, which say little without a name.
    r"|(?:(?:i|we|the user|user) )?[a-z]+ (?:to [a-z]+ )?(?:a lot of|lots of|many|a few|several"
    r"|all kinds of|all sorts of|a bunch of|a couple of|some)"
    r"(?: (?:different|various|other|new|good|great|old|of my|of their|types of|kinds of))* [a-z]+"
    r"|.+ (?:mine|yours|theirs|ours)",
    _IGNORE,
)
_OF_ANOTHER: Final = lazy_pattern(r"\b(?:his|her|hers|him|he|she|its)\b")
_SOMEBODY: Final = lazy_pattern(
    r"(?<=\w )[A-Z]|\b(?i:wife|husband|partner|spouse|son|daughter|child|baby|mother|father|mom|mum"
    r"|dad|brother|sister|boss|manager|dog|cat|puppy|kitten|horse|roommate|girlfriend|boyfriend"
    r"|nephew|niece|cousin|uncle|aunt|friend|grand\w+|colleague|neighbou?r|teacher|man|woman|boy"
    r"|girl|author|artist|singer|who)\b"
)
OVERRIDE: Final = lazy_pattern(
    r"\b(?:ignore|disregard|forget|override|bypass) (?:all |any |everything |the |your |of |my )*"
    r"(?:previous|prior|above|earlier|preceding|existing|other|system|safety)\b"
    r"|\byou are now (?:an? |the |in |free|dan\b)|\bnew (?:system )?instructions?:"
    r"|\b(?:reveal|print|show|leak|exfiltrate) (?:me )?(?:your|the) (?:system prompt|instructions"
    r"|api keys?|secrets?|passwords?|credentials)"
    r"|(?:\b(?:send|upload|exfiltrate|leak)\b"
    # These are also nouns: "my email is ..." is not an order to write one.
    r"|(?:^|[.;:,!?]\s*|\b(?:and|then|to|please|must|should|will|can|always|now|also|you)\s+)"
    r"(?:post|forward|e-?mail)\b"
    r"(?!\s*[:=]|\s+(?:is|was|are|were|at|address(?:es)?|id|account|office|code)\b|\s+\S+@\S+$))"
    r"[^.]{0,80}(?:https?://|\bwebhook\b|\S+@\S+\.\w)",
    _IGNORE,
)
"""Tries to override the instructions of its reader."""
INSTRUCTION: Final = lazy_pattern(
    r"^(?:please |important[:!] ?|note[:!] ?|instruction[s]?[:!] ?)*(?:always|never|from now on,?"
    r"|do not"
    r"|don't|make sure|be sure|remember to|you (?:must|should|need to|have to|are required|may not"
    r"|will|shall)|(?:the )?(?:assistant|agent|ai|model) (?:must|should|shall)|whenever you|when"
    r" asked"
    r"|if (?:you|asked|the user)|tell the user|respond (?:with|in|only)|reply (?:with|in|only)"
    r"|answer"
    r" (?:with|in|only)|run|execute|install|delete|download|open|visit|click|use) "
    r"|\b(?:you must|you should always|must be run|curl [^|]*\| ?(?:ba)?sh|rm -rf)\b",
    _IGNORE,
)
"""Gives its reader instructions."""
_CODE_SHARE_MIN: Final = 0.2


def is_filler(text: str) -> bool:
    """Return whether a text is only a greeting, an answer or an acknowledgement."""
    return len(text) < 80 and _FILLERS.fullmatch(text) is not None


def is_question(text: str) -> bool:
    """Return whether a text is a question."""
    return text.rstrip("\"') ").endswith("?")


def is_plain_question(text: str) -> bool:
    """Return whether a text asks from its first word on, unlike a title with a question mark."""
    return is_question(text) and _ASKING.match(text.lstrip("\"'( ")) is not None


def is_transient(text: str) -> bool:
    """Return whether a text is only true for the moment."""
    return _TRANSIENT.search(text.rstrip(" .!")) is not None or _STARTED.match(text) is not None


def is_machinery(text: str) -> bool:
    """Return whether a text is about the conversation itself or the agent's machinery."""
    return _MACHINERY.search(text.lower()) is not None


def is_code(text: str) -> bool:
    """Return whether a text is a line of code, log or terminal output."""
    if _LINE.search(text) is not None:
        return True
    signs = sum(text.count(sign) for sign in "{}[]<>=;|\\$`~^")
    return signs > max(3, len(text) * _CODE_SHARE_MIN / 4)


def is_generic(text: str) -> bool:
    """Return whether a text would be true of anybody, or says nothing to who was not there."""
    plain = text.rstrip(" .!")
    return _GENERIC.fullmatch(plain) is not None or _COMMONPLACE.fullmatch(plain) is not None


def is_of_another(text: str) -> bool:
    """Return whether a text refers to somebody it does not name: "Loves his music"."""
    another = _OF_ANOTHER.search(text)
    return another is not None and _SOMEBODY.search(text, 0, another.start()) is None
