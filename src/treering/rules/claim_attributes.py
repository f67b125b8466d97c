"""Attributes: one name for what a claim is about, and whether it holds one value at a time.

A class name ("the city of", "the sport of") names its own slot, and so does a noun that is
possessed or followed by "of", so most attributes need no list. The lists here unify different
wordings, and mark attributes that may have many values at once.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from treering.rules.claim_words import base, normal, word_set
from treering.rules.terms import terms

_CLASSES: Final = (
    r"city|town|village|state|province|region|county|country|nation|continent|island|planet"
    r"|language|religion|faith|denomination|sport|game|discipline|field|area|industry|sector"
    r"|position|role|post|office|profession|occupation|job|rank|title|genre|style|type|kind|school"
    r"|university|college|team|club|league|party|band|company|organi[sz]ation|label|network"
    r"|channel|ethnicity|nationality|family|order|species|currency|colou?r"
)
CLASSED: Final = re.compile(rf"the (?P<noun>(?:[a-z]+ )?(?:{_CLASSES})) of (?P<value>\S.*)")
"""A value after the name of its class: "the city of London", not "the City of London"."""

_SAME: Final = {
    "be bear in": "place of birth", "be bear in city": "place of birth",
    "be bear in country": "country of birth", "birthplace": "place of birth",
    "be bear on": "date of birth", "birth date": "date of birth", "birthdate": "date of birth",
    "birthday": "date of birth",
    "die in": "place of death", "die in city": "place of death", "die on": "date of death",
    "live in": "residence", "live at": "residence", "live near": "residence",
    "reside in": "residence", "stay in": "residence", "be base in": "residence",
    "live in city": "residence", "live in town": "residence", "hometown": "home town",
    "home": "residence", "home city": "residence", "city": "residence", "address": "address",
    "move to": "residence", "relocate to": "residence", "move back to": "residence",
    "wife": "spouse", "husband": "spouse", "be marry to": "spouse", "marry": "spouse",
    "be employ by": "employer", "be employ at": "employer", "work at": "employer",
    "work for": "employer", "join": "employer", "company": "employer", "workplace": "employer",
    "work as": "occupation", "job": "occupation", "profession": "occupation",
    "be citizen of": "citizenship", "country of citizenship": "citizenship",
    "nationality": "citizenship", "citizen of": "citizenship",
    "chief executive officer": "ceo", "chief executive": "ceo",
    "chief technology officer": "cto", "chief financial officer": "cfo",
    "be found by": "founder", "be create by": "creator", "be invent by": "inventor",
    "be write by": "author", "writer": "author", "be author by": "author",
    "be develop by": "developer", "be perform by": "performer", "be compose by": "composer",
    "be manufacture by": "manufacturer", "be make by": "manufacturer",
    "be design by": "designer", "be publish by": "publisher",
    "be own by": "owner", "be produce by": "producer",
    "be headquarter in": "headquarters", "be headquarter in city": "headquarters",
    "headquarter": "headquarters", "be locate in continent": "continent",
    "be educate at": "education", "study at": "education", "alma mater": "education",
    "be associate with sport": "sport", "be affiliate with religion": "religion",
    "be found in": "place of foundation", "be found in city": "place of foundation",
    "be create in country": "country of origin", "be famous for": "notable work",
    "be know for": "notable work", "be best know for": "notable work",
    "be from": "origin", "come from": "origin", "be call": "name", "be name": "name",
    "go by": "name", "time zone": "timezone", "tz": "timezone", "be in timezone": "timezone",
    "email address": "email", "e-mail": "email", "mail": "email", "phone number": "phone",
    "mobile": "phone", "telephone": "phone", "mobile number": "phone", "telephone number": "phone",
    "favourite color": "favourite colour", "db": "database", "os": "operating system",
    "ide": "editor", "text editor": "editor", "code editor": "editor",
}  # fmt: skip

_NAMED_ONCE: Final = frozenset(_SAME.values())
_SINGLE: Final = frozenset(
    _NAMED_ONCE
    | {"be locate in", "be locate in city", "be locate in country", "be situate in", "play for",
       "be direct by", "be chair by", "be head by", "be lead by", "be govern by", "be coach by",
       "be broadcast by", "be air on", "be release in", "be write in", "run on", "be host on",
       "be on", "report to", "be found", "be bear"}
)  # fmt: skip

_SLOTS: Final = frozenset(
    {
        "age", "address", "bank", "birthday", "boss", "branch", "browser", "budget", "build tool",
        "capital", "city", "client", "cloud", "colour", "color", "company", "computer", "currency",
        "database", "date", "deadline", "default", "diet", "doctor", "domain", "driver", "editor",
        "email", "employer", "environment", "font", "formatter", "framework", "gender", "handle",
        "headquarters", "height", "hostname", "id", "indentation", "job", "language", "laptop",
        "launch", "lead", "level", "license", "licence", "limit", "linter", "location", "locale",
        "manager", "model", "name", "nickname", "number", "occupation", "operating system", "owner",
        "package manager", "phone", "platform", "policy", "port", "position", "price",
        "profession", "pronoun", "provider", "queue", "rate", "region", "registry", "religion",
        "role", "runner", "runtime", "salary", "schedule", "server", "shell", "size", "sport",
        "spouse", "stack", "status", "surname", "system", "target", "team", "terminal", "theme",
        "threshold", "timeout", "timezone", "title", "tone", "unit", "username", "version",
        "weight", "residence", "mode", "style", "format", "spelling", "keyboard", "font size",
    }
)  # fmt: skip
"""Nouns that hold one value at a time, even if the value is an ordinary word."""

_MANY: Final = word_set(
    "son daughter child brother sister sibling friend colleague cousin nephew niece uncle aunt pet"
    " dog cat hobby interest goal skill allergy member part one example kind type sort fan piece"
    " result reason way student neighbour neighbor grandson granddaughter teammate coworker"
)
"""Nouns of which a person may have many."""
_PEOPLE: Final = word_set(
    "wife husband partner spouse mother father mom mum mummy dad daddy parent boss manager baby"
    " girlfriend boyfriend fiance fiancee fiancé fiancée roommate flatmate housemate grandmother"
    " grandfather grandma grandpa gran granny grandad nan nana grandparent grandchild grandkid"
    " stepmother stepfather stepmom stepmum stepdad stepson stepdaughter stepbrother stepsister"
    " godson goddaughter godchild godfather godmother godparent mother-in-law father-in-law"
    " sister-in-law brother-in-law son-in-law daughter-in-law half-brother half-sister auntie"
    " twin widow widower ex ex-wife ex-husband ex-boyfriend ex-girlfriend relative kid teenager"
    " toddler boy girl man woman guy lady person stranger puppy kitten horse"
    " classmate schoolmate schoolfriend mate buddy pal bestie acquaintance guest lodger tenant"
    " landlord landlady subtenant penpal"
    " teacher tutor professor lecturer headteacher headmaster mentor mentee trainer trainee coach"
    " supervisor advisor adviser apprentice intern pupil"
    " doctor gp dentist nurse therapist physiotherapist physio psychologist psychiatrist surgeon"
    " midwife optician pharmacist vet nanny babysitter childminder carer caregiver cleaner"
    " gardener hairdresser barber stylist lawyer solicitor accountant realtor plumber electrician"
    " carpenter mechanic handyman postman priest pastor vicar rabbi imam butcher grocer waiter"
    " client team family co-worker workmate teammate assistant secretary receptionist employee"
    " subordinate successor predecessor contractor cofounder co-founder"
    " captain goalkeeper singer drummer guitarist bassist pianist bandmate"
)
"""Nouns for other people."""
_MANY_VERBS: Final = word_set(
    "like prefer use speak know have visit buy own play read watch eat drink cook want need study"
    " teach be support avoid collect follow attend meet adopt keep work"
)
"""Verbs that apply to many things at once, unless their object says otherwise."""
_STATES: Final = word_set(
    "slow fast down up broken ready good bad great fine empty full big small huge ok okay done"
    " failing working running wrong right nice ugly old cool awesome terrible amazing important"
    " stuck late busy free open closed clear unclear sick tired happy sad dead here there back"
    " online offline dirty clean large better worse best worst missing"
)
_DEGREES: Final = word_set("too very so really quite pretty not still a bit super extremely")
_PLURAL_VERBS: Final = frozenset({"be use by", "be love by", "be like by", "be read by"})
_PARTED: Final = frozenset({"divorced", "widowed", "separated"})
_NAMED: Final = re.compile(r"[A-Z0-9\"'#]|\S+[@/\d]|\S*[A-Z]")


def attribute_of(relation: str) -> str:
    """Return the canonical name of an attribute, given as verb and preposition or as a noun."""
    verb_phrase = _verb_phrase(relation)
    return _SAME.get(verb_phrase, verb_phrase)


def known_attribute(relation: str) -> str | None:
    """Return the canonical name of an attribute that has other names; None for any other."""
    return _SAME.get(_verb_phrase(relation))


def _verb_phrase(relation: str) -> str:
    words = normal(relation).replace("favorite", "favourite").split()
    return " ".join(base(word) for word in words)


def holds_one(attribute: str) -> bool:
    """Return whether a verb's attribute holds one value at a time."""
    if attribute in _SINGLE:
        return True
    return (
        attribute.startswith("be ") and attribute.endswith(" by") and attribute not in _PLURAL_VERBS
    )


def holds_many(attribute: str) -> bool:
    """Return whether a verb's attribute, or an event's day, may hold many values at once."""
    return attribute.startswith("day of ") or attribute.split(" ", 1)[0] in _MANY_VERBS


def is_less_specific(attribute: str | None, value: str, other: str) -> bool:
    """Return whether a value is true of another but less specific: divorced is single."""
    if attribute != "spouse" or value == other:
        return False
    if value == "single":
        return other in _PARTED
    return value == "married" and other != "single" and other not in _PARTED


def names_slot(noun: str, value: str) -> bool:
    """Return whether a noun with this value holds one value at a time.

    A state ("the database is slow") is not a value of it; a name or a number is.
    """
    last = noun.rsplit(" ", 1)[-1]
    if last in _MANY or (_is_state(value)):
        return False
    if last in _SLOTS or noun in _SLOTS or noun in _SINGLE or noun.startswith("favourite "):
        return True
    return _NAMED.match(value) is not None


def is_of_many(noun: str) -> bool:
    """Return whether a person may have several of a noun."""
    return noun.rsplit(" ", 1)[-1] in _MANY


def is_person(noun: str) -> bool:
    """Return whether a noun, as written or as it is compared, names a person or an animal."""
    return noun in _people()


@cache
def _people() -> frozenset[str]:
    words = _MANY | _PEOPLE
    # Nouns are compared by their stems: "classmat", "niec".
    stems = {stem for word in words if "-" not in word for stem in terms(word)}
    return words | stems


def is_slot(noun: str) -> bool:
    """Return whether a noun is known to hold one value at a time."""
    return (
        noun in _SLOTS
        or noun in _NAMED_ONCE
        or noun.rsplit(" ", 1)[-1] in _SLOTS
        or noun.startswith("favourite ")
    )


def names_attribute(noun: str) -> bool:
    """Return whether a whole noun phrase is known to name an attribute with one value at a time."""
    attribute = attribute_of(noun)
    return attribute in _SLOTS or attribute in _NAMED_ONCE


def _is_state(value: str) -> bool:
    first = next((word for word in value.split() if word not in _DEGREES), "")
    return first.strip(".,!") in _STATES
