"""Long sessions of a person with an assistant, and questions with the messages that answer them.

The person mentions a detail in passing, in the middle of a long message about something else; the
assistant answers at length, takes up some of its words, and so do later messages. A question asks
for the detail in other words. Details change hands: another session has the same kind of detail
about another thing, so that the kind alone does not find it. Everything is made from the lists
below, always the same.
"""

import random
from typing import Final

from evaluation_sets import Conversation, Question, Turn

SEED: Final = 20
TURNS: Final = 24
"""Messages of a session, those of the assistant included."""
PROJECTS: Final = (
    "allotment planner", "chess club website", "lighthouse archive", "bakery ledger",
    "choir rehearsal app", "river gauge dashboard", "used bike shop", "thesis on kelp",
    "night bus timetable", "pottery course", "school radio", "beekeeping diary",
)  # fmt: skip
PEOPLE: Final = (
    "Amara", "Bogdan", "Chiara", "Dmitri", "Elif", "Farid", "Greta", "Hamza", "Ingrid", "Joao",
    "Kenji", "Leila", "Marek", "Nadine", "Oskar", "Priya", "Quirin", "Rosa", "Stefan", "Tuuli",
)  # fmt: skip
DETAILS: Final = (
    ("{who} will pay for the hosting out of the {n} euros that were left over from the spring fair",
     "Where does the money for the servers of the {project} come from?"),
    ("the first version has to be in front of {who} by the {n}th, whatever is missing then",
     "What is the deadline of the {project}?"),
    ("I would rather not store any photographs in it, since {who} had trouble with that last year",
     "What should the {project} keep out for privacy?"),
    ("we dropped the idea of a phone app; a plain page that works on {who}'s old tablet is enough",
     "Did we decide to build something for mobiles in the {project}?"),
    ("the old spreadsheet has {n} rows and somebody merged the cells of the second column",
     "How large was the table that the {project} started from?"),
    ("{who} wants every number to be shown with a comma and never with a point",
     "How should figures be formatted in the {project}?"),
    ("I tried Postgres first and went back to a single file, since {who} runs it from a stick",
     "Which storage did I end up with for the {project}, and why?"),
    ("my back hurts when I type for long, so please keep the snippets short enough to copy",
     "Why did I ask for brief code while we worked on the {project}?"),
    ("the meeting with {who} moved to the town library, room {n}, as the hall is being painted",
     "Where do we see {who} about the {project}?"),
    ("the logo must stay green; {who} drew it and would be hurt",
     "Which colour may not be changed in the {project}?"),
    ("there are {n} volunteers, and only {who} knows how to read a log",
     "How many helpers does the {project} have?"),
    ("translations come last: {who} offered to do the Finnish one during the holidays",
     "Who takes care of another language for the {project}?"),
    ("last time the backup silently stopped after {n} days and nobody noticed until {who} asked",
     "What went wrong with the copies of the {project} before?"),
    ("the licence has to let the municipality use it, that is what {who} promised them",
     "What must the terms of the {project} allow?"),
    ("I am allergic to frameworks that want a build step, and so is {who}",
     "What kind of tooling do I refuse for the {project}?"),
    ("the deploy key expires in {n} weeks and {who} is the only one who can renew it",
     "Which credential of the {project} runs out soon?"),
    ("{who} measured that the page takes {n} seconds on the train, which is far too slow",
     "How bad is the performance of the {project} on the move?"),
    ("we agreed with {who} to call the people in it members and never users",
     "What is the right word for participants in the {project}?"),
    ("the tests may only run at night, because the machine belongs to {who}'s workshop",
     "When are checks of the {project} allowed to run?"),
    ("please remember that {who} reads everything on paper, so a print view matters",
     "Who needs the {project} in printed form?"),
)  # fmt: skip
FILLER: Final = (
    "I have been going back and forth on how the list and the detail view should share their state",
    "the form still loses what was typed when one goes back, and I could not find out why",
    "yesterday I cleaned up the folders a little and deleted what nobody had opened for a year",
    "could you look at the part that sorts the entries, it feels less simple than it could be",
    "I read about three ways to do this and every article says that the other two are wrong",
    "the error only appears on the second try, never on the first, which makes it hard to show",
    "in the end I want something that a tired person can use without reading anything first",
    "I would like to understand the change before I paste it, so a word about each step helps",
    "there is a second page that does nearly the same, and I keep fixing only one of them",
    "the names of the columns came from an older file and mean something else by now",
)
ANSWERS: Final = (
    """That is a sensible way to see it. I would begin with the smallest piece that can be tried,
    keep the state in one place, and let the view ask for it, so that going back loses nothing.""",
    """Here is how I would approach it: first make the failure repeatable, then halve the input
    until it disappears, and only then change the code, one thing at a time.""",
    """Let us split the problem. Sorting belongs to the query and not to the page, the form should
    save what is typed on every change, and both pages can share one function for the rest.""",
    """I suggest three steps, each of which works by itself: rename the columns, move the sorting,
    and then replace the second page by a link to the first with another filter.""",
)
FOLLOW_UPS: Final = (
    "Shall I go on with the next step, or would you like to see the whole file first?",
    "Tell me if one of these does not fit what you have in mind, and I will change it.",
    "I have kept it short on purpose; ask for more where it is unclear.",
)


def long_sessions() -> Conversation:
    """Return all sessions as one conversation, with a question about each detail."""
    chance = random.Random(SEED)
    turns: list[Turn] = []
    questions: list[Question] = []
    for number, project in enumerate(PROJECTS, 1):
        session = f"session_{number}"
        details = list(DETAILS)
        chance.shuffle(details)
        for at in range(1, TURNS + 1, 2):
            person = f"D{number}:{at}"
            told = details[at - 1 : at + 1]
            said, asked = [], []
            for sentence, question in told:
                who, count = chance.choice(PEOPLE), chance.randint(3, 95)
                said.append(sentence.format(who=who, n=count))
                asked.append(question.format(who=who, project=project))
            turns.append(Turn(person, session, _message(chance, project, said)))
            answer = _answer(chance, project, said)
            turns.append(Turn(f"D{number}:{at + 1}", session, answer, assistant=True))
            questions += [Question(text, frozenset({person}), 1) for text in asked]
    return Conversation("long sessions", turns, questions)


def _message(chance: random.Random, project: str, said: list[str]) -> str:
    """Return a long message of a person that mentions details in passing."""
    sentences = [*chance.sample(FILLER, 4), *said]
    chance.shuffle(sentences)
    opening = f"Back to the {project}: "
    return opening + ". ".join(one[0].upper() + one[1:] for one in sentences) + "."


def _answer(chance: random.Random, project: str, said: list[str]) -> str:
    """Return a long answer that takes up some words of the message."""
    echo = " ".join(chance.choice(said).split()[:7]) if said else "this"
    parts = [
        f"For the {project} that makes sense, also that {echo} and so on.",
        *chance.sample(ANSWERS, 2),
        chance.choice(FOLLOW_UPS),
    ]
    return " ".join(parts)
