"""What people did, plan and want, and what a project decided: read from their own sentences."""

from __future__ import annotations

import pytest

from treering.rules.fact_experiences import dated, read_experience, with_time_last
from treering.rules.fact_extraction import Utterance, extract_facts

# Wednesday, 13 March 2024, at noon.
NOW_MS = 1_710_331_200_000


def learned(text: str) -> list[str]:
    said = Utterance(event_id="e1", role="user", text=text, ts_ms=NOW_MS)
    return [one.text for one in extract_facts([said])]


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        (
            "I adopted a greyhound from a shelter last week.",
            "Adopted a greyhound from a shelter in the week before 2024-03-13",
        ),
        (
            "Yesterday, I signed up for a pottery class!",
            "Signed up for a pottery class on 2024-03-12",
        ),
        ("I've been volunteering at the food bank.", "Has been volunteering at the food bank"),
        ("I was diagnosed with asthma two years ago.", "Was diagnosed with asthma in 2022"),
        ("I'm planning to open a bakery next year.", "Plans to open a bakery in 2025"),
        ("I'm saving for a sailing trip.", "Is saving for a sailing trip"),
        ("My sister Clara moved to Leeds.", "Sister Clara moved to Leeds"),
        ("We went camping in the mountains and it was stunning!", "Went camping in the mountains"),
        ("I had a great time at the harbour festival!", "Enjoyed the harbour festival"),
        ("I've always wanted to learn Basque.", "Has always wanted to learn Basque"),
        ("We're off to Norway next month.", "Is off to Norway in 2024-04"),
        ("I lost my job last month.", "Lost their job in 2024-02"),
        ("I met an amazing potter from Faenza.", "Met a potter from Faenza"),
        ("I was in Chile and Peru.", "Has been to Chile and Peru"),
        ("I loved climbing trees as a kid.", "Loved climbing trees as a kid"),
        ("I held a bake sale yesterday.", "Held a bake sale on 2024-03-12"),
        ("My dream is to sail around Iceland.", "Dream is to sail around Iceland"),
        ("I run a small bakery.", "Runs a small bakery"),
        ("I had a lovely and quiet wedding in May.", "Had a quiet wedding in May"),
        (
            "I started doing pottery workshops, helping people find their style.",
            "Started doing pottery workshops",
        ),
        ("I planted an olive tree to show them my village.", "Planted an olive tree"),
        (
            "I've been looking into beekeeping and cheese making.",
            "Has been looking into beekeeping and cheese making",
        ),
        ("I'm a goalkeeper for the school team.", "Is a goalkeeper for the school team"),
        ("I'm reducing my sugar and candy intake.", "Is reducing their sugar and candy intake"),
        ("I was in Chile and Peru, it was awesome!", "Has been to Chile and Peru"),
        ("I'm gonna visit my aunt in Galway.", "Plans to visit their aunt in Galway"),
        ("I do breathing exercises every morning.", "Does breathing exercises every morning"),
        ("I usually bring a blanket and just chill.", "Usually brings a blanket"),
        ("I went to a reading last Fri.", "Went to a reading on 2024-03-08"),
        ("I set up a charity run in our street.", "Set up a charity run in their street"),
        ("We decided to keep the ledger append-only.", "Decided to keep the ledger append-only"),
        ("Use pnpm instead of npm.", "Use pnpm instead of npm"),
        ("Don't use emojis in commit messages.", "Do not use emojis in commit messages"),
        ("Run the tests with make check.", "Run the tests with make check"),
        ("The migrations are in db/migrations.", "The migrations are in db/migrations"),
        (
            "Always answer in French when I ask about Canada.",
            "Always answer in French when I ask about Canada",
        ),
    ],
)
def test_a_statement_becomes_a_fact(text: str, fact: str) -> None:
    assert learned(text) == [fact]


@pytest.mark.parametrize(
    "text",
    [
        "Never give up!",
        "I'm off to bake some bread.",
        "I had a great time with it.",
        "I had fun.",
        "I gave up.",
        "I gave it to her.",
        "I lost count.",
        "I left the room.",
        "I was in trouble.",
        "I got it.",
        "I'm looking for the file.",
        "I met with them.",
        "I'm playing around with",
        "Always be yourself.",
        "Memories keep us alive.",
        "NBA games are fun.",
        "I went there with them.",
        "I made a huge difference.",
        "I took a look at the log.",
        "I tried that already.",
        "I want to see the diff.",
        "I had a great time.",
        "I bought it for her.",
        "I started the server.",
        "Don't use the old one.",
        "Use it instead of that.",
        "Did you finish the painting class?",
        "I've been feeling down.",
        "I have a question about the build.",
        "I ran the tests again.",
        "I opened the file.",
        "I read the error message.",
        "I've been looking into the failing test.",
        "I'm going to fix the tests.",
        "I'm a bit worried for the team.",
        "We work well together.",
        "I spent hours on it.",
        "I found the bug.",
        "I saw the error again.",
        "I set up the server.",
        "I want to help make that happen.",
        "I've been playing for about four months.",
        "We played games and ate good food.",
        "I love all the yellow ones.",
        "I always turn to something comforting.",
    ],
)
def test_talk_of_the_moment_is_left_alone(text: str) -> None:
    assert learned(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Met Ann yesterday", "Met Ann on 2024-03-12"),
        ("Met Ann last Friday", "Met Ann on 2024-03-08"),
        ("Meets Ann next Friday", "Meets Ann on 2024-03-15"),
        ("Met Ann last Tues", "Met Ann on 2024-03-12"),
        ("Met Ann last Sunny", "Met Ann last Sunny"),
        ("Met Ann last Wednesday", "Met Ann on 2024-03-06"),
        ("Met Ann three days ago", "Met Ann on 2024-03-10"),
        ("Met Ann two months ago", "Met Ann in 2024-01"),
        ("Met Ann last month", "Met Ann in 2024-02"),
        ("Met Ann in Porto", "Met Ann in Porto"),
    ],
)
def test_a_relative_time_becomes_a_date(text: str, expected: str) -> None:
    assert dated(text, NOW_MS) == expected


def test_a_leading_time_goes_with_what_was_done() -> None:
    assert with_time_last("Last week, I joined a club and it was fun") == (
        "I joined a club last week and it was fun"
    )
    assert with_time_last("Last week was hard") == "Last week was hard"
    assert read_experience("Last week") is None
