"""What holds for a while, said in the simple present; and what only sounds like it."""

from __future__ import annotations

from typing import Literal

import pytest

from treering.rules.fact_extraction import Utterance, extract_facts

TAKEN = {
    "Our wiki is Confluence.": "Wiki is Confluence",
    "My laptop runs Windows.": "Laptop runs Windows",
    "My watch is a Garmin.": "Watch is a Garmin",
    "We self-host our mail.": "Self-hosts their mail",
    "Dana is our scrum master.": "Dana is their scrum master",
    "Kim is head of sales.": "Kim is head of sales",
    "Omar is a junior developer.": "Omar is a junior developer",
    "The project partner is Uni Graz.": "The project partner is Uni Graz",
    "Our staging URL is staging.acme.dev.": "Staging URL is staging.acme.dev",
    "We back up to tape.": "Backs up to tape",
    "I owe Max 50 euros.": "Owes Max 50 euros",
    "I'm on the free plan.": "Is on the free plan",
    "I'm enrolled at Leiden University.": "Is enrolled at Leiden University",
    "Our house is for sale.": "House is for sale",
    "I have a landline.": "Has a landline",
    "I take 20 mg of fluoxetine.": "Takes 20 mg of fluoxetine",
    "We store secrets in .env files.": "Stores secrets in .env files",
    "We monitor production with Nagios.": "Monitors production with Nagios",
    "We bill customers monthly.": "Bills customers monthly",
    "We meet at the library.": "Meets at the library",
    "The kids' bedtime is 8.": "The kids' bedtime is 8",
    "Hannah's birthday is May 4.": "Hannah's birthday is May 4",
    "Ravi and Meera live in Pune.": "Ravi and Meera live in Pune",
    "Carlos is vegan.": "Carlos is vegan",
    "Marta leads the design team.": "Marta leads the design team",
    "The contract runs until 2026.": "The contract runs until 2026",
    "The invoice is due on the 15th.": "The invoice is due on the 15th",
    "The release is planned for March 14.": "The release is planned for March 14",
    "The grant runs for three years.": "The grant runs for three years",
    "My commute takes 40 minutes.": "Commute takes 40 minutes",
    "Membership costs 40 euros a year.": "Membership costs 40 euros a year",
    "The team has 6 engineers.": "The team has 6 engineers",
    "The head office is in Bonn.": "The head office is in Bonn",
    "Logs go to Splunk.": "Logs go to Splunk",
    "Feature flags are managed in LaunchDarkly.": "Feature flags are managed in LaunchDarkly",
}
LEFT = [
    "My head is spinning.",
    "My head is Jell-O.",
    "Our day is going great.",
    "That's our girl.",
    "Max is our winner!",
    "Max is a real go-getter.",
    "Life is a teacher.",
    "My answer is No.",
    "It is at 5.",
    "It runs on Postgres.",
    "His watch is a Garmin.",
    "Your budget is 5k.",
    "I agree with Anna.",
    "I hope to see Paris.",
    "I need 5 minutes.",
    "I leave on Monday.",
    "I meet Max on Monday.",
    "I wore my Gryffindor scarf.",
    "I chose headphones from Sennheiser.",
    "We went to the library.",
    "We are at step 3.",
    "I take pride.",
    "I have a question for Max.",
    "My train is in 5 minutes.",
    "The error is TypeError.",
    "The response is 40 ms.",
    "The server returns 500.",
    "The build is at 50%.",
    "The app has a problem.",
    "The team has a chance.",
    "The menu is in Settings.",
    "The winner is Max.",
    "The author is Jane Austen.",
    "Compiling takes 30 seconds.",
    "Lunch costs 10 euros.",
    "Fix errors in main.ts",
    "Update imports in main.ts",
    "Edit files with find/replace",
    "As Wget uses the GNU Autoconf",
    "If our wiki is Confluence, say so.",
    "Maybe our wiki is Confluence.",
    "Our wiki is Confluence?",
    'She said "our wiki is Confluence" to them.',
    "Happy birthday Max.",
    "Good luck with the Berlin marathon.",
]


def facts(said: str, role: Literal["user", "assistant"] = "user") -> list[str]:
    utterance = Utterance(event_id="e1", role=role, text=said, ts_ms=1)
    return [fact.text for fact in extract_facts([utterance])]


@pytest.mark.parametrize(("said", "fact"), TAKEN.items())
def test_what_holds_for_a_while_is_a_fact_without_its_speaker(said: str, fact: str) -> None:
    assert facts(said) == [fact]


@pytest.mark.parametrize("said", LEFT)
def test_moments_talk_and_what_is_at_hand_are_no_facts(said: str) -> None:
    assert facts(said) == []


def test_nothing_is_learnt_from_what_an_assistant_says_holds() -> None:
    assert [fact for said in TAKEN for fact in facts(said, "assistant")] == []
