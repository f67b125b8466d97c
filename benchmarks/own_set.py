"""A small set of our own: two friends who talk, what is asked about it, and facts that change.

Categories are those of LoCoMo: 1 needs several turns, 2 asks for a time, 3 needs some thought,
4 stands in one turn.
"""

from typing import Final

SESSIONS: Final = (
    (
        "Ines: I finally signed the papers, the old fishing boat in the harbour is mine.",
        "Tobias: Congratulations! Does it even float?",
        "Ines: Barely. The hull leaks at the stern and the engine has not run since spring.",
        "Tobias: Then you will need my brother, he mends diesel engines for a living.",
        "Ines: Give him my number, please. I want to sail by the end of June.",
    ),
    (
        "Tobias: I handed in my notice at the bank this morning.",
        "Ines: You really did it? What comes next?",
        "Tobias: A bakery. Sourdough and rye, nothing fancy, on the corner of Mill Street.",
        "Ines: You have baked for us every Sunday for years, it makes sense.",
        "Tobias: My wife Clara keeps the books, I only knead.",
    ),
    (
        "Ines: Your brother came by with his tools and swore for two hours.",
        "Tobias: That is how he says hello. What did he find?",
        "Ines: The fuel pump is dead. A new one costs four hundred euros.",
        "Tobias: Ask at the scrapyard in Aveiro first, they have old marine parts.",
        "Ines: Good idea, I shall drive there on Thursday.",
    ),
    (
        "Tobias: The oven arrived, it weighs more than a car.",
        "Ines: How did you get it through the door?",
        "Tobias: We took out the shop window and six neighbours pushed.",
        "Ines: Did anybody film that?",
        "Tobias: Clara did. Our daughter Lea laughed so hard that she dropped the lemonade.",
    ),
    (
        "Ines: I found a pump at the scrapyard for eighty.",
        "Tobias: Told you. Did it fit?",
        "Ines: After some filing. She coughed twice and then ran like a clock.",
        "Tobias: What will you call her?",
        "Ines: Gaivota, like the boat my grandfather had.",
    ),
    (
        "Tobias: We open on the second of May, come early.",
        "Ines: I shall bring my whole choir, we rehearse next door on Saturdays.",
        "Tobias: How many mouths is that?",
        "Ines: Twenty-three, and the altos eat for two.",
        "Tobias: Then I start the dough at midnight.",
    ),
    (
        "Ines: I went to the doctor about my knee.",
        "Tobias: The one you hurt while skiing?",
        "Ines: Yes. No running for three months, but swimming is allowed.",
        "Tobias: You have the sea in front of your door.",
        "Ines: In April it is fourteen degrees. I bought a thick wetsuit.",
    ),
    (
        "Tobias: We sold out by nine on the first day!",
        "Ines: The seeded rye was gone before I got to the counter.",
        "Tobias: Somebody from the local paper wrote about us, too.",
        "Ines: I cut it out and hung it over my desk at the school.",
        "Tobias: Your pupils will think that you teach bread instead of chemistry.",
    ),
    (
        "Ines: First trip with the boat: out to the lighthouse and back.",
        "Tobias: Alone?",
        "Ines: With my sister Marta, who was seasick before we left the quay.",
        "Tobias: Poor thing. Ginger helps, Lea chews it in the car.",
        "Ines: She says that she prefers trains from now on.",
    ),
    (
        "Tobias: I hired somebody, Yusuf, who learnt his trade in Izmir.",
        "Ines: What does he bake?",
        "Tobias: Sesame rings. People queue for them down to the chemist's.",
        "Ines: Keep me two on Saturday, I come after rehearsal.",
        "Tobias: You will have to fight the tenors for them.",
    ),
    (
        "Ines: The school lets me take the autumn off.",
        "Tobias: All of it? Where will you go?",
        "Ines: Along the coast to Galicia, harbour by harbour, with Gaivota.",
        "Tobias: And the knee?",
        "Ines: Healed. I ran five kilometres yesterday without a twinge.",
    ),
    (
        "Tobias: The landlord offers us the rooms upstairs as well.",
        "Ines: For a café?",
        "Tobias: Clara wants a reading room with her mother's old armchairs.",
        "Ines: I have four boxes of novels in the cellar that you may have.",
        "Tobias: Deal. The first coffee is on the house when you are back from Spain.",
    ),
)

QUESTIONS: Final = (
    ("What did Ines buy in the harbour?", "D1:1", 4),
    ("What was wrong with the boat when she got it?", "D1:3", 4),
    ("What does the brother of Tobias do for work?", "D1:4", 4),
    ("By when did Ines want to sail?", "D1:5", 2),
    ("Where did Tobias work before he became a baker?", "D2:1 D2:3", 1),
    ("In which street is the bakery?", "D2:3", 4),
    ("Who does the accounting for the bakery?", "D2:5", 4),
    ("Which part of the engine was broken?", "D3:3", 4),
    ("How much would a new fuel pump have cost, and what did Ines pay?", "D3:3 D5:1", 1),
    ("Where could one get used parts for ships?", "D3:4", 4),
    ("How did the oven get into the shop?", "D4:3", 4),
    ("What is the name of Tobias's daughter?", "D4:5", 4),
    ("What is the boat called, and after what?", "D5:5", 4),
    ("When did the bakery open?", "D6:1", 2),
    ("On which day does the choir rehearse?", "D6:2", 2),
    ("How many people sing in the choir?", "D6:4", 4),
    ("How did Ines injure her knee?", "D7:2", 4),
    ("How long was Ines not allowed to run?", "D7:3", 2),
    ("What did Ines get against the cold water?", "D7:5", 4),
    ("Which loaf was sold out on opening day?", "D8:2", 4),
    ("What subject does Ines teach?", "D8:5", 4),
    ("Did a newspaper report on the bakery?", "D8:3", 4),
    ("Where did the first trip with the boat go?", "D9:1", 4),
    ("Would Marta enjoy a cruise?", "D9:3 D9:5", 3),
    ("What helps against seasickness?", "D9:4", 4),
    ("Where did the new baker learn his trade?", "D10:1", 4),
    ("What does Yusuf make that people queue for?", "D10:3", 4),
    ("Is Ines fit enough for a long walk in the autumn?", "D11:5", 3),
    ("Which journey does Ines plan, and with what?", "D11:3", 4),
    ("What will be in the rooms above the bakery?", "D12:3", 4),
    ("What does Ines give to the reading room?", "D12:3 D12:4", 1),
)
"""The question, the turns that answer it, and its category."""

FACTS: Final = (
    ("Ines lives in Porto.", True),
    ("Ines teaches chemistry.", False),
    ("Tobias works at Nordbank.", True),
    ("Tobias is married to Clara.", False),
    ("The bakery opens at seven in the morning.", True),
    ("Ines's favourite drink is green tea.", True),
    ("Marta is allergic to shellfish.", False),
    ("The choir is led by Pilar Nunes.", True),
    ("The boat's name is Andorinha.", True),
    ("Tobias now works at Corner Bakery.", False),
    ("Ines moved to Viana.", False),
    ("The bakery opens at six in the morning.", False),
    ("Ines's favourite drink is black coffee.", False),
    ("The choir is led by Rui Prado.", False),
    ("The boat's name is Gaivota.", False),
    ("Lea's birthday is 4 March.", True),
    ("Yusuf speaks Turkish and Portuguese.", False),
    ("Lea's birthday is 14 March.", False),
    ("Clara's phone number is 555 0134.", True),
    ("Clara's phone number is 555 0178.", False),
)
"""In the order in which they are learnt; True marks one that a later one contradicts."""

FACT_QUESTIONS: Final = (
    ("Where does Ines live?", "Viana"),
    ("What does Ines teach?", "chemistry"),
    ("Where does Tobias work?", "Corner Bakery"),
    ("Who is Tobias married to?", "Clara"),
    ("When does the bakery open?", "six"),
    ("What is Ines's favourite drink?", "coffee"),
    ("What is Marta allergic to?", "shellfish"),
    ("Who leads the choir?", "Rui Prado"),
    ("What is the name of the boat?", "Gaivota"),
    ("When is Lea's birthday?", "14 March"),
    ("Which languages does Yusuf speak?", "Turkish"),
    ("What is Clara's phone number?", "555 0178"),
)
"""The question, and what stands in the fact that answers it."""
