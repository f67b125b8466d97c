"""Updates: a sentence of change ends what it changes, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.rules.claim_outlines import outline
from treering.rules.claim_relations import ended_words, relation
from treering.rules.claim_updates import ends_statement, read_update, update_topics


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # What somebody leaves, drops or hands over.
        ("The frontend team uses Redux for state", "The frontend team dropped Redux for Zustand"),
        ("Our cloud provider is AWS", "We're leaving AWS and going with Hetzner"),
        ("I maintain the billing module", "I handed the billing module over to Priya"),
        ("Jin speaks at PyCon this year", "Jin withdrew from PyCon"),
        ("The docs are hosted on Netlify", "We took the docs off Netlify"),
        ("I'm working on the login page", "I finished the login page, now I'm on the dashboard"),
        ("We use Slack", "Our team ditched Slack"),
        ("Works for Deloitte", "Left Deloitte to found a start-up"),
        ("My brother works at Siemens", "My brother resigned from Siemens"),
        # What is over.
        ("We monitor production with Nagios", "Nagios has been replaced by Prometheus"),
        ("We're going to Crete in August", "Crete is off, we're going to Norway in August"),
        ("I share a flat with Jess", "Jess has moved out and I live alone"),
        ("Kofi is in a relationship with Abena", "Kofi and Abena broke up"),
        ("My favourite band is Radiohead", "Radiohead used to be my favourite band"),
        ("I need to renew my passport", "I renewed my passport yesterday"),
        # A former value.
        ("Sven is responsible for security", "Responsibility for security passed from Sven to Mei"),
        ("Tests are run with unittest", "Turns out we run the tests with pytest, not unittest"),
        # What is set to a value.
        ("The API is written in Flask", "The API got ported to FastAPI last sprint"),
        ("Staging runs on eu-west-1", "Staging was relocated to eu-central-1"),
        ("The rate limit is 100 requests", "The rate limit went from 100 to 250 requests"),
        ("Our CI takes 25 minutes", "Our CI is down to 8 minutes"),
        ("The nightly job starts at 2 am", "The nightly job was brought forward to 1 am"),
        ("My alarm is set for 6:30", "I set my alarm for 7 from now on"),
        ("Support is staffed by two people", "Support has been cut to one person"),
        # What holds now.
        ("Sessions are kept in memory", "Sessions are now kept in Redis"),
        ("Alice owns the payments service", "The payments service is owned by Tomas now"),
        ("Pull requests need one approval", "Pull requests need two approvals from now on"),
        ("Irene wants to become a vet", "Irene changed her mind and wants to become a chef"),
        ("My flight leaves at 9:40", "My flight got delayed, it leaves at 11:15"),
        ("Team lunch is at the Thai place", "Team lunch is at the ramen bar from this week on"),
        ("My mortgage is fixed until 2027", "I refinanced, my mortgage is fixed until 2032"),
        ("The trip budget is 1,200 dollars", "We upped the trip budget to 1,500 dollars"),
        ("The SLA is 99.5 percent", "The SLA was tightened to 99.9 percent"),
        ("Ticket 881 is assigned to Noah", "Ticket 881 was reassigned to Imke"),
        ("The release branch is locked", "The release branch has been unlocked"),
        ("I play on the EU server", "I transferred to the NA server"),
        ("Order 4411 is pending", "Order 4411 has been shipped"),
        ("I keep my emergency fund at ING", "My emergency fund isn't at ING anymore"),
        ("Membership costs 40 euros", "The board raised the membership fee to 45 euros"),
        ("The invoice is due on the 15th", "The due date of the invoice was moved to the 30th"),
        ("The firm employs 120 people", "After the layoffs the firm employs 95 people"),
        ("Maria handles refunds", "Refunds are handled by Stefan now"),
        # What has another value, which is told or not.
        ("Our lawyer is Dana White", "We've got a new lawyer, Peter Holm"),
        ("My gym is on Station Road", "I changed gyms"),
    ],
)
def test_a_change_ends_what_it_changes(old: str, new: str) -> None:
    assert ends_statement(new, old)
    assert relation(new, old, 0.0) == "contradicts"
    assert ended_words(new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The API runs on AWS", "The API got ported to FastAPI"),
        ("The API is owned by Tomas", "The API was moved to Hetzner"),
        ("The API key is stored in Vault", "The API was moved to Hetzner"),
        ("My AWS certificate expires in May", "We're leaving AWS for Hetzner"),
        ("My sister works at AWS", "We're leaving AWS and going with Hetzner"),
        ("I use Vim", "I use Docker now"),
        ("I play chess", "I play the guitar now"),
        ("I speak French", "I speak Spanish now"),
        ("My brother lives in Rome", "I live in Paris now"),
        ("My brother lives in Rome", "My sister lives in Paris now"),
        ("Ken leads the research team", "Marta leads the design team now"),
        ("I have a phone", "I dropped my phone"),
        ("My phone is a Pixel 8", "I dropped my phone this morning"),
        ("Omar is a developer", "Omar is tired now"),
        ("Omar is our accountant", "Omar left at noon"),
        ("Nadia is our accountant", "Nadia left the meeting early"),
        ("Bill lives in Rome", "Bill left Initech"),
        ("Bill is 40", "Bill left Initech"),
        ("Bill is from Chile", "Bill left Initech"),
        ("The design team sits in Berlin", "Marta handed the design team over to Ken"),
        ("The design team has six people", "The design team moved to Hamburg"),
        ("The release is planned for March 3", "The release was moved to the new server"),
        ("I love the bakery's rye bread", "I stopped by the bakery"),
        ("I work at the library", "I left my umbrella at work"),
        ("I play that game with my brother", "I quit the game around midnight"),
        ("The users table has 14 columns", "We dropped the index on the users table"),
        ("The service listens on port 80", "I stopped the service"),
        ("My manager is Paul", "Paul replaced the printer cartridge"),
        ("Our car is a Volvo", "I changed the tyres of our car"),
        ("We live on Hill Street", "We changed the curtains"),
        ("Fatima lives in Lyon", "Fatima moved her chair"),
        ("I live in Porto", "We moved the sofa"),
        ("My rent is 900 euros", "My salary went up to 3000 euros"),
        ("The timeout of the client is 30 seconds", "The timeout of the server is 60 seconds now"),
        ("The admin page is slow", "The landing page is fast now"),
        ("My cousin Tim is 12", "My cousin Ella is 15 now"),
        ("We deploy on Tuesdays", "We deploy on Thursdays as well now"),
        ("I bought a lamp", "I bought a new rug"),
        ("I went to Lisbon in 2019", "I moved to Madrid in 2022"),
        ("I have a cat called Momo", "I have a new dog called Rex"),
        ("My favourite film is Alien", "My favourite book is Emma now"),
        ("Staging runs on eu-west-1", "Production was moved to us-east-1"),
        ("Raj chairs the committee", "Raj changed the agenda"),
        ("I run on Saturdays", "I swim on Sundays now"),
        ("The linter is ruff", "The formatter is black now"),
        ("Carlos is our account manager", "Carlos ended the call early"),
        ("The printer is on the second floor", "The printer is out of paper now"),
        ("The cluster runs Kubernetes 1.29", "The cluster was scaled to 6 nodes"),
        ("Our office has a gym", "Our office moved to Berlin"),
        ("I have a degree in biology", "I finished my degree in chemistry"),
        ("My wife is called Anna", "My wife changed jobs"),
        ("My wife works at Shell", "My sister left Shell"),
        ("Ben uses Slack", "I stopped using Slack"),
        ("We sell mugs", "We sell posters now"),
        ("I have a son", "I have a daughter now"),
        ("My dog is called Rex", "My dog is 5 now"),
        ("The backend is written in Go", "The frontend was rewritten in Svelte"),
        ("Alice owns the payments service", "The payments service was moved to AWS"),
        ("Alice owns the payments service", "The orders service is owned by Tomas now"),
        ("I like my job at Acme", "I changed my profile picture at Acme"),
        ("The heating is from 1998", "I turned off the heating"),
        ("I want to learn Japanese", "I finished my Japanese homework"),
        ("I take vitamin D", "I stopped taking iron"),
        ("I'm allergic to nuts", "I'm allergic to pollen now"),
        ("The config lives in settings.ini", "The logs were moved to /var/log"),
        ("Mia goes to Elm Primary", "Noah changed schools and goes to St. Mary's"),
        ("The shop closes at 6", "The library closes at 8 now"),
        ("Leo's birthday is June 9", "Leo just turned eight"),
        ("The team has seven members", "The team moved from Slack to Teams"),
        ("I work as a nurse", "I work on a new paper"),
        ("My car is a Golf", "My car is in the garage now"),
        ("My mother is a teacher", "My mother is in Spain now"),
        ("The budget of marketing is 10k", "The budget of sales was raised to 20k"),
        ("Maria is my wife", "Maria moved out of the office"),
        ("I drink tea in the morning", "I drink wine in the evening now"),
        ("Use snake_case for functions", "Use PascalCase for classes from now on"),
        ("We use Postgres for orders", "We use Redis for sessions now"),
        ("The meeting with Bob is on Monday", "The meeting with Carol was moved to Tuesday"),
        ("The shop opens at nine", "The shop closes at seven now"),
        # What is over, done or changed for somebody else.
        ("I have a Tesla", "My neighbour sold his Tesla"),
        ("I work at Siemens", "My colleague resigned from Siemens"),
        ("I use Slack", "My wife uninstalled Slack"),
        ("I live in Oslo", "Peter left Oslo"),
        ("Learning Spanish", "My daughter gave up Spanish"),
        ("Uses Jira at work", "The marketing team ditched Jira"),
        ("Reading Dune", "My son finished Dune"),
        ("Takes ibuprofen", "My dad stopped ibuprofen"),
        ("I drink coffee", "My wife no longer drinks coffee"),
        ("The backend uses Redis", "The frontend dropped Redis"),
        ("I need to renew my passport", "My wife renewed her passport"),
        ("My appointment is on Monday", "My wife's appointment was moved to Tuesday"),
        ("Learning Spanish", "I finished the first Spanish book"),
        ("Her friend Mehmet volunteers at the food bank", "I switched banks from A to Revolut"),
        ("The backend is written in Go", "I no longer go to the gym on Mondays"),
        ("The author of Emma is Charles Dickens", "Charles Dickens is married to Ann Dickens"),
        (
            "The headquarters of Ghent University is located in the city of Ghent",
            "The headquarters of Fordham University is located in the city of New York City",
        ),
    ],
)
def test_a_change_leaves_everything_else(old: str, new: str) -> None:
    assert not ends_statement(new, old)


@pytest.mark.parametrize(
    "text",
    [
        "I play chess now as well",
        "We might move the docs to Netlify",
        "Ben plays the violin in a band from Ghent",
        "Pavel drinks lemonade before the train to Bergen leaves",
        "Lives in Ghent",
    ],
)
def test_what_is_no_change_has_no_topics(text: str) -> None:
    assert update_topics(text) == []


def test_an_outline_knows_where_the_verb_is() -> None:
    assert [word.text for word in outline("The payments service is owned by Ann").subject()] == [
        "payments",
        "service",
    ]
    assert outline("Support is staffed by two people").verb_at == 1
    assert outline("Uses Slack for incidents").subject() == ()
    assert outline("The search index is rebuilt weekly").verb() == "rebuild"


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_can_be_read(new: str, old: str) -> None:
    read_update(new)
    assert ends_statement(new, old) in {True, False}
