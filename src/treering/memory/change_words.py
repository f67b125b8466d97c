"""The words by which changes are read: verbs of change, and what statements are about.

A word that is not listed belongs to the words that it is near in meaning.
"""

from __future__ import annotations

from typing import Final

from treering.derive.claim_words import word_set

ONE_AT_A_TIME: Final = {
    "home": "live lives living reside stay flat apartment house home cottage condo studio place"
    " room rent renting move moved relocate settle roommate flatmate housemate lodger tenant"
    " alone landlord lease bungalow dorm address neighbourhood",
    "job": "work job employed unemployed hire fire quit resign retire career office freelance"
    " promote intern position shift company employer profession occupation redundancy barista"
    " nurse teacher engineer developer driver accountant clerk designer consultant waiter chef"
    " lawyer salesman laid-off permanent contractor desk notice",
    "role": "lead head manager boss supervisor director chair captain treasurer president owner"
    " responsible handle run oversee charge successor deputy coach trainer maintainer ceo cfo"
    " spokesperson secretary editor-in-chief principal tutor supervise",
    "school": "study student university college degree school grade semester graduate major"
    " thesis enrolled bootcamp course exam diploma pupil kindergarten nursery",
    "partner": "single dating date girlfriend boyfriend partner wife husband engaged married"
    " divorce fiancé relationship wedding split separated bachelor widow affair marriage couple"
    " ex spouse",
    "child": "pregnant baby born expecting birth newborn trimester midwife miscarriage",
    "diet": "vegan vegetarian meat diet keto carbs gluten sugar fasting pescatarian burger steak"
    " bacon dairy plant-based carnivore veggie chicken fish eat",
    "drink": "coffee tea alcohol sober beer wine drink teetotal decaf caffeine espresso whisky"
    " booze dry cocktail",
    "smoking": "smoke smoker cigarette cigarettes vape nicotine tobacco",
    "medicine": "medication dose mg pill tablet prescription statins insulin antidepressant"
    " ibuprofen inhaler antibiotics treatment chemo citalopram metformin",
    "health": "injury crutches cast surgery healed recovered ill sick pain broken hospital"
    " discharged rehab fracture knee hip wheelchair operation cured remission flu symptoms",
    "fear": "afraid fear scared phobia terrified anxious anxiety worried nervous confident",
    "allergy": "allergic allergy intolerant intolerance outgrown",
    "car": "car drive drives van truck vehicle sedan suv hatchback motorbike motorcycle scooter"
    " toyota volvo fiat tesla ford bmw corolla golf licence",
    "commute": "commute commuting train bus tram cycle bicycle underground subway carpool walking",
    "pet": "dog cat puppy kitten hamster rabbit parrot pet vet leash",
    "phone": "phone iphone pixel galaxy smartphone mobile handset android",
    "computer": "laptop macbook thinkpad surface desktop pc notebook chromebook workstation",
    "editor": "editor vim emacs neovim ide vscode sublime jetbrains pycharm",
    "browser": "browser chrome firefox safari edge brave",
    "system": "linux windows macos ubuntu debian fedora arch",
    "chat": "slack teams discord zoom chat meet webex mattermost",
    "tracker": "jira linear asana trello tickets board backlog notion wiki confluence",
    "hosting": "hosted host server aws heroku cloud azure gcp deploy deployed self-hosted"
    " datacenter kubernetes vercel netlify fly.io",
    "database": "database postgres postgresql mysql sqlite mongodb redis mariadb",
    "language": "written rewritten rewrite rust go python java typescript c++ kotlin swift"
    " ported php ruby codebase",
    "library": "redux react angular vue svelte framework library jquery webpack vite jest",
    "pipeline": "ci jenkins builds pipeline actions circleci travis gitlab",
    "price": "price cost costs fee charge charges euros dollars pounds rent salary wage expensive"
    " cheaper free paid tariff budget",
    "debt": "owe debt loan mortgage repaid instalments overdraft credit",
    "bank": "bank banking account iban monzo barclays revolut",
    "provider": "internet broadband wifi provider contract isp electricity insurance insurer"
    " carrier tariff",
    "subscription": "subscription subscribe subscriber membership member netflix spotify gym"
    " cancelled plan premium trial season",
    "weight": "weigh weight kilos kg pounds scales bmi",
    "hair": "hair beard moustache haircut bald shaved dyed blonde brunette ponytail",
    "sleep": "sleep bed bedtime asleep insomnia wake alarm awake nap night-owl",
    "belief": "church faith religion religious atheist catholic muslim buddhist mosque temple pray",
    "name": "name surname called nickname goes known handle username maiden pronouns alias",
    "appointment": "appointment meeting deadline scheduled schedule booked postponed rescheduled"
    " due date launch release session lesson class standup call slot",
    "frequency": "daily weekly monthly quarterly nightly twice often rarely never usually",
    "opening": "open closed opening hours renovation reopened shut",
    "state": "broken fixed repaired working mended faulty leak leaking down outage resolved bug"
    " sorted mess clean",
    "draft": "draft pending submitted approved finished shipped published done unfinished started"
    " planned blocked",
    "size": "employees people members headcount staff team size understaffed",
    "theme": "dark light theme mode",
    "search": "looking searching hunting seeking applying waiting waitlist list wish hoping"
    " landed found",
    "saving": "saving save savings bought purchased afford",
    "paint": "painted repainted wall colour color wallpaper decorated redecorated",
    "training": "training train marathon race run runner running",
}
"""Topics of which a person or a thing has one value at a time."""
MANY_AT_A_TIME: Final = {
    "hobby": "hobby knitting pottery gardening hiking climbing chess painting birdwatching"
    " photography sewing volunteer collects",
    "sport": "tennis football basketball swimming yoga pilates spin judo rowing cricket rugby golf",
    "music": "piano guitar violin ukulele drums band choir sing singer jazz techno rock album",
    "media": "book novel show series film movie watch read reading podcast game",
    "food": "bread cake pizza pasta olives cheese chocolate fruit breakfast lunch dinner recipe",
    "trip": "trip flight holiday vacation travel visit hotel conference",
    "spoken": "french spanish italian german english polish portuguese chinese japanese",
    "kin": "brother sister son daughter cousin nephew niece aunt uncle mother father friend",
}
"""Topics of which there may be many."""
PASTS: Final = word_set(
    "left sold quit took went got became bought gave broke fell rose grew cut put split shut found"
    " began chose threw withdrew lost came tore rewrote taken gone given broken fallen risen grown"
    " begun chosen thrown withdrawn torn let born brought drew drawn froze frozen laid set shrank"
    " shrunk slid stuck tied fled rebuilt undone redid redone outgrew outgrown made sent paid"
    " built done won wrote lent beat kept held sought caught taught swapped woke"
    " woken hid hidden dealt bred swore sworn stole stolen spent blew blown tore flew"
    " flown forgot forgotten overtook retook retaken underwent driven unfrozen wore worn"
)
"""Irregular pasts of verbs after which something is otherwise."""
DEEDS: Final = word_set(
    "visited watched played presented called asked cooked cleaned attended travelled traveled used"
    " worked lived liked loved enjoyed wanted tried helped thanked talked walked listened learned"
    " studied named based located founded created developed invented produced directed published"
    " composed performed designed written built needed tired interested excited situated related"
    " associated affiliated employed educated headquartered married owned released recorded"
    " happened occurred existed looked waited hoped believed needed required supported included"
    " celebrated marked received earned served seemed appeared stayed remained showed discussed"
    " mentioned reported noticed missed skipped watered returned borrowed shared fixed tested"
    " reviewed answered paid shipped died baked painted"
)
"""Regular pasts of verbs that leave what is known as it is, if nothing else says otherwise."""
CUES: Final = {
    "ended": "cancelled quit stopped ended over gone left dropped abandoned scrapped discontinued"
    " retired resigned sold removed closed dissolved terminated expired finished divorced fired",
    "changed": "switched changed replaced moved migrated swapped renamed transferred converted"
    " upgraded traded became turned reassigned",
    "set": "raised increased lowered reduced cut bumped extended shortened doubled postponed"
    " rescheduled delayed pushed slipped",
    "begun": "joined started hired promoted bought got married adopted elected appointed accepted"
    " arrived opened fixed repaired found",
}
"""Words of change, by what they say; other words are known by how near they are in meaning."""
